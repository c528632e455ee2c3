// Package dialect turns the neutral forms of package mcp into the words of one
// protocol revision and back. The neutral form is a message's own bytes plus the
// edits that it needs, so turning means splicing: members that a revision does
// not know are cut, members that it requires are added, and every other byte
// passes through.
//
// It does no I/O, keeps no state and starts no goroutine; the clock is asked only for
// the dates that a task lacks. All of it is safe for concurrent use. Each revision owns one file, named by its date, and gives one
// codec; legacy.go and modern.go hold what the revisions of an era share. What a
// revision has no word for stays in the message as it is, is an error of another
// number that names the first one, or, where its readers would choke on it, is put
// into other words: a named loss (content.go). Servers beside the standard are
// described by a Profile, which is data; what they say is put into MCP's words here.
package dialect
