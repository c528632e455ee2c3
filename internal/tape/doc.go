// Package tape records the messages between a client and a server, and replays either side to
// the other.
//
// A tape is a human-readable txtar file. It starts with a description, followed by one section per
// turn, in order. On a pipe the sections are client and server, with one line per message, and
// client.close and server.close. Over HTTP the sections are numbered by exchange: client.request,
// server.response, server.event for each event of a stream, server.end and client.gone. A line that
// txtar cannot hold begins with a backslash; see quoteLine.
//
// Recording does not change the messages between client and server. On the tape, text that looks
// like a secret is replaced with a placeholder, which is always the same for the same secret. So a
// tape can be shared and still be replayed. Recording delays a message by at most one disk write.
// The memory use depends on the length of the longest message.
package tape
