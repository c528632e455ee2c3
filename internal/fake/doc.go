// Package fake plays deterministic MCP peers: for each revision one that has all
// of it and refuses everything else, and on top of these the dialects and the
// faults that are met in the field.
//
// It is an oracle for the bridge, and so shares no codec, no door and no link
// with it: its line framing, HTTP and event streams are its own. What a revision
// has stands in the package's own table (edition.go); of this module it uses
// jsonrpc, to look into messages, the words of mcp, and excerpt.
//
// A strict peer refuses what its revision does not define and remembers it; the
// tool "violations" tells what the other side has done so far, notifications and
// answers included, which cannot be refused. A fault or a dialect is a strict peer
// with one twist.
//
// Nothing here is random or depends on the time of day. Everything is bounded,
// and whatever a peer starts has ended when its Close returns.
package fake
