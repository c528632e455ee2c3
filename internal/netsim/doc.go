// Package netsim is a network in memory for tests: links that delay, cut into
// pieces, half-close and reset at an exact byte, and listeners and dialers good
// enough to run net/http over them.
//
// Everything is deterministic and waits on channels and timers only, so that in a
// testing/synctest bubble no real time passes; the network must then be made
// inside the bubble. Connections behave like those of TCP where programs can tell:
// deadlines, buffered writes, io.EOF after what was sent before a close, EPIPE and
// ECONNRESET wrapped in *net.OpError. The package starts no goroutine.
package netsim
