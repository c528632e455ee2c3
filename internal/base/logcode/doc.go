// Package logcode gives each kind of log record a code. A code is a stable word that says what
// happened. People use codes in log filters and alerts. The text of a message may change, but its
// code does not.
//
// The table has the code of each message at slog.LevelInfo or above. Handler adds the code to
// records just before they are written, so callers of the logger do not have to repeat it. Records
// whose message is not a constant already have a code. A test of archtest checks that the table
// contains all messages. A test of this package checks that docs/monitoring.md explains each code.
package logcode
