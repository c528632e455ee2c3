// Package transport defines what all connections to clients and to servers have in common. The
// package has the interfaces through which a transport passes messages to a session with a client,
// and through which a session with a server sends messages.
//
// Its sub-packages convert bytes to messages and back. The transports are stdio, streamhttp,
// sse and inmem, each with a side for clients and a side for servers. The transports handle
// framing, status codes and headers, and do not depend on the content of messages. They never
// import each other. They use three other packages: eventstream is the format of server-sent
// events, httpdoor contains the common parts of the HTTP server sides, and httplink the common
// parts of the HTTP client sides.
package transport
