// Package calls keeps the last calls of clients in memory, for people who want to know what
// happened.
//
// A Ring keeps a summary of each running call and of the last calls that have ended: names,
// client, server, sizes, time, outcome and losses. Where recording is on, it also keeps the
// story of a call: each message on both wires, and each edit with its reason. A Ring is
// bounded in calls and bytes. It never writes to a disk.
//
// A Record follows one call from its begin to its end; the conversation with the client owns
// it, and the layers below tell it what they know. Nothing is read out of a message while a
// call runs. The package masks no secrets: readers mask what they show.
//
// It does no I/O and starts no goroutine.
package calls
