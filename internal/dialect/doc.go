// Package dialect translates between the neutral forms of package mcp and one protocol
// revision. The neutral form is a message's own bytes plus the edits that it needs, so
// translating means splicing: members that a revision does not define are removed,
// members that it requires are added, and every other byte passes through.
//
// It does no I/O, keeps no state and starts no goroutine. It reads the clock only for
// dates that a task lacks. It is safe for concurrent use. Each revision has a codec
// (codec.go); those of an era share their code (legacy.go, modern.go). Content that a revision cannot express stays in the message, becomes an
// error with another code that names the original, or, if the receiver would fail on
// it, is converted with a documented loss (content.go). Servers that deviate from MCP
// are described by a Profile, which is data; their messages are translated to MCP here.
package dialect
