//go:build unix

package daemon

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestListNamesMissingServers checks that a command that lists the tools of another gateway learns
// which of its servers are missing from the list, in both eras.
func TestListNamesMissingServers(t *testing.T) {
	t.Parallel()
	slow, dead, good := child(t, "slow", "mute"), child(t, "dead", "exit"), child(t, "good", "legacy")
	r := serve(t, snapshot(slow, dead, good))
	for _, rev := range []mcp.Revision{mcp.LatestLegacy, mcp.Latest} {
		server, problem := config.Complete(config.Server{Name: "gateway", URL: r.base + "/mcp", Revision: rev})
		if problem != nil {
			t.Fatal(problem)
		}
		s, err := Connect(t.Context(), ConnectOptions{Server: server})
		if err != nil {
			t.Fatal(err)
		}
		var l runtime.List
		for range 600 { // poll until the list has the tools of "good" and the failure of "dead"
			if l, err = s.List(t.Context(), "tools"); err != nil {
				t.Fatal(err)
			}
			if len(l.Items) > 0 && len(l.Failed) > 0 {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if !slices.Equal(l.Starting, []string{"slow"}) || !slices.Equal(l.Failed, []string{"dead"}) || !l.Changes ||
			len(l.Items) == 0 || !strings.Contains(string(l.Items[0]), `"good__`) {
			t.Errorf("%s: starting %q, failed %q, changes %t, %d tools", rev, l.Starting, l.Failed, l.Changes, len(l.Items))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWithheldVariable checks a server that complains about a missing environment variable. If
// Dragoman has this variable but did not pass it to the server, the error says so.
func TestWithheldVariable(t *testing.T) {
	const hint = "the environment variable THE_TOKEN is set for Dragoman, but was not passed to the server"
	fails := func(more ...func(*config.Server)) string {
		t.Helper()
		_, err := Connect(t.Context(), ConnectOptions{Server: child(t, "s", "exit", more...).Server})
		if err == nil {
			t.Fatal("no error")
		}
		if !strings.Contains(err.Error(), "THE_TOKEN is not set") {
			t.Errorf("the error does not quote the server: %v", err)
		}
		return err.Error()
	}
	if text := fails(); strings.Contains(text, hint) {
		t.Errorf("the variable is not set, but the error is: %s", text)
	}
	t.Setenv("THE_TOKEN", "its value")
	if text := fails(); !strings.Contains(text, hint) || !strings.Contains(text, "add THE_TOKEN to inheritEnv, or to the env of ") || strings.Contains(text, "its value") {
		t.Errorf("the error is: %s", text)
	}
	inherits := func(s *config.Server) { s.InheritEnv = []string{"THE_*"} }
	if text := fails(inherits); strings.Contains(text, hint) {
		t.Errorf("the variable was passed on, but the error is: %s", text)
	}
}
