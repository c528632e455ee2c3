// Package eventstream reads and writes server-sent events as the WHATWG HTML standard defines
// them (§9.2, "Server-sent events"). It adds limits that the standard does not have.
//
// A Reader converts a byte stream to events, whatever the chunks of the stream are. It handles
// all three line ends, a leading byte order mark, data of several lines, and comments of any
// length, which need no memory. The Append functions write events. Their content cannot break
// the framing. The package knows neither HTTP nor MCP. It does not reconnect, reads no clock
// and starts no goroutine. The packages streamhttp and sse use it.
package eventstream
