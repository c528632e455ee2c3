// Package calls keeps the last calls of clients in memory, for people who want to know what
// happened.
//
// A Ring keeps a summary of each running call and of the last ended calls: names,
// client, server, sizes, time, outcome and losses. If recording is on, it also keeps the
// messages of a call on both sides of Dragoman, and each edit with its reason. A Ring is
// bounded in calls and bytes. It never writes to disk.
//
// A Record follows one call from its beginning to its end. The session with the client owns
// the Record, and the layers below report facts to it. While a call runs, no message is parsed
// for the Record. The package does not mask secrets, so readers must mask the texts that they
// show.
//
// The package does no I/O and starts no goroutine.
package calls
