// Package calls keeps the last calls of clients in memory, for people who want to know what
// happened.
//
// A Ring keeps a summary of each running call and of the last ended calls: names, client, server,
// sizes, time, outcome and losses. If recording is on, the Ring also keeps the messages that were
// exchanged with the client and with the server, and each edit with its reason. The number of calls
// and the number of bytes in a Ring are limited.
//
// A Record follows one call from its beginning to its end. The session with the client owns the
// Record, and the layers below report facts to it. While a call runs, no message is parsed for the
// Record. A Ring does not mask secrets. Code that shows texts from a Ring must mask secrets, for
// example with a Masker.
//
// The package does no I/O and starts no goroutine.
package calls
