// Package tools contains what the built-in servers share for their tools. It makes the schema of a
// type, defines the key of Dragoman's flags in _meta, and limits the calls that run at the same
// time.
//
// A Gate is safe for concurrent use. Each server chooses the limits of its gates, and writes its
// own error message for a call that a gate rejects. The package starts no goroutines.
package tools
