package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
)

// The eras of a server. A server of both eras uses the era of its client. In both SDKs, a
// server that lists only the modern revision still answers initialize. A server with
// onlyModern refuses initialize.
const (
	modern     = "2026-07-28"
	onlyModern = "2026only"
	legacy     = "2025-11-25"
	both       = "both"
)

// The transports.
const (
	pipe   = "stdio"
	stream = "http"
	events = "sse"
)

// sdk is one SDK, as client and as server.
type sdk interface {
	// connect opens a session at a place, in one revision of the protocol. If the revision is
	// "", the SDK chooses.
	connect(ctx context.Context, at place, revision string) (client, error)
	// serveHTTP returns a server over Streamable HTTP or HTTP+SSE. close ends its sessions.
	serveHTTP(era, transport string, wit observer) (h http.Handler, close func())
	// serveStdio runs a server on stdin and stdout until stdin ends.
	serveStdio(era string, wit observer) error
}

var sdks = map[string]sdk{"go-sdk": goSDK{}, "mcp-go": mcpGo{}, "strict": strictPeer{}}

// place says how a client reaches a server. Exactly one of these is set: url, command, or in and
// out together.
type place struct {
	transport string
	url       string
	command   func() *exec.Cmd
	in        io.ReadCloser // the output of the server
	out       io.WriteCloser
}

// client has the functions of an SDK's client that the steps need.
type client interface {
	revision() string   // the negotiated revision
	serverName() string // the name from the server's description of itself
	tools(ctx context.Context) ([]string, error)
	// call calls a tool. If onProgress is not nil, call sends a progress token and passes the
	// progress of the call to onProgress.
	call(ctx context.Context, tool string, args map[string]any, onProgress func(float64)) (*result, error)
	resources(ctx context.Context) ([]string, error)
	templates(ctx context.Context) ([]string, error)
	read(ctx context.Context, uri string) (text string, blob []byte, err error)
	prompts(ctx context.Context) ([]string, error)
	prompt(ctx context.Context, name string, args map[string]string) (string, error)
	complete(ctx context.Context, prompt, argument, value string) ([]string, error)
	close() error
}

// result is the result of a tool.
type result struct {
	text       string
	structured string // the structured content as JSON
	isError    bool
}

// wireError is an error response, from any SDK.
type wireError struct {
	code int64
	err  error
}

func (e *wireError) Error() string { return fmt.Sprintf("%d: %v", e.code, e.err) }
func (e *wireError) Unwrap() error { return e.err }

// The names and texts of the servers, and the answers of the clients to questions.
const (
	noteURI      = "test://note"
	noteText     = "grüße, 世界 \u2028 & <tags>"
	blobURI      = "test://blob"
	templateURI  = "test://item/{id}"
	formAnswer   = "Ada"
	sampleAnswer = "forty-two"
	rootURI      = "file:///interop"
)

var (
	toolNames = []string{"ask-form", "ask-model", "ask-roots", "count", "echo", "fail", "wait"}
	blobBytes = []byte{0, 1, 2, 0xfe, 0xff}
	people    = []string{"Ada", "Adele", "Alan", "Grace"}
)

// completions returns the names of people that begin with prefix.
func completions(prefix string) []string {
	return slices.DeleteFunc(slices.Clone(people), func(s string) bool {
		return len(s) < len(prefix) || s[:len(prefix)] != prefix
	})
}

// versions returns the revisions that a server of an era lists, newest first. Nil means that
// the SDK chooses.
func versions(era string) []string {
	all := []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
	switch era {
	case both:
		return nil
	case modern, onlyModern:
		return []string{modern}
	}
	return all[slices.Index(all, era):]
}
