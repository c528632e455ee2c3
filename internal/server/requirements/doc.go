// Package requirements is the built-in requirements server: `dragoman server requirements`. It is
// an ordinary MCP server, built with the official Go SDK. It supports all revisions that the SDK
// supports.
//
// The server manages epics, user stories, acceptance criteria, requirements, relations, comments
// and prompts in a database; see package store. Each of these objects is a resource, and the URI of
// the resource contains the id of the object. The URI of a prompt contains its name instead. The
// server reads its instructions from the database for each session: they are the description and
// the content of the active prompt. Several processes can use one database. The server asks the
// database for new changes twice a second, so that subscribers also learn of changes that other
// processes make.
//
// If Dragoman says who sends a call (see [identity.Voucher]), that's who has written what.
//
// The size of each result is limited, and an incomplete result says how to get the rest. A tool
// that fails returns a sentence with the next step. If the database does not answer, the handshake
// succeeds without instructions.
//
// Only package cli imports this package. Server is safe for concurrent use. Serve returns when its
// input or its context ends. Close waits for the goroutines of the server.
package requirements
