package handshake

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

var update = flag.Bool("update", false, "write testdata/traces.txt")

func TestT13_TheEraIsRight(t *testing.T)     { stage(t, t13) }
func TestFieldServers(t *testing.T)          { stage(t, field) }
func TestPinsMemoriesAndDelays(t *testing.T) { stage(t, rules) }
func TestDialects(t *testing.T)              { stage(t, dialects) }

func stage(t *testing.T, scenes []scene) {
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { play(t, &s) })
		})
	}
}

// play runs a scene, checks its outcome, and returns the result.
func play(t testing.TB, s *scene) string {
	link := &script{t: t, turns: s.turns, push: s.push, pushAt: s.pushAt}
	out, err := Open(context.Background(), link, s.offer)
	if link.next != len(s.turns) {
		t.Errorf("Open did not send the message for turn %d of the script", link.next+1)
	}
	if link.onLate != nil || link.onUnasked != nil {
		t.Error("Open has not removed its receivers of late or unsolicited answers")
	}
	checkSent(t, link)
	if err != nil {
		return checkError(t, s, err)
	}
	if s.rev == mcp.Unknown {
		t.Fatalf("the revision is %s, want an error", out.Revision)
	}
	return checkOutcome(t, s, out, link)
}

func checkSent(t testing.TB, link *script) {
	for i, m := range link.sent {
		var want string
		switch m.method {
		case mcp.MethodDiscover:
			want = mcp.Latest.String()
			if !m.rules.MirrorHeaders || !strings.Contains(m.params, mcp.KeyClientCaps) {
				t.Errorf("discover was sent as %s with the rules %+v", m.params, m.rules)
			}
		case mcp.MethodInitialize:
			if m.rules.Version != "" || m.rules.MirrorHeaders || !m.rules.Sessions {
				t.Errorf("initialize was sent with the rules %+v", m.rules)
			}
			continue
		default:
			if i != len(link.sent)-1 || i == 0 || link.sent[i-1].method != mcp.MethodInitialize {
				t.Errorf("%s is message %d of %d, want it last and after initialize", m.method, i+1, len(link.sent))
			}
			continue
		}
		if m.rules.Version != want {
			t.Errorf("%s was sent with the version header %q", m.method, m.rules.Version)
		}
	}
}

func checkOutcome(t testing.TB, s *scene, out *Outcome, link *script) string {
	if out.Revision != s.rev || out.Hello.Revision != s.rev {
		t.Errorf("the revision is %s, in the server information %s, want %s", out.Revision, out.Hello.Revision, s.rev)
	}
	if out.Remember() == s.forget {
		t.Errorf("Remember is %t", out.Remember())
	}
	var codes []string
	for _, f := range out.Findings {
		codes = append(codes, f.Code)
		if f.Text == "" || len(f.Text) > maxFinding {
			t.Errorf("finding %s has the text %q", f.Code, f.Text)
		}
	}
	slices.Sort(codes)
	want := slices.Sorted(slices.Values(s.findings))
	if !slices.Equal(codes, want) {
		t.Errorf("findings %v, want %v", codes, want)
	}
	checkDialect(t, s, out)
	announced := out.Dialect == nil || !out.Dialect.Open.NoInitialized
	if slices.Contains(codes, FoundNoVersion) && slices.Contains(codes, FoundNoServerInfo) {
		announced = false // the server may speak another protocol
	}
	if last := link.sent[len(link.sent)-1].method; out.Revision.Legacy() && (last == mcp.NoteInitialized) != announced {
		t.Errorf("the server is legacy, but the last message was %s", last)
	}
	if out.Hello.Capabilities == nil && !slices.Contains(codes, FoundUndiscovered) {
		t.Error("there are no capabilities")
	}
	checkTrace(t, out.Trace)
	b := out.Trace.String() + "= " + out.Revision.String()
	if !out.Remember() {
		b += ", not to be remembered"
	}
	for _, f := range out.Findings {
		b += "\n  " + f.Code + ": " + f.Text
	}
	return b + "\n"
}

func checkDialect(t testing.TB, s *scene, out *Outcome) {
	name, n := "", 0
	if out.Dialect != nil {
		name = out.Dialect.Name
	}
	if out.Tools != nil {
		for range jsonrpc.Elements(out.Tools.Raw, out.Tools.ResultMember("tools")) {
			n++
		}
		if jsonrpc.Find(out.Hello.Capabilities, jsonrpc.Whole(out.Hello.Capabilities), "tools").IsZero() {
			t.Errorf("the server has tools, but its capabilities are %s", out.Hello.Capabilities)
		}
	}
	if name != s.dialect || n != s.tools {
		t.Errorf("dialect %q with %d tools, want %q with %d", name, n, s.dialect, s.tools)
	}
}

