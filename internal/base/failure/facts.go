package failure

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Facts has the known facts about a failure. In the zero value no facts are known. A Source
// sets facts, but does not change those that are already set.
type Facts struct {
	Class  Class  // the class; if it is "", the function Of determines the class
	Server string // the configured name
	Cause  string // the short word for the cause; see Failure.Cause
	// Given means that the server comes from the command line. Failure.Action then names a flag
	// instead of a setting.
	Given bool
	// ByClient means that the command line of Dragoman is in a client's configuration.
	// Failure.Action then names that configuration. ByClient is used only if Given is set.
	ByClient bool
	// By says how an operator stopped the server, such as "in the console (ada)". It is "" for clients.
	By string
	// Unready means that Dragoman had to stop before the server was ready, for example because its
	// input has ended. Unready is used only for the class Cancelled.
	Unready bool

	// These are facts about a command.
	Command string   // the program that was started, without arguments
	Args    []string // the arguments of Command; they may be secret, so they are never shown
	Runner  string   // the package runner that Command uses, such as "npx", which may have to download the package; "" for none
	Start   string   // the operating system's reason why the command could not be started
	Hint    string   // a more precise reason why the program could not be started; "" if unknown
	PATH    string   // the PATH that was searched; "" if none was searched
	Near    []string // commands in PATH with a similar name
	Exit    string   // how the process ended, such as "exit status 1"; "" if the process did not exit by itself
	Running bool     // the server was ready; the failure is neither about opening the server nor about a call
	Stderr  []string // the last lines of stderr, oldest first, printable
	Stdout  []string // the first lines of stdout that are not messages, printable
	// Withheld has the environment variables of Dragoman that stderr mentions, and that Dragoman
	// did not pass to the server.
	Withheld []string

	// Facts about an address.
	Address     string // the URL without user, query and secrets
	Status      int    // the status of the HTTP response
	ContentType string
	Body        []byte // the beginning of the response body
	Challenge   string // the header WWW-Authenticate
	Location    string // the target of a redirect, without query
	RetryAfter  time.Duration
	Credentials bool     // the request had an Authorization header
	Found       []string // URLs of the same origin that have an MCP endpoint

	// Facts about the exchange of messages.
	Sent, Got    string        // descriptions of the last message to the server and of its answer
	Unsent       bool          // Sent could not be sent; Got says why
	Answer       string        // the text of a JSON-RPC error, as the server wrote it
	Waited       time.Duration // how long Dragoman waited for an answer; 0 if unknown
	Call         bool          // the failure is about a call, not about opening the server
	Theirs, Ours []string      // the protocol versions of the server and of Dragoman
	Dialect      string        // the name of a protocol that is not MCP

	// Facts about a listener.
	Listen string // the listen address
	Holder string // the program that already listens at the address, with its pid; "" if unknown

	// Sentence and Action replace the texts that Of chooses for the class. "" means no replacement.
	Sentence, Action string

	// Clean masks configured secrets. If it is nil, only text that looks like a secret is
	// masked.
	Clean func(string) string

	added string // the flag that the action names, with its value
}

// Source is an error that provides facts. DescribeFailure sets facts that are not set yet. It
// must not block.
type Source interface{ DescribeFailure(*Facts) }

// clean masks secrets in text from a peer.
func (f *Facts) clean(s string) string {
	if f.Clean != nil {
		s = f.Clean(s)
	}
	return excerpt.MaskSecrets(s)
}

// say returns text from a peer on one line, bounded and with secrets masked.
func (f *Facts) say(s string, limit int) string { return excerpt.Line(f.clean(s), limit) }

// gather adds the facts of the errors in err's tree, starting with the outermost error.
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
