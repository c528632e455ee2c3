// Package tools contains what the built-in servers share for their tools: the schema of a type,
// the key of the flags in _meta, and the bound of the calls that run at the same time.
//
// A Gate is safe for concurrent use. It does not know the tools: a server gives each of its gates a
// bound of running calls and a bound of waiting calls, and writes its own sentence for a call that
// the gate refuses. The package starts no goroutine.
package tools
