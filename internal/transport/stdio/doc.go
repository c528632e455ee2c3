// Package stdio sends messages over byte streams, one message per line. Std uses the standard
// streams of this process, towards a client. Start uses those of a child process, towards a
// server. NewPipe uses any pair of streams.
//
// It follows 2026-07-28 §stdio, whose framing is the same in every revision: a newline follows
// each message, and messages contain no newlines. The package is lenient about line ends and
// strict about content, and each message has a size limit. An invalid line is reported, with
// the request that it answers if that is certain. Then reading continues. Written messages stay
// on one line and are otherwise unchanged. Concurrent writes are combined.
//
// A child gets a complete environment from its caller, and inherits none. It runs in its own
// process group (on Windows: a job) and is killed when this process exits. After Stop, no
// process of the group is alive, and no process that left the group can block Read, Write or
// Stop. The package restarts nothing, and knows nothing about MCP except the framing.
package stdio
