// Package stdio carries messages over byte streams, one message a line: over our
// own standard streams towards a client (Std), over those of a child process
// towards a server (Start), or over any pair of streams (NewPipe).
//
// It obeys 2026-07-28 §stdio, whose framing is the same in every revision:
// messages are delimited by newlines and contain none. What it reads it takes
// leniently as to line ends and strictly as to content, within a limit per
// message; a bad line is reported, with the request that it answers where that is
// certain, and reading goes on. What it writes stays on
// one line and is otherwise not touched. Writes that arrive while another is
// under way leave together.
//
// A child gets a complete environment from its caller and never ours, runs in a
// process group (on Windows: a job) of its own and dies with us. After Stop
// nothing that was in its group is alive, and nothing that it left behind can
// make Read, Write or Stop hang. The package restarts nothing and knows nothing
// of MCP beyond the framing.
package stdio
