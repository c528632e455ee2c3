// Package stdio sends messages over byte streams, one message per line. Std uses the standard
// streams of this process to talk to a client. Start uses the standard streams of a child process
// to talk to a server. NewPipe uses any pair of streams.
//
// The package follows 2026-07-28 §stdio. The framing is the same in every revision: a newline
// follows each message, and messages contain no newlines. The package is lenient about line ends
// and strict about content, and each message has a size limit. For an invalid line, Read returns an
// error. If it is certain which request the line answers, the error contains the id of that
// request. The next Read continues after the line. Write replaces line breaks in a message by
// spaces, removes white space at the end, and changes nothing else. Messages that are sent at the
// same time are written together.
//
// The caller gives a child its complete environment. The child inherits no other variables. It runs
// in its own process group (on Windows: a job) and is killed when this process exits. After Stop,
// no process of the group is alive, and no process that left the group can block Read, Write or
// Stop. The package does not restart processes, and does not depend on MCP except for the framing.
package stdio
