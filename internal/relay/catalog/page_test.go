package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// source is a server with fixed lists, by method.
type source struct {
	name  string
	hello mcp.ServerInfo
	lists map[string][]string
}

func (s *source) Name() string { return s.name }

func (s *source) Scope(*mcp.ClientInfo) string { return "" }

func (s *source) Hello(context.Context, *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	return &s.hello, nil
}

func (s *source) List(_ context.Context, _ *mcp.ClientInfo, method string) (items [][]byte, complete bool, err error) {
	for _, x := range s.lists[method] {
		items = append(items, []byte(x))
	}
	return items, true, nil
}

func catalogOf(t *testing.T, all ...*source) *Catalog {
	t.Helper()
	c := &Catalog{}
	for _, s := range all {
		c.Sources = append(c.Sources, s)
	}
	t.Cleanup(c.Close)
	return c
}

func page(t *testing.T, v View, method, cursor string) (*mcp.Reply, error) {
	t.Helper()
	return v.Page(t.Context(), mcp.LookupMethod(method), jsonrpc.ValueOf([]byte(cursor)), false)
}

func TestG04_TamperedCursorIsRefused(t *testing.T) {
	v := catalogOf(t, &source{name: "u"}).View(&mcp.ClientInfo{Revision: mcp.R20260728}, nil)
	good := makeCursor(mcp.MethodListTools, "u__x", 500)
	bad := []string{`"x"`, `""`, `7`, `null`, `{}`, `"` + makeCursor(mcp.MethodListPrompts, "u__x", 500) + `"`, `"` + good + `="`}
	for i := range good {
		c := byte('A')
		if good[i] == c {
			c = 'B'
		}
		bad = append(bad, `"`+good[:i]+string(c)+good[i+1:]+`"`, `"`+good[:i]+`"`)
	}
	for _, cursor := range bad {
		_, err := page(t, v, mcp.MethodListTools, cursor)
		var e *jsonrpc.Error
		if !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%s: %v", cursor, err)
		}
	}
	if _, err := page(t, v, mcp.MethodListTools, `"`+good+`"`); err != nil {
		t.Errorf("the unchanged cursor is refused: %v", err)
	}
}

// changing is a server whose tools can change, and which lists each scope a tool of its own.
type changing struct {
	signed
	tools []string
}

func (s *changing) List(_ context.Context, f *mcp.ClientInfo, method string) (items [][]byte, complete bool, err error) {
	for _, name := range s.tools {
		items = append(items, fmt.Appendf(nil, `{"name":"%s_%s"}`, name, s.Scope(f)))
	}
	return items, true, nil
}

// TestKeptPages checks that a page is made once for all who see the same, that everybody else gets another
// one, and that each has the bytes that it has without kept pages.
func TestKeptPages(t *testing.T) {
	s := &changing{signed: signed{source: source{name: "a", hello: mcp.ServerInfo{Capabilities: []byte(`{"tools":{"listChanged":true}}`)}}}}
	for i := range pageSize + 10 {
		s.tools = append(s.tools, fmt.Sprint("tool", i))
	}
	b := &changing{signed: signed{source: source{name: "b", hello: s.hello}}, tools: []string{"x", "y"}}
	c := &Catalog{Sources: []Source{s, b, &broken{source{name: "c"}}}}
	t.Cleanup(c.Close)
	tools := mcp.LookupMethod(mcp.MethodListTools)
	read := func(who string, rev mcp.Revision, show Filter, cursor string) []byte {
		t.Helper()
		f := &mcp.ClientInfo{Revision: rev, Who: identity.Named(who)}
		r, err := c.View(f, show).Page(t.Context(), tools, jsonrpc.ValueOf([]byte(cursor)), false)
		if err != nil {
			t.Fatal(err)
		}
		return r.Msg.Raw
	}
	second := `"` + makeCursor(mcp.MethodListTools, "a__tool499_ann", pageSize) + `"`
	pages := func() (all [][]byte) {
		for _, who := range []string{"", "ann", "ben"} {
			for _, show := range []Filter{nil, without("b"), without("c"), without("")} {
				for _, cursor := range []string{"", second} {
					all = append(all, read(who, mcp.R20260728, show, cursor), read(who, mcp.R20251125, show, cursor))
				}
			}
		}
		return all
	}
	for range 2 {
		first, again := pages(), pages()
		for i, p := range pages() {
			c.mu.Lock()
			c.pages = pageCache{}
			c.mu.Unlock()
			if &p[0] != &again[i][0] || string(p) != string(first[i]) || string(p) != string(pages()[i]) {
				t.Fatalf("page %d: %.200s, was %.200s", i, p, first[i])
			}
		}
		ann := string(read("ann", mcp.R20260728, nil, "")) + string(read("ann", mcp.R20260728, nil, second))
		if strings.Contains(ann, "_ben") || !strings.Contains(ann, "b__y_ann") || !strings.Contains(ann, `"failed":["c"]`) || strings.Contains(string(read("ann", mcp.R20260728, without("c"), "")), "failed") {
			t.Errorf("ann sees %s", ann)
		}
		if !strings.Contains(string(read("ben", mcp.R20260728, nil, "")), "a__"+s.tools[0]+"_ben") {
			t.Error("ben does not see the tools of his scope")
		}
		s.tools[0] += "new"
		c.Changed("a", "tools")
	}
	for i := range 4 * maxPages { // a client that makes up cursors
		read("ann", mcp.R20260728, nil, `"`+makeCursor(mcp.MethodListTools, "gone", i)+`"`)
	}
	if n := len(c.pages.all); n != maxPages || c.pages.bytes > maxPageBytes {
		t.Errorf("%d pages with %d bytes are kept", n, c.pages.bytes)
	}
	c.mu.Lock()
	for key := range c.merged {
		c.dropMergedLocked(key)
	}
	c.mu.Unlock()
	if len(c.pages.all) != 0 || c.pages.bytes != 0 {
		t.Errorf("%d pages with %d bytes are left", len(c.pages.all), c.pages.bytes)
	}
}

// broken is a server whose lists cannot be read.
type broken struct{ source }

func (s *broken) List(context.Context, *mcp.ClientInfo, string) ([][]byte, bool, error) {
	return nil, false, errors.New("the server is away")
}

// without is a filter that hides one server and all its items.
type without string

func (f without) Shows(_ Kind, server, _ string) bool { return server != string(f) }
