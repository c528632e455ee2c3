// Package tape records what a client and a server say to each other, and plays
// one of them to the other again.
//
// A tape is a txtar file that people can read: prose first, then one section for
// each turn, in the order in which things were said. On a pipe the sections are
// client and server, a line for each message, and client.close and server.close.
// Over HTTP they are numbered by exchange: client.request, server.response,
// server.event for each event of a stream as it came, server.end and client.gone.
// A line that txtar could not hold begins with a backslash; see quoteLine.
//
// Recording changes no byte on the way. What goes into the file is stripped of
// what looks like a secret, always by the same placeholder for the same secret, so
// that a tape can be shown around and still be played. Nothing waits for the disk
// longer than one write takes; memory is bounded by the longest message.
package tape
