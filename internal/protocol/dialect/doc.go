// Package dialect converts messages between the types of package mcp and one protocol revision.
// The types of package mcp contain the original bytes of a message and a list of edits. A conversion
// is a splice. The splice removes members that the receiver must not get, adds members that the
// revision requires, and leaves every other byte unchanged.
//
// The package does no I/O, keeps no state and starts no goroutine. It reads the clock only to add
// missing dates to tasks. The package is safe for concurrent use. Each revision has a codec
// (codec.go), and the codecs of an era share their code (legacy.go, modern.go).
//
// Some content cannot be expressed in the receiver's revision. Such content stays in the message if
// the receiver ignores it. Content that would make the receiver fail is converted with a documented
// loss (content.go). An error code that the receiver does not know or would misunderstand is
// replaced (failure.go). A Profile describes how a server deviates from MCP. The profile contains
// only data. The functions of this package convert the server's messages to MCP.
package dialect
