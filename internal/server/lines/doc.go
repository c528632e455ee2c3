// Package lines is the layer between stdio and the official SDK, for the built-in servers. Serve
// runs a server of the SDK with it.
//
// The SDK closes a conversation when it reads a line that is not a message. A Conn answers such a
// line itself and continues. It also refuses batches if the revision has no batches, unknown
// protocol versions in _meta, and a request with the id of a request that is still running. It gives
// the SDK the messages of a batch one by one, and collects the answers. It replaces the id of each
// request by an id of its own, and restores the client's id in the answer. It drops the answer to a
// cancelled request. All other bytes pass unchanged.
//
// The package starts no goroutines. A message has at most 32 MiB, at most 1024 requests run, and the
// answers of a batch have about 32 MiB together.
package lines
