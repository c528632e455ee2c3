// Package pins remembers what the definitions of tools, prompts and resource templates were when they
// were first seen. A server that people have come to trust may later tell the model something else; so
// what has changed since is noticed, also after a restart, and can be held until somebody approves it
// (docs/pins.md).
//
// A Book has the pins of one project. It's asked for each item of each list that is read, so it only
// looks into a map, and never waits: what it sees for the first time is taken from it later, with
// Book.Fresh, and kept by somebody else. Lines and Diff show people what has changed, with what they
// couldn't see drawn.
//
// A definition is everything that a server says of an item, so any other byte is a change, except that
// the members of an object have no order and white space outside strings has no meaning.
//
// The package does no I/O and starts no goroutine. A Book is safe for concurrent use.
package pins
