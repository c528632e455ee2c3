package cli

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
)

// TestStartTable checks the table that serve prints after the start, for a pipe and
// for terminals of two widths.
func TestStartTable(t *testing.T) {
	s := daemon.Start{Report: testReport(), Began: noon.Add(-time.Hour - 1240*time.Millisecond)}
	s.Report.Servers[1].Since = s.Began.Add(-time.Second) // the server was ready before the start, because of an earlier call
	for _, c := range []struct{ endpoint, public, want string }{
		{"https://10.0.0.5:443/mcp", "https://mcp.example.com", "dragoman: `dragoman status --url https://mcp.example.com`, with an API key in DRAGOMAN_KEY, shows this table again\n"},
		{"https://10.0.0.5:443/mcp", "", "dragoman: `dragoman status --url https://10.0.0.5:443`, with an API key in DRAGOMAN_KEY, shows this table again\n"},
		{"http://10.0.0.5:80/mcp", "", ""}, // the API is off there
	} {
		if got := (startOptions{program: "dragoman", endpoint: c.endpoint, public: c.public, away: true}).again(); got != c.want {
			t.Errorf("%s %s: %s", c.endpoint, c.public, got)
		}
	}
	o := startOptions{program: "dragoman", endpoint: "http://127.0.0.1:7400/mcp", flags: " --listen 127.0.0.1:7400"}
	golden(t, "start.txt", o.text(s, noon, 0, false))
	s.Report.Servers = wideReport().Servers
	golden(t, "start-60.txt", o.text(s, noon, 60, false))
	golden(t, "start-100.txt", o.text(s, noon, 100, false))
	s.Report.Servers = nil
	s.Report.Config = "/etc/x.yaml"
	if got := o.text(s, noon, 90, false); got != "dragoman: no server is configured; `dragoman import` takes those of another client, or add some under mcpServers in /etc/x.yaml\n" {
		t.Errorf("without servers: %s", got)
	}
}

// TestStartRecords checks that JSON logs have a record for each server.
func TestStartRecords(t *testing.T) {
	var said syncBuffer
	c := &serveCommand{world: &world{stdout: io.Discard, status: newStatus(&said, false, noEnv)}}
	c.status.recordsOnly()
	c.recordStart(daemon.Start{Report: testReport(), Began: noon.Add(-time.Hour - 1240*time.Millisecond)}, noon)
	var out strings.Builder
	for line := range strings.Lines(said.take()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil || r["time"] == nil {
			t.Fatalf("%v: %s", err, line)
		}
		_, rest, _ := strings.Cut(line, ",")
		out.WriteString("{" + rest)
	}
	golden(t, "start.json", out.String())
}

// TestFlagsOf checks that the hints after the start name the port that the system has chosen.
func TestFlagsOf(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:0":    " --listen 127.0.0.1:4711",
		"[::1]:0":        " --listen 127.0.0.1:4711",
		"127.0.0.1:7300": " -c a.yaml",
		"no address":     " -c a.yaml",
	} {
		if got := flagsOf(startOptions{flags: " -c a.yaml", endpoint: "http://127.0.0.1:4711/mcp"}, address); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
