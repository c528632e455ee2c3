// Package fake plays deterministic MCP peers for tests. For each revision there is a
// strict peer that implements all of it and refuses everything else. Dialects and faults
// that occur in practice are built on these.
//
// The fake peers are an oracle for the bridge, so they share no codec or transport with
// it. Line framing, HTTP and event streams are implemented here. The features of each
// revision are in the package's own table (edition.go). From this module the package uses
// only jsonrpc (to inspect messages), excerpt, and the names in mcp.
//
// A strict peer refuses what its revision does not define and records it as a violation.
// The tool "violations" returns what the other side has done wrong so far, including
// notifications and responses, which cannot be refused. A fault or a dialect is a strict
// peer with one twist.
//
// Nothing here is random or depends on the time of day. Everything is bounded, and
// everything a peer starts has ended when its Close returns.
package fake
