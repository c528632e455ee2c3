package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/workbench/matrix"
)

// eventsVar is the environment variable with the file to which eventsBackend writes events.
const eventsVar = "DRAGOMAN_TEST_EVENTS"

// eventLine is an event as a line of JSON.
type eventLine struct {
	Kind, Level, Time      string
	Took                   int64 // the duration in nanoseconds
	Who, Project, Server   string
	Method, Name, From, To string
	Outcome                string
	Code                   int64
	In, Out                int
	Call                   uint64
	Trace, Detail          string
}

// eventsBackend returns Daemon with one more subscriber to events. It writes every event to
// the file that eventsVar names, as a line of JSON.
func eventsBackend() Backend {
	b := Daemon()
	b.Run = func(ctx context.Context, o daemon.RunOptions) (err error) {
		f, err := os.Create(os.Getenv(eventsVar))
		if err != nil {
			return err
		}
		events := &event.Publisher{}
		q := events.Subscribe(event.All, 4096)
		var writing sync.WaitGroup
		var missed error
		writing.Go(func() { missed = writeEvents(f, q) })
		defer func() {
			q.Close()
			writing.Wait()
			err = errors.Join(err, missed, f.Close())
		}()
		o.Events = events
		return daemon.Run(ctx, o)
	}
	return b
}

