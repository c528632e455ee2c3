// Package logcode gives log records a code: a stable word for what happened, for people who
// filter logs and for alerts. The text of a message may change; its code does not.
//
// The table has the code of each message from slog.LevelInfo on. Handler adds it to records
// at the edge of the program, so the code that logs repeats neither the key nor the word.
// Records with a message that is not constant carry their code themselves. A test of archtest
// checks that no message is missing, and a test of this package that docs/monitoring.md says
// what each code means.
package logcode
