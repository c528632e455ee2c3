package upstream

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestStopDuringAStart closes an upstream while its server starts. The caller learns what the server has
// said so far, and not only that its request was cancelled.
func TestStopDuringAStart(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("this test needs a shell")
	}
	said := make(chan struct{})
	u := New(Spec{Name: "s", Command: shell, Args: []string{"-c", `echo "Error: no licence" >&2; cat >/dev/null`}, Pin: mcp.LatestLegacy},
		Options{Stderr: func([]byte) { close(said) }})
	failed := make(chan error, 1)
	go func() {
		_, err := call(t, u, legacyClient, mcp.MethodCallTool, `{"name":"t"}`)
		failed <- err
	}()
	<-said
	u.Close(t.Context())
	if err := <-failed; err == nil || !strings.Contains(err.Error(), `Dragoman had to stop before server "s" was ready: "Error: no licence"`) {
		t.Error(err)
	}
}

// TestOwnClosedPipeIsNoEvidence starts a child that never answers. When Dragoman closes its pipes, the
// child complains. The error must not give this complaint as the cause.
func TestOwnClosedPipeIsNoEvidence(t *testing.T) {
	t.Parallel()
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

// TestServerThatExitsOnAList reads the tools of a server that exits when it is asked for them. The error
// has the exit status and the last words of the server, like the error of a call.
func TestServerThatExitsOnAList(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("this test needs a shell")
	}
	const answer = `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
	script := `id() { sed 's/.*"id":\([0-9]*\).*/\1/'; }
while read -r line; do case "$line" in
*'"initialize"'*) printf '` + answer + `\n' "$(echo "$line" | id)";;
*tools/list*) echo "Error: no licence" >&2; exit 2;;
esac; done`
	u := New(Spec{Name: "s", Command: shell, Args: []string{"-c", script}, Pin: mcp.LatestLegacy}, Options{})
	defer u.Close(t.Context())
	_, _, err = u.List(t.Context(), nil, mcp.MethodListTools)
	if err == nil || !strings.Contains(err.Error(), `exited with status 2`) || !strings.Contains(err.Error(), "no licence") {
		t.Error(err)
	}
}
