// Package bridge takes one call from a client to a server of either era and the answer
// back: Bridge.Exchange. It knows how a question crosses between the eras (live.go, park.go),
// how a task does (task*.go), and what state a client carries for us (seal.go).
//
// A call whose server asks in mid-call, and whose client can only be asked by an answer, is
// parked: it runs on, and a retry finds it again. Parked calls and attended tasks outlive
// the request that they began with; Close ends them and waits. The package chooses no server,
// keeps no list, and reaches servers through the interface Server. Everything exported is
// safe for concurrent use.
package bridge
