// Package cli implements the command line. It parses the arguments and the configuration, calls the
// backend, and prints the results as text for people or as JSON for scripts.
//
// Scripts depend on the commands, flags and exit codes, so these must stay compatible. The exit
// codes are 0 for success, 1 for a failure, 2 for a usage error, 130 after SIGINT and 143 after
// SIGTERM. In addition, doctor uses 3, and record returns the exit code of its command. stdout
// carries only results or protocol messages. Messages for people go to stderr. The package decodes
// only the parts of a server's message that it prints. With --json, it prints the bytes that the
// server sent.
//
// Each command is a type with its flags as fields: its constructor has the help, check reads the
// arguments if they need more than the flags do, run does the work. It stands in the file of its name or
// in NAMEcmd.go, and small relatives share one (replay is in record.go). What commands share is world
// (all of them), client (those that act as a client of one server), locator (those that ask a running
// serve) and environment.
//
// The package does not speak MCP itself. Commands reach servers and clients through the backend (see
// backend.go); only doctor, fake and matrix use packages of workbench that speak it. docs/cli.md is
// generated from the commands.
package cli
