// Package failure describes what went wrong with a server or a listener, once, in a form
// that every place shows: the command line, the log, the error to a client, the status,
// /readyz and doctor.
//
// A Failure has a class with a stable code, one sentence, evidence in the words of the
// server, and one action. Of makes it from an error and from facts that the caller knows.
// Errors on the way add what they know by implementing Source. Evidence and sentence are
// bounded, printable, and have secrets masked.
//
// The JSON form has the members class, server, sentence, evidence, evidenceFrom, action,
// status and cause. Members may be added but not renamed. docs/failures.md lists the
// classes and is checked by a test.
//
// The package does no I/O and keeps no state. Its values are immutable after Of, so they
// are safe for concurrent use.
package failure
