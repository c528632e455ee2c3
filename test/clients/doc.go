// Package clients takes clients from npm that nobody here wrote through the bridge
// to servers of the other era: the TypeScript SDKs, the AI SDK's, and clients that
// are commands. It needs npm and node, so it runs only where DRAGOMAN_CLIENTS is
// set: see `make clients`, which also writes what came of it into
// docs/compatibility.md, between the markers for it.
//
// A .mjs file is the script of one client; steps.mjs is what all are put through.
// Versions are pinned by the lock file and installed below .cache; nothing is called
// that leaves this machine.
package clients
