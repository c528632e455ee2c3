// Package stdio sends messages over byte streams, one message per line: over our own
// standard streams towards a client (Std), over those of a child process towards a
// server (Start), or over any pair of streams (NewPipe).
//
// It follows 2026-07-28 §stdio, whose framing is the same in every revision: messages
// are delimited by newlines and contain none. It is lenient about line ends and strict
// about content, with a limit per message. An invalid line is reported, with the
// request that it answers if that is certain, and reading continues. Written messages
// stay on one line and are otherwise unchanged. Concurrent writes are combined.
//
// A child gets a complete environment from its caller and never ours, runs in its own
// process group (on Windows: a job) and is killed when we exit. After Stop no process
// of its group is alive, and no process that left the group can block Read, Write or
// Stop. The package restarts nothing and knows nothing of MCP except the framing.
package stdio
