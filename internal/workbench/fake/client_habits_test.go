package fake

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// between starts a fake server on a pipe. A client connects with at. ended stops the server.
func between(t *testing.T, name string, set map[string]string) (s *Server, at Where, ended func()) {
	t.Helper()
	s, err := NewServer(name, Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = s.ServePipe(context.Background(), fromClient, toClient)
		_ = toClient.Close()
	})
	return s, Where{In: fromServer, Out: toServer}, func() {
		_, _ = toServer.Close(), fromServer.Close()
		serving.Wait()
		_ = s.Close()
	}
}

// record returns a function that appends the text of each finding to a list.
func record(to *[]string) func(Finding) {
	return func(f Finding) {
		mark := "ok "
		if f.Bad {
			mark = "BAD "
		}
		*to = append(*to, mark+f.Step+": "+f.Detail)
	}
}

// TestHabitsOnAPipe checks the unusual messages of each client with a habit, and the violation that
// a strict server records for them.
func TestHabitsOnAPipe(t *testing.T) {
	for profile, want := range map[string]struct {
		says   []string // parts of the messages that the client sends, in this order
		never  string
		breaks string // the first violation that the server sees; "" for none
	}{
		"id-zero": {says: []string{`"id":0,"method":"initialize"`, `"id":1,"method":"tools/list"`, `"progressToken":0}`, `"progressToken":1}`}},
		"probe-then-initialize": {says: []string{
			`"id":"server-discover-probe-1","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"id":1,"method":"initialize"`,
		}},
		"mcp-method-in-the-old-era": {
			says: []string{`"method":"initialize"`, `"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/logLevel":"info"}}`}, breaks: "tools/list: 2025-11-25 does not define",
		},
		"forgets-initialized": {never: "notifications/initialized", breaks: "tools/list: tools/list was sent before notifications/initialized"},
		"no-version-header":   {}, "looks-for-oauth": {}, // these habits are only visible over HTTP
	} {
		t.Run(profile, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := Lookup(ClientSide, profile)
				s, at, end := between(t, "strict-"+p.Settings[0].Default, nil)
				defer end()
				var captured bytes.Buffer
				var steps []string
				violations, err := Play(t.Context(), profile, at, ClientOptions{Capture: &captured}, record(&steps))
				if err != nil || len(violations) > 0 {
					t.Errorf("%v; %q", err, violations)
				}
				rest := captured.String()
				for _, w := range want.says {
					_, after, ok := strings.Cut(rest, w)
					if !ok {
						t.Fatalf("the client did not send %s in\n%s", w, captured.String())
					}
					rest = after
				}
				if want.never != "" && strings.Contains(captured.String(), `"method":"`+want.never) {
					t.Errorf("the client sent %s", want.never)
				}
				// Ignore the violations that a strict client also causes, because some requests of
				// Play are invalid on purpose.
				usually, at, over := between(t, "strict-"+p.Settings[0].Default, nil)
				defer over()
				if _, err := Play(t.Context(), "strict-"+p.Settings[0].Default, at, ClientOptions{}, func(Finding) {}); err != nil {
					t.Error(err)
				}
				broken := slices.DeleteFunc(s.Violations(), func(v string) bool { return slices.Contains(usually.Violations(), v) })
				if want.breaks == "" && len(broken) > 0 || want.breaks != "" && (len(broken) == 0 || !strings.HasPrefix(broken[0], want.breaks)) {
					t.Errorf("the server recorded %q, want %q", broken, want.breaks)
				}
				if bad := strings.Contains(strings.Join(steps, "\n"), "BAD"); bad != (want.breaks != "") {
					t.Errorf("%s", strings.Join(steps, "\n"))
				}
			})
		})
	}
}

// TestPlaysEnd checks that Play ends within its time limits with servers that do not answer, answer
// incorrectly, or never stop.
func TestPlaysEnd(t *testing.T) {
	for _, tt := range []struct {
		server, client string
		set            map[string]string
		wantErr        string
		want           string // a text that one of the findings must contain
		within         time.Duration
	}{
		{server: "never-answers", client: "strict-2025-06-18", wantErr: "initialize: no answer within 10s", within: 10 * time.Second},
		{server: "never-answers", client: "probe-then-initialize", wantErr: "initialize: no answer within 10s", within: 10 * time.Second},
		{server: "never-answers", client: "manifest-client", want: "BAD initialize: no answer within 10s", within: 10 * time.Second},
		{server: "wrong-id-type", client: "strict-2025-06-18", wantErr: `before that, the client found this violation: the server answered the id "1", but no request with this id is in flight`, within: 10 * time.Second},
		{server: "silent-on-unknown", client: "strict-2025-06-18", want: "BAD an unknown method: no answer within 10s", within: 10 * time.Second},
		{server: "flood", client: "strict-2025-06-18", set: map[string]string{"count": "1500"}, want: "ok an unknown method", within: 10 * time.Second},
		{server: "half-line", client: "strict-2025-06-18", want: "BAD an unknown method: the server's output ended", within: 10 * time.Second},
		{server: "slow-start", client: "manifest-client", set: map[string]string{"ms": "60000"}, want: "BAD initialize: no answer within 10s", within: 10 * time.Second},
	} {
		t.Run(tt.server+" "+tt.client, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, at, end := between(t, tt.server, tt.set)
				begun := time.Now()
				var steps []string
				_, err := Play(t.Context(), tt.client, at, ClientOptions{}, record(&steps))
				if took := time.Since(begun); took > tt.within+clientPatience {
					t.Errorf("it took %v", took)
				}
				end()
				if tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) || tt.wantErr == "" && err != nil {
					t.Errorf("%v, want %s", err, tt.wantErr)
				}
				if all := strings.Join(steps, "\n"); !strings.Contains(all, tt.want) {
					t.Errorf("no %s in\n%s", tt.want, all)
				}
			})
		})
	}
}

