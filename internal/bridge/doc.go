// Package bridge relays one call from a client to a server of either era and the answer
// back: Bridge.Exchange. It converts server requests between the eras (live.go, park.go)
// and tasks (task*.go), and seals the state that a client keeps for us (seal.go).
//
// If a server sends a request during a call and its client can only be asked through a
// result, the call is parked: it continues to run, and a retry resumes it. Parked calls and
// attended tasks outlive the request that started them; Close ends them and waits. The
// package does not choose servers or keep lists, and reaches servers through the interface
// Server. Everything exported is safe for concurrent use.
package bridge
