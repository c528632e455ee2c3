package catalog

import (
	"context"
	"errors"
	"testing"

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

// broken is a server whose lists cannot be read.
type broken struct{ source }

func (s *broken) List(context.Context, *mcp.ClientInfo, string) ([][]byte, bool, error) {
	return nil, false, errors.New("the server is away")
}

// without is a filter that hides one server and all its items.
type without string

func (f without) Shows(_ Kind, server, _ string) bool { return server != string(f) }
