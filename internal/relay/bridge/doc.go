// Package bridge relays calls between clients and servers of either era. Bridge.Exchange sends one
// call to its server and returns the answer. The package converts server requests (live.go,
// park.go) and tasks (task*.go) between the eras. It seals the requestState values that clients keep
// for Dragoman (seal.go), and asks the person behind a client on behalf of the policy (ask.go).
//
// A server may send a request during a call. If the client accepts a server request only in a
// result, Dragoman parks the call: the call continues to run at the server, and the client's retry
// resumes it. Parked calls and attended tasks outlive the request that started them. Close ends
// these calls and tasks and waits for them. The package does not choose servers or keep lists, and
// reaches servers through the interface Server. Everything exported is safe for concurrent use.
package bridge
