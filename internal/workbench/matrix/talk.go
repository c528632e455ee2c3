package matrix

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/finder"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// talk is one conversation in which the features of a pair are tested.
type talk struct {
	Pair
	c      *fake.Client
	direct bool // the conversation does not go through Dragoman
	search bool // tools are called through call_tool
	// The numbers of violations that the client and the server had seen when misdeeds was last
	// called.
	seenByClient, seenByServer int
}

// call calls a method and expects a result.
func (t *talk) call(ctx context.Context, method, params string, o fake.CallOptions) (*fake.Reply, error) {
	r, err := t.c.Call(ctx, method, []byte(params), o)
	if err == nil && r.Err != nil {
		err = fmt.Errorf("got the error %d: %s", r.Err.Code, r.Err.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	return r, nil
}

// tool calls a tool. args is a JSON object.
func (t *talk) tool(ctx context.Context, name, args string, o fake.CallOptions) (*fake.Reply, error) {
	params := toolParams(name, args)
	if t.search {
		params = toolParams(finder.Call, params)
	}
	r, err := t.call(ctx, "tools/call", params, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func toolParams(name, args string) string {
	return `{"name":` + quote(name) + `,"arguments":` + args + `}`
}

// says calls a tool and expects a text result.
func (t *talk) says(ctx context.Context, name, args, want string) error {
	r, err := t.tool(ctx, name, args, fake.CallOptions{})
	if err != nil {
		return err
	}
	return same("what "+name+" says", textOf(r.Result), want)
}

func quote(s string) string { return string(jsonrpc.AppendQuote(nil, s)) }

// textOf joins the texts in a tool's result.
func textOf(result []byte) string {
	var all strings.Builder
	for v := range jsonrpc.Elements(result, jsonrpc.Find(result, jsonrpc.Whole(result), "content")) {
		s, _ := jsonrpc.Text(result, jsonrpc.Find(result, v, "text"))
		all.WriteString(s)
	}
	return all.String()
}

// member returns the JSON of a member of a result. path has the names of the members that lead
// to it.
func member(result []byte, path ...string) string {
	at := jsonrpc.Whole(result)
	for _, name := range path {
		at = jsonrpc.Find(result, at, name)
	}
	return string(at.Of(result))
}

func textAt(raw []byte, obj jsonrpc.Span, name string) string {
	s, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, obj, name))
	return s
}

func same(what, got, want string) error {
	if got != want {
		return fmt.Errorf("%s: got %s, want %s", what, clip(got), clip(want))
	}
	return nil
}

func clip(s string) string { return excerpt.Cut(s, 300) }

// list reads all pages of a list. It returns the member name of each item, and the number of pages.
func (t *talk) list(ctx context.Context, method, key, name string) (values []string, pages int, err error) {
	items, pages, err := t.items(ctx, method, key)
	for _, raw := range items {
		values = append(values, textAt(raw, jsonrpc.Whole(raw), name))
	}
	return values, pages, err
}

// items does the same as list, but returns the whole items.
func (t *talk) items(ctx context.Context, method, key string) (items [][]byte, pages int, err error) {
	const mostPages = 100
	params := "{}"
	for pages = 1; pages <= mostPages; pages++ {
		r, err := t.call(ctx, method, params, fake.CallOptions{})
		if err != nil {
			return nil, pages, err
		}
		for v := range jsonrpc.Elements(r.Result, jsonrpc.Find(r.Result, jsonrpc.Whole(r.Result), key)) {
			items = append(items, v.Of(r.Result))
		}
		cursor := member(r.Result, "nextCursor")
		if cursor == "" {
			return items, pages, nil
		}
		params = `{"cursor":` + cursor + `}`
	}
	return nil, pages, fmt.Errorf("%s did not end after %d pages", method, mostPages)
}

// misdeeds returns the unexpected violations that the client and the server have seen since its
// last call.
func (t *talk) misdeeds(ctx context.Context) []string {
	var out []string
	if r, err := t.tool(ctx, "violations", "{}", fake.CallOptions{}); err != nil {
		out = append(out, "the server cannot be asked about violations: "+err.Error())
	} else if all := strings.FieldsFunc(textOf(r.Result), func(r rune) bool { return r == '\n' }); len(all) > t.seenByServer {
		for _, v := range all[t.seenByServer:] {
			if t.provoked(v) {
				continue
			}
			out = append(out, "the server saw a violation: "+v)
		}
		t.seenByServer = len(all)
	}
	if all := t.c.Violations(); len(all) > t.seenByClient {
		for _, v := range all[t.seenByClient:] {
			out = append(out, "the client saw a violation: "+v)
		}
		t.seenByClient = len(all)
	}
	return out
}

// noCursor is an invalid cursor, which a feature sends on purpose.
const noCursor = "no such cursor"

// provoked reports whether a violation is expected. An expected violation concerns the invalid
// cursor that a feature sends on purpose, or Dragoman's probe, which a server of the other era must
// refuse (2026-07-28 §Versioning, "Backward Compatibility with Initialization-based Versions").
func (t *talk) provoked(violation string) bool {
	return strings.Contains(violation, noCursor) ||
		!t.direct && (strings.HasPrefix(violation, mcp.MethodInitialize+":") || strings.HasPrefix(violation, mcp.MethodDiscover+":"))
}

// until calls ask until ask returns true or an error. Use until for changes that a server does not
// announce.
func until(ctx context.Context, ask func() (bool, error)) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		if ok, err := ask(); ok || err != nil {
			return err
		}
		if err := work.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}
