package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// stepLimit is the timeout of one step. A step that succeeds needs much less time.
const stepLimit = 15 * time.Second

// trial is one client connected to one server, through Dragoman or directly.
type trial struct {
	client client
	wit    *witness
	key    string // the prefix of the names of the trial's events
	row    row
	col    column
	direct bool // the connection does not go through Dragoman
}

// step is one action of a client, with a check of the result.
type step struct {
	name string
	// needs are features that both ends must have for the step.
	needs []mcp.Feature
	run   func(ctx context.Context, t *trial) error
}

// steps are in the order in which they are run.
var steps = []step{
	{name: "greeting", run: greeting},
	{name: "tools", run: listTools},
	{name: "call", run: callTool},
	{name: "progress", run: hearProgress},
	{name: "tool-error", run: toolError},
	{name: "resources", run: resources},
	{name: "no-resource", run: missingResource},
	{name: "prompts", run: prompts},
	{name: "completion", run: complete},
	{name: "unknown-tool", run: unknownTool},
	{name: "form", needs: []mcp.Feature{mcp.Elicitation}, run: asks("ask-form", "accept "+formAnswer)},
	{name: "model", run: asks("ask-model", sampleAnswer)},
	{name: "roots", run: asks("ask-roots", rootURI)},
	{name: "cancel", run: cancelCall},
	{name: "after", run: callTool},
}

// applies reports whether a step can be run between a client and a server.
func (s *step) applies(r row, c column) bool {
	for _, date := range []string{r.revision, c.era} {
		if date == onlyModern {
			date = modern
		}
		rev, known := mcp.ParseRevision(date)
		for _, f := range s.needs {
			if known && !rev.Can(f) {
				return false
			}
		}
	}
	return true
}

func same[T any](what string, got, want T) error {
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if !bytes.Equal(g, w) {
		return fmt.Errorf("%s: got %s, want %s", what, g, w)
	}
	return nil
}

func greeting(_ context.Context, t *trial) error {
	if t.row.revision != "" && t.client.revision() != t.row.revision && !t.direct {
		return fmt.Errorf("the client was told %s", t.client.revision())
	}
	return same("name of the server", t.client.serverName(), t.col.sdk+"-server")
}

func listTools(ctx context.Context, t *trial) error {
	names, err := t.client.tools(ctx)
	slices.Sort(names)
	return errors.Join(err, same("tools", names, toolNames))
}

func callTool(ctx context.Context, t *trial) error {
	args := map[string]any{
		"text": noteText, "nested": map[string]any{"list": []any{nil, true, "x"}, "": map[string]any{}}, "number": 1.5,
		"big": json.Number("12345678901234567890"),
	}
	r, err := t.client.call(ctx, "echo", args, nil)
	if err != nil {
		return err
	}
	var back any
	d := json.NewDecoder(bytes.NewReader([]byte(r.text)))
	d.UseNumber()
	if err := d.Decode(&back); err != nil {
		return fmt.Errorf("the arguments came back as %q", r.text)
	}
	if err := same[any]("arguments", back, args); err != nil {
		return err
	}
	var seen struct{ Revision string }
	if err := json.Unmarshal([]byte(r.structured), &seen); err != nil {
		return fmt.Errorf("structured content is %s", r.structured)
	}
	want := t.spoken()
	if t.col.sdk == "go-sdk" && want != modern && want != "" && seen.Revision != modern {
		return nil // the SDK reports the offered version, and not the negotiated one
	}
	if want != "" && seen.Revision != want {
		return fmt.Errorf("the server was spoken to in %s, want %s", seen.Revision, want)
	}
	return nil
}

// spoken returns the revision in which Dragoman must contact the server. It returns "" if several
// are possible.
func (t *trial) spoken() string {
	switch era := t.col.era; {
	case t.direct:
		return ""
	case era == onlyModern:
		return modern
	case era != both && era != modern:
		return era
	case t.row.revision == "":
		return ""
	case t.row.revision == modern:
		return modern
	case era == both:
		return legacy // with a server of both eras, Dragoman uses the era of the client
	}
	return ""
}

