package mcp

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

func TestRewrite(t *testing.T) {
	deep := strings.Repeat("[", 125) + strings.Repeat("]", 125)
	m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":`+deep+`}}`), jsonrpc.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var none jsonrpc.Edits
	if out, err := Rewrite(nil, m, &none); out != m || err != nil {
		t.Errorf("without edits: %v, %v", out, err)
	}

	var e jsonrpc.Edits
	e.Replace(jsonrpc.NoReason, m.Param("a"), []byte("[[[["+deep+"]]]]"))
	out, err := Rewrite(nil, m, &e)
	if err != nil || RewriteOrKeep(nil, m, &e) == m {
		t.Fatalf("a message that is deeper than a peer may send: %v", err)
	}
	if got, want := string(out.Param("a").Of(out.Raw)), "[[[["+deep+"]]]]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}

	var bad jsonrpc.Edits
	bad.Replace(jsonrpc.NoReason, m.IDAt, []byte("{}"))
	if out, err := Rewrite(nil, m, &bad); err == nil {
		t.Errorf("an id that is an object is accepted: %s", out.Raw)
	}
	if RewriteOrKeep(nil, m, &bad) != m {
		t.Error("RewriteOrKeep does not keep the message when the edits make it invalid")
	}
}
