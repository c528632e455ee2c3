// Package netsim is an in-memory network for tests. Its links can delay, split, half-close
// and reset at an exact byte. Its listeners and dialers are complete enough to run net/http
// over them.
//
// Everything is deterministic and waits only on channels and timers, so that no real time
// passes in a testing/synctest bubble. Create the network inside the bubble. Connections
// behave like TCP where programs can tell: deadlines, buffered writes, io.EOF after the data
// sent before a close, and EPIPE and ECONNRESET wrapped in *net.OpError. The package starts
// no goroutines.
package netsim
