//go:build unix

package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TestRunWithoutItsProgram calls Run for a server whose program does not exist. At a terminal and
// over HTTP, Run returns the failure at once. A client over stdio gets the failure as the answer to
// initialize, and the log has the failure before that answer.
func TestRunWithoutItsProgram(t *testing.T) {
	t.Parallel()
	server := config.Server{Name: "gone", Given: true, Command: filepath.Join(t.TempDir(), "gone")}
	for name, o := range map[string]RunOptions{
		"at a terminal": {Terminal: true},
		"over HTTP":     {Listen: "127.0.0.1:0"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Server, o.Log = server, slog.New(slog.DiscardHandler)
			o.Stdin, o.Stdout = neverRead{t}, nil
			o.Ready = func(string) { t.Error("it is ready") }
			err := Run(t.Context(), o)
			var f *failure.Failure
			if !errors.As(err, &f) || f.Class != failure.CommandNotFound || f.Action == "" {
				t.Errorf("the program ended with %v", err)
			}
		})
	}
	t.Run("without a client", func(t *testing.T) {
		var log bytes.Buffer
		err := Run(t.Context(), RunOptions{Server: server, Log: slog.New(slog.NewTextHandler(&log, nil)), Stdin: strings.NewReader(""), Stdout: unused{}})
		var f *failure.Failure
		if !errors.As(err, &f) || f.Class != failure.CommandNotFound {
			t.Errorf("the program ended with %v", err)
		}
		if strings.Contains(log.String(), "command_not_found") {
			t.Errorf("the failure is in the log and in the error:\n%s", log.String())
		}
	})
	t.Run("for a client", func(t *testing.T) {
		p := pipeTo(t, func(ctx context.Context, log *slog.Logger, in io.Reader, out io.WriteCloser) error {
			return Run(ctx, RunOptions{Server: server, Log: log, Stdin: in, Stdout: out})
		})
		p.send(initializeBody("2025-11-25", "{}"))
		if m := p.answerTo("1"); m.Kind != jsonrpc.Failure || !strings.Contains(string(m.Raw), `"class":"command_not_found"`) {
			t.Errorf("initialize: %s", m.Raw)
		}
		if n := strings.Count(p.log.String(), "sentence="); n != 1 {
			t.Errorf("the log has the failure %d times:\n%s", n, p.log.String())
		}
	})
}

// unused is a stdout for which nothing is meant.
type unused struct{}

func (unused) Write(p []byte) (int, error) { return len(p), nil }
func (unused) Close() error                { return nil }

// neverRead is a stdin that fails the test if it is read.
type neverRead struct{ t *testing.T }

func (r neverRead) Read([]byte) (int, error) {
	r.t.Error("stdin was read")
	return 0, io.EOF
}
