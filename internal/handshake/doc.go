// Package handshake opens a conversation with a server whose revision is unknown: it
// probes with server/discover, falls back to initialize, chooses a revision and records
// why.
//
// It is a state machine (probe, initialize, initialized, open) over a Link, which the
// conversation implements. It does no I/O of its own, starts no goroutine and keeps no
// state between two calls of Open. It tells its caller what may be remembered, and when
// to restart the server or to connect by HTTP+SSE instead. A Trace has every step with
// the reason for the next one, and every failure is one sentence with something to do.
//
// Sources: 2026-07-28 §Versioning, "Backward Compatibility with
// Initialization-Based Versions"; §stdio and §Streamable HTTP, "Backward
// Compatibility"; §Discovery; §Lifecycle of 2024-11-05, 2025-03-26, 2025-06-18
// and 2025-11-25.
package handshake
