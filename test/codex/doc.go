// Package codex runs the real Codex app-server behind `dragoman run`: of today
// and from the time of conversations. Strict clients of several revisions give it
// turns, which it takes to a model endpoint of this test on this machine, so that
// it needs no account. The packages are large, and so it runs only where
// DRAGOMAN_PEERS_CODEX is set: see `make peers-codex`.
//
// The versions are pinned by the lock file beside this one and installed below
// .cache. Nothing is asked of a network.
package codex
