package matrix

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// This file is about the column "with the console": what works if the questions that a client can't show wait for a
// person, who answers them with `dragoman questions`. Only those cells are measured again that this may change.

// consoleHelps reports whether a feature needs a question that the client's revision can't show, and the server's has.
func consoleHelps(feature string, p Pair) bool {
	switch feature {
	case "elicitation-form":
		return !p.Client.Can(mcp.Elicitation) && p.Server.Can(mcp.Elicitation)
	case "elicitation-rich":
		return !p.Client.Can(mcp.Elicitation) && p.Server.Can(mcp.RichForms)
	case "elicitation-url":
		return !p.Client.Can(mcp.URLElicitation) && p.Server.Can(mcp.URLElicitation)
	case "confirm":
		return !p.Client.Can(mcp.Elicitation)
	}
	return false
}

// helped returns the selected features of a pair that the console may help with.
func (o *Options) helped(p Pair) (names []string) {
	for _, f := range features() {
		if wanted(o.Filter.Features, f.name) && consoleHelps(f.name, p) {
			names = append(names, f.name)
		}
	}
	return names
}

// playConsole tests in one conversation what the console may help with.
func playConsole(ctx context.Context, o *Options, p Pair) map[string]verdict {
	out := map[string]verdict{}
	if ctx.Err() != nil {
		return nil
	}
	quiet := *o // Env and Capture are for the conversation of the other column
	quiet.Env, quiet.Capture, o = nil, nil, &quiet
	s := &stage{program: o.Program}
	defer s.strike()
	names := o.helped(p)
	a := &attendant{}
	var t *talk
	file, err := s.serve(ctx, o, p, func(settings map[string]any) { settings["questions"] = "console" })
	if err == nil {
		t, err = s.open(ctx, p, fake.ClientOptions{})
	}
	if err != nil {
		for _, name := range names {
			out[name] = verdict{Fails, err.Error()}
		}
		return out
	}
	stop := a.attend(s, file)
	for _, name := range names {
		within, cancel := context.WithTimeoutCause(ctx, featureWithin, fmt.Errorf("the test did not end within %s", featureWithin))
		err := t.askedElsewhere(within, name, a)
		cancel()
		for _, bad := range t.misdeeds(ctx) {
			err = errors.Join(err, errors.New(bad))
		}
		out[name] = verdict{outcome: Works}
		if err != nil {
			out[name] = verdict{Fails, strings.ReplaceAll(err.Error(), "\n", "; ")}
		}
	}
	err = errors.Join(stop(), t.c.Close())
	if err == nil && len(t.c.Asks()) > a.others(names) {
		err = fmt.Errorf("the client got %d requests, which it can't answer", len(t.c.Asks()))
	}
	for _, v := range s.reported() {
		if !t.provoked(v) {
			err = errors.Join(err, errors.New("a process of the server saw a violation: "+v))
		}
	}
	if last := names[len(names)-1]; err != nil && out[last].outcome != Fails {
		out[last] = verdict{Fails, strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return out
}

// askedElsewhere plays a feature whose questions the attendant answers.
func (t *talk) askedElsewhere(ctx context.Context, name string, a *attendant) error {
	before := a.answered.Load()
	var err error
	questions := int32(1)
	switch name {
	case "elicitation-form":
		err, questions = playForm(ctx, t), 2
	case "elicitation-rich":
		err = playRichForm(ctx, t)
	case "elicitation-url":
		err = playURL(ctx, t)
	case "confirm":
		a.declines.Store(true)
		var r *fake.Reply
		if r, err = t.c.Call(ctx, mcp.MethodCallTool, []byte(toolParams("count", "{}")), fake.CallOptions{}); err == nil {
			if r.Err == nil {
				return fmt.Errorf("the call got %s, although the person has declined", clip(string(r.Result)))
			}
			err = same("the cause of the refusal", member(r.Err.Data, "cause"), `"declined"`)
		}
		a.declines.Store(false)
		err, questions = errors.Join(err, t.says(ctx, "count", "{}", "1"), t.says(ctx, "count", "{}", "2")), 3
	}
	return errors.Join(err, same("the questions that waited", fmt.Sprint(a.answered.Load()-before), fmt.Sprint(questions)))
}

// attendant is a person who answers what waits with `dragoman questions`.
type attendant struct {
	declines atomic.Bool
	answered atomic.Int32
}

// others returns how many requests the client got that are no elicitations: those of the tool ask_all.
func (*attendant) others(names []string) int {
	for _, name := range names {
		if name == "elicitation-form" {
			return 2
		}
	}
	return 0
}

// attend begins to answer the questions of the serve with a configuration file, until stop is called.
func (a *attendant) attend(s *stage, file string) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var failed error
	running.Go(func() {
		for ctx.Err() == nil && failed == nil {
			if err := a.look(ctx, s, file); err != nil && ctx.Err() == nil {
				failed = err
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return func() error {
		cancel()
		running.Wait()
		return failed
	}
}

// look answers what waits now.
func (a *attendant) look(ctx context.Context, s *stage, file string) error {
	var all struct {
		Questions []struct{ ID, Kind string }
	}
	list, err := s.command(ctx, "questions", "--json", "-c", file)
	if err == nil {
		err = json.Unmarshal(list, &all)
	}
	if err != nil {
		return err
	}
	for _, q := range all.Questions {
		answer := []string{"questions", "answer", q.ID, "--yes", "-c", file}
		switch {
		case a.declines.Load():
			answer = []string{"questions", "decline", q.ID, "-c", file}
		case q.Kind == "form":
			shown, err := s.command(ctx, "questions", "show", q.ID, "--json", "-c", file)
			if err != nil {
				return err
			}
			filled, bad := fake.Obliging(fake.Ask{Method: mcp.MethodElicit, Params: []byte(`{"requestedSchema":` + member(shown, "schema") + `}`)})
			if bad != nil {
				return bad
			}
			answer = append(answer, "--content", member(filled, "content"))
		}
		a.answered.Add(1) // before the call goes on
		if _, err := s.command(ctx, answer...); err != nil {
			return err
		}
	}
	return nil
}

// command runs a command of dragoman and returns what it prints.
func (s *stage) command(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.program[0], append(s.program[1:len(s.program):len(s.program)], args...)...)
	cmd.Env = append(os.Environ(), s.env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("dragoman %s: %w: %s", strings.Join(args, " "), err, said.String())
	}
	return out, nil
}
