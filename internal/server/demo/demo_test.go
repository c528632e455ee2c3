package demo

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/transcript"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestTranscripts plays each testdata/ERA_*.txtar against the demo server of the era ERA, with
// synthetic time.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcript was found (%v)", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			era, _, _ := strings.Cut(name, "_")
			synctest.Test(t, func(t *testing.T) {
				transcript.Run(t, file, func(t testing.TB, _ string) transcript.Ends {
					ours, client := transcript.Pipe()
					nobody, upstream := transcript.Pipe()
					done := make(chan error, 1)
					go func() {
						defer nobody.Close()
						done <- Serve(t.Context(), era, ours, ours, "1.2.3")
					}()
					return transcript.Ends{Client: client, Upstream: upstream, Wait: func() error { return <-done }}
				})
			})
		})
	}
}

func TestUnknownEra(t *testing.T) {
	if err := Serve(t.Context(), "bronze", strings.NewReader(""), io.Discard, "1"); err == nil {
		t.Error("an era that does not exist was served")
	}
}

// TestPlainStreams checks that Serve works with streams that cannot be closed.
func TestPlainStreams(t *testing.T) {
	var out strings.Builder
	if err := Serve(t.Context(), Legacy, strings.NewReader(`{"jsonrpc":"2.0","id":"hi","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`), &out, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), `{"jsonrpc":"2.0","id":"hi","result":{`) {
		t.Error(out.String())
	}
}
