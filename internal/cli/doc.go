// Package cli is the command line: it reads arguments and the configuration,
// calls the backend, and turns what comes back into text for people or bytes for
// scripts.
//
// The commands, their flags and exit codes are a contract with whoever scripts
// them: 0 is success, 1 a failure, 2 a wrong command line, 130 an interrupt, 143
// SIGTERM. Standard output carries only results, or the protocol itself; everything
// meant for people goes to standard error. It decodes nothing that a server sent beyond
// what it prints, and with --json prints the server's own bytes.
//
// It speaks no protocol and opens no connection; that is the backend's, whose
// interface stands in backend.go. docs/cli.md is generated from the commands.
package cli
