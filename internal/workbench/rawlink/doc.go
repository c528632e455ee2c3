// Package rawlink has what the instruments need to carry raw bytes: lines of a pipe, HTTP bodies and
// server-sent events. It shares nothing with the transports of the relay, so that an instrument
// doesn't have the faults that it looks for. It doesn't know what a message is.
//
// It has no connections of its own either: when to send and what to do with a peer that doesn't read
// differ too much between doctor, fake and tape.
package rawlink
