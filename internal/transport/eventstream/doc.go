// Package eventstream reads and writes server-sent events as the WHATWG HTML standard defines
// them (§9.2, "Server-sent events"). It adds limits that the standard does not have.
//
// A Reader converts a byte stream to events. The result does not depend on the chunks in which the
// stream arrives. The Reader handles all three line ends, a leading byte order mark, data of
// several lines, and comments of any length, which need no memory. The Append functions write
// events. The content of an event cannot break the framing. The package does not depend on HTTP or
// MCP. It does not reconnect, read the clock or start goroutines. The packages streamhttp and sse
// use it.
package eventstream