func checkError(t testing.TB, s *scene, err error) string {
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is a %T: %v", err, err)
	}
	if e.Cause != s.cause || s.cause == "" {
		t.Errorf("cause %q, want %q: %v", e.Cause, s.cause, err)
	}
	if s.is != nil && !errors.Is(err, s.is) {
		t.Errorf("%v does not wrap %v", err, s.is)
	}
	for _, sentinel := range []error{ErrTrySSE, ErrDiedOnProbe, ErrRefusedAfterProbe} {
		if sentinel != s.is && errors.Is(err, sentinel) {
			t.Errorf("%v wraps %v", err, sentinel)
		}
	}
	if e.Remember() != s.forget {
		t.Errorf("Remember is %t", e.Remember())
	}
	if (e.Dialect != "") != (s.cause == CauseDialect) || (e.Answer != nil) != (e.Dialect != "") {
		t.Errorf("dialect %q with answer %s", e.Dialect, e.Answer)
	}
	for _, r := range e.Text {
		if r < ' ' || r == '\u202e' {
			t.Errorf("%q cannot be printed as it is", e.Text)
		}
	}
	checkTrace(t, e.Trace)
	return e.Trace.String() + "= " + e.Step + " " + string(e.Cause) + "\n  " + e.Text + "\n"
}

func checkTrace(t testing.TB, trace Trace) {
	if len(trace) == 0 || len(trace) == maxSteps {
		t.Errorf("the trace has %d steps", len(trace))
	}
	for _, s := range trace {
		if s.Got == "" || s.Reason == "" {
			t.Errorf("the step %+v is incomplete", s)
		}
	}
	if b := trace.AppendJSON(nil); jsonrpc.Valid(b, jsonrpc.Limits{}) != nil {
		t.Errorf("the trace as JSON: %s", b)
	}
}

// TestTraces compares all traces with testdata/traces.txt. With -update, it writes this file.
func TestTraces(t *testing.T) {
	var b strings.Builder
	for _, scenes := range [][]scene{t13, field, rules, dialects} {
		for _, s := range scenes {
			b.WriteString("-- " + s.name + " --\n")
			synctest.Test(t, func(t *testing.T) { b.WriteString(play(t, &s)) })
		}
	}
	path := filepath.Join("testdata", "traces.txt")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), b.String()); d != "" {
		t.Errorf("traces differ from %s (-update writes it):\n%s", path, d)
	}
}

