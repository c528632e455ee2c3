package doctor

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// startScripted starts a Child that writes a fixed text, ignores its input, and exits.
func startScripted(says string) func(context.Context) (Child, error) {
	return startInProcess(func(in *io.PipeReader, out *io.PipeWriter) {
		_, _ = io.WriteString(out, says)
		_ = out.Close()
		_ = in.Close()
	})
}

// FuzzServer checks that the examination ends, whatever the server sends. The report must be valid
// JSON, and its evidence must be short and without control characters.
func FuzzServer(f *testing.F) {
	for _, s := range []string{
		"", "\n\n", "noise\n", `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n", `{"id":"1","error":{"code":"X"}}` + "\n" + `[{"id":1}]` + "\n",
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x"}}}` + "\n" + `{"jsonrpc":"2.0","id":2,"result":{}}` + "\n" +
			`{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"a","inputSchema":{"type":["x"],"properties":{"a":{"$ref":1}},"allOf":[1]}}],"nextCursor":3}}` + "\n",
		`{"id":"init","result":{"tools":[]}}` + "\n", `{"jsonrpc":"2.0","id":7,"method":"roots/list"}` + "\n", `{"half":`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, says string) {
		var r *Report
		synctest.Test(t, func(t *testing.T) { // with synthetic time, timeouts do not slow the test down
			var err error
			if r, err = Examine(t.Context(), Target{Start: startScripted(says)}, Options{Call: "a"}); err != nil {
				t.Fatal(err)
			}
		})
		if err := jsonrpc.Valid(r.JSON(), jsonrpc.Limits{}); err != nil {
			t.Errorf("%v: %s", err, r.JSON())
		}
		for _, f := range r.Findings {
			if len(f.Evidence) > 8*4*shown {
				t.Errorf("evidence of %d bytes", len(f.Evidence))
			}
			if strings.ContainsFunc(f.Evidence, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) {
				t.Errorf("evidence with control characters: %q", f.Evidence)
			}
		}
	})
}

// FuzzClient checks that the stage sends only valid JSON to any client, and that its report is
// valid JSON.
func FuzzClient(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"initialize"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	f.Add(`[{"jsonrpc":"2.0","id":1,"method":"ping"},1]`)
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"\u0000"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	f.Fuzz(func(t *testing.T, says string) {
		s := NewStage()
		var out strings.Builder
		if err := s.ServePipe(t.Context(), io.NopCloser(strings.NewReader(says)), &out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if err := jsonrpc.Valid([]byte(line), jsonrpc.Limits{}); err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
		r := s.Report()
		if err := jsonrpc.Valid(r.JSON(), jsonrpc.Limits{}); err != nil {
			t.Errorf("%v: %s", err, r.JSON())
		}
		if !slices.IsSortedFunc(r.Findings, severity) {
			t.Error("the findings are not sorted")
		}
	})
}
