//go:build unix

package daemon

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// tappedWeb is a webServer that keeps the bodies of tools/call requests and of their answers.
type tappedWeb struct {
	*webServer
	mu     sync.Mutex
	bodies []string
}

func (s *tappedWeb) keep(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, string(b))
}

func (s *tappedWeb) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	call := bytes.Contains(body, []byte(`"tools/call"`))
	if call {
		s.keep(body)
	}
	out := &tappedResponse{ResponseWriter: w}
	s.webServer.ServeHTTP(out, r)
	if call && out.body.Len() > 0 {
		s.keep(out.body.Bytes())
	}
}

type tappedResponse struct {
	http.ResponseWriter
	body bytes.Buffer
}

func (w *tappedResponse) Write(b []byte) (int, error) {
	w.body.Write(b)
	return w.ResponseWriter.Write(b)
}

// withKey makes the access key of Serve known to the test. option must be passed to serve. header
// returns the Authorization header with the key.
func withKey(t *testing.T) (option func(*ServeOptions), header func(r *rig) []string) {
	folder := t.TempDir()
	return func(o *ServeOptions) { o.KeyFolders = []string{folder} }, func(r *rig) []string {
		t.Helper()
		keys, err := admin.ReadKeys([]string{folder}, strings.TrimPrefix(r.base, "http://"))
		if err != nil || len(keys) != 1 {
			t.Fatalf("the key: %q %v", keys, err)
		}
		return []string{"Authorization", "Bearer " + keys[0]}
	}
}

// story gets the story of a call from the API.
func (r *rig) story(number uint64, header []string) admin.Story {
	r.t.Helper()
	a := r.do(r.t.Context(), "GET", "/api/v1/calls/"+decimal(number), nil, header...)
	var s admin.Story
	if err := json.Unmarshal([]byte(a.body), &s); err != nil || a.status != 200 {
		r.t.Fatalf("call %d: %d %v %s", number, a.status, err, a.body)
	}
	return s
}

// texts returns the messages of a story on one wire.
func texts(s admin.Story, wire string) (out []string) {
	for _, m := range s.Messages {
		if m.Wire == wire {
			out = append(out, string(m.Bytes()))
		}
	}
	return out
}

// TestStoryOverHTTP checks the story of a call over HTTP. It has the bytes that the client and the
// server have sent and received, and the heads of the HTTP messages. Secrets are masked. With a
// legacy server, the session is lost, so Dragoman sends the call twice, and the story has both.
func TestStoryOverHTTP(t *testing.T) {
	t.Parallel()
	const secret = "configured-secret-1"
	for _, modern := range []bool{false, true} {
		for _, client := range []string{"2025-06-18", modernVersion} {
			t.Run(client+" to "+eraName(modern), func(t *testing.T) {
				t.Parallel()
				web := &tappedWeb{webServer: newWeb(t, modern)}
				tap := httptest.NewServer(web)
				defer tap.Close()
				web.webServer.takes(secret)
				c, problem := config.Complete(config.Server{Name: "web", URL: tap.URL + "/mcp", Header: []config.Field{{Name: "Authorization", Value: config.NewSecret("Bearer " + secret)}}})
				if problem != nil {
					t.Fatal(problem)
				}
				option, key := withKey(t)
				r := serve(t, snapshot(&upstreamUnderTest{Server: c}), option)
				body := modernBody(`"id-1"`, "tools/call", `"name":"web__echo","arguments":{"n": 1e400,"s":"`+secret+`"}`)
				header := modernHeader("tools/call", "web__echo")
				if client != modernVersion {
					header = []string{"Mcp-Session-Id", r.initialize("/mcp", client, "{}")}
					body = toolCall(`"id-1"`, "web__echo", `{"n": 1e400,"s":"`+secret+`"}`)
				}
				if !modern {
					r.post("/mcp", strings.Replace(body, "id-1", "id-0", 1), header...) // opens the session with the server
					web.forget()
					web.mu.Lock()
					web.bodies = nil
					web.mu.Unlock()
				}
				answer := r.post("/mcp", body, header...)
				call := r.awaitCalls("?method=tools/call&q=echo", 1)[0]
				if !call.Recorded || call.Outcome != "ok" {
					t.Fatalf("the call: %+v", call)
				}
				if a := r.do(t.Context(), "GET", "/api/v1/calls/"+decimal(call.Number), nil); a.status != 401 || strings.Contains(a.body, "1e400") {
					t.Errorf("without the key: %d %s", a.status, a.body)
				}
				s := r.story(call.Number, key(r))
				raw, _ := json.Marshal(s)
				if strings.Contains(string(raw), secret) {
					t.Errorf("the secret is in %s", raw)
				}
				masked := func(all ...string) (out []string) {
					for _, x := range all {
						out = append(out, strings.ReplaceAll(x, secret, strings.Repeat("*", len(secret))))
					}
					return out
				}
				if d := cmp.Diff(masked(body, answer.body), texts(s, admin.WireClient)); d != "" {
					t.Errorf("the client's wire: -seen +story\n%s", d)
				}
				web.mu.Lock()
				seen := slices.Clone(web.bodies)
				web.mu.Unlock()
				if d := cmp.Diff(masked(seen...), slices.DeleteFunc(texts(s, admin.WireServer), func(s string) bool { return s == "" })); d != "" {
					t.Errorf("the server's wire: -seen +story\n%s", d)
				}
				if want := map[bool]int{false: 2, true: 1}[modern]; strings.Count(strings.Join(seen, ""), `"tools/call"`) != want {
					t.Errorf("the server was called %q", seen)
				}
				first, last := s.Messages[0], s.Messages[len(s.Messages)-1]
				if h := first.Request; h == nil || h.Method != "POST" || h.Path != "/mcp" || first.Size != len(body) || len(first.Masked) != 1 {
					t.Errorf("the request: %+v %+v", first, h)
				}
				if h := last.Response; h == nil || h.Status != 200 || !slices.Contains(h.Headers, [2]string{"Content-Type", "application/json"}) || last.Source == nil || len(last.Edits) == 0 {
					t.Errorf("the answer: %+v %+v", last, h)
				}
				sent := s.Messages[1]
				if h := sent.Request; h == nil || h.Path != "/mcp" || !slices.Contains(h.Headers, [2]string{"Authorization", "***"}) || sent.Source == nil || *sent.Source != 0 {
					t.Errorf("the call: %+v %+v", sent, h)
				}
				if h := s.Messages[2].Response; h == nil || modern && h.Status != 200 || !modern && h.Status != 404 {
					t.Errorf("the first answer of the server: %+v %+v", s.Messages[2], h)
				}
				if reasons := notesOf(s); reasons["id"] == "" || reasons["name"] == "" {
					t.Errorf("the notes: %+v", s.Notes)
				}
			})
		}
	}
}

