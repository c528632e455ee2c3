// Package codex tests the real Codex app-server behind `dragoman run`, in a current version and in
// an older version, which has conversations instead of threads. Strict clients of several revisions
// start turns. The workers send their model requests to an endpoint of this test on the same
// machine, so the test needs no account. The packages are large, so the test runs only if
// DRAGOMAN_PEERS_CODEX is set: see `make peers-codex`.
//
// The lock file beside this one pins the versions, which are installed below .cache. After the
// installation, the test needs no network.
package codex
