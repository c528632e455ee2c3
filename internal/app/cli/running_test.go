package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runningServe returns a server that answers like a serve process. The names and texts of its
// servers are hostile.
func runningServe(t *testing.T) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, `{"ready":false,"reason":"no server could be opened"}`)
	})
	mux.HandleFunc("/api/v1/status", func(w http.ResponseWriter, _ *http.Request) {
		at := time.Now().Add(-time.Minute).Format(time.RFC3339)
		fmt.Fprintf(w, `{"name":"dragoman","version":"1.2.3","state":"serving","servers":[
			{"name":"files","state":"failed","lastError":{"at":%q,"text":"it said\nAPI_TOKEN=abcdef123456 \u001b[2J`+"```"+`",
				"failure":{"class":"exited","sentence":"x","evidenceFrom":"stderr","evidence":["no \u001b[2J module","KEY_SECRET=abcdef123456"]}}}]}`, at)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func runApp(args ...string) (code int, out, said string) {
	var stdout, stderr bytes.Buffer
	a := &app{world: world{stdout: &stdout, env: noEnv, status: newStatus(&stderr, false, noEnv)}}
	code = a.main(args)
	return code, stdout.String(), stderr.String()
}

// TestBugOfRunningServe checks that the report has the status and the failures of a running
// serve process. The report must not have secrets, and text from a server must not end the report's
// code block.
func TestBugOfRunningServe(t *testing.T) {
	t.Parallel()
	s := runningServe(t)
	code, out, said := runApp("bug", "-c", filepath.Join(t.TempDir(), "none.yaml"), s.URL+"/mcp")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, said)
	}
	for _, want := range []string{"## Status of the running serve\n\n````\n---- dragoman 1.2.3", "## Last failures\n\n````\nfiles, 1m", `it said API_TOKEN=***`, "\n  class: exited\n  stderr: ", "KEY_SECRET=***", "file not found"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "abcdef123456") || strings.Contains(out, "\x1b") || strings.Contains(out, "\n```\n```") {
		t.Errorf("%s", out)
	}
}

func TestHealthcheck(t *testing.T) {
	s := runningServe(t)
	if code, out, said := runApp("healthcheck", s.URL); code != exitOK || out != "" || !strings.Contains(said, "is healthy") {
		t.Errorf("%d %q %q", code, out, said)
	}
	if code, _, said := runApp("healthcheck", "--ready", s.URL); code != exitFailure || !strings.Contains(said, `is not healthy: HTTP 503, "no server could be opened"`) {
		t.Errorf("%d %q", code, said)
	}
	config := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(config, []byte("dragoman: {listen: \""+strings.TrimPrefix(s.URL, "http://")+"\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, said := runApp("-q", "healthcheck", "-c", config); code != exitOK || said != "" {
		t.Errorf("%d %q", code, said)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	if code, _, said := runApp("healthcheck", other.URL); code != exitFailure || !strings.Contains(said, "HTTP 404") {
		t.Errorf("%d %q", code, said)
	}
}
