package interop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// TestFakes connects two independent clients to the strict servers. A server of each revision must
// have all features that the clients expect. The servers must record no violations by the clients,
// except those in sdkBreaks.
func TestFakes(t *testing.T) {
	for _, rev := range slices.Backward(mcp.Revisions()) {
		transports := []string{pipe, stream}
		if !rev.Can(mcp.StreamableHTTP) {
			transports = []string{pipe, events}
		} else if rev.Can(mcp.Handshake) {
			transports = append(transports, events)
		}
		for _, sdk := range []string{"go-sdk", "mcp-go"} {
			for _, tr := range transports {
				t.Run(sdk+"/"+rev.String()+"/"+tr, func(t *testing.T) {
					t.Parallel()
					judge(t, sdk, rev, tr)
				})
			}
		}
	}
}

// sdkBreaks maps each SDK to texts of the violations that the SDK is known to cause.
var sdkBreaks = map[string][]string{
	"go-sdk": {"notifications/cancelled: not allowed over Streamable HTTP"},
	// The SDK may open the stream before it has stored the negotiated version.
	"mcp-go": {`HTTP GET: MCP-Protocol-Version is ""`},
}

func judge(t *testing.T, sdk string, rev mcp.Revision, transport string) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*stepLimit)
	defer cancel()
	s, err := fake.NewServer("strict-"+rev.String(), fake.Options{Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	at := place{transport: transport}
	switch transport {
	case pipe:
		in, out := io.Pipe()
		back, answers := io.Pipe()
		at.in, at.out = back, out
		served := make(chan error, 1)
		go func() { served <- s.ServePipe(ctx, in, answers) }() // the test waits for it below
		defer func() {
			_ = out.Close()
			_ = back.Close()
			<-served
		}()
	default:
		h := httptest.NewServer(s.Handler())
		defer h.Close()
		defer func() { _ = s.Close() }()
		at.url = h.URL + "/mcp"
		if transport == events {
			at.url = h.URL + "/sse"
		}
	}
	c, err := sdks[sdk].connect(ctx, at, rev.String())
	if err != nil {
		t.Fatalf("connect: %v\nviolations: %q", err, s.Violations())
	}
	defer func() { _ = c.close() }()
	if c.revision() != rev.String() {
		t.Errorf("the client agreed on %s", c.revision())
	}
	for _, step := range fakeSteps {
		if step.needs != nil && !rev.Can(*step.needs) || limitOf(row{sdk, rev.String(), transport}, column{}, step.limit) != nil {
			continue
		}
		if err := step.run(ctx, c); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
	for _, v := range s.Violations() {
		if !slices.ContainsFunc(sdkBreaks[sdk], func(part string) bool { return strings.Contains(v, part) }) {
			t.Errorf("violation: %s", v)
		}
	}
}

func says(tool string, args map[string]any, want string) func(context.Context, client) error {
	return func(ctx context.Context, c client) error {
		r, err := c.call(ctx, tool, args, nil)
		if err != nil {
			return err
		}
		if r.isError {
			return fmt.Errorf("an error: %s", r.text)
		}
		return same("text", r.text, want)
	}
}

func has(all []string, want ...string) error {
	for _, w := range want {
		if !slices.Contains(all, w) {
			return fmt.Errorf("%s is not among %q", w, all)
		}
	}
	return nil
}

// noArgs are empty arguments. For a nil map, mcp-go sends null.
var noArgs = map[string]any{}

func can(f mcp.Feature) *mcp.Feature { return &f }

var fakeSteps = []struct {
	name  string
	limit string // the name of the corresponding step in limits
	needs *mcp.Feature
	run   func(context.Context, client) error
}{
	{"tools", "", nil, func(ctx context.Context, c client) error {
		names, err := c.tools(ctx)
		return errors.Join(err, has(names, "add", "echo", "wait"))
	}},
	{"echo", "", nil, says("echo", map[string]any{"text": noteText}, noteText)},
	{"count", "", nil, says("count", noArgs, "1")},
	{"count again", "", nil, says("count", noArgs, "2")},
	{"fail", "", nil, func(ctx context.Context, c client) error {
		r, err := c.call(ctx, "fail", noArgs, nil)
		if err == nil && !r.isError {
			err = errors.New("no error")
		}
		return err
	}},
	{"refuse", "", nil, func(ctx context.Context, c client) error {
		_, err := c.call(ctx, "refuse", noArgs, nil)
		var e *wireError
		if !errors.As(err, &e) || e.code != -32602 {
			return fmt.Errorf("want -32602, got %w", orNone(err))
		}
		return nil
	}},
	{"resources", "", nil, func(ctx context.Context, c client) error {
		uris, err := c.resources(ctx)
		if err := errors.Join(err, has(uris, "fake://text")); err != nil {
			return err
		}
		uris, err = c.templates(ctx)
		if err := errors.Join(err, has(uris, "fake://items/{id}")); err != nil {
			return err
		}
		text, _, err := c.read(ctx, "fake://items/3")
		return errors.Join(err, same("text", text, "item 3"))
	}},
	{"no resource", "", nil, func(ctx context.Context, c client) error {
		_, _, err := c.read(ctx, "fake://nothing")
		var e *wireError
		if !errors.As(err, &e) || e.code != -32002 && e.code != -32602 {
			return fmt.Errorf("want an error answer, got %w", orNone(err))
		}
		return nil
	}},
	{"prompts", "", nil, func(ctx context.Context, c client) error {
		names, err := c.prompts(ctx)
		if err := errors.Join(err, has(names, "greet", "media")); err != nil {
			return err
		}
		text, err := c.prompt(ctx, "greet", map[string]string{"name": "Zoë"})
		return errors.Join(err, same("prompt", text, "Say hello to Zoë."))
	}},
	{"complete", "", can(mcp.Completions), func(ctx context.Context, c client) error {
		values, err := c.complete(ctx, "greet", "name", "a")
		return errors.Join(err, same("values", values, []string{"ada", "alan"}))
	}},
	{"progress", "", nil, func(ctx context.Context, c client) error {
		heard := make(chan float64, 10)
		r, err := c.call(ctx, "wait", map[string]any{"steps": 3, "ms": 1}, func(p float64) { heard <- p })
		if err != nil {
			return err
		}
		for want := range 3 {
			select {
			case p := <-heard:
				if p != float64(want+1) {
					return fmt.Errorf("progress %v, want %d", p, want+1)
				}
			case <-time.After(stepLimit):
				return fmt.Errorf("no progress %d", want+1)
			}
		}
		return same("text", r.text, "waited")
	}},
	{"sample", "model", nil, says("sample", map[string]any{"prompt": "What?"}, sampleAnswer)},
	{"roots", "roots", nil, says("roots", noArgs, rootURI)},
	{"elicit", "form", can(mcp.Elicitation), says("elicit", noArgs, "accept "+formAnswer)},
	{"ask_twice", "model", nil, says("ask_twice", noArgs, sampleAnswer+"; "+sampleAnswer)},
	{"ask_all", "roots", can(mcp.Elicitation), says("ask_all", noArgs, sampleAnswer+"; accept "+formAnswer+"; "+rootURI)},
	{"cancel", "cancel", nil, func(ctx context.Context, c client) error {
		calling, cancel := context.WithTimeout(ctx, stepLimit)
		defer cancel()
		// The first progress notification shows that the server has got the call.
		if _, err := c.call(calling, "wait", map[string]any{"steps": 1000, "ms": 50}, func(float64) { cancel() }); err == nil {
			return errors.New("a call that was given up returned")
		}
		limit := time.Now().Add(stepLimit)
		for {
			r, err := c.call(ctx, "cancelled", noArgs, nil)
			if err != nil {
				return err
			}
			if r.text == "1" || time.Now().After(limit) {
				return same("waits that were cancelled", r.text, "1")
			}
		}
	}},
}
