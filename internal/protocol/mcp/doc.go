// Package mcp defines the terms of the Model Context Protocol: revisions and their features,
// methods, reserved _meta keys and error codes. It also defines types for calls, replies and
// notifications. These types do not depend on a revision.
//
// The package does no I/O, keeps no state and starts no goroutines. The feature table in
// revision.go is the only place in the program that compares revision dates. All other code calls
// Can to find out what a peer supports. The sources are the specification's pages and schemas of
// 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28.
package mcp
