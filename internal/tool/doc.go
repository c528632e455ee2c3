// Package tool describes one tool of a server for people: its signature in one line, its
// arguments, and example values.
//
// The package reads the JSON object of a tool and the schemas in it, as the server sent them. It
// bounds every text but does not escape it, so the caller must escape the text before printing. It
// does no I/O and keeps no state. A Tool is safe for concurrent use. The commands use the package
// to show tools.
package tool
