// Package daemon creates the parts of the program and connects them. It builds a runtime from a
// configuration, listens, handles signals, and determines the order in which the parts start and
// stop. The packages that it connects do not import it.
//
// Run serves one server without renaming its tools. Serve serves many servers at one endpoint.
// Connect opens a session with a server, for commands that act as a client. Record writes the
// messages of a client and a server to a file, called a tape. Replay plays a tape. Each function
// except Connect returns only when everything that it started has ended. After Connect, the caller
// must call Session.Close.
package daemon
