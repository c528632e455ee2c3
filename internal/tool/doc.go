// Package tool describes one tool of a server for people: its signature in one line, its
// arguments, and an example of their values.
//
// The package reads the JSON object that a server lists and the schemas in it. It trusts
// none of it: every text is bounded, but not escaped, so a caller escapes what it prints.
// It does no I/O and keeps no state. A Tool is safe for concurrent use. The command line
// shows tools with it.
package tool
