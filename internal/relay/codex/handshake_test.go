package codex_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/codex"
)

// TestHandshake opens workers that accept version 2, and workers that refuse it in every known
// way, on one pipe. The log contains the version and the reason.
func TestHandshake(t *testing.T) {
	for _, c := range []struct {
		v2, version, fallBack string
		took                  time.Duration
	}{
		{v2: "accept", version: "v2"},
		{v2: "-32602", version: "v1", fallBack: "-32602"},
		{v2: "-32600", version: "v1", fallBack: "-32600"},
		{v2: "schema", version: "v1", fallBack: "additional properties"},
		{v2: "silence", version: "v1", fallBack: "silence for 5s", took: 5 * time.Second},
		{v2: "late", version: "v2", fallBack: "silence for 5s", took: 5 * time.Second},
	} {
		for _, events := range []string{"no", "yes"} {
			t.Run(c.v2+"/events="+events, func(t *testing.T) {
				bubble(t, func(t *testing.T, profile string) {
					r := play(t, profile, codex.Options{}, "v2="+c.v2, "events="+events)
					defer r.close()
					if got := r.server.Readiness(); got != "worker_launching" {
						t.Errorf("the readiness before the handshake is %s", got)
					}
					begun := time.Now()
					m := r.open("{}")
					if m.Kind != jsonrpc.Result || !strings.Contains(string(m.Raw), `"version":"0.0.1"`) {
						t.Fatalf("initialize: %s", m.Raw)
					}
					if took := time.Since(begun); took != c.took {
						t.Errorf("the handshake took %s, want %s", took, c.took)
					}
					if got := r.server.Readiness(); got != "handshake_complete" {
						t.Errorf("the readiness after the handshake is %s", got)
					}
					log := r.log.String()
					if !strings.Contains(log, "version="+c.version+" ") {
						t.Errorf("the log does not contain %s:\n%s", c.version, log)
					}
					last := "initialize " + c.version + ": a result with "
					if !strings.Contains(log, last) || strings.Count(log, "step 1 of ") != 1 {
						t.Errorf("the steps of the log lack %q:\n%s", last, log)
					}
					if c.fallBack == "" && strings.Contains(log, "fallback") || !strings.Contains(log, c.fallBack) {
						t.Errorf("the log contains another cause than %q:\n%s", c.fallBack, log)
					}
					if events == "yes" && !strings.Contains(log, `{"event":"ready"}`) {
						t.Errorf("the trace does not contain the event:\n%s", log)
					}
					if got := content(r.say("hello")); got != "You said: hello" {
						t.Errorf("the turn after the handshake: %q", got)
					}
				})
			})
		}
	}
}

// TestHandshakePending checks the result of Readiness while the worker does not answer.
func TestHandshakePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := play(t, today, codex.Options{Silence: time.Minute}, "v2=silence")
		defer r.close()
		id := r.send("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
		synctest.Wait()
		if got := r.server.Readiness(); got != "handshake_pending" {
			t.Errorf("the readiness is %s", got)
		}
		// Only one handshake runs at a time.
		second := r.send("initialize", `{}`)
		if m := r.next(); m.ID != second || m.Kind != jsonrpc.Failure {
			t.Errorf("a second initialize: %s", m.Raw)
		}
		if m, _ := r.answerTo(id); m.Kind != jsonrpc.Result {
			t.Errorf("the first initialize: %s", m.Raw)
		}
	})
}

// TestMuteWorkerIsNotAskedTwice checks a worker that did not answer version 2. The next handshake
// starts with version 1, so that only the first handshake waits five seconds for an answer.
func TestMuteWorkerIsNotAskedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := play(t, today, codex.Options{}, "v2=silence")
		r.open("{}")
		again := attach(t, r.fake, r.server, r.log)
		begun := time.Now()
		again.open("{}")
		if took := time.Since(begun); took != 0 {
			t.Errorf("the second handshake took %s", took)
		}
		if err := again.pipe.Close(); err != nil {
			t.Error(err)
		}
		again.wg.Wait()
		r.close()
	})
}

