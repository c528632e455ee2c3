// Package requirements is the built-in requirements server: `dragoman server requirements`. It is
// an ordinary MCP server on the official Go SDK, with all revisions that the SDK speaks.
//
// It serves epics, user stories, acceptance criteria, requirements, relations, comments and prompts
// from the database of the package store. Each of these objects is a resource with a URI made from
// its id. The description and the content of the active prompt are the instructions, read anew for
// each session. Changes by other processes on the same database reach subscribers too, because the
// server asks the database for new changes twice a second.
//
// Answers are bounded, and contain the way to continue. A tool that fails returns a sentence
// with the next step. A handshake works without instructions if the database does not answer.
//
// The package does not import the packages that carry messages, and only the commands import it.
// Server is safe for concurrent use. Serve returns when its input or its context ends. Close waits
// for the goroutines of the server.
package requirements
