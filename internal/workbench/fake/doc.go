// Package fake has deterministic MCP servers and clients for tests. A profile says how a fake
// peer behaves. Each revision has a strict peer, which implements the whole revision and refuses
// everything else. Other profiles add dialects and faults that occur in practice.
//
// The tests check Dragoman with independent code, so the fake peers use none of Dragoman's codecs
// and transports. This package has its own line framing, HTTP and event streams. It has its own
// table of the features of each revision (edition.go). Of the packages of this module, it imports
// only jsonrpc (to inspect messages), excerpt, and mcp (for names).
//
// A strict peer refuses everything that its revision does not define, and records a violation. The
// tool "violations" of a strict server returns the client's violations so far. They include invalid
// notifications and responses, which a server cannot refuse. Most other profiles are strict peers
// with one change. In a server, this change is called a twist.
//
// Nothing in this package is random or depends on the time of day. All queues and lists are bounded.
// When the method Close of a peer returns, all goroutines and processes of the peer have ended.
package fake
