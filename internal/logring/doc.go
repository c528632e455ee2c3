// Package logring keeps the last log records of the program and the last lines of stderr of
// its servers in memory. The admin API reads them.
//
// A Ring is bounded in records and bytes, for each server and in all. The oldest records are
// dropped first. A server that prints much drops its own lines, not the records of Dragoman
// about it. Writers never wait for readers. A reader that is too slow finds out how many
// records it missed.
//
// A Handler is a slog.Handler that keeps each record and passes it on. The package masks
// nothing and makes nothing printable: lines of stderr are kept as they are, with a function
// that masks the secrets of their server. Readers must call Record.Clean. The package does
// no I/O and starts no goroutine.
package logring
