// Package conn holds our conversation with one server: Conn. It knows what the server
// speaks, which calls are in flight, which call an answer, a question or a notification
// belongs to, and when a call has taken too long.
//
// Ids and progress tokens live on one hop only: they are counted here, uniquely over all
// sessions of a server (Sessions), whatever the client called its own. A request ends
// exactly once: by its answer, its cancellation or the end of the transport. The package
// chooses no server and keeps no list of tools; upstream opens, pools and closes
// conversations. Everything exported is safe for concurrent use unless it says otherwise.
package conn
