// Package daemon is the composition root: it builds a runtime from a configuration, listens,
// handles signals, and decides in which order things start and stop. It connects the lower
// packages, and none of them imports it.
//
// Run serves one server without renaming its tools. Serve serves many servers behind one
// endpoint. Connect is a client for the commands that need one. Record writes the messages of
// a client and a server to a file, called a tape. Replay plays a tape. Each function returns
// only when everything that it started has ended.
package daemon
