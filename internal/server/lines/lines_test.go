package lines

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// TestLines checks which messages reach the SDK, and which messages get an answer without the SDK.
func TestLines(t *testing.T) {
	initialize := func(v string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + v + `"}}`
	}
	ping, other := `{"jsonrpc":"2.0","id":"a","method":"ping"}`, `{"jsonrpc":"2.0","id":"b","method":"ping"}`
	meta := func(v string) string {
		return `{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + v + `"}}}`
	}
	cancelled := func(id string) string {
		return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}` + "\n"
	}
	as := func(n int, message string) string { // the message with the id that the SDK gets
		return regexp.MustCompile(`"id":[^,]+`).ReplaceAllString(message, `"id":"dragoman:`+strconv.Itoa(n)+`"`)
	}
	start := as(1, initialize("2025-03-26")) + "\n"
	for _, test := range []struct{ name, in, passed, answered string }{
		{"messages", ping + "\r\n\n" + other, as(1, ping) + "\n" + as(2, other) + "\n", ""},
		{"not JSON", "{\n" + ping + "\n", as(1, ping) + "\n", `-32700`},
		{"no message", `{"a":1}` + "\n" + ping + "\n", as(1, ping) + "\n", `-32600`},
		{"a null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, "", `"id":null,"error":{"code":-32600,"message":"invalid message: id is null"}`},
		{"a fractional id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "", `-32600`},
		{"a duplicate member", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping","params":{"a":1,"a":1}}`, "", `"id":9007199254740993,"error":{"code":-32`},
		{"deep parameters", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}}`, "", `"error":{"code":-32`},
		{"an answer", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":1}}`, `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":1}}` + "\n", ""},
		{"an answer without an id", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`, "", `-32600`},
		{"a notification with an id", ping + "\n" + `{"jsonrpc":"2.0","id":7,"method":"notifications/cancelled","params":{"requestId":"dragoman:1"}}`, as(1, ping) + "\n", `"id":7,"error":{"code":-32601,`},
		{"an id beyond float64", `{"jsonrpc":"2.0","id":` + strings.Repeat("9", 400) + `,"method":"ping"}`, `{"jsonrpc":"2.0","id":"dragoman:1","method":"ping"}` + "\n", ""},
		{"a second initialize", initialize("2025-03-26") + "\n" + initialize("2025-11-25") + "\n[" + ping + "]\n", start + as(3, ping) + "\n", `-32600`},
		{"cancelled", ping + "\n" + cancelled(`"\u0061"`) + cancelled(`"b"`) + cancelled(`{}`), as(1, ping) + "\n" + cancelled(`"dragoman:1"`), ""},
		{"cancelled initialize", initialize("2025-03-26") + "\n" + cancelled("1"), start, ""},
		{"a batch", "[" + ping + "]\n", "", `-32600`},
		{"a batch of its revision", initialize("2025-03-26") + "\n[" + ping + ", " + other + "]\n", start + as(2, ping) + "\n" + as(3, other) + "\n", ""},
		{"a long batch", initialize("2025-03-26") + "\n[" + strings.Repeat(ping+",", maxRequests) + ping + "]\n", start, `1024 messages`},
		{"a running id", ping + "\n" + ping, as(1, ping) + "\n", `"id":"a","error":{"code":-32600,`},
		{"a running id with an escape", ping + "\n" + strings.Replace(ping, `"a"`, `"\u0061"`, 1), as(1, ping) + "\n", `"id":"\u0061","error":{"code":-32600,`},
		{"a long id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1100) + `","method":"ping"}` + "\n" + ping, as(1, ping) + "\n", `"id":null`},
		{"a last line that is not JSON", ping + "\n{", as(1, ping) + "\n", `-32700`},
		{"a batch of another revision", initialize("2025-11-25") + "\n[" + ping + "]\n", as(1, initialize("2025-11-25")) + "\n", `-32600`},
		{"an empty batch", initialize("2025-03-26") + "\n[]\n", start, `-32600`},
		{"a batch without a message", initialize("2025-03-26") + "\n[1]\n", start, `[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid message: `},
		{"a known version", meta("2026-07-28") + "\n", as(1, meta("2026-07-28")) + "\n", ""},
		{"an unknown version", meta("1999-12-31") + "\n", "", `"id":7,"error"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				got, err := io.ReadAll(New(strings.NewReader(test.in), &out))
				if err != nil || string(got) != test.passed {
					t.Errorf("passed %q, %v", got, err)
				}
				if !strings.Contains(out.String(), test.answered) || (out.Len() == 0) != (test.answered == "") {
					t.Errorf("answered %q", out.String())
				}
			})
		})

	}
}

// TestLinesBound checks that a message that is too long ends the conversation.
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
