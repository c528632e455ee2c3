// Package handshake opens a conversation with a server whose revision is not
// known: it probes with server/discover, falls back to initialize, settles on a
// revision and says how it came to it.
//
// It is a state machine (probe, initialize, initialized, open) over a Link that
// it declares and the conversation implements. It does no I/O of its own, starts
// no goroutine and keeps nothing between two calls of Open; what may be
// remembered, and when to respawn or to dial HTTP+SSE instead, it tells its
// caller. Every step is kept in a Trace with the reason why it led to the next,
// and every failure is one sentence that a user can act upon.
//
// Sources: 2026-07-28 §Versioning, "Backward Compatibility with
// Initialization-Based Versions"; §stdio and §Streamable HTTP, "Backward
// Compatibility"; §Discovery; §Lifecycle of 2024-11-05, 2025-03-26, 2025-06-18
// and 2025-11-25.
package handshake
