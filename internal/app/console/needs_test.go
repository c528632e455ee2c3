package console

import (
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// TestButtonsOfASilentServer checks that a server that stops answering gets other buttons than a
// server that never started.
func TestButtonsOfASilentServer(t *testing.T) {
	n := &needs{operable: true}
	for state, want := range map[string]string{"unresponsive": "[View logs Restart]", "failed": "[Run doctor Restart]"} {
		got := "["
		for i, b := range n.buttons(&admin.Server{Name: "s", State: state, Failure: &failure.Failure{Class: failure.Silent}}) {
			if i > 0 {
				got += " "
			}
			got += b.Title
		}
		if got += "]"; got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
}

// TestNeedsInOrder checks that a refused configuration comes first: it affects all servers.
func TestNeedsInOrder(t *testing.T) {
	now := time.Now()
	got := ""
	for _, x := range (&needs{}).all(&admin.Report{
		Started: now.Add(-2 * time.Hour), Refusal: &admin.Refusal{Text: "it was refused", Since: now.Add(-time.Hour)},
		Servers: []admin.Server{
			{Name: "problem", State: "ready", Since: now, Failure: &failure.Failure{}}, {Name: "silent", State: "unresponsive", Since: now},
			{Name: "failed", State: "failed", Since: now.Add(-time.Minute)}, {Name: "new", State: "failed", Since: now},
		},
		Parked: []admin.ParkedCall{{Server: "parked", Since: now.Add(-time.Hour)}},
	}) {
		got += x.Who + ", "
	}
	if want := "The configuration, new, failed, silent, problem, parked, "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