// writeEvents writes the events of q to w until q is closed.
func writeEvents(w io.Writer, q *event.Queue) error {
	out := json.NewEncoder(w)
	buf := make([]event.Event, 64)
	for q.Wait(context.Background()) == nil {
		n, lost := q.Take(buf)
		if lost > 0 {
			return fmt.Errorf("%d events were lost", lost)
		}
		for _, e := range buf[:n] {
			if err := out.Encode(eventLine{
				Kind: e.Kind.String(), Level: e.Level.String(), Time: e.Time.Format("15:04:05.000000"), Took: int64(e.Took),
				Who: e.Who.Key(), Project: e.Project, Server: e.Server, Method: e.Method, Name: e.Name,
				From: e.From.String(), To: e.To.String(), Outcome: string(e.Outcome), Code: e.Code, In: e.In, Out: e.Out,
				Call: e.Call, Trace: e.Trace, Detail: e.Detail,
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// matrixCall is a client's request and its outcome.
type matrixCall struct{ method, name, outcome string }

// unanswered is the outcome of a request that the client cancelled, or that was still running
// at the end.
const unanswered = "unanswered"

// TestEventsOfTheMatrix runs the matrix between peers of both eras over all transports. The
// events of each Dragoman are written as lines of JSON. The test rebuilds the calls and their
// outcomes from these events alone, and compares them with the records of the clients.
func TestEventsOfTheMatrix(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs dozens of sessions")
	}
	dir := t.TempDir()
	at := func(p matrix.Pair, what string) string {
		return filepath.Join(dir, strings.ReplaceAll(p.String(), " ", "_")+what)
	}
	var mu sync.Mutex
	captured := map[matrix.Pair]*bytes.Buffer{}
	revisions := []mcp.Revision{mcp.R20241105, mcp.R20251125, mcp.R20260728} // the revision with HTTP+SSE, and the newest revision of each era
	r, err := matrix.Run(t.Context(), matrix.Options{
		Program: []string{"dragoman-events"}, Through: true,
		Filter: matrix.Filter{Clients: revisions, Servers: revisions},
		Env:    func(p matrix.Pair) []string { return []string{eventsVar + "=" + at(p, ".jsonl")} },
		Capture: func(p matrix.Pair) io.Writer {
			mu.Lock()
			defer mu.Unlock()
			captured[p] = &bytes.Buffer{}
			return captured[p]
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cells {
		if c.Outcome == matrix.Fails {
			t.Errorf("%s, %s: %s", c.Pair, c.Feature, c.Reason)
		}
	}
	if len(captured) != 36 {
		t.Errorf("%d conversations, want 6 clients with 6 servers", len(captured))
	}
	total := 0
	for p, b := range captured {
		text, err := os.ReadFile(at(p, ".jsonl"))
		if err != nil {
			t.Error(err)
			continue
		}
		want := recorded(t, b.Bytes())
		got := rebuilt(t, p, text)
		if why := differ(want, got); why != "" {
			t.Errorf("%s: %s", p, why)
		}
		if len(got) < 40 {
			t.Errorf("%s: only %d calls", p, len(got))
		}
		total += len(got)
	}
	t.Logf("%d calls in %d conversations", total, len(captured))
}

// rebuilt returns the calls of a conversation, read from its events.
func rebuilt(t *testing.T, p matrix.Pair, text []byte) (all []matrixCall) {
	t.Helper()
	calls, asked := map[uint64]bool{}, map[uint64]int{}
	parked := map[uint64]int{} // how often each call was parked; calls that have ended are deleted
	for line := range bytes.Lines(text) {
		var e eventLine
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Kind == event.ServerRequest.String() {
			asked[e.Call]++
			if e.Method == "" || e.Took <= 0 || e.Server == "" {
				t.Errorf("%s: %s", p, line)
			}
		}
		if e.Kind != event.Call.String() {
			continue
		}
		calls[e.Call] = true
		if e.From != p.Client.String() || e.To != p.Server.String() && e.Outcome == "ok" && e.To != mcp.Unknown.String() ||
			e.Project != event.DefaultProject || e.Server == "" || e.Call == 0 || e.In == 0 || e.Took <= 0 {
			t.Errorf("%s: %s", p, line)
		}
		if e.Outcome == "parked" {
			parked[e.Call]++
		} else if parked[e.Call] > 0 {
			delete(parked, e.Call)
		}
		c := matrixCall{e.Method, e.Name, e.Outcome}
		if e.Code != 0 {
			c.outcome = fmt.Sprint(e.Code)
		}
		all = append(all, c)
	}
	for call, n := range asked {
		if call != 0 && !calls[call] {
			t.Errorf("%s: %d requests of the server belong to call %d, which no client made", p, n, call)
		}
	}
	if !(p.Client.Modern() && p.Server.Modern()) && len(asked) == 0 {
		t.Errorf("%s: the server sent no request to the client", p)
	}
	if p.Server.Legacy() && len(parked) > 0 {
		t.Errorf("%s: these calls were parked, and no retry continues them: %v", p, parked)
	}
	return all
}

// recorded returns the calls of a conversation, read from the record of its client.
func recorded(t *testing.T, text []byte) (all []matrixCall) {
	t.Helper()
	place := map[string]int{} // index in all, by the id of the request
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var x struct {
			Capture struct {
				Direction string
				Payload   struct {
					ID     json.RawMessage
					Method string
					Params struct {
						Name, URI, TaskID string
						Ref               struct{ Name, URI string } // what a completion is for
					}
					Result *struct {
						ResultType string
						IsError    bool
					}
					Error *struct{ Code int64 }
				}
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		m := x.Capture.Payload
		id := string(m.ID)
		switch request := x.Capture.Direction == "request"; {
		case request && m.Method != "" && m.ID != nil:
			switch m.Method {
			case mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing:
				continue
			}
			place[id] = len(all)
			x := m.Params
			all = append(all, matrixCall{m.Method, x.Name + x.URI + x.TaskID + x.Ref.Name + x.Ref.URI, unanswered})
		case !request && m.Method == "":
			at, ok := place[id]
			if !ok {
				continue
			}
			switch {
			case m.Error != nil:
				all[at].outcome = fmt.Sprint(m.Error.Code)
			case m.Result != nil && m.Result.ResultType == mcp.ResultInputRequired:
				all[at].outcome = "parked"
			case m.Result != nil && m.Result.IsError:
				all[at].outcome = "tool_error"
			case m.Result != nil:
				all[at].outcome = "ok"
			}
		}
	}
	return all
}

// differ describes how two lists of calls differ. It returns "" if they are the same. The order
// does not matter. For an unanswered call, the outcome does not matter.
func differ(want, got []matrixCall) string {
	got = slices.Clone(got)
	var missing []matrixCall
	take := func(same func(matrixCall) bool) bool {
		i := slices.IndexFunc(got, same)
		if i >= 0 {
			got = slices.Delete(got, i, i+1)
		}
		return i >= 0
	}
	sameName := func(a, b matrixCall) bool {
		// A task has one id at its server and another at the client.
		return a.method == b.method && (a.name == b.name || strings.HasPrefix(a.method, "tasks/"))
	}
	for _, w := range want {
		if w.outcome != unanswered && !take(func(g matrixCall) bool { return sameName(w, g) && w.outcome == g.outcome }) {
			missing = append(missing, w)
		}
	}
	for _, w := range want {
		if w.outcome == unanswered && !take(func(g matrixCall) bool { return sameName(w, g) }) {
			missing = append(missing, w)
		}
	}
	if len(missing) == 0 && len(got) == 0 {
		return ""
	}
	return fmt.Sprintf("the events lack %v and have %v", missing, got)
}
