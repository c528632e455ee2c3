package console

import (
	"testing"

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
