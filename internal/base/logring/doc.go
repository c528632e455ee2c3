// Package logring keeps the last log records of the program, and the last lines that its
// servers wrote to stderr, in memory. The admin API reads them.
//
// The number of records and bytes in a Ring is bounded, for each server and in total. The
// oldest records are dropped first. If a server prints a lot, its own lines are dropped, and not
// Dragoman's records about the server. Writers never wait for readers. A reader that is too slow
// learns how many records it missed.
//
// A Handler is a slog.Handler that keeps each record and passes it on. The package does not mask or
// escape text. It keeps lines of stderr unchanged, together with a function that masks the server's
// secrets. Readers must call Record.Clean before they show a text. The package does no I/O and
// starts no goroutine.
package logring
