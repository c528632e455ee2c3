package doctor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// census counts the child processes of an examination: all, those running now, and the most at
// once.
type census struct {
	mu               sync.Mutex
	began, now, most int
}

func (c *census) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.began += max(0, n)
	c.most = max(c.most, c.now)
}

// of wraps start so that c counts the children that start creates.
func (c *census) of(start func(context.Context) (Child, error)) func(context.Context) (Child, error) {
	return func(ctx context.Context) (Child, error) {
		child, err := start(ctx)
		if err != nil {
			return nil, err
		}
		c.add(1)
		return &countedChild{child, c}, nil
	}
}

type countedChild struct {
	Child
	c *census
}

func (c *countedChild) Stop() {
	c.Child.Stop()
	c.c.add(-1)
}

// TestProcessesAreFew checks that an examination starts a healthy server at most seven times, with
// at most four processes at once. It must not wait for timeouts.
func TestProcessesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c census
		began := time.Now()
		r, err := Examine(t.Context(), Target{Start: c.of(startPlain(nil))}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c.began > 7 || c.most > 4 {
			t.Errorf("%d processes, %d at once:\n%s", c.began, c.most, dump(r))
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("the examination waited for %s", d)
		}
	})
}

// TestSilenceIsRepeated checks that the doctor repeats a request without an answer. A server that
// misses one answer, as on a busy machine, has no finding. A server that never answers the request
// has a finding.
func TestSilenceIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		times int
		want  []string
	}{"once": {1, nil}, "always": {1000, []string{UnknownSilent}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				left := c.times
				r := examinePlain(t, func(_ *plain, _ string, m *jsonrpc.Message) bool {
					mu.Lock()
					defer mu.Unlock()
					if m == nil || m.Method != "dragoman/no_such_method" || left == 0 {
						return false
					}
					left--
					return true
				})
				if got := codes(r); !slices.Equal(got, c.want) {
					t.Errorf("found %q, want %q:\n%s", got, c.want, dump(r))
				}
			})
		})
	}
}

// TestSlowMachine checks that a slow machine, on which each answer takes six seconds, causes only
// the finding SlowStart.
func TestSlowMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := examinePlain(t, func(*plain, string, *jsonrpc.Message) bool {
			time.Sleep(6 * time.Second)
			return false
		})
		if got := codes(r); !slices.Equal(got, []string{SlowStart}) {
			t.Errorf("found %q:\n%s", got, dump(r))
		}
		if got := r.Verdict.String(); !strings.Contains(got, "2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25") {
			t.Error(got)
		}
	})
}

// TestAnExitIsNotLost checks that the doctor reports an exit of the server even if the server exits
// only once.
func TestAnExitIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var once sync.Once
		r := examinePlain(t, func(p *plain, _ string, m *jsonrpc.Message) (gone bool) {
			if m != nil && m.Method == mcp.MethodListPrompts {
				once.Do(func() {
					_ = p.out.Close()
					gone = true
				})
			}
			return gone
		})
		if got := codes(r); !slices.Equal(got, []string{Dies}) {
			t.Errorf("found %q:\n%s", got, dump(r))
		}
	})
}

// TestAStopClosesTheFirstConversation checks that no process is left after an examination is
// cancelled, whenever that happens.
func TestAStopClosesTheFirstConversation(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var c census
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			start := startPlain(func(*plain, string, *jsonrpc.Message) bool {
				time.Sleep(time.Millisecond)
				return false
			})
			_, _ = Examine(ctx, Target{Start: c.of(start)}, Options{})
			if c.now != 0 {
				t.Errorf("after %s, %d processes are left of %d", after, c.now, c.began)
			}
		})
	}
}
