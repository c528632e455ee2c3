package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
)

// The eras of a server. One of both follows its client. One that lists only the
// modern revision answers initialize all the same, in both SDKs; one that is only
// modern refuses it.
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

// sdk is one code base, as client and as server.
type sdk interface {
	// connect opens a conversation at a place, in one revision of the protocol, or
	// as the SDK likes it when that is "".
	connect(ctx context.Context, at place, revision string) (client, error)
	// serveHTTP returns a server on Streamable HTTP or HTTP+SSE; close ends its
	// sessions.
	serveHTTP(era, transport string, wit observer) (h http.Handler, close func())
	// serveStdio is a server on the process's standard streams until they end.
	serveStdio(era string, wit observer) error
}

var sdks = map[string]sdk{"go-sdk": goSDK{}, "mcp-go": mcpGo{}, "strict": strictPeer{}}

// place is where a client finds a server: one of its three ways is set.
type place struct {
	transport string
	url       string
	command   func() *exec.Cmd
	in        io.ReadCloser // what the server writes
	out       io.WriteCloser
}

// client is what the steps need of an SDK's client.
type client interface {
	revision() string   // that was agreed on
	serverName() string // as the server introduced itself
	tools(ctx context.Context) ([]string, error)
	// call calls a tool. onProgress may be nil; it hears progress and the token
	// that came with it is checked against the one that was sent.
	call(ctx context.Context, tool string, args map[string]any, onProgress func(float64)) (*result, error)
	resources(ctx context.Context) ([]string, error)
	templates(ctx context.Context) ([]string, error)
	read(ctx context.Context, uri string) (text string, blob []byte, err error)
	prompts(ctx context.Context) ([]string, error)
	prompt(ctx context.Context, name string, args map[string]string) (string, error)
	complete(ctx context.Context, prompt, argument, value string) ([]string, error)
	close() error
}

// result is what a tool returned.
type result struct {
	text       string
	structured string // JSON
	isError    bool
}

// wireError is an error answer, of whichever SDK.
type wireError struct {
	code int64
	err  error
}

func (e *wireError) Error() string { return fmt.Sprintf("%d: %v", e.code, e.err) }
func (e *wireError) Unwrap() error { return e.err }

// What servers offer, and what clients answer when they are asked.
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

// completions are the people whose names begin with prefix.
func completions(prefix string) []string {
	return slices.DeleteFunc(slices.Clone(people), func(s string) bool {
		return len(s) < len(prefix) || s[:len(prefix)] != prefix
	})
}

// versions are the revisions that a server of an era lists, newest first; nil
// leaves that to the SDK.
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
