package failure

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
)

// Facts is what is known about a failure. The zero value knows nothing. A Source adds to
// it and leaves alone what is set already.
type Facts struct {
	Class  Class  // "" to find it out
	Server string // the configured name
	Cause  string // the word for the cause, see Failure
	// Given says that the server was given on the command line, so that the action names a
	// flag instead of a setting.
	Given bool

	// Of a command.
	Command string   // the word that was started; no arguments
	Args    []string // they may be secret, so that they are only compared
	Start   string   // why it could not be started, from the operating system
	Hint    string   // what to check about that
	PATH    string   // that was searched; "" if none was
	Near    []string // commands in PATH with a similar name
	Exit    string   // how the process ended, such as "exit status 1"; "" if it runs
	Running bool     // it was ready before; no call is concerned
	Stderr  []string // the last lines of stderr, oldest first, printable
	Stdout  []string // the first lines of stdout that are not messages, printable
	// Withheld are environment variables that we have, that stderr names, and that were not
	// passed on.
	Withheld []string

	// Of an address.
	Address     string // the URL without user, query and secrets
	Status      int    // of the HTTP response
	ContentType string
	Body        []byte // its beginning
	Challenge   string // WWW-Authenticate
	Location    string // the target of a redirect, without query
	RetryAfter  time.Duration
	Credentials bool     // the request had an Authorization header
	Found       []string // URLs of the same origin at which there is an MCP endpoint

	// Of a conversation.
	Sent, Got    string        // the last exchange, described
	Answer       string        // the message of a JSON-RPC error, in the server's words
	Waited       time.Duration // how long there was no answer; 0 if unknown
	Call         bool          // a call failed, not the opening of the server
	Theirs, Ours []string      // protocol versions
	Dialect      string        // the name of a protocol that is not MCP

	// Of a listener.
	Listen string // its address
	Holder string // the program that listens there already, with its pid; "" if unknown

	// Sentence replaces the sentence of the class, Action the action.
	Sentence, Action string

	// Clean masks configured secrets. Nil masks only what looks like a secret.
	Clean func(string) string
}

// Source is an error that knows facts. DescribeFailure adds those that are not set. It must
// not block.
type Source interface{ DescribeFailure(*Facts) }

// clean masks secrets in a text of a peer.
func (f *Facts) clean(s string) string {
	if f.Clean != nil {
		s = f.Clean(s)
	}
	return excerpt.MaskSecrets(s)
}

// say returns a peer's text on one line, with secrets masked, bounded.
func (f *Facts) say(s string, limit int) string { return excerpt.Line(f.clean(s), limit) }

// gather adds what the errors in err's tree know, the outermost first.
func (f *Facts) gather(err error) {
	if s, ok := err.(Source); ok {
		s.DescribeFailure(f)
	}
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		if next := x.Unwrap(); next != nil {
			f.gather(next)
		}
	case interface{ Unwrap() []error }:
		for _, next := range x.Unwrap() {
			if next != nil {
				f.gather(next)
			}
		}
	}
}
