package codex_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/relay/codex"
	events "github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

const info = `{"name":"c","version":"7"}`

// TestOffers checks the bytes of each initialize, for workers that refuse some of its members.
func TestOffers(t *testing.T) {
	const (
		two  = `{"protocolVersion":"v2","protocol_version":"v2","clientInfo":` + info + `,"client_info":` + info + `,"capabilities":{}}`
		one  = `{"clientInfo":` + info + `,"client_info":` + info + `}`
		only = `{"clientInfo":` + info + `}`
	)
	for name, c := range map[string]struct {
		set            []string
		offers         []string
		version, cause string
		counted        [2]string
	}{
		"accepts version 2":     {nil, []string{two}, "v2", "", [2]string{"v2", ""}},
		"refuses version 2":     {[]string{"v2=-32602"}, []string{two, one}, "v1", "-32602 \"Invalid params: unknown field `protocolVersion`\"", [2]string{"v1", "-32602"}},
		"refuses the mirror":    {[]string{"v2=-32602", "mirror=refuse"}, []string{two, one, only}, "v1", "-32602 \"Invalid params: unknown field `protocolVersion`\"", [2]string{"v1", "-32602"}},
		"is silent":             {[]string{"v2=silence"}, []string{two, one}, "v1", "silence for 5s", [2]string{"v1", "silence"}},
		"refuses by its schema": {[]string{"v2=schema"}, []string{two, one}, "v1", `-32000 "data did not match the schema: additional properties are not allowed"`, [2]string{"v1", "schema"}},
		"refuses the login":     {[]string{"v2=closed"}, []string{two}, "", `Codex refused the handshake: -32000 "not logged in"`, [2]string{"none", "refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var wire bytes.Buffer
				set := map[string]string{}
				for _, kv := range c.set {
					k, v, _ := strings.Cut(kv, "=")
					set[k] = v
				}
				f, err := fake.NewServer(today, fake.Options{Set: set, Capture: &wire})
				if err != nil {
					t.Fatal(err)
				}
				r := attach(t, f, codex.New(codex.Options{Events: &events.Publisher{}}), &journal{})
				r.open("{}")
				r.close()
				var got []string
				for line := range strings.Lines(wire.String()) {
					at := jsonrpc.Find([]byte(line), jsonrpc.Find([]byte(line), jsonrpc.Whole([]byte(line)), "capture"), "payload")
					if method, _ := jsonrpc.Text([]byte(line), jsonrpc.Find([]byte(line), at, "method")); method == "initialize" {
						got = append(got, string(jsonrpc.Find([]byte(line), at, "params").Of([]byte(line))))
					}
				}
				if !slices.Equal(got, c.offers) {
					t.Errorf("the offers are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.offers, "\n"))
				}
				if version, cause := r.server.Negotiated(); version != c.version || cause != c.cause {
					t.Errorf("version %q because of %q, want %q because of %q", version, cause, c.version, c.cause)
				}
				if n := r.server.Handshakes(); len(n) != 1 || n[c.counted] != 1 {
					t.Errorf("the handshakes are %v, want one of %v", n, c.counted)
				}
			})
		})
	}
}

// TestCodesOfStrings plays workers whose error codes are strings.
func TestCodesOfStrings(t *testing.T) {
	for code, falls := range map[string]bool{
		`"-32602"`: true, `"-32600"`: true, `"invalid_params"`: true, `"Invalid-Request"`: true,
		`"handshake_failed"`: false, `"-32000"`: false,
	} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := refuser(t, code, "no")
				m := r.open("{}")
				version, cause := r.server.Negotiated()
				shown := code + ` "no"`
				if falls != (version == "v1") || !strings.Contains(cause, shown) {
					t.Errorf("version %q because of %q after the code %s: %s", version, cause, code, m.Raw)
				}
				_ = r.pipe.Close()
				r.wg.Wait()
			})
		})
	}
}

// TestWordsOfRefusals plays workers that refuse version 2 with a code that gives no reason. The
// words of the message decide whether the adapter offers version 1.
func TestWordsOfRefusals(t *testing.T) {
	for _, c := range []struct {
		code, message string
		falls         bool
	}{
		{"-32000", "Invalid params for initialize", true},
		{"-32603", "invalid params", true},
		{"-32000", "unknown field `protocolVersion`, expected `clientInfo`", true},
		{"-32603", "Unknown Field: capabilities", true},
		{"-32000", "the request does not match the schema", true},
		{"-32603", "Schema validation failed", true},
		{"-32000", "boom", false},
		{"-32603", "internal error", false},
		{"-32001", "not logged in", false},
		{"-32000", "the field is unknown to me", false},
	} {
		t.Run(c.code+" "+c.message, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := refuser(t, c.code, c.message)
				m := r.open("{}")
				version, cause := r.server.Negotiated()
				shown := c.code + ` "` + c.message + `"`
				if want := map[bool]string{true: "v1"}[c.falls]; version != want || !strings.Contains(cause, shown) {
					t.Errorf("version %q because of %q, want %q because of %q: %s", version, cause, want, shown, m.Raw)
				}
				if want := map[bool]jsonrpc.Kind{true: jsonrpc.Result, false: jsonrpc.Failure}[c.falls]; m.Kind != want {
					t.Errorf("the client gets %s", m.Raw)
				}
				_ = r.pipe.Close()
				r.wg.Wait()
			})
		})
	}
}

// refuser plays a worker that refuses version 2 with a code and a message, and accepts version 1.
func refuser(t *testing.T, code, message string) *rig {
	t.Helper()
	in, out := newPipe(), newPipe()
	r := &rig{t: t, server: codex.New(codex.Options{}), log: &journal{}, in: make(chan *jsonrpc.Message, 64)}
	worker := stdio.NewPipe(in.r, out.w, stdio.Options{})
	r.wg.Go(func() {
		for {
			m, err := worker.Read()
			if err != nil {
				return
			}
			answer := `"result":{"userAgent":"x/1"}`
			if !m.Param("protocolVersion").IsZero() {
				answer = `"error":{"code":` + code + `,"message":"` + message + `"}`
			}
			_ = worker.Write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer))
		}
	})
	r.pipe = r.server.Adapt(stdio.NewPipe(out.r, in.w, stdio.Options{Limits: jsonrpc.Limits{Tolerant: true}}))
	r.wg.Go(func() {
		defer close(r.in)
		for {
			m, err := r.pipe.Read()
			if err != nil {
				_ = worker.Close()
				r.ended = err
				return
			}
			r.in <- m
		}
	})
	return r
}

// TestShim runs turns with a wrapper that answers at the end of a turn, and whose events have no
// prefix. The wrapper must not get the notification initialized.
func TestShim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := play(t, today, codex.Options{}, "form=shim")
		defer r.close()
		if m := r.open("{}"); m.Kind != jsonrpc.Result {
			t.Fatalf("initialize: %s", m.Raw)
		}
		for range 2 {
			m, before := r.answerTo(r.call("codex", `{"prompt":"hello"}`))
			if content(m) != "You said: hello" || isError(m) || thread(m) == "" {
				t.Errorf("the turn: %s", m.Raw)
			}
			if len(before) == 0 || before[0].Method != "notifications/progress" {
				t.Errorf("%d messages before the result, want progress", len(before))
			}
		}
		if m := r.say("fail"); !isError(m) || !strings.Contains(texts(m), "the model is not there") {
			t.Errorf("the failing turn: %s", m.Raw)
		}
		if !slices.Equal(r.server.Environ(), []string{"CODEX_WORKER_SUPERVISED=true"}) {
			t.Errorf("the variables are %q", r.server.Environ())
		}
	})
}
