// Package lines is the layer between stdio and the official SDK, for the built-in servers. The SDK
// closes a conversation when it reads a line that is not a message. A Conn answers such a line
// itself and continues. It also refuses batches if the revision has no batches, and unknown
// protocol versions in _meta. All other messages pass unchanged.
//
// The package starts no goroutines. A message has at most 32 MiB.
package lines
