// Package toolstest is for the tests of the built-in servers: it connects a client to a server, and
// calls the server's tools.
//
// Connect starts one goroutine, which serves the client until the test ends. A Rig fails its test
// if a call does not end as expected. Each server's tests embed a Rig in a type of their own, which
// adds what they look at.
package toolstest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Args are the arguments of a tool.
type Args = map[string]any

// Rig calls the tools of a server.
type Rig struct {
	T      *testing.T
	Client *mcp.ClientSession
}

// Connect serves a client of one revision until the test ends. The revision "" means the newest.
func Connect(t *testing.T, serve func(context.Context, io.Reader, io.Writer) error, revision string, o *mcp.ClientOptions) Rig {
	t.Helper()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	var running sync.WaitGroup
	running.Go(func() {
		if err := serve(context.Background(), inRead, outWrite); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Serve: %v", err)
		}
		_ = outWrite.Close()
	})
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(),
		&mcp.IOTransport{Reader: outRead, Writer: inWrite, MaxLineLength: -1}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = inWrite.Close()
		running.Wait()
	})
	return Rig{t, c}
}

// Call calls a tool and returns its text, and whether it failed. If out is not nil, it gets the
// structured result.
func (r *Rig) Call(name string, a Args, out any) (text string, failed bool) {
	r.T.Helper()
	res, err := r.Client.CallTool(r.T.Context(), &mcp.CallToolParams{Name: name, Arguments: a})
	if err != nil {
		r.T.Errorf("%s %v: %v", name, a, err)
		return err.Error(), true
	}
	var all []string
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			all = append(all, t.Text)
		}
	}
	if out != nil && !res.IsError {
		b, _ := json.Marshal(res.StructuredContent)
		if err := json.Unmarshal(b, out); err != nil {
			r.T.Errorf("%s: %v", name, err)
		}
	}
	return strings.Join(all, "\n"), res.IsError
}

// OK calls a tool that must succeed, and returns its text.
func (r *Rig) OK(name string, a Args, out any) string {
	r.T.Helper()
	text, failed := r.Call(name, a, out)
	if failed {
		r.T.Fatalf("%s %v failed: %s", name, a, text)
	}
	return text
}

// Refused calls a tool that must fail with an error that contains the text want and a next step.
func (r *Rig) Refused(name string, a Args, want string) {
	r.T.Helper()
	text, failed := r.Call(name, a, nil)
	if !failed || !strings.Contains(text, want) {
		r.T.Errorf("%s %v: got %q (failed: %v), want an error with %q", name, a, text, failed, want)
	}
	if strings.Count(text, ". ") < 1 && !strings.HasPrefix(text, "validating ") { // the SDK's own error for wrong arguments has no next step
		r.T.Errorf("%s %v: the error has no next step: %q", name, a, text)
	}
}
