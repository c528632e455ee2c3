// Package conn handles the connection to one server: Conn. It knows the negotiated revision and
// the calls in flight. It determines which call an answer, a server request or a notification
// belongs to, and when a call times out.
//
// Request ids and progress tokens are valid on one connection only. This package assigns the ids
// and tokens that the server gets. They are unique in all sessions of a server (Sessions) and
// independent of the client's ids. A request ends exactly once: by its answer, its cancellation or
// the end of the connection. The package does not choose servers or keep lists of tools. Package
// upstream opens, pools and closes connections. Everything exported is safe for concurrent use
// unless its comment says otherwise.
package conn
