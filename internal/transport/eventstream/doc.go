// Package eventstream reads and writes server-sent events as the WHATWG HTML standard defines them
// (§9.2, "Server-sent events"). It also has limits that the standard does not have.
//
// A Reader converts a byte stream to events. The result does not depend on the chunks in which the
// stream arrives. The Reader handles all three line ends, a leading byte order mark, and data of
// several lines. Comments may have any length, because the Reader does not store them. The
// functions AppendEvent, AppendComment and AppendRetry encode events. The content of an event
// cannot break the framing. The package does not depend on HTTP or MCP. It does not reconnect, read
// the clock or start goroutines. The packages streamhttp and sse use it.
package eventstream
