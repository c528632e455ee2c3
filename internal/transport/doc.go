// Package transport defines what all connections to clients and to servers have in common. It
// defines two kinds of interfaces. A transport uses one kind to pass messages to a session with a
// client. A session with a server uses the other kind to send messages.
//
// Its sub-packages convert bytes to messages and back. The packages stdio, streamhttp, sse and
// inmem are transports. Each transport has a client side, which talks to servers, and a server
// side, which talks to clients. The transports handle framing, status codes and headers, and do not
// depend on the content of messages. They never import each other. They use three other packages:
// eventstream reads and writes server-sent events, httpdoor contains the common code of the HTTP
// server sides, and httplink contains the common code of the HTTP client sides.
package transport
