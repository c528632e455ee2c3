// Package clients tests third-party clients from npm with servers of the other era behind Dragoman.
// The clients are the TypeScript SDKs, the AI SDK, and clients that are commands. The tests need
// npm and node, so they run only if DRAGOMAN_CLIENTS is set: see `make clients`. That target also
// writes the results into docs/compatibility.md, between its markers.
//
// They also test that all of these, the Go SDK, mcp-remote, Claude Code and Codex work with an API key and
// open no browser; the last two, whose packages are in vendors, only without DRAGOMAN_CLIENTS=check.
//
// The SDKs also find, describe and call one of 500 tools in search mode. `make search-clients` lets them, Claude Code and
// Codex do the same with the servers that test/sweep has installed. The last two have a model then, which is a script.
//
// Each .mjs file is the script of one client. steps.mjs has the steps that all clients perform.
// The lock file pins the versions, which are installed below .cache. After the installation, the
// tests need no network.
package clients
