// Package transcript plays a conversation from a txtar file against a gateway, and fails
// if a byte differs.
//
// A file starts with a description: who talks to whom and what this shows. Its sections
// are played in order. client.send and upstream.send write their lines to the gateway.
// client.expect and upstream.expect read as many lines and compare them exactly; <*> stands
// for any text without a quote and is meant only for our own version. client.close and
// upstream.close close that side's output. The section config, if any, must be first; it is
// passed to Start. After the last section the client closes, and any unexpected line is a
// failure.
//
// With -update the expectations are replaced by what arrives. An empty one receives
// everything until the gateway is quiet. Lines are those of the stdio transport. A step has
// a timeout of 10 seconds, in synthetic time if there is a synctest bubble.
package transcript
