// Package lines connects a client on stdio to a built-in server that uses the official SDK. Serve
// runs such a server.
//
// The SDK closes a conversation when it reads a line that is not a message. A Conn itself answers
// such a line with an error, and continues. A Conn also rejects three kinds of messages: a batch if
// the client's revision has no batches, a message with an unknown protocol version in _meta, and a
// request with the id of a request that is still running. It gives the SDK the messages of a batch
// one by one, and sends the responses as one array. It replaces the id of each request by an id of
// its own, and restores the client's id in the response. It drops the response to a cancelled
// request. It does not change any other bytes.
//
// The package starts no goroutines. A message from the client has at most 32 MiB. At most 1024
// requests run at the same time. The responses to one batch have about 32 MiB together.
package lines
