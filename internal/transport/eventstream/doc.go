// Package eventstream reads and writes the format of server-sent events, as the
// WHATWG HTML standard describes it (§9.2, "Server-sent events"), with bounds
// that the standard leaves out.
//
// A Reader turns a byte stream into events whatever the chunks it arrives in: it
// knows all three line ends, a leading byte order mark, data of several lines,
// and comments of any length, which cost no memory. The Append functions write
// events that no content can break out of. The package knows neither HTTP nor
// MCP, does not reconnect, keeps no clock and starts no goroutine; it is the base
// of the packages streamhttp and sse.
package eventstream
