package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// playConfirm checks a call that needs confirmation, through a serve whose rules say so.
func playConfirm(ctx context.Context, o *Options, p Pair) error {
	s := &stage{program: o.Program}
	defer s.strike()
	var agree atomic.Bool
	if _, err := s.serve(ctx, o, p, func(map[string]any) {}); err != nil {
		return err
	}
	t, err := s.open(ctx, p, fake.ClientOptions{Answer: func(_ context.Context, a fake.Ask) ([]byte, *jsonrpc.Error) {
		if agree.Load() {
			return fake.Obliging(a)
		}
		return []byte(`{"action":"decline"}`), nil
	}})
	if err != nil {
		return err
	}
	return s.end(ctx, t, t.confirm(ctx, &agree))
}

// end ends the only conversation of a stage. It adds to err what either end has seen of violations.
func (s *stage) end(ctx context.Context, t *talk, err error) error {
	for _, bad := range t.misdeeds(ctx) {
		err = errors.Join(err, errors.New(bad))
	}
	err = errors.Join(err, t.c.Close())
	for _, v := range s.reported() {
		if !t.provoked(v) {
			err = errors.Join(err, errors.New("a process of the server saw a violation: "+v))
		}
	}
	return err
}

// serve starts the server of a pair, and a serve in front of it whose rules want the tool count confirmed. more
// changes its settings. It returns the file of its configuration, and the client reaches it at s.where.
func (s *stage) serve(ctx context.Context, o *Options, p Pair, more func(settings map[string]any)) (file string, err error) {
	at, err := s.server(p) // first, for reported
	if err != nil {
		return "", err
	}
	home, err := s.furnish(o, p)
	if err != nil {
		return "", err
	}
	file = filepath.Join(home, "matrix.json")
	if err := os.WriteFile(file, confirmConfig(at, more), 0o600); err != nil {
		return "", err
	}
	run := append(s.program[:len(s.program):len(s.program)], "serve", "-c", file, "--no-console", "--listen", "127.0.0.1:0")
	if p.ClientTransport == Stdio {
		run = append(run, "--stdio")
	}
	return file, s.start(ctx, run, p.ClientTransport)
}

// confirmConfig returns the configuration of a serve with a server, whose tool count needs confirmation.
func confirmConfig(at fake.Where, more func(settings map[string]any)) []byte {
	type object = map[string]any
	server := object{"url": at.URL}
	if at.Command != nil {
		server = object{"command": at.Command[0], "args": at.Command[1:]}
	}
	settings := object{
		"servers": object{"fake": object{"prefix": "none"}},
		"policy":  []object{{"match": "fake/count", "do": "confirm"}},
	}
	more(settings)
	file, _ := json.Marshal(object{"mcpServers": object{"fake": server}, "dragoman": settings}) // never fails
	return file
}

// confirm calls the tool count, which says how often it was executed. The person first declines, and then agrees twice.
func (t *talk) confirm(ctx context.Context, agree *atomic.Bool) error {
	asks, cause := 3, "declined"
	if !t.Client.Can(mcp.Elicitation) {
		asks, cause = 0, "cannot_ask"
	}
	r, err := t.c.Call(ctx, mcp.MethodCallTool, []byte(toolParams("count", "{}")), fake.CallOptions{})
	switch {
	case err != nil:
		return err
	case r.Err == nil:
		return fmt.Errorf("the call got %s, although nobody has agreed to it", clip(string(r.Result)))
	}
	err = errors.Join(
		same("the cause of the refusal", member(r.Err.Data, "cause"), quote(cause)),
		same("the outcome of the refusal", member(r.Err.Data, "outcome"), `"not_sent"`),
	)
	if err != nil {
		return fmt.Errorf("%w (%s)", err, clip(r.Err.Message))
	}
	agree.Store(true)
	if asks > 0 {
		err = errors.Join(t.says(ctx, "count", "{}", "1"), t.says(ctx, "count", "{}", "2"))
	}
	err = errors.Join(err, t.says(ctx, "echo", `{"text":"x"}`, "x"))
	all := t.c.Asks()
	for _, a := range all {
		if m := textAt(a.Params, jsonrpc.Whole(a.Params), "message"); !strings.Contains(m, `fake to run its tool "count"`) {
			err = errors.Join(err, fmt.Errorf("the person was asked %s", clip(m)))
		}
	}
	return errors.Join(err, same("the questions to the person", fmt.Sprint(len(all)), fmt.Sprint(asks)))
}
