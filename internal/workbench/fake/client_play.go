package fake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// script describes how to simulate a non-standard client.
type script struct {
	piped bool                    // the client uses a pipe; if false, the client uses HTTP
	check func(s *settings) error // checks the settings; nil if there is nothing to check
	play  func(ctx context.Context, p *playing) error
}

// playing is one run of a script. Only one goroutine uses it.
type playing struct {
	at   Where
	o    ClientOptions
	set  *settings
	tape *capture
	step time.Duration
	done func(Finding)
}

// Reaches returns an error if a client of this profile cannot use the transport of the given
// server.
func (p *Profile) Reaches(at Where) error {
	switch {
	case p.script == nil:
		return nil
	case p.script.piped && at.URL != "":
		return fmt.Errorf("%s needs a command (stdio), not a URL", p.Name)
	case !p.script.piped && at.URL == "":
		return fmt.Errorf("%s needs a URL, not a command", p.Name)
	}
	return nil
}

// Play runs all steps of a client profile against a server. It calls done after each step, on the
// calling goroutine. It ends after at most the time in the setting "whole", plus the time to close
// the connection. violations lists the server's violations of the client's revision. Play returns
// an error if the profile or a setting is invalid, or if the client cannot connect.
func Play(ctx context.Context, profile string, at Where, o ClientOptions, done func(Finding)) (violations []string, err error) {
	p, set, limits, err := loadClient(profile, o.Set)
	if err != nil {
		return nil, err
	}
	if err := p.Reaches(at); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limits.whole, fmt.Errorf("the test did not end within %s", limits.whole))
	defer cancel()
	if p.script != nil {
		return nil, p.script.play(ctx, &playing{at, o, set, newCapture(o.Capture), limits.step, done})
	}
	opening, opened := context.WithTimeoutCause(ctx, limits.step, fmt.Errorf("no answer within %s", limits.step))
	defer opened()
	c, err := OpenClient(opening, profile, at, o)
	if err != nil {
		return nil, err
	}
	c.Survey(ctx, done)
	if err := c.Close(); err != nil {
		done(Finding{Step: "close", Detail: err.Error(), Bad: true})
	}
	return c.Violations(), nil
}

// CheckClient returns an error if the name or the settings of a client profile are invalid.
func CheckClient(profile string, set map[string]string) error {
	_, _, _, err := loadClient(profile, set)
	return err
}

// loadClient finds a client profile and checks its settings. r is the role of the client.
func loadClient(profile string, set map[string]string) (p Profile, s *settings, r *role, err error) {
	p, parameter, ok := find(ClientSide, profile)
	if !ok {
		return p, nil, nil, unknownProfile(ClientSide, profile)
	}
	if s, err = mergeSettings(&p, parameter, set); err != nil {
		return p, nil, nil, err
	}
	if p.script != nil {
		if r, err = s.role(nil, habits{}); err == nil && p.script.check != nil {
			err = p.script.check(s)
		}
	} else {
		r, err = p.client(s)
	}
	if err != nil {
		err = fmt.Errorf("profile %s: %w", p.Name, err)
	}
	return p, s, r, err
}

// playStep runs one step, reports it with p.done, and returns whether the step succeeded. If ctx
// ends, or if the step takes longer than p.step, playStep calls free, which must unblock the step.
func (p *playing) playStep(ctx context.Context, name string, free func(), play func(ctx context.Context) (string, error)) bool {
	ctx, cancel := context.WithTimeoutCause(ctx, p.step, fmt.Errorf("no answer within %s", p.step))
	defer cancel()
	stop := context.AfterFunc(ctx, free)
	detail, err := play(ctx)
	stop()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	f := Finding{Step: name, Detail: detail}
	if err != nil {
		f.Detail, f.Bad = err.Error(), true
	}
	p.done(f)
	return err == nil
}

// errorCode returns the code of the error response m. It fails if the code is not an integer.
func errorCode(m *jsonrpc.Message) (int64, error) {
	code, ok := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
	if !ok {
		return 0, fmt.Errorf("the code of the error is not an integer: %s", clip(string(m.Error.Of(m.Raw))))
	}
	return code, nil
}

// exitWithin is how long a manifest client waits for a server to exit by itself.
const exitWithin = 5 * time.Second

