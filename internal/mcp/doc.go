// Package mcp defines the vocabulary of the Model Context Protocol: revisions and their
// features, methods, reserved _meta keys, error codes, and the neutral forms of a call,
// its reply and a notification.
//
// It contains facts, not behaviour: no I/O, no state, no goroutines. The feature table
// in revision.go is the only place in the program that compares revision dates;
// everything else asks what a peer Can do. The sources are the specification's pages
// and schemas of 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28.
package mcp
