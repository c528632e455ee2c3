package matrix

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/finder"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// playSearch checks search mode: over HTTP at the address where clients always search, and on a pipe, which has no
// addresses, with the setting.
func playSearch(ctx context.Context, o *Options, p Pair) error {
	s := &stage{program: o.Program}
	defer s.strike()
	_, err := s.serve(ctx, o, p, func(settings map[string]any) {
		delete(settings, "policy")
		if p.ClientTransport == Stdio {
			settings["tools"] = map[string]any{"mode": "search"}
		}
	})
	if err != nil {
		return err
	}
	if at := strings.LastIndexByte(s.where.URL, '/'); at > 0 {
		s.where.URL = s.where.URL[:at] + "/find" + s.where.URL[at:]
	}
	t, err := s.open(ctx, p, fake.ClientOptions{})
	if err != nil {
		return err
	}
	err = t.find(ctx)
	t.search = true
	err = errors.Join(err, t.throughSearch(ctx))
	return s.end(ctx, t, err)
}

// find does what a model does that sees only the four tools.
func (t *talk) find(ctx context.Context) error {
	names, _, err := t.list(ctx, mcp.MethodListTools, "tools", "name")
	if err == nil {
		err = same("the tools", strings.Join(names, " "), strings.Join([]string{finder.SearchTools, finder.DescribeTools, finder.CallRead, finder.Call}, " "))
	}
	if err != nil {
		return err
	}
	found, err := t.tool(ctx, finder.SearchTools, `{"query":"add two numbers"}`, fake.CallOptions{})
	if err != nil {
		return err
	}
	if !strings.Contains(textOf(found.Result), "\nadd(a, b) Adds two numbers.") {
		return fmt.Errorf("the search finds %s", clip(textOf(found.Result)))
	}
	shown, err := t.tool(ctx, finder.DescribeTools, `{"names":["add"]}`, fake.CallOptions{})
	if err != nil {
		return err
	}
	if text := textOf(shown.Result); !strings.Contains(text, `"name":"add"`) || !strings.Contains(text, `"inputSchema":`) {
		return fmt.Errorf("the definition is %s", clip(text))
	}
	wrong, err := t.tool(ctx, finder.Call, toolParams("add", `{"a":1}`), fake.CallOptions{})
	if err == nil {
		err = same("isError of a call without b", member(wrong.Result, "isError"), "true")
	}
	return err
}

// throughSearch calls tools through call_tool. Each is executed once, and has the result that it has when it's called by
// its own name.
func (t *talk) throughSearch(ctx context.Context) error {
	err := errors.Join(t.says(ctx, "count", "{}", "1"), t.says(ctx, "count", "{}", "2"), playProgress(ctx, t), playSampling(ctx, t))
	if lossOf("elicitation-form", t.Pair) == "" {
		err = errors.Join(err, playForm(ctx, t))
	}
	for _, call := range [][2]string{{"add", `{"a":1,"b":41}`}, {"media", "{}"}, {"fail", "{}"}} {
		found, bad := t.tool(ctx, call[0], call[1], fake.CallOptions{})
		if bad != nil {
			return errors.Join(err, bad)
		}
		named, bad := t.call(ctx, mcp.MethodCallTool, toolParams(call[0], call[1]), fake.CallOptions{})
		if bad != nil {
			return errors.Join(err, bad)
		}
		err = errors.Join(err, same("the result of "+call[0], string(found.Result), string(named.Result)))
	}
	return err
}
