//go:build unix

package daemon

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// shell returns a server that runs a shell script. The start timeout is long, so Dragoman does not
// restart a script that never answers.
func shell(t *testing.T, name, script string) *upstreamUnderTest {
	t.Helper()
	s, problem := config.Complete(config.Server{Name: name, Command: "sh", Args: []string{"-c", script}, Dir: t.TempDir(), StartTimeout: 10 * time.Minute})
	if problem != nil {
		t.Fatal(problem)
	}
	return &upstreamUnderTest{Server: s}
}

func (r *rig) logs(query string) []admin.LogRecord {
	r.t.Helper()
	a := r.do(r.t.Context(), "GET", "/api/v1/logs"+query, nil)
	var all admin.Logs
	if err := json.Unmarshal([]byte(a.body), &all); err != nil || a.status != 200 || a.header.Get("Cache-Control") != "no-store" {
		r.t.Fatalf("logs%s: %d %v %v %s", query, a.status, a.header, err, a.body)
	}
	return all.Records
}

// logStream is an open stream of log records from the API.
type logStream struct {
	t    *testing.T
	resp *http.Response
	in   *eventstream.Reader
}

func (r *rig) follow(t *testing.T, query string, header ...string) *logStream {
	t.Helper()
	resp, err := r.request(t.Context(), "GET", "/api/v1/logs/stream"+query, nil, header...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("stream%s: %d %v", query, resp.StatusCode, resp.Header)
	}
	return &logStream{t, resp, eventstream.NewReader(resp.Body, eventstream.Limits{})}
}

// next returns the next record, or nil if serve sends the event that ends the stream.
func (s *logStream) next() *admin.LogRecord {
	s.t.Helper()
	for {
		e, err := s.in.Next()
		if err != nil {
			s.t.Fatalf("the stream broke: %v", err)
		}
		switch e.Name {
		case admin.EventEnd:
			return nil
		case admin.EventRecord:
			r := &admin.LogRecord{}
			if err := json.Unmarshal(e.Data, r); err != nil || r.ID != e.ID {
				s.t.Fatalf("record %s: %v: %s", e.ID, err, e.Data)
			}
			return r
		}
	}
}

// TestLogs checks that the API returns the stderr of servers and Dragoman's records about them,
// without secrets and control characters. The API refuses requests that come through a proxy.
func TestLogs(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(leakingServer(t), shell(t, "odd", `printf 'a \033[31mred\033[0m\007 line\n\n' >&2; sleep 60`)))
	await(t, "both have written", time.Minute, func() bool {
		// Dragoman may start the server several times before it logs the failure.
		failed := slices.ContainsFunc(r.logs("?server=leaky"), func(x admin.LogRecord) bool { return x.Source == admin.SourceLog && x.Level == "warn" })
		said := slices.ContainsFunc(r.logs("?server=leaky"), func(x admin.LogRecord) bool { return x.Source == admin.SourceStderr })
		return failed && said && slices.ContainsFunc(r.logs("?server=odd"), func(x admin.LogRecord) bool { return x.Source == admin.SourceStderr })
	})
	all := r.logs("?server=leaky")
	said, told := false, false
	for _, x := range all {
		if x.Server != "leaky" || x.ID == "" || x.Time.IsZero() {
			t.Errorf("record: %+v", x)
		}
		said = said || x.Source == admin.SourceStderr && x.Text == "token *** is not valid" && x.Level == "info"
		told = told || x.Source == admin.SourceLog && x.Level == "warn" && len(x.Attributes) > 0
	}
	if !said || !told {
		t.Errorf("records of leaky: %+v", all)
	}
	odd := slices.DeleteFunc(r.logs("?server=odd&limit=100"), func(x admin.LogRecord) bool { return x.Source != admin.SourceStderr })
	if odd[0].Text != `a red\a line` {
		t.Errorf("control characters: %+v", odd)
	}
	whole := r.do(t.Context(), "GET", "/api/v1/logs?limit=20000", nil).body
	if strings.Contains(whole, canary) || !strings.Contains(whole, `"server": "leaky"`) || !strings.Contains(whole, `"server": "odd"`) {
		t.Errorf("all records: %s", whole)
	}
	if n := len(r.logs("?limit=1")); n != 1 {
		t.Errorf("limit=1: %d records", n)
	}
	if n := len(r.logs("?limit=0")); n != 0 {
		t.Errorf("limit=0: %d records", n)
	}
	for path, want := range map[string]int{
		"/api/v1/logs?server=nobody": 404, "/api/v1/logs/stream?server=nobody": 404,
		"/api/v1/logs?limit=x": 400, "/api/v1/logs?limit=-1": 400, "/api/v1/logs?limit=20001": 400, "/api/v1/logs/other": 404,
	} {
		if a := r.do(t.Context(), "GET", path, nil); a.status != want || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"/api/v1/logs", "/api/v1/logs/stream"} {
		if a := r.do(t.Context(), "GET", path, nil, "X-Forwarded-For", "10.0.0.1"); a.status != 403 {
			t.Errorf("%s through a proxy: %d", path, a.status)
		}
		if a := r.post(path, "{}"); a.status != 405 {
			t.Errorf("POST %s: %d", path, a.status)
		}
	}
}

// TestLogStream checks that a stream sends the stored records and then each new record. A client
// can resume after a record that it names. When Dragoman stops, it sends an end event on each
// stream. The number of open streams is limited.
func TestLogStream(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(shell(t, "steps", `echo one >&2; echo two >&2; read line; echo three >&2; exec cat >/dev/null`)))
	s := r.follow(t, "?server=steps&limit=1000")
	texts := func(s *logStream, until string) (ids []string, got string) {
		for {
			x := s.next()
			if x == nil {
				return ids, got + " end"
			}
			if x.Source == admin.SourceStderr {
				ids, got = append(ids, x.ID), got+" "+x.Text
				if x.Text == until {
					return ids, got
				}
			}
		}
	}
	ids, got := texts(s, "three") // the server writes "three" after it has got the first message of the handshake
	if got != " one two three" {
		t.Errorf("followed: %s", got)
	}
	if _, got := texts(r.follow(t, "?server=steps&limit=0", "Last-Event-ID", ids[0]), "three"); got != " two three" {
		t.Errorf("resumed: %s", got)
	}
	if _, got := texts(r.follow(t, "?limit=0", "Last-Event-ID", "another-1-1"), "three"); got != " one two three" {
		t.Errorf("resumed after a restart: %s", got)
	}
	if all := r.logs("?server=steps&after=" + ids[1]); len(all) == 0 || all[0].Text != "three" && all[0].Source == admin.SourceStderr {
		t.Errorf("after: %+v", all)
	}
	open := []*logStream{s} // with the two above, half of the places: more are not for one address without the key
	for range 13 {
		open = append(open, r.follow(t, ""))
	}
	if a := r.do(t.Context(), "GET", "/api/v1/logs/stream", nil); a.status != 503 || !strings.Contains(a.body, "too-many-streams") {
		t.Errorf("one more: %d %s", a.status, a.body)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	for _, s := range open {
		for s.next() != nil {
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
