package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestHealthShowsTemplatesApart checks how the table of list shows the numbers of resources and
// templates.
func TestHealthShowsTemplatesApart(t *testing.T) {
	for want, counts := range map[string]map[string]int{
		"-": {}, "3": {"resources": 3, "templates": 0}, "3 + 2": {"resources": 3, "templates": 2}, "0 + 1": {"resources": 0, "templates": 1},
	} {
		h := health{Name: "s", State: stateReady, Counts: counts}
		if got := h.cells()[6].Text; got != want {
			t.Errorf("%v: %q, want %q", counts, got, want)
		}
	}
}

// openSession is a session with a server that is open. Its lists have no items, unless list returns an
// error.
type openSession struct {
	Session
	list func(ctx context.Context, kind string) error
}

func (s *openSession) Describe(context.Context) (runtime.Description, error) {
	return runtime.Description{Revision: mcp.LatestLegacy, Transport: "stdio", Capabilities: []byte(`{"tools":{},"prompts":{}}`)}, nil
}

func (s *openSession) List(ctx context.Context, kind string) (runtime.List, error) {
	return runtime.List{}, s.list(ctx, kind)
}

func (s *openSession) Close() error { return nil }

// TestHealthOfAnOpenServer examines servers that are open, but whose list of tools cannot be read. They
// are ready, and the reason is about the list. A server that has exited is not open any more.
func TestHealthOfAnOpenServer(t *testing.T) {
	failing := func(c failure.Class, why string) func(context.Context, string) error {
		return func(_ context.Context, kind string) error {
			if kind != "tools" {
				return nil
			}
			return &mcp.Error{Message: why, Failure: &failure.Failure{Class: c, Sentence: why}}
		}
	}
	for name, x := range map[string]struct {
		list        func(context.Context, string) error
		state, note string
	}{
		"refuses": {failing(failure.Rejected, "database is locked"), stateReady, "open, but its list of tools fails: database is locked"},
		"hangs":   {func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }, stateReady, `open, but its list of tools fails: server "s" did not answer tools/list within 5s`},
		"exits":   {failing(failure.Exited, "no licence"), stateFailed, "    no licence"},
		"works":   {func(context.Context, string) error { return nil }, stateReady, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &listCommand{client: client{world: &world{backend: Backend{Connect: func(context.Context, daemon.ConnectOptions) (Session, error) { return &openSession{list: x.list}, nil }}}}}
				var h health
				c.examineOne(t.Context(), config.Server{Name: "s"}, nil, 5*time.Second, func(got health) { h = got })
				if note := h.notes(500); h.State != x.state || !strings.Contains(note, x.note) || x.note == "" && note != "" {
					t.Errorf("the server is %s: %s", h.State, note)
				}
			})
		})
	}
}

// TestNoteOfAnOpenServer checks that the status says the same of such a server.
func TestNoteOfAnOpenServer(t *testing.T) {
	for want, l := range map[string]admin.List{
		"":                                       {Method: mcp.MethodListTools, ReadAt: &noon},
		"open, but tools/list fails: no licence": {Method: mcp.MethodListTools, Failed: "no licence", ReadAt: &noon},
		"open, but has not answered tools/list yet": {Method: mcp.MethodListTools, Reading: true},
	} {
		if got := noteOf(&admin.Server{State: "ready", Lists: []admin.List{l}}, noon); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	gone := admin.Server{State: "failed", Reason: "no licence", Lists: []admin.List{{Method: mcp.MethodListTools, Failed: "no licence"}}}
	if got := noteOf(&gone, noon); got != "no licence" {
		t.Errorf("%s", got)
	}
}

// TestHealthBehindServe checks that the table shows the state that a running serve process gives a server,
// and that it waits for a server as long as the server may take to start.
func TestHealthBehindServe(t *testing.T) {
	late, cancel := context.WithTimeoutCause(t.Context(), 0, timeoutError{30 * time.Second})
	defer cancel()
	for state, want := range map[string]string{"starting": "starting", "stopped": "stopped", "unresponsive": "unresponsive", "failed": "failed", "ready": "failed", "idle": "failed"} {
		got := health{Name: "s"}.broken(late, errors.New("no answer"), &serveReport{State: state, Since: time.Now(), Reason: "because"})
		if got.State != want || (got.Failure == nil) != (state == "starting") || (got.Reason != "") != (state == "starting") {
			t.Errorf("%s in serve: %+v", state, got)
		}
	}
	c := &listCommand{}
	for start, want := range map[time.Duration]time.Duration{time.Second: healthTime, config.RunnerStart: config.RunnerStart} {
		if got := c.limitOf(config.Server{StartTimeout: start}); got != want {
			t.Errorf("a server that may take %s to start gets %s", start, got)
		}
	}
	c.timeout = time.Second
	if got := c.limitOf(config.Server{StartTimeout: config.RunnerStart}); got != time.Second {
		t.Errorf("--timeout 1s, but a server gets %s", got)
	}
}
