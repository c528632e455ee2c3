// Package tape records the messages between a client and a server. It can also replay a tape: it
// sends the recorded messages of one side to a live peer, and compares the peer's messages with the
// tape.
//
// A tape is a txtar file that people can read. It begins with a description. The sections follow in
// the order of the conversation. On a pipe, the sections client and server contain one line for
// each message, and the sections client.close and server.close record the ends. Over HTTP, the
// sections are client.request, server.response, server.event for each event of a stream, server.end
// and client.gone; each has the number of its exchange. A line that txtar cannot hold begins with a
// backslash; see quoteLine.
//
// Recording does not change the messages between client and server. On the tape, a placeholder
// replaces each text that looks like a secret. The same secret always gets the same placeholder. So
// a tape can be shared, and can still be replayed. Recording delays a message by at most one disk
// write. The memory use depends on the length of the longest message.
package tape