func eraName(modern bool) string {
	if modern {
		return "modern"
	}
	return "legacy"
}

func notesOf(s admin.Story) map[string]string {
	out := map[string]string{}
	for _, n := range s.Notes {
		out[n.Reason] = n.Note
	}
	return out
}

// TestRecording checks that a story has no messages if recording is off. A POST to
// /api/v1/recording makes Dragoman record the calls to one server for some minutes. The request
// needs the access key.
func TestRecording(t *testing.T) {
	t.Parallel()
	option, key := withKey(t)
	settings := snapshot(newWeb(t, true).as(t, "one"), newWeb(t, true).as(t, "two"))
	settings.Record = config.RecordOff
	r := serve(t, settings, option)
	r.call("/mcp", "one__echo", `{"v":1}`)
	first := r.awaitCalls("?q=one__echo", 1)[0]
	if s := r.story(first.Number, key(r)); first.Recorded || len(s.Messages) != 0 || s.Number != first.Number {
		t.Errorf("without recording: %+v", s)
	}
	post := func(body string, header ...string) answer {
		return r.do(t.Context(), "POST", "/api/v1/recording", strings.NewReader(body), append(header, "Content-Type", "application/json")...)
	}
	if a := post(`{"server":"one"}`); a.status != 401 {
		t.Errorf("without the key: %d %s", a.status, a.body)
	}
	for _, bad := range []string{`{}`, `{"server":"one","minutes":61}`, `{"server":"nobody"}`, `{"server":"one","x":1}`, `[`} {
		if a := post(bad, key(r)...); a.status != 400 && a.status != 404 || !strings.HasPrefix(a.header.Get("Content-Type"), "application/problem+json") {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
	a := post(`{"server":"one","minutes":5}`, key(r)...)
	var now admin.Recording
	if err := json.Unmarshal([]byte(a.body), &now); err != nil || a.status != 200 || now.All || len(now.Windows) != 1 || now.Windows[0].Server != "one" || now.Bytes != 0 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	r.call("/mcp", "one__echo", `{"v":2}`)
	r.call("/mcp", "two__echo", `{"v":3}`)
	one, two := r.awaitCalls("?q=one__echo", 2)[0], r.awaitCalls("?q=two__echo", 1)[0]
	if s := r.story(one.Number, key(r)); !one.Recorded || len(s.Messages) != 4 {
		t.Errorf("the call to one: %+v", s)
	}
	if two.Recorded {
		t.Errorf("the call to two is recorded")
	}
	if a := r.do(t.Context(), "GET", "/api/v1/calls/999999", nil, key(r)...); a.status != 404 {
		t.Errorf("an unknown call: %d %s", a.status, a.body)
	}
}
