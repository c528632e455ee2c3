// Package config turns one YAML file into an immutable Snapshot, or into all the
// problems that the file has.
//
// The key mcpServers has the shape that every MCP client uses, so that a file
// which was written for one of them works unchanged; what is ours stands under
// the key dragoman. JSON is YAML, so both may be written in either. ${VAR} is
// taken from the environment.
//
// Parse is pure: it reads no file, asks no clock and starts nothing. It reports
// every problem at once, each with line, column, path and what to do; a file with
// a problem gives no Snapshot, so that it can never replace a good one. Only
// Load, Find and Watch touch the disk.
//
// A Snapshot is never written to after Parse and may be shared between
// goroutines. Values that come from headers, from environment blocks or from
// ${VAR} are Secrets, which print as *** wherever they end up.
package config
