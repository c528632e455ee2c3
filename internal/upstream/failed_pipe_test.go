package upstream

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// TestOwnClosedPipeIsNoEvidence starts a child that never answers. When Dragoman closes its pipes, the
// child complains. The error must not give this complaint as the cause.
func TestOwnClosedPipeIsNoEvidence(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("this test needs a shell")
	}
	u := New(Spec{
		Name: "s", Command: shell, Args: []string{"-c", `echo "loading the model" >&2; cat >/dev/null; echo "Error: write EPIPE" >&2`},
		Pin: mcp.LatestLegacy, Start: 300 * time.Millisecond,
	}, Options{})
	defer u.Close(t.Context())
	_, err = call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`)
	var e *mcp.Error
	if !errors.As(err, &e) || e.Failure == nil {
		t.Fatal(err)
	}
	if text := e.Message + fmt.Sprint(e.Failure.Attrs()...); strings.Contains(text, "EPIPE") || !strings.Contains(text, "loading the model") {
		t.Error(text)
	}
}