// playManifest sends initialize, calls tools, calls an unknown tool, and sends shutdown. It calls
// only tools that have no required arguments, no confirmation and no undo.
func playManifest(ctx context.Context, p *playing) (err error) {
	in, out := p.at.In, p.at.Out
	var child *exec.Cmd
	if len(p.at.Command) > 0 {
		if child, out, in, err = startChild(p.at, p.o.Stderr); err != nil {
			return err
		}
	}
	hangUp := func() {
		if child != nil {
			_ = child.Process.Kill()
		}
		_, _ = out.Close(), in.Close()
	}
	defer func() {
		hangUp() // kills the server if it is still running
		if child != nil {
			_ = child.Wait()
		}
	}()
	c := newManifest(in, out, p.tape)
	open := p.playStep(ctx, "initialize", hangUp, func(context.Context) (string, error) {
		if err := c.open(); err != nil {
			return "", err
		}
		names := make([]string, 0, len(c.Tools))
		for _, t := range c.Tools {
			names = append(names, clip(t.Name))
		}
		return fmt.Sprintf("%d tools: %s", len(names), strings.Join(names, " ")), nil
	})
	if !open {
		return nil
	}
	tried := 0
	for _, t := range c.Tools {
		if t.Confirm || t.Undo || t.needs() || tried == maxSurveyed {
			continue
		}
		tried++
		if !p.playStep(ctx, "tools/call "+clip(t.Name), hangUp, func(context.Context) (string, error) { return c.try(t.Name) }) && c.broken != nil {
			return nil
		}
	}
	ok := p.playStep(ctx, "an unknown tool", hangUp, func(context.Context) (string, error) { return c.try("no such tool") })
	if !ok && c.broken != nil {
		return nil
	}
	detail := "none"
	if len(c.Skipped) > 0 {
		detail = fmt.Sprintf("%d lines, the first: %s", len(c.Skipped), c.Skipped[0])
	}
	p.done(Finding{Step: "what it did not read", Detail: detail})
	last := *p
	last.step = exitWithin
	last.playStep(ctx, "shutdown", hangUp, c.shutDown)
	return nil
}

// shutDown asks the server to end, and waits until it has.
func (c *ManifestClient) shutDown(ctx context.Context) (string, error) {
	if err := c.Shutdown(); err != nil {
		return "", err
	}
	_, err := io.Copy(io.Discard, c.in)
	if ctx.Err() != nil {
		// This is not a failure, because a real manifest client kills a server that does not exit.
		return "the server did not end within " + exitWithin.String(), nil
	}
	return "the server has ended", err
}

// try calls a tool and returns a description of the outcome.
func (c *ManifestClient) try(name string) (string, error) {
	m, err := c.Call(name, "{}")
	if err != nil {
		return "", err
	}
	if m.Kind == jsonrpc.Result {
		return fmt.Sprintf("a result of %d bytes", len(m.Result.Of(m.Raw))), nil
	}
	code, err := errorCode(m)
	return fmt.Sprintf("the error %d", code), err
}

// maxBareCalls is the maximum number of calls of a bare-http-client.
const maxBareCalls = 1000

func checkBare(s *settings) error {
	if _, err := s.number("times", 1, maxBareCalls); err != nil {
		return err
	}
	args := []byte(s.values["arguments"])
	if jsonrpc.Valid(args, jsonrpc.Limits{}) != nil || jsonrpc.KindOf(args, jsonrpc.Whole(args)) != '{' {
		return fmt.Errorf("the setting arguments must be a JSON object, but is %q", s.values["arguments"])
	}
	return nil
}

// playBare posts the same call several times.
func playBare(ctx context.Context, p *playing) error {
	times, err := p.set.number("times", 1, maxBareCalls)
	if err != nil {
		return err
	}
	version, args := p.set.values["version"], p.set.values["arguments"]
	if version == "none" {
		version = ""
	}
	client := newHTTPClient()
	defer client.CloseIdleConnections()
	for i := range times {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.playStep(ctx, fmt.Sprintf("tools/call %d", i+1), func() {}, func(ctx context.Context) (string, error) {
			all, err := BareCall{URL: p.at.URL, Version: version, Tool: p.set.values["tool"], Args: args}.post(ctx, client, p.tape)
			if err != nil {
				return "", err
			}
			return bareAnswer(all)
		})
	}
	return nil
}

// bareAnswer describes the result in a response. It returns an error if the response is malformed
// or contains an error.
func bareAnswer(all []*jsonrpc.Message) (string, error) {
	at := slices.IndexFunc(all, func(m *jsonrpc.Message) bool { return m.ID == `"1"` && m.Kind != jsonrpc.Request })
	if at < 0 || at != len(all)-1 {
		return "", fmt.Errorf("the last of %d messages must be the answer to the request with the id %q", len(all), "1")
	}
	m := all[at]
	if m.Kind == jsonrpc.Result {
		return fmt.Sprintf("a result of %d bytes", len(m.Result.Of(m.Raw))), nil
	}
	code, err := errorCode(m)
	text, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Error, "message"))
	return "", errors.Join(err, fmt.Errorf("got the error %d: %s", code, clip(text)))
}
