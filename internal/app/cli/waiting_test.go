package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
)

// startingSession is a session with a gateway whose servers are starting. lists has the lists
// that the session returns, each with the time from which the session returns it.
type startingSession struct {
	began time.Time
	lists []listAt
	calls []string
	asked int
}

type listAt struct {
	after time.Duration
	list  runtime.List
	err   error
}

func (s *startingSession) List(context.Context, string) (runtime.List, error) {
	s.asked++
	now := s.lists[0]
	for _, l := range s.lists {
		if time.Since(s.began) >= l.after {
			now = l
		}
	}
	return now.list, now.err
}

func (s *startingSession) Call(_ context.Context, tool string, args []byte, _ func(float64, float64, string)) ([]byte, error) {
	s.calls = append(s.calls, tool+" "+string(args))
	return []byte(`{"content":[]}`), nil
}

func (s *startingSession) Request(context.Context, string, []byte) ([]byte, error) {
	return nil, errors.New("not expected")
}

func (s *startingSession) Describe(context.Context) (runtime.Description, error) {
	return runtime.Description{}, nil
}

func (s *startingSession) Close() error { return nil }

func tools(names ...string) (out [][]byte) {
	for _, n := range names {
		out = append(out, []byte(`{"name":"`+n+`","inputSchema":{"type":"object","properties":{"a":{"type":"integer"}}}}`))
	}
	return out
}

// TestListOfStartingGateway checks how long list waits for starting servers, and that list
// names the servers whose items are missing.
func TestListOfStartingGateway(t *testing.T) {
	never := 1000 * time.Hour
	for name, c := range map[string]struct {
		lists  []listAt
		args   []string
		took   time.Duration // the longest allowed time
		code   error
		out    string // the expected stdout
		said   []string
		silent bool
	}{
		"all are there": {lists: []listAt{{0, runtime.List{Items: tools("x")}, nil}}, out: "x\n", silent: true},
		"nothing there": {lists: []listAt{{0, runtime.List{}, nil}}, said: []string{"h has no tools"}},
		"starts soon": {lists: []listAt{{0, runtime.List{Starting: []string{"slow"}}, nil}, {8 * time.Second, runtime.List{Items: tools("slow__x")}, nil}},
			took: 9 * time.Second, out: "slow__x\n"},
		"a part starts soon": {lists: []listAt{{0, runtime.List{Items: tools("q__x"), Starting: []string{"slow"}}, nil}, {8 * time.Second, runtime.List{Items: tools("q__x", "slow__x")}, nil}},
			took: 9 * time.Second, out: "slow__x\n"},
		"never starts": {lists: []listAt{{0, runtime.List{Starting: []string{"slow", "odd\nname"}}, nil}, {never, runtime.List{}, nil}},
			took: startWait + time.Second, code: errMissing, said: []string{`error: h lists no tools: slow, "odd name" are still starting`, "hint: "}},
		"a part never starts": {lists: []listAt{{0, runtime.List{Items: tools("q__x"), Starting: []string{"slow"}}, nil}, {never, runtime.List{}, nil}},
			took: startWait + time.Second, out: "q__x\n", said: []string{"note: slow is still starting; its tools are missing from the list"}},
		"fails": {lists: []listAt{{0, runtime.List{Failed: []string{"broken"}}, nil}},
			code: errMissing, said: []string{"error: h lists no tools: broken could not be opened"}},
		"a part fails": {lists: []listAt{{0, runtime.List{Items: tools("q__x"), Failed: []string{"broken"}}, nil}},
			out: "q__x\n", said: []string{"note: broken could not be opened; its tools are missing from the list"}},
		"fails while it is waited for": {lists: []listAt{{0, runtime.List{Starting: []string{"slow"}}, nil}, {8 * time.Second, runtime.List{Failed: []string{"slow"}}, nil}},
			took: 9 * time.Second, code: errMissing, said: []string{"slow could not be opened"}},
		"an error later": {lists: []listAt{{0, runtime.List{Starting: []string{"slow"}}, nil}, {8 * time.Second, runtime.List{}, errors.New("gone")}},
			took: 9 * time.Second, said: []string{"error: gone"}},
		"empty, and will change": {lists: []listAt{{0, runtime.List{Changes: true}, nil}, {2 * time.Second, runtime.List{Items: tools("late"), Changes: true}, nil}},
			took: growWait, out: "late\n"},
		"empty, and could change": {lists: []listAt{{0, runtime.List{Changes: true}, nil}},
			took: growWait + time.Second, said: []string{"h has no tools yet, but the list may change"}},
		"json": {lists: []listAt{{0, runtime.List{Starting: []string{"slow"}}, nil}, {never, runtime.List{}, nil}}, args: []string{"--json"},
			took: startWait + time.Second, code: errMissing, out: "[]\n", said: []string{"still starting"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out, said bytes.Buffer
				s := &startingSession{began: time.Now(), lists: c.lists}
				a := &app{world: world{stdout: &out, env: noEnv, status: newStatus(&said, false, noEnv), log: slog.New(slog.DiscardHandler)}}
				list := &listCommand{client: client{world: &a.world}, kind: "tools", asJSON: len(c.args) > 0}
				a.showProgress()
				l, err := list.listWhole(t.Context(), s, "h", "tools", nil)
				if err == nil {
					err = list.printList("h", l)
				}
				a.status.End()
				if took := time.Since(s.began); took > c.took {
					t.Errorf("it took %s", took)
				}
				if c.code != nil && !errors.Is(err, c.code) || c.code == nil && err != nil && c.lists[len(c.lists)-1].err == nil {
					t.Errorf("ended with %v, want %v", err, c.code)
				}
				if err != nil {
					a.printError(err)
				}
				if !strings.Contains(out.String(), c.out) || c.out == "" && out.Len() > 0 {
					t.Errorf("printed %q, want %q", out.String(), c.out)
				}
				for _, want := range c.said {
					if !strings.Contains(said.String(), want) {
						t.Errorf("stderr has %q, want %q", said.String(), want)
					}
				}
				if c.silent && said.Len() > 0 {
					t.Errorf("said %q", said.String())
				}
				if c.took >= noticeAfter+time.Second && !strings.Contains(said.String(), "dragoman: h: waiting for ") {
					t.Errorf("stderr does not say what the command waits for: %q", said.String())
				}
			})
		})
	}
}