// TestAPlayEndsAsAWhole checks that Play ends after the time in the setting "whole" if the server
// answers only initialize.
func TestAPlayEndsAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fromClient, toServer := io.Pipe()
		fromServer, toClient := io.Pipe()
		var serving sync.WaitGroup
		serving.Go(func() {
			defer func() { _ = toClient.Close() }()
			lines := newLines(fromClient)
			for lines.Scan() {
				if strings.Contains(lines.Text(), `"initialize"`) {
					_, _ = io.WriteString(toClient, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{},"prompts":{},"logging":{}},"serverInfo":{"name":"x","version":"1"}}}`+"\n")
				}
			}
		})
		begun := time.Now()
		var steps []string
		_, err := Play(t.Context(), "strict-2025-06-18", Where{In: fromServer, Out: toServer}, ClientOptions{Set: map[string]string{"step": "1000", "whole": "3500"}}, record(&steps))
		if took := time.Since(begun); err != nil || took < 3*time.Second || took > 4*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		serving.Wait()
		if all := strings.Join(steps, "\n"); !strings.Contains(all, "BAD tools/list: no answer within 1s") || !strings.Contains(all, "BAD an unknown method: not tried: the test did not end within 3.5s") {
			t.Errorf("%s", all)
		}
	})
}

// TestClientScripts checks the findings of manifest-client and bare-http-client, with servers that they
// understand and with others.
func TestClientScripts(t *testing.T) {
	manifest := func(t *testing.T, server string) []string {
		t.Helper()
		var steps []string
		synctest.Test(t, func(t *testing.T) {
			_, at, end := between(t, server, nil)
			defer end()
			if _, err := Play(t.Context(), "manifest-client", at, ClientOptions{}, record(&steps)); err != nil {
				t.Error(err)
			}
		})
		return steps
	}
	all := strings.Join(manifest(t, "manifest-python"), "\n")
	for _, want := range []string{"ok initialize: 5 tools: files.add", "ok tools/call files.bare: a result", "ok an unknown tool: the error -32601", "ok shutdown: the server"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in\n%s", want, all)
		}
	}
	if strings.Contains(all, "files.move") && strings.Contains(all, "tools/call files.move") {
		t.Errorf("a tool that needs confirmation was called:\n%s", all)
	}
	if all := strings.Join(manifest(t, "strict-2025-06-18"), "\n"); !strings.Contains(all, "BAD initialize: initialize was refused") {
		t.Errorf("%s", all)
	}

	bare := func(t *testing.T, answer string) []string {
		t.Helper()
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}))
		defer at.Close()
		var steps []string
		if _, err := Play(t.Context(), "bare-http-client", Where{URL: at.URL}, ClientOptions{Set: map[string]string{"times": "1"}}, record(&steps)); err != nil {
			t.Error(err)
		}
		return steps
	}
	for answer, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"1","result":{"content":[]}}`:                "ok tools/call 1: a result of 14 bytes",
		`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`:                  "BAD tools/call 1: the last of 1 messages must be the answer",
		`{"jsonrpc":"2.0","id":"1","error":{"code":-32600,"message":"no"}}`: "BAD tools/call 1: got the error -32600: no",
		`{"jsonrpc":"2.0","id":"1","error":{"code":"NO","message":"no"}}`:   "error has no integer code",
		`no session`: "BAD tools/call 1: status 200",
	} {
		if got := strings.Join(bare(t, answer), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", answer, got, want)
		}
	}
}

// TestClientSettings checks that CheckClient accepts the default settings of each client profile
// and refuses invalid settings.
func TestClientSettings(t *testing.T) {
	for _, p := range Profiles() {
		if p.Side != ClientSide {
			continue
		}
		set := map[string]string{}
		for _, s := range p.Settings {
			set[s.Name] = s.Default
		}
		if err := CheckClient(p.Name, set); err != nil {
			t.Errorf("%s with its own settings: %v", p.Name, err)
		}
		if p.About == "" || !strings.HasSuffix(p.About, ".") {
			t.Errorf("%s: %q is not a sentence", p.Name, p.About)
		}
	}
	for _, tt := range []struct{ profile, name, value, want string }{
		{"strict-2025-06-18", "page", "1", `no setting "page"`},
		{"strict-2025-06-18", "step", "0", "a number from 1"},
		{"id-zero", "revision", "2026-07-28", "needs a revision that has initialize"},
		{"id-zero", "revision", "2020-01-01", "must be one of"},
		{"bare-http-client", "arguments", "[]", "a JSON object"},
		{"bare-http-client", "times", "x", "a number from 1"},
	} {
		if err := CheckClient(tt.profile, map[string]string{tt.name: tt.value}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	if _, err := OpenClient(t.Context(), "manifest-client", Where{}, ClientOptions{}); err == nil {
		t.Error("OpenClient accepts a client that has no revision")
	}
}
