// Package netsim is an in-memory network for tests. Its links can delay and split data, and can
// fail after an exact number of bytes. net/http works with its listeners and dialers.
//
// Everything is deterministic. The package waits only on channels and timers, so no real time
// passes in a testing/synctest bubble. Create the network inside the bubble. The connections behave
// like TCP connections: they have deadlines, buffer writes, return io.EOF after the data that was
// sent before a close, and wrap EPIPE and ECONNRESET in *net.OpError. The package starts no
// goroutines.
package netsim
