// Package doctor opens an MCP server in every way that clients do, and plays one
// to a client, to say what is wrong with it: coded findings with the bytes that
// prove them, and which revisions work.
//
// It speaks raw: messages are written and read as bytes, because what it looks for
// is just what a proper link would hide. Each probe has a conversation of its own,
// a fresh process or session, so that none sees what another has done. Probes are
// bounded in number and in time, and a few run at once.
//
// It never runs a tool unless it is told which, and sends nothing else that could
// change anything: lists, one resource that the server offers, one prompt, and what
// no server should have. What Dragoman makes of the server is not guessed but
// tried, with the handshake that the bridge itself uses.
//
// All codes stand in one table (table.go), from which docs/findings.md is made.
// They are stable: a code is never given another meaning.
package doctor
