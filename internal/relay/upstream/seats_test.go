package upstream

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// bench is a Seats on which this process sits everywhere.
type bench struct {
	mu    sync.Mutex
	calls map[string]int // by seat: those that run
	left  []byte         // what Left returns
	noted []byte         // what Note was told last
}

func (b *bench) Sit(_ context.Context, seat string) (leave func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls == nil {
		b.calls = map[string]int{}
	}
	b.calls[seat]++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls[seat]--
	}, nil
}

func (b *bench) Rise(seat string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls[seat] == 0 {
		delete(b.calls, seat)
	}
}

func (b *bench) Note(_, _ string, what func() []byte) { b.noted = what() }
func (b *bench) Gave(string, string) bool             { return true }

func (b *bench) Left(string) (left []byte) {
	left, b.left = b.left, nil
	return left
}

func (b *bench) taken() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.calls))
}

// TestSeats lets clients call a server as another process could, too. Those of one principal with the same capabilities
// have a seat while there's a session for them, if the server is a legacy one.
func TestSeats(t *testing.T) {
	ann, bob, session := info(mcp.R20260728, "ann", "{}", 0), info(mcp.R20260728, "bob", "{}", 0), info(mcp.R20251125, "ann", "{}", 3)
	for name, x := range map[string]struct {
		h    *program
		spec Spec
		want int // seats that are taken after two clients have called
	}{
		"legacy":                    {&program{legacy: true}, Spec{}, 2},
		"modern":                    {&program{modern: true}, Spec{}, 0},
		"both":                      {&program{modern: true, legacy: true}, Spec{}, 0},
		"shared":                    {&program{legacy: true}, Spec{Isolation: Shared}, 0},
		"a session for each call":   {&program{legacy: true}, Spec{Isolation: PerCall}, 0},
		"a server that never comes": {&program{legacy: true, fails: func(int) bool { return true }}, Spec{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seats := &bench{}
				x.spec.Name, x.spec.Pipe = "s", x.h.dial
				u := New(x.spec, Options{Seats: seats, Home: "p"})
				defer u.Close(t.Context())
				for _, f := range []*mcp.ClientInfo{ann, bob, ann, session} {
					leave, err := u.Sit(t.Context(), f)
					if err != nil {
						t.Fatal(err)
					}
					_, _ = call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`)
					leave()
				}
				if got := seats.taken(); len(got) != x.want {
					t.Errorf("seats %q are taken", got)
				} else if x.want == 2 && (!strings.HasPrefix(got[0], "p\x00s\x00") || got[0] == got[1]) {
					t.Errorf("the seats are %q", got)
				}
				time.Sleep(2 * homeIdle)
				synctest.Wait()
				if got := seats.taken(); len(got) != 0 {
					t.Errorf("seats %q are taken, and nobody has a session", got)
				}
			})
		})
	}
}

// TestInherit goes on with the session of another process, although this one has read a list in a session of its own. If
// the server doesn't know that session any more, or is another one, the calls use the own one.
func TestInherit(t *testing.T) {
	const hello = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
	for name, x := range map[string]struct {
		known  string // the session that the server knows
		url    string // at which it was begun; "" for the server's
		counts [2]string
	}{
		"the session goes on":   {"theirs", "", [2]string{"6", "7"}},
		"the session is lost":   {"another", "", [2]string{"1", "2"}},
		"another server has it": {"theirs", "http://127.0.0.1:1/", [2]string{"1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			calls, opened := map[string]int{x.known: 5}, 0
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
				id := r.Header.Get("Mcp-Session-Id")
				mu.Lock()
				defer mu.Unlock()
				_, known := calls[id]
				result := "{}"
				switch {
				case r.Method == http.MethodGet:
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				case r.Method == http.MethodDelete:
					t.Errorf("the session %q was ended", id)
					return
				case err != nil, m.Method == mcp.MethodDiscover:
					w.WriteHeader(http.StatusBadRequest)
					return
				case m.Method == mcp.MethodInitialize:
					opened++
					id = fmt.Sprint("own", opened)
					calls[id], result = 0, hello
					w.Header().Set("Mcp-Session-Id", id)
				case !known:
					w.WriteHeader(http.StatusNotFound)
					return
				case m.Kind != jsonrpc.Request:
					w.WriteHeader(http.StatusAccepted)
					return
				case m.Method == mcp.MethodCallTool:
					calls[id]++
					result = fmt.Sprintf(`{"content":[{"type":"text","text":"%d"}]}`, calls[id])
				case m.Method == mcp.MethodListTools:
					result = `{"tools":[]}`
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
			}))
			defer web.Close()
			url := cmp.Or(x.url, web.URL)
			seats := &bench{}
			u := New(Spec{Name: "s", URL: web.URL, Kind: "http"}, Options{Seats: seats})
			defer u.Close(t.Context())
			f := info(mcp.R20260728, "ann", "{}", 0)
			if _, _, err := u.List(t.Context(), f, mcp.MethodListTools); err != nil {
				t.Fatal(err)
			}
			seats.left = packLeft(url, "theirs", []byte(hello))
			for _, want := range x.counts {
				leave, err := u.Sit(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				r, err := call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`)
				if err != nil || !strings.Contains(string(r.Msg.Raw), `"text":"`+want+`"`) {
					t.Errorf("want %s: %v %v", want, r, err)
				}
				leave()
			}
			mu.Lock()
			defer mu.Unlock()
			if _, id, answer, ok := unpackLeft(seats.noted); !ok || calls[id] == 0 || string(answer) != hello {
				t.Errorf("%q was noted with %s", id, answer)
			}
		})
	}
}
