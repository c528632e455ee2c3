// Package ranking finds the tools that fit a query among those of all servers, for search mode (docs/adr/0050).
//
// An Index has the tools of one server. It is made once from their definitions and never changes, so that a
// server whose list changes costs one new Index and the others cost nothing. Search ranks over several of
// them at once, and asks for each tool whether the caller may see it. All that it counts, it counts over
// those tools alone: neither the order nor a score tells anything about a tool that is hidden.
//
// The package does no I/O, starts no goroutine and keeps no state. The same query over the same tools gives
// the same answer in every process. Everything in it is safe for concurrent use. The texts come from servers
// and are not trusted: what is read from one definition is bounded, and Line escapes what could imitate our
// own lines.
package ranking
