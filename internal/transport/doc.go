// Package transport holds what the links to clients and servers have in common:
// the words in which a server half hands its traffic to a conversation, and in
// which a conversation uses a client half.
//
// Its sub-packages turn bytes into messages and back: stdio, streamhttp, sse and
// inmem, each with a half towards clients and a half towards servers. They know
// framing, statuses and headers, and nothing of tools. They never import each
// other. Below them are eventstream, the format of server-sent events, and what the
// two HTTP transports have in common: httpdoor towards clients, httplink towards
// servers.
package transport