func TestWhatIsSent(t *testing.T) {
	info, capabilities := []byte(`{"name":"c","version":"2"}`), []byte(`{"roots":{}}`)
	link := &script{t: t, turns: []turn{unknown, speaks("2025-06-18"), initialized}}
	out, err := Open(t.Context(), link, Offer{ClientInfo: info, Capabilities: capabilities})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"2"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}`,
		`{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"2"}}`,
		"",
	}
	for i, m := range link.sent {
		if m.params != want[i] {
			t.Errorf("%s: params %s\nwant %s", m.method, m.params, want[i])
		}
	}
	if link.sent[2].rules != out.Rules || out.Rules.Version != "2025-06-18" {
		t.Errorf("rules %+v, outcome %+v", link.sent[2].rules, out.Rules)
	}
	h := out.Hello
	if string(h.Info) != `{"name":"s","version":"1"}` || string(h.Capabilities) != `{"tools":{"listChanged":true}}` || h.Instructions != nil || len(h.Versions) != 1 || h.Raw == nil {
		t.Errorf("hello %+v", h)
	}
}

func TestModernHello(t *testing.T) {
	out, err := Open(t.Context(), &script{t: t, turns: []turn{discovered}}, Offer{})
	if err != nil {
		t.Fatal(err)
	}
	h := out.Hello
	if string(h.Info) != `{"name":"s","version":"1"}` || string(h.Capabilities) != `{"tools":{}}` || string(h.Instructions) != `"Hi."` || !slices.Equal(h.Versions, []string{"2026-07-28"}) {
		t.Errorf("hello %+v", h)
	}
}

func TestUnknownVersionStaysInTheHeader(t *testing.T) {
	for version, want := range map[string]string{
		"2025-09-01-draft": "2025-09-01-draft", // the server's own version
		"2026-07-28":       "2025-11-25",       // a modern version would mean that requests contain _meta
		"x y":              "2025-11-25",       // not a valid header value
		"1":                "1",
	} {
		out, err := Open(t.Context(), &script{t: t, turns: []turn{unknown, speaks(version), initialized}}, web)
		if err != nil {
			t.Fatal(err)
		}
		if out.Rules.Version != want {
			t.Errorf("%q: version header %q, want %q", version, out.Rules.Version, want)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, test := range []struct {
		name  string
		offer Offer
		turns []turn
		want  time.Duration
	}{
		{"a silent pipe falls back after 3 s", pipe, []turn{mute(discover), speaks("2025-11-25"), initialized}, 3 * time.Second},
		{"silent HTTP after 10 s", web, []turn{mute(discover), speaks("2025-11-25"), initialized}, 10 * time.Second},
		{"all of it after 30 s", pipe, []turn{mute(discover), mute(initial)}, 30 * time.Second},
		{"half of a short time", Offer{Timeout: 2 * time.Second}, []turn{mute(discover), speaks("2025-11-25"), initialized}, time.Second},
		{"the waits for a server that is not ready", Offer{SkipProbe: true}, []turn{
			errorTo(initial, `{"code":-32000,"message":"not ready"}`), errorTo(initial, `{"code":-32000,"message":"not ready"}`),
			errorTo(initial, `{"code":-32000,"message":"not ready"}`), speaks("2025-11-25"), initialized,
		}, 1050 * time.Millisecond},
		{"a late answer ends the wait", pipe, []turn{
			{to: discover, mute: true, late: discovered.msg, lateAt: 3500 * time.Millisecond}, mute(initial),
		}, 3500 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				_, _ = Open(t.Context(), &script{t: t, turns: test.turns}, test.offer)
				if took := time.Since(begun); took != test.want {
					t.Errorf("the handshake took %v, want %v", took, test.want)
				}
			})
		})
	}
}

func TestCancelled(t *testing.T) {
	waiting := func(to string) []turn {
		if to == discover {
			return []turn{mute(discover)}
		}
		return []turn{unknown, mute(initial)}
	}
	for _, step := range []string{discover, initial} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := Open(ctx, &script{t: t, turns: waiting(step)}, Offer{})
			var e *Error
			if !errors.As(err, &e) || e.Cause != CauseCancelled || !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", step, err)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := Open(ctx, &script{t: t, turns: waiting(step)}, Offer{})
			var e *Error
			if !errors.As(err, &e) || e.Cause != CauseTimeout || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", step, err)
			}
		})
	}
	// The handshake is cancelled while it waits for a server that is not ready.
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		_, err := Open(ctx, &script{t: t, turns: []turn{errorTo(initial, `{"code":-32000,"message":"not ready"}`)}}, Offer{SkipProbe: true})
		var e *Error
		if !errors.As(err, &e) || e.Cause != CauseCancelled {
			t.Errorf("%v", err)
		}
	})
}

func TestErrorKeepsTheStatus(t *testing.T) {
	link := &script{t: t, turns: []turn{{to: discover, status: 429, retry: 7 * time.Second}}}
	_, err := Open(t.Context(), link, web)
	var e *Error
	if !errors.As(err, &e) || e.RetryAfter != 7*time.Second || !strings.Contains(e.Text, "try again in 7s") {
		t.Errorf("%v", err)
	}
}

func TestRulesFor(t *testing.T) {
	for r := mcp.Unknown; r <= mcp.Latest; r++ {
		rules := RulesFor(r)
		if rules.MirrorHeaders != r.Modern() || rules.CloseIsCancel != r.Modern() || rules.Sessions == r.Modern() || rules.Resumable == r.Modern() || rules.RequestsOnSSE == r.Modern() || rules.ResponsesByPost == r.Modern() {
			t.Errorf("%s: %+v", r, rules)
		}
		if want := r.Can(mcp.VersionHeader); (rules.Version == r.String()) != want {
			t.Errorf("%s: version header %q", r, rules.Version)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, bench := range []struct {
		name  string
		turns []turn
	}{
		{"modern", []turn{discovered}},
		{"legacy", []turn{unknown, speaks("2025-11-25"), initialized}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			link := &script{t: b, turns: bench.turns}
			for b.Loop() {
				link.next, link.sent = 0, link.sent[:0]
				if _, err := Open(b.Context(), link, pipe); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
