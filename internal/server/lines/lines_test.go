package lines

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// TestLines passes messages on and answers everything else.
func TestLines(t *testing.T) {
	initialize := func(v string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + v + `"}}`
	}
	ping, other := `{"jsonrpc":"2.0","id":"a","method":"ping"}`, `{"jsonrpc":"2.0","id":"b","method":"ping"}`
	meta := func(v string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + v + `"}}}`
	}
	for _, test := range []struct{ name, in, passed, answered string }{
		{"messages", ping + "\r\n\n" + other, ping + "\n" + other + "\n", ""},
		{"not JSON", "{\n" + ping + "\n", ping + "\n", `-32700`},
		{"no message", `{"a":1}` + "\n" + ping + "\n", ping + "\n", `-32600`},
		{"a batch", "[" + ping + "]\n", "", `-32600`},
		{"a batch of its revision", initialize("2025-03-26") + "\n[" + ping + ", " + other + "]\n", initialize("2025-03-26") + "\n" + ping + "\n" + other + "\n", ""},
		{"a long batch", initialize("2025-03-26") + "\n[" + strings.Repeat(ping+",", maxRequests) + ping + "]\n", initialize("2025-03-26") + "\n", `1024 messages`},
		{"a running id", ping + "\n" + ping, ping + "\n", `"id":"a","error":{"code":-32600,`},
		{"a long id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1100) + `","method":"ping"}` + "\n" + ping, ping + "\n", `"id":null`},
		{"a last line that is not JSON", ping + "\n{", ping + "\n", `-32700`},
		{"a batch of another revision", initialize("2025-11-25") + "\n[" + ping + "]\n", initialize("2025-11-25") + "\n", `-32600`},
		{"an empty batch", initialize("2025-03-26") + "\n[]\n", initialize("2025-03-26") + "\n", `-32600`},
		{"a bad batch", initialize("2025-03-26") + "\n[1]\n", initialize("2025-03-26") + "\n", `-32600`},
		{"a known version", meta("2026-07-28") + "\n", meta("2026-07-28") + "\n", ""},
		{"an unknown version", meta("1999-12-31") + "\n", "", `"id":7,`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			got, err := io.ReadAll(New(strings.NewReader(test.in), &out))
			if err != nil || string(got) != test.passed {
				t.Errorf("passed %q, %v", got, err)
			}
			if !strings.Contains(strings.ReplaceAll(out.String(), `"id":7`, `"id":7,`), test.answered) || (out.Len() == 0) != (test.answered == "") {
				t.Errorf("answered %q", out.String())
			}
		})
	}
}

// TestLinesBound ends the conversation at a message that is too long.
func TestLinesBound(t *testing.T) {
	var out bytes.Buffer
	_, err := io.Copy(io.Discard, New(io.LimitReader(endless{}, 2*maxLine), &out))
	if err == nil || !strings.Contains(out.String(), "32 MiB") {
		t.Errorf("%v %q", err, out.String())
	}
}

// endless is an input without a line end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
