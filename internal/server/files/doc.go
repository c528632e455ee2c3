// Package files is the built-in filesystem server: `dragoman server filesystem`. It is an
// ordinary MCP server on the official Go SDK, with all revisions that the SDK speaks.
//
// Every access goes through an os.Root of one of the folders that the user named. So a symlink, a
// ".." or a folder that somebody replaces during a call cannot lead outside. Only regular files and
// folders are opened, never devices, pipes or sockets. Nothing is half written: a file or a copied
// folder is made beside its target, synced, and renamed. Files and folders that a call replaces or
// deletes go to the undo folder of their root. This folder is bounded.
//
// Answers are bounded, and contain the way to continue. A tool that fails returns a sentence with the
// next step. Changes of watched folders are found by polling through the same os.Root.
//
// The package does not import the packages that carry messages, and only the commands import it.
// Server is safe for concurrent use. Serve returns when its input or its context ends, and waits
// for its goroutines.
package files
