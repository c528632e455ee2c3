// Package conn holds our conversation with one server: Conn. It knows the negotiated
// revision, which calls are in flight, which call an answer, a server request or a
// notification belongs to, and when a call times out.
//
// Request ids and progress tokens are valid on one hop only. They are counted here, unique
// over all sessions of a server (Sessions), and independent of the client's ids. A request
// ends exactly once: by its answer, its cancellation or the end of the connection. The
// package does not choose servers or keep lists of tools; package upstream opens, pools and
// closes conversations. Everything exported is safe for concurrent use unless it says
// otherwise.
package conn
