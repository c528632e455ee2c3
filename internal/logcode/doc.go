// Package logcode gives each kind of log record a code. A code is a stable word for what
// happened. People filter logs by it, and alerts use it. The text of a message may change; its
// code does not.
//
// The table has the code of each message at slog.LevelInfo or above. Handler adds the code to
// records just before they are written, so the code that logs need not repeat it. Records with
// a message that is not constant already have a code. A test of archtest checks that no
// message is missing in the table. A test of this package checks that docs/monitoring.md
// explains each code.
package logcode