// TestHandshakeRefused checks that an error that is unrelated to the version ends the
// handshake. A failed handshake may be repeated on the same pipe.
func TestHandshakeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := play(t, today, codex.Options{}, "v2=closed")
		defer r.close()
		for range 2 {
			m := r.open("{}")
			if m.Kind != jsonrpc.Failure || !strings.Contains(string(m.Raw), "not logged in") {
				t.Errorf("initialize: %s", m.Raw)
			}
			if got := r.server.Readiness(); got != "handshake_failed" {
				t.Errorf("the readiness is %s", got)
			}
		}
		if m := r.say("hello"); !isError(m) {
			t.Errorf("a call before the handshake: %s", m.Raw)
		}
	})
}

// TestInitializedOnlyOnDemand checks that the notification initialized is sent only if the
// profile requires it. The fake worker reports the notification as a violation, with an error without
// an id. The adapter ignores this error.
func TestInitializedOnlyOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := play(t, today, codex.Options{Initialized: true})
		r.open("{}")
		if got := content(r.say("hello")); got != "You said: hello" {
			t.Errorf("the turn after the handshake: %q", got)
		}
		if err := r.pipe.Close(); err != nil {
			t.Error(err)
		}
		r.wg.Wait()
		if v := r.fake.Violations(); len(v) != 1 || !strings.HasPrefix(v[0], "initialized") {
			t.Errorf("the violations are %q", v)
		}
		_ = r.fake.Close()
	})
}

// TestRestarts checks the delays and the limit for a worker that always fails. After the pause,
// starts are possible again.
func TestRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &journal{}
		s := codex.New(codex.Options{Restarts: 3})
		attempt := func(v2 string) (waited time.Duration, err error) {
			begun := time.Now()
			if err := s.Admit(t.Context()); err != nil {
				return 0, err
			}
			waited = time.Since(begun)
			r := attach(t, newFake(t, today, "v2="+v2), s, log)
			r.open("{}")
			if v2 == "accept" {
				r.say("hello")
			}
			r.close()
			return waited, nil
		}
		for i, want := range []time.Duration{0, time.Second, 2 * time.Second} {
			if got, err := attempt("closed"); err != nil || got > want || got < want/2 {
				t.Errorf("start %d waited %s (%v), want %s to %s", i+1, got, err, want/2, want)
			}
		}
		if _, err := attempt("closed"); !errors.Is(err, codex.ErrRestartLimit) {
			t.Errorf("the fourth start: %v", err)
		}
		if got := s.Readiness(); got != "restart_limit_exceeded" {
			t.Errorf("the readiness is %s", got)
		}
		time.Sleep(10 * time.Minute)
		if got, err := attempt("closed"); err != nil || got != 0 {
			t.Errorf("the start after the pause waited %s, %v", got, err)
		}
		if _, err := attempt("closed"); !errors.Is(err, codex.ErrRestartLimit) {
			t.Errorf("the start after that: %v", err)
		}
		time.Sleep(10 * time.Minute)
		for range 3 { // a successful start resets the number of failures
			if got, err := attempt("accept"); err != nil || got != 0 {
				t.Errorf("a successful start waited %s, %v", got, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, _ = attempt("closed")
		cancel()
		if err := s.Admit(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a start whose context has ended: %v", err)
		}
	})
}

// TestWorkerThatDiesSoon checks that an exit within a minute of the start counts as a failure.
func TestWorkerThatDiesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := play(t, today, codex.Options{})
		r.open("{}")
		r.call("codex", `{"prompt":"die"}`)
		for range r.in {
		}
		if r.ended == nil || !strings.Contains(r.ended.Error(), "EOF") {
			t.Errorf("the pipe ended with %v", r.ended)
		}
		r.close()
		begun := time.Now()
		if err := r.server.Admit(t.Context()); err != nil || time.Since(begun) > time.Second || time.Since(begun) < time.Second/2 {
			t.Errorf("the next start: %v after %s", err, time.Since(begun))
		}
	})
}
