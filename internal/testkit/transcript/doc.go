// Package transcript runs a conversation from a txtar file against a gateway. The test fails if the
// gateway's output differs from the file by a single byte.
//
// A file starts with a description of the peers and of the test. The sections of the file are run
// in order. The sections client.send and upstream.send write their lines to the gateway. The
// sections client.expect and upstream.expect read as many lines as they contain, and compare the
// lines exactly. In an expected line, <*> matches any text without a double quote. Use <*> only for
// the version of Dragoman, and for the ids of lines that may arrive in any order. The section
// client.close closes the client's output, and upstream.close closes the server's output. The section
// config is optional and must come first. Its text is passed to Start. After the last section, the
// test closes the outputs that are still open. It fails if an unexpected line arrives.
//
// With -update, the lines that arrive replace the expected lines in the file. If an expect section
// is empty, it is filled with lines until no more lines arrive. Lines have the form of the stdio
// transport. Each line must be sent or received within 10 seconds. In a synctest bubble, this is
// synthetic time.
package transcript