// TestCallOfStartingServer checks that call waits for the server that has its tool, to learn
// the types of the arguments. It must not wait for other servers.
func TestCallOfStartingServer(t *testing.T) {
	for name, c := range map[string]struct {
		lists []listAt
		took  time.Duration
		args  string
	}{
		"its server starts": {[]listAt{{0, runtime.List{Starting: []string{"slow", "slower"}}, nil}, {8 * time.Second, runtime.List{Items: tools("slow__x"), Starting: []string{"slower"}}, nil}},
			9 * time.Second, `{"a":1}`},
		"another starts": {[]listAt{{0, runtime.List{Items: tools("slow__x"), Starting: []string{"slower"}}, nil}}, 0, `{"a":1}`},
		"it never comes": {[]listAt{{0, runtime.List{Starting: []string{"slow"}}, nil}}, startWait + time.Second, `{"a":"1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				s := &startingSession{began: time.Now(), lists: c.lists}
				w := &world{env: noEnv, status: newStatus(&said, false, noEnv), log: slog.New(slog.DiscardHandler)}
				x := &toolCall{client: &client{world: w}, session: s, server: "h", name: "slow__x", arguments: []argument{{key: "a", value: "1"}}, check: true, ask: &asker{world: w}}
				if _, err := x.run(t.Context()); err != nil {
					t.Error(err)
				}
				if took := time.Since(s.began); took > c.took {
					t.Errorf("it took %s", took)
				}
				if len(s.calls) != 1 || s.calls[0] != "slow__x "+c.args {
					t.Errorf("called %q", s.calls)
				}
			})
		})
	}
}
