// Package conn implements Conn, which is the connection to one server. A Conn knows the negotiated
// revision and the calls in flight. It determines which call an answer, a server request or a
// notification belongs to, and when a call times out.
//
// Request ids and progress tokens are valid on one connection only. This package assigns the ids
// and tokens that the server gets. These ids and tokens are unique across all sessions of a server
// (see Sessions), and do not depend on the ids of the clients. A request ends exactly once: by its
// answer, its cancellation, its timeout or the end of the connection. The package does not choose
// servers or keep lists of tools. Package upstream opens, pools and closes connections. All exported
// functions and methods are safe for concurrent use unless their comments say otherwise.
package conn
