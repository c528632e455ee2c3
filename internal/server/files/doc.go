// Package files is the built-in filesystem server: `dragoman server filesystem`. It is an ordinary
// MCP server, built with the official Go SDK. It supports all revisions that the SDK supports.
//
// The server has an os.Root for each folder that the user named, and accesses files only through
// these. So no call can access a file outside these folders: not with "..", not through a symlink,
// and not if somebody replaces a folder during the call. The server opens only regular files and
// folders, never devices, pipes or sockets. It never leaves a file half written: it creates a file
// or a copied folder under a temporary name beside its target, syncs it, and renames it. Files and
// folders that a call replaces or deletes go to the undo folder of their root. The undo folder has
// a maximum size.
//
// The size of each result is limited, and an incomplete result says how to get the rest. A tool
// that fails returns a sentence with the problem and a sentence with the next step. To find changes
// in watched folders, the server polls them through the same os.Root.
//
// The package does not import Dragoman's transports and conversations, and only package cli imports
// it. Server is safe for concurrent use. Serve returns when its input or its context ends, and
// waits for the goroutines that it started.
package files
