//go:build unix

package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// demoServers returns a configuration with the demo servers as child processes.
func demoServers(t *testing.T) *config.Snapshot {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := *config.Default()
	for _, era := range []string{demo.Legacy, demo.Modern} {
		server, p := config.Complete(config.Server{Name: era, Command: self, Env: map[string]config.Secret{asServer: config.NewSecret("demo " + era[:1])}})
		if p != nil {
			t.Fatal(p)
		}
		s.Servers = append(s.Servers, server)
	}
	return &s
}

// TestDemoClients runs the demo servers and the demo clients, and waits until the API has listed
// every kind of call.
func TestDemoClients(t *testing.T) {
	t.Parallel()
	r := serve(t, demoServers(t), func(o *ServeOptions) {
		o.DemoClients, o.Demo = demo.Clients(), func(ctx context.Context, endpoint string) { demo.Play(ctx, endpoint, "1") }
	})
	kinds := map[string]func(*admin.Call) bool{
		"a legacy call that succeeds": func(c *admin.Call) bool {
			return c.Client.Name == demo.LegacyClient && c.Client.Revision == "2025-06-18" && c.Outcome == "ok"
		},
		"a modern call that succeeds": func(c *admin.Call) bool {
			return c.Client.Name == demo.ModernClient && c.Client.Revision == "2026-07-28" && c.Outcome == "ok"
		},
		"translated from legacy": func(c *admin.Call) bool { return c.Client.Revision == "2025-06-18" && c.Revision == "2026-07-28" },
		"translated from modern": func(c *admin.Call) bool {
			return c.Client.Revision == "2026-07-28" && c.Server == "legacy" && c.Outcome == "ok" && c.Revision < "2026-07-28"
		},
		"relayed": func(c *admin.Call) bool { return c.Client.Revision == c.Revision && c.Outcome == "ok" },
		"a loss":  func(c *admin.Call) bool { return len(c.Losses) > 0 && c.Name == "modern__forecast" },
		"a question that was answered, by the legacy client": func(c *admin.Call) bool {
			return c.Client.Name == demo.LegacyClient && c.Name == "modern__confirm" && c.Outcome == "ok" && !c.ToolError
		},
		"a question that was answered, by the modern client": func(c *admin.Call) bool { return c.Name == "legacy__ask_name" && c.Requests == 2 && c.Outcome == "ok" },
		"a tool error":             func(c *admin.Call) bool { return c.ToolError },
		"an error of a server":     func(c *admin.Call) bool { return c.Outcome == "failed" && c.Server == "legacy" },
		"a call that is refused":   func(c *admin.Call) bool { return c.Name == "legacy__wave" && c.Outcome == "refused" },
		"a call that is cancelled": func(c *admin.Call) bool { return c.Name == "legacy__count" && c.Outcome == "cancelled" },
		"progress":                 func(c *admin.Call) bool { return c.Name == "modern__slow" && c.Outcome == "ok" },
	}
	pollUntil(t, func() string {
		resp, err := r.http.Get(r.base + "/api/v1/calls?limit=200")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var seen admin.Calls
		if err := json.NewDecoder(resp.Body).Decode(&seen); err != nil {
			t.Fatal(err)
		}
		var missing []string
	kinds:
		for name, is := range kinds {
			for i := range seen.Calls {
				if is(&seen.Calls[i]) {
					continue kinds
				}
			}
			missing = append(missing, name)
		}
		if len(missing) == 0 {
			return ""
		}
		return fmt.Sprintf("not seen: %s; calls: %+v", strings.Join(missing, ", "), seen.Calls)
	})
	status := r.statusOnly()
	if strings.Join(status.DemoClients, " ") != demo.LegacyClient+" "+demo.ModernClient {
		t.Errorf("demoClients is %q", status.DemoClients)
	}
	if text := string(status.Text(time.Now())); !strings.Contains(text, "are clients of the demo; --quiet-demo leaves them out") {
		t.Errorf("the status does not name the demo's clients:\n%s", text)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(r.log.String()) {
		// Dragoman logs the handshake of each client, but nothing else about the demo's clients.
		if !strings.Contains(line, "level=DEBUG") && !strings.Contains(line, "msg=initialize") && strings.Contains(line, demo.LegacyClient) {
			t.Errorf("the log has %s", line)
		}
	}
}

// TestNoDemoClients runs the demo servers without the demo clients, and checks that nobody makes
// calls.
func TestNoDemoClients(t *testing.T) {
	t.Parallel()
	r := serve(t, demoServers(t))
	pollUntil(t, func() string {
		for _, s := range r.statusOnly().Servers {
			if s.State != "ready" {
				return s.Name + " is " + s.State
			}
		}
		return ""
	})
	resp, err := r.http.Get(r.base + "/api/v1/calls")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"calls": []`) {
		t.Errorf("%d %s %v", resp.StatusCode, body, err)
	}
	if status := r.statusOnly(); len(status.DemoClients) > 0 {
		t.Errorf("demoClients is %q", status.DemoClients)
	}
}

func (r *rig) statusOnly() *admin.Report {
	status, _ := r.status()
	return status
}

// pollUntil calls missing until it returns "". After a minute, it fails the test and reports the
// last result of missing.
func pollUntil(t *testing.T, missing func() string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		what := missing()
		if what == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal(what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// runAsDemo runs a server of package demo. letter is the first letter of the server's era. The
// letter is in an environment variable. A longer value, such as the name of the era, would be
// masked in the API and the log.
func runAsDemo(letter string) {
	era := demo.Legacy
	if letter == demo.Modern[:1] {
		era = demo.Modern
	}
	if err := demo.Serve(context.Background(), era, os.Stdin, os.Stdout, "1"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
