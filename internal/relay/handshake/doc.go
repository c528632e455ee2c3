// Package handshake opens a conversation with a server whose revision is unknown. It sends
// server/discover as a probe, falls back to initialize, chooses a revision, and records the reason.
//
// The handshake is a state machine (probe, initialize, initialized, open) over a Link, which the
// connection to the server implements. The package does no I/O itself, starts no goroutine and
// keeps no state between two calls of Open. The Outcome says whether the revision may be stored for
// later connections. An error says whether the caller should restart the server, or connect by
// HTTP+SSE. The Trace contains every step of the handshake, and the reason for the step that
// followed. The text of every error ends with a hint for the user.
//
// Sources: 2026-07-28 §Versioning, "Backward Compatibility with Initialization-Based Versions";
// §stdio and §Streamable HTTP, "Backward Compatibility"; §Discovery; §Lifecycle of 2024-11-05,
// 2025-03-26, 2025-06-18 and 2025-11-25.
package handshake
