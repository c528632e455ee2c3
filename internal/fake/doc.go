// Package fake has deterministic MCP servers and clients for tests. A profile says how a fake
// peer behaves. Each revision has a strict peer, which implements the whole revision and refuses
// everything else. Other profiles add dialects and faults that occur in practice.
//
// The fake peers check the bridge independently, so they share no codec and no transport with
// it. This package has its own line framing, HTTP and event streams. It has its own table of
// the features of each revision (edition.go). From this module it uses only jsonrpc (to
// inspect messages), excerpt, and the names in mcp.
//
// A strict peer refuses everything that its revision does not define, and records it as a
// violation. The tool "violations" returns the violations of the other side so far. They include
// invalid notifications and responses, which the server cannot refuse. Most other profiles are
// strict peers with one change, called a twist.
//
// Nothing here is random or depends on the time of day. All queues and lists are bounded. When
// Close of a peer returns, all its goroutines and processes have ended.
package fake
