// Package cli implements the command line. It parses arguments and the configuration,
// calls the backend, and prints the results as text for people or as JSON for scripts.
//
// Commands, flags and exit codes are a contract with scripts. The exit codes are 0 for
// success, 1 for a failure, 2 for a usage error, 130 after SIGINT and 143 after SIGTERM.
// stdout carries only results, or the protocol itself. Everything for people goes to
// stderr. The package decodes only the parts of a server's message that it prints. With
// --json it prints the server's own bytes.
//
// The package does not speak MCP and does not connect to MCP servers. The backend does;
// see Backend in backend.go. docs/cli.md is generated from the commands.
package cli
