// Package transcript runs a conversation from a txtar file against a gateway. The test fails if a
// byte differs.
//
// A file starts with a description of the peers and of the test. The sections of the file are run
// in order. client.send and upstream.send write their lines to the gateway. client.expect and
// upstream.expect read as many lines as the section has, and compare them exactly. In the expected
// lines, <*> matches any text without a quote. Use <*> only for the version of Dragoman.
// client.close and upstream.close close the output of that side. The optional section config must
// be the first, and is passed to Start. After the last section, the client closes its output, and
// any unexpected line is a failure.
//
// With -update, expectations are replaced by the lines that arrive. An empty expectation
// receives all lines until the gateway is quiet. Lines have the form of the stdio transport. A
// step has a timeout of 10 seconds, in synthetic time if the test runs in a synctest bubble.
package transcript
