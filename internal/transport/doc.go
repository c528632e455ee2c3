// Package transport defines what the connections to clients and to servers have in
// common: the interfaces by which a server side passes messages to a conversation, and
// by which a conversation uses a client side.
//
// Its sub-packages convert bytes to messages and back: stdio, streamhttp, sse and
// inmem, each with a side towards clients and a side towards servers. They know
// framing, status codes and headers, and nothing of tools. They never import each
// other. Below them are eventstream, the format of server-sent events, and the common
// parts of the two HTTP transports: httpdoor towards clients, httplink towards servers.
package transport
