// Package tool describes one tool of a server for people: its signature in one line, its arguments,
// and example values.
//
// The package reads a tool's JSON object and the schemas in the object, as the server sent them.
// The package limits the length of every text but does not escape the text. Callers must escape it
// before they print it. The package does no I/O and keeps no state. A Tool is safe for concurrent
// use. The commands and the admin API use the package.
package tool
