// Package peer holds one conversation: with a client (Client, Door) or with a
// server (Server). It knows who the other side is and what it speaks, what is in
// flight, whose answer an answer is, and which progress token belongs to which
// call.
//
// Ids and progress tokens live on one hop only: towards servers both are counted
// here, uniquely over all sessions of a server, whatever the client called its own
// (Sessions). A request is retired exactly once: by its answer, its cancellation or the end of the link. The package does
// no routing between servers and keeps no catalog; that is the gateway's, which
// it meets through Host and Sink. Everything exported is safe for concurrent use
// unless it says otherwise.
package peer