func hearProgress(ctx context.Context, t *trial) error {
	// The tool continues only after the client has got its last progress notification.
	r, err := t.client.call(ctx, "count", map[string]any{"key": t.key}, func(p float64) {
		t.wit.saw(fmt.Sprint("heard ", t.key, p))
	})
	if err != nil {
		return err
	}
	return same("result", r.text, "counted")
}

func toolError(ctx context.Context, t *trial) error {
	r, err := t.client.call(ctx, "fail", nil, nil)
	if err != nil {
		return err
	}
	if !r.isError {
		return errors.New("the result does not say that it is an error")
	}
	return same("result", r.text, "no luck")
}

func resources(ctx context.Context, t *trial) error {
	uris, err := t.client.resources(ctx)
	slices.Sort(uris)
	if err := errors.Join(err, same("resources", uris, []string{blobURI, noteURI})); err != nil {
		return err
	}
	uris, err = t.client.templates(ctx)
	if err := errors.Join(err, same("templates", uris, []string{templateURI})); err != nil {
		return err
	}
	text, _, err := t.client.read(ctx, noteURI)
	if err := errors.Join(err, same("note", text, noteText)); err != nil {
		return err
	}
	_, blob, err := t.client.read(ctx, blobURI)
	if err := errors.Join(err, same("blob", blob, blobBytes)); err != nil {
		return err
	}
	text, _, err = t.client.read(ctx, "test://item/7")
	return errors.Join(err, same("item", text, "item test://item/7"))
}

// missingResource expects the error code for a missing resource in the client's revision:
// -32002 in the legacy revisions, -32602 since 2026-07-28 (§Resources, "Error Handling"). Between
// the eras, Dragoman must translate the code.
func missingResource(ctx context.Context, t *trial) error {
	_, _, err := t.client.read(ctx, "test://missing")
	var e *wireError
	if !errors.As(err, &e) {
		return fmt.Errorf("want an error answer, got %w", orNone(err))
	}
	if e.code != -32002 && e.code != -32602 {
		return e
	}
	if t.client.revision() == modern && e.code != -32602 {
		return fmt.Errorf("a modern client was told %d", e.code)
	}
	return nil
}

var errNone = errors.New("none")

func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

func prompts(ctx context.Context, t *trial) error {
	names, err := t.client.prompts(ctx)
	if err := errors.Join(err, same("prompts", names, []string{"greet"})); err != nil {
		return err
	}
	text, err := t.client.prompt(ctx, "greet", map[string]string{"name": "Zoë"})
	return errors.Join(err, same("prompt", text, "Greet Zoë"))
}

func complete(ctx context.Context, t *trial) error {
	values, err := t.client.complete(ctx, "greet", "name", "Ad")
	return errors.Join(err, same("completions", values, []string{"Ada", "Adele"}))
}

func unknownTool(ctx context.Context, t *trial) error {
	r, err := t.client.call(ctx, "no-such-tool", nil, nil)
	var e *wireError
	if !errors.As(err, &e) {
		return fmt.Errorf("want an error answer, got %w and %v", orNone(err), r)
	}
	return same("code", e.code, -32602)
}

func asks(tool, want string) func(ctx context.Context, t *trial) error {
	return func(ctx context.Context, t *trial) error {
		key := t.key + " " + tool
		r, err := t.client.call(ctx, tool, map[string]any{"key": key}, nil)
		t.wit.saw("release " + key) // release a server that still waits for the answer
		if err != nil {
			return err
		}
		return same("answer", r.text, want)
	}
}

func cancelCall(ctx context.Context, t *trial) error {
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { // the function waits for done below
		_, err := t.client.call(calling, "wait", map[string]any{"key": t.key}, nil)
		done <- err
	}()
	err := t.wit.await(ctx, "started "+t.key)
	cancel()
	if err == nil {
		err = t.wit.await(ctx, "cancelled "+t.key)
	}
	t.wit.saw("release " + t.key) // release a call that was not cancelled
	return errors.Join(err, func() error {
		if <-done == nil {
			return errors.New("a cancelled call returned a result")
		}
		return nil
	}())
}
