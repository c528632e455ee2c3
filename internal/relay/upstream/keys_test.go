package upstream

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// spellings returns n capabilities objects that declare form elicitation and roots, each with
// different bytes.
func spellings(n int) []string {
	out := []string{
		`{"elicitation":{},"roots":{"listChanged":false}}`, `{ "roots" : { }, "elicitation" : { "form" : { } } }`,
		`{"el\u0069citation":{"form":{"x":1}},"roots":{}}`, "{\n\t\"roots\": {},\r\n\t\"elicitation\": {}\n}",
	}
	for i := range n - len(out) {
		switch i % 4 {
		case 0:
			out = append(out, fmt.Sprintf(`{"elicitation":{"x%d":{}},"roots":{}}`, i))
		case 1:
			out = append(out, fmt.Sprintf(`{"x%d":{"sampling":{}},"elicitation":{},"roots":{}}`, i))
		case 2:
			out = append(out, fmt.Sprintf(`{"elicitation":{},"roots":{},"experimental":{"x":%d}}`, i))
		default:
			out = append(out, fmt.Sprintf(`{"elicitation":{},"roots":{"y":[%d,"%s"]},"extensions":{"com.example/a":7}}`, i, strings.Repeat("y", 3000)))
		}
	}
	return out
}

// TestSpellingsOfCapabilitiesStartNoProcesses checks that clients that declare the same
// capabilities with different bytes share a session. The session declares exactly those
// capabilities.
func TestSpellingsOfCapabilitiesStartNoProcesses(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.R20251125, mcp.R20260728} {
		h := &program{legacy: true}
		bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
			release := make(chan struct{})
			var wait sync.WaitGroup
			all := spellings(40)
			h.on = held(release)
			wait.Go(func() {
				if _, err := call(t, u, info(r, "", all[0], 9), mcp.MethodCallTool, `{"name":"t"}`); err != nil {
					t.Errorf("the call that runs meanwhile: %v", err)
				}
			})
			for i, caps := range all {
				f := info(r, "", caps, uint64(10+i))
				if _, _, err := u.List(t.Context(), f, mcp.MethodListTools); err != nil {
					t.Fatalf("%s: %v", caps, err)
				}
				u.Subscribe(f, func(*jsonrpc.Message) {}, nil).Close()
			}
			if n := len(h.all()); n != 1 {
				t.Errorf("there are %d processes for 40 spellings", n)
			}
			want := `"capabilities":{"elicitation":{"form":{}},"roots":{}}`
			if got := h.all()[0].last(mcp.MethodInitialize); !strings.Contains(got, want) {
				t.Errorf("the session was opened with %s", got)
			}
			if s := u.Report(); len(s.Sessions) != 1 || strings.Join(s.Sessions[0].Capabilities, " ") != "elicitation roots" {
				t.Errorf("the report contains the sessions %+v", s.Sessions)
			}
			close(release)
			wait.Wait()
			// A difference that could matter to a server leads to a separate session.
			for i, caps := range []string{
				`{"elicitation":{"url":{}},"roots":{}}`, `{"elicitation":{},"roots":{"listChanged":true}}`, `{"elicitation":{}}`, `{}`, `{"experimental":{}}`,
				`{"elicitation":{},"roots":{},"extensions":{"com.example/a":{}}}`,
			} {
				if _, _, err := u.List(t.Context(), info(r, "", caps, uint64(80+i)), mcp.MethodListTools); err != nil {
					t.Fatalf("%s: %v", caps, err)
				}
			}
			if n := len(h.all()); n != 6 {
				t.Errorf("there are %d processes for six sets of capabilities", n)
			}
		})
	}
}

// TestKeysOfPoolsAreBounded checks that the key of a pool is short, whatever capabilities a
// client declares.
func TestKeysOfPoolsAreBounded(t *testing.T) {
	h := &program{legacy: true}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		for _, filler := range []string{`"x":"` + strings.Repeat("y", 1<<20) + `"`, strings.Repeat(`"k":{},`, 1) + `"` + strings.Repeat("z", 1<<16) + `":{}`} {
			caps := `{"elicitation":{` + filler + `},"sampling":{"tools":{` + filler + `}},"experimental":{` + filler + `}}`
			if _, err := call(t, u, info(mcp.R20260728, "", caps, 0), mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
		}
		u.update(func(st *state) {
			if len(st.pools.byKey) != 1 {
				t.Errorf("there are %d pools", len(st.pools.byKey))
			}
			for key, p := range st.pools.byKey {
				if n := len(key) + len(p.key) + len(p.declared); n > 1024 {
					t.Errorf("a pool keeps %d bytes of its client's capabilities", n)
				}
			}
			for _, x := range st.pools.canon.last {
				if len(x.raw) > maxRemembered {
					t.Errorf("the cache keeps %d bytes", len(x.raw))
				}
			}
		})
	})
}

// TestOneClientKeepsItsCapabilities checks that a server with OneClient gets the capabilities of
// the client unchanged, even unknown ones. Calls with further unknown capabilities start no
// further process.
func TestOneClientKeepsItsCapabilities(t *testing.T) {
	for _, caps := range []string{
		`{"elicitation":{"later":{"n":1e400}},"experimental":{"a/b":{}},"x":[1]}`,
		`{"experimental":{"a/b":{}}}`,
	} {
		h := &program{legacy: true}
		bubble(t, h, Spec{OneClient: true}, func(t *testing.T, u *Upstream) {
			if _, err := call(t, u, info(mcp.R20251125, "", caps, 1), mcp.MethodCallTool, `{"name":"t"}`); err != nil {
				t.Fatal(err)
			}
			if got := h.all()[0].last(mcp.MethodInitialize); !strings.Contains(got, `"capabilities":`+caps+`,`) {
				t.Errorf("%s was declared as %s", caps, got)
			}
			for i := range 40 {
				other := strings.Replace(caps, "{", fmt.Sprintf(`{"y%d":{},`, i), 1)
				if _, err := call(t, u, info(mcp.R20260728, "", other, 0), mcp.MethodCallTool, `{"name":"t"}`); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(h.all()); n != 1 {
				t.Errorf("there are %d processes for 40 spellings", n)
			}
		})
	}
}
