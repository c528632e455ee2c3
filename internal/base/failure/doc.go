// Package failure describes what went wrong with a server or a listener. The same description
// appears in every place: on the command line, in the log, in the error to a client, in the
// status, in /readyz and in the report of doctor.
//
// A Failure has a class with a stable code, one sentence, evidence in the words of the server,
// and one action. The function Of makes a Failure from an error and from facts that the caller
// knows. An error that implements Source adds the facts that it knows. Evidence and sentence are
// bounded and printable, and secrets in them are masked.
//
// The JSON form has the members class, server, sentence, evidence, evidenceFrom, action,
// status and cause. Members may be added but not renamed. docs/failures.md lists the classes, and a
// test checks the list.
//
// The package does no I/O and keeps no state. A Failure does not change after Of returns it,
// so it is safe for concurrent use.
package failure
