package doctor

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// Target is the server that is looked at: one that is started, or one at a URL.
type Target struct {
	// Start begins a fresh conversation with a server on a pipe. Nil for a URL.
	Start func(ctx context.Context) (Child, error)

	URL       *url.URL          // the endpoint
	Header    http.Header       // that each request gets; nil for none
	Transport http.RoundTripper // nil means one of our own

	// Dialect is the one that is configured for the server, with which the bridge
	// opens it. Nil finds out.
	Dialect *dialect.Profile

	// Secrets are not shown in evidence.
	Secrets []string
}

// Child is a server that was started, whose streams are read and written as they
// are.
type Child interface {
	// Streams returns its standard output and input. Reading ends when the server or
	// Stop does.
	Streams() (from io.Reader, to io.WriteCloser)
	// Stop ends it, waits for that and unblocks whoever reads or writes.
	Stop()
	// Epitaph says how it ended and what it said last on standard error, "" when it
	// has not ended.
	Epitaph() string
}

// Command returns what starts a command. The specification's spec is taken as it
// is.
func Command(spec stdio.Spec) func(context.Context) (Child, error) {
	return func(ctx context.Context) (Child, error) {
		p, err := stdio.Start(ctx, spec)
		if err != nil {
			return nil, err
		}
		return process{p}, nil
	}
}

type process struct{ *stdio.Process }

func (p process) Streams() (io.Reader, io.WriteCloser) { return p.Raw() }

// endingTime is how long a server may take to end once we have closed its input.
const endingTime = time.Second

func (p process) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), endingTime)
	defer cancel()
	_ = p.Process.Stop(ctx)
}

func (p process) Epitaph() string {
	select {
	case <-p.Exited():
	case <-time.After(endingTime): // its output has ended, and it soon will
	}
	s := p.ExitText()
	if s == "" {
		s = "it closed its output and lives"
	}
	if lines := p.StderrTail(3); len(lines) > 0 {
		s += "; its stderr said: " + strings.Join(lines, " | ")
	}
	return s
}
