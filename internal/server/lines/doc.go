// Package lines is the layer between stdio and the official SDK, for the built-in servers. The SDK
// closes a conversation at a line that is not a message. A Conn answers such a line itself and
// continues. It also answers batches of the wrong revision, and unknown versions in _meta. All
// other messages pass unchanged.
//
// It starts no goroutine. A message has at most 32 MiB.
package lines
