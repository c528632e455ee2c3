// Package spans holds the spans of calls for distributed tracing: one for the leg from the client to us, and
// one for each request that a server gets for it. The words are those of OpenTelemetry; the identity that
// peers see is W3C Trace Context.
//
// A nil *[Tracer] starts no spans, and all methods of a nil *[Span] do nothing. So whoever is traced only keeps
// a pointer, which is nil unless traces are configured.
//
// A Tracer decides which traces are recorded, and gives each recorded span to its sink when the span has ended.
// It does no I/O and starts no goroutine; package telemetry exports the spans. Nothing here reads a message,
// and the callers put neither arguments nor results nor error texts of peers into a span.
package spans
