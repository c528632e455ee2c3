// Package bridge relays calls between clients and servers of either era. Bridge.Exchange sends
// one call to its server and returns the answer. The package converts server requests between
// the eras (live.go, park.go) and tasks (task*.go). It also seals the requestState values that
// clients hold for us (seal.go).
//
// A server may send a request during a call. If the client can only be asked through a result,
// the call is parked: it continues to run, and the client's retry resumes it. Parked calls and
// attended tasks outlive the request that started them. Close ends them and waits. The package does
// not choose servers or keep lists, and reaches servers through the interface Server. Everything
// exported is safe for concurrent use.
package bridge
