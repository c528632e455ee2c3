// Package eventstream reads and writes server-sent events as the WHATWG HTML standard
// defines them (§9.2, "Server-sent events"), with limits that the standard does not
// have.
//
// A Reader converts a byte stream to events, however it is split into chunks. It
// handles all three line ends, a leading byte order mark, data of several lines, and
// comments of any length, which use no memory. The Append functions write events whose
// content cannot break the framing. The package knows neither HTTP nor MCP, does not
// reconnect, reads no clock and starts no goroutine. The packages streamhttp and sse
// use it.
package eventstream
