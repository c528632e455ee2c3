package doctor

import (
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// Target is the server to examine: a command, or a URL.
type Target struct {
	// Start starts a new conversation with a server on a pipe. It is nil for a URL.
	Start func(ctx context.Context) (Child, error)

	// Name is the name of the server in messages to the user. Given is true if the server comes
	// from the command line, and false if it comes from a configuration.
	Name    string
	Given   bool
	Program string   // the command without arguments; "" for a URL
	Args    []string // the arguments of the program, which are not shown

	URL       *url.URL          // the endpoint
	Header    http.Header       // header fields for each request; nil for none
	Transport http.RoundTripper // the transport for requests; nil means a transport of this package
	CAs       *x509.CertPool    // the authorities that the transport of this package trusts; nil means the authorities of the system
	Allow     []string          // the hosts that may be asked about a sign-in although they are nearer than the server; see egress.Options

	// Look returns the URLs of MCP endpoints near URL. It's called if there is none at URL, and may be nil.
	Look func(context.Context) []string

	// Dialect is the configured dialect with which Dragoman opens the server. If it is nil,
	// Dragoman detects the dialect.
	Dialect *dialect.Profile

	// Secrets are masked in evidence.
	Secrets []string

	given bool // Transport was given
}

// Child is a started server with its raw streams.
type Child interface {
	// Streams returns the server's stdout and stdin. Reading ends when the server exits or Stop is
	// called.
	Streams() (from io.Reader, to io.WriteCloser)
	// Stop ends the process, waits for its exit and unblocks readers and writers.
	Stop()
	// Epitaph describes how the process exited, and includes the most useful lines of its stderr.
	Epitaph() string
}

// Command returns a Start function that runs spec.
func Command(spec stdio.Spec) func(context.Context) (Child, error) {
	stays := new(atomic.Bool)
	return func(ctx context.Context) (Child, error) {
		p, err := stdio.Start(ctx, spec)
		if err != nil {
			return nil, err
		}
		return process{p, stays}, nil
	}
}

// process is a Child that runs a command. The doctor starts a command several times.
type process struct {
	*stdio.Process
	// stays is shared by all processes of the command. It is set when a process has not exited
	// within endingTime. From then on, Stop waits for a shorter time.
	stays *atomic.Bool
}

func (p process) Streams() (io.Reader, io.WriteCloser) { return p.Raw() }

// endingTime is how long a server may take to exit after its stdin is closed.
const endingTime = time.Second

func (p process) Stop() {
	d := endingTime
	if p.stays.Load() {
		d = endingTime / 20
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_ = p.Process.Stop(ctx)
	if ctx.Err() != nil {
		p.stays.Store(true)
	}
}

// DescribeFailure implements failure.Source.
func (p process) DescribeFailure(f *failure.Facts) {
	f.Exit, f.Stderr = p.ExitText(), p.StderrTail(stderrLines)
}

// stderrLines is how many of the last lines of stderr are used to classify a failure.
const stderrLines = 40

func (p process) Epitaph() string {
	select {
	case <-p.Exited():
	case <-time.After(endingTime): // the process has closed stdout, so it should exit soon
	}
	s := p.ExitText()
	if s == "" {
		s = "the process closed stdout but still runs"
	}
	// The verdict quotes the first of these lines.
	f := failure.Of(nil, failure.Facts{Class: failure.Exited, Exit: s, Stderr: p.StderrTail(stderrLines)})
	if lines := f.Evidence; len(lines) > 0 {
		s += "; stderr: " + strings.Join(lines[:min(len(lines), 3)], " | ")
	}
	return s
}
