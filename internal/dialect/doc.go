// Package dialect converts messages between the types of package mcp and one protocol revision.
// These types contain a message's own bytes and the edits that it needs. So a conversion is a
// splice: it removes members that a revision does not define, adds members that the revision
// requires, and leaves every other byte unchanged.
//
// The package does no I/O, keeps no state and starts no goroutine. It reads the clock only for
// dates that a task lacks. It is safe for concurrent use. Each revision has a codec (codec.go),
// and the codecs of an era share their code (legacy.go, modern.go).
//
// Some content cannot be expressed in a revision. It stays in the message if the receiver ignores
// it. An error code that the receiver does not know or would misunderstand is replaced, and the
// error's data names the original code. Content that would make the receiver fail is converted with
// a documented loss (content.go). A Profile describes servers that deviate from MCP. It contains
// only data; this package converts their messages to MCP.
package dialect
