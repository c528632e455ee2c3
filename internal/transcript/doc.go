// Package transcript plays a conversation that is written down in a txtar file
// against a gateway, and fails where a byte differs.
//
// A file opens with prose: who talks to whom and what this shows. Its sections
// are played in order. client.send and upstream.send write their lines to the
// gateway; client.expect and upstream.expect read as many lines and compare them
// exactly, where <*> stands for any text without a quote and is meant for our own
// version only. client.close and upstream.close end what that party sends. The
// section config, first if there is one, is handed to whoever starts the gateway.
// When the sections are over the client closes, and lines that nobody expected
// are a failure too.
//
// With -update the expectations become what was seen; an empty one takes all that
// comes until it is quiet. Lines are those of the stdio transport. A step waits
// 10 seconds at most, of the clock of the synctest bubble where there is one.
package transcript
