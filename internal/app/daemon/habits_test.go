//go:build unix

package daemon

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// clientsWithHabits lists the client profiles that have a habit: a behaviour that their revision
// does not define.
var clientsWithHabits = []string{
	"id-zero", "looks-for-oauth", "mcp-method-in-the-old-era", "no-version-header", "probe-then-initialize", "forgets-initialized",
}

// TestHabitsAreAllThere checks that the tests in this package use every client profile.
func TestHabitsAreAllThere(t *testing.T) {
	played := append([]string{"bare-http-client", "manifest-client"}, clientsWithHabits...) // dialects_test.go tests "bare-http-client" and "manifest-client"
	for _, p := range fake.Profiles() {
		if p.Side == fake.ClientSide && p.Kind != fake.Strict && !slices.Contains(played, p.Name) {
			t.Errorf("no test plays the client %s through the bridge", p.Name)
		}
	}
}

// TestClientsWithHabits checks that each client with a habit works with strict servers of every
// revision, on a pipe and over HTTP. Over HTTP, the servers get no message that violates their
// revision.
func TestClientsWithHabits(t *testing.T) {
	t.Parallel()
	talk := func(t *testing.T, c *fake.Client) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wantAll(t, wholeList(t, ctx, c, mcp.MethodListTools), `"name":"add"`)
		wantAll(t, wholeList(t, ctx, c, mcp.MethodListResources), `"resources":[`)
		for _, text := range []string{"first", "second"} {
			got, err := c.Call(ctx, mcp.MethodCallTool, []byte(`{"name":"echo","arguments":{"text":"`+text+`"}}`), fake.CallOptions{Progress: true})
			if err != nil || got.Err != nil || !strings.Contains(string(got.Result), text) {
				t.Errorf("echo: %v, %+v", err, got)
			}
		}
		got, err := c.Call(ctx, mcp.MethodCallTool, []byte(`{"name":"wait","arguments":{"steps":3,"ms":10}}`), fake.CallOptions{Progress: true})
		if err != nil || got.Err != nil || len(got.Progress) == 0 {
			t.Errorf("wait: %v, %+v", err, got)
		}
		// A server request reaches the client, even if the client never sends
		// notifications/initialized.
		wantAll(t, result(t, ctx, c, mcp.MethodCallTool, `{"name":"roots","arguments":{}}`), fake.ObligingRoot)
	}
	for _, e := range strictClients {
		server := "fake " + e.profile
		t.Run("HTTP "+e.profile, func(t *testing.T) {
			t.Parallel()
			u := child(t, "s", server)
			r := run(t, u)
			for _, profile := range clientsWithHabits {
				t.Run(profile, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					c, err := fake.OpenClient(ctx, profile, fake.Where{URL: r.base + "/mcp"}, fake.ClientOptions{})
					if err != nil {
						t.Fatal(err)
					}
					talk(t, c)
					if err := c.Close(); err != nil {
						t.Error(err)
					}
					for _, v := range c.Violations() {
						t.Errorf("the client saw: %s", v)
					}
				})
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
			for _, v := range u.entries("violation") {
				t.Errorf("the server saw: %s", v)
			}
		})
		t.Run("pipe "+e.profile, func(t *testing.T) {
			t.Parallel()
			for _, profile := range clientsWithHabits {
				t.Run(profile, func(t *testing.T) {
					p := dial(t, child(t, "s", server), profile, fake.ClientOptions{})
					talk(t, p.Client)
				})
			}
		})
	}
}

// TestSurveysByClientsWithHabits runs fake.Play with each client that has a habit. The client finds
// no fault in Dragoman, with a modern server and with a manifest server.
func TestSurveysByClientsWithHabits(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"fake strict-2026-07-28", "fake manifest-ts"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			r := run(t, child(t, "s", server))
			for _, profile := range clientsWithHabits {
				o := fake.ClientOptions{Set: map[string]string{"step": "60000", "whole": "300000"}}
				violations, err := fake.Play(t.Context(), profile, fake.Where{URL: r.base + "/mcp"}, o, func(f fake.Finding) {
					// For an unknown tool, a manifest server has its own error code, which is
					// allowed.
					own := server == "fake manifest-ts" && f.Step == "an unknown tool" && strings.Contains(f.Detail, "-32601")
					if f.Bad && !own {
						t.Errorf("%s: %s: %s", profile, f.Step, f.Detail)
					}
				})
				if err != nil || len(violations) > 0 {
					t.Errorf("%s: %v; the client saw %q", profile, err, violations)
				}
			}
		})
	}
}
