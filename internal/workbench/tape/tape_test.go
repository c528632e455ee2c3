package tape

import (
	"bytes"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, text, err string }{
		{"empty", "words\n", "no messages"},
		{"without a name", "-- client --\n{}\n-- --\r\n", `the line "-- --" does not name a section`},
		{"unknown", "-- klient --\n{}\n", `section "klient" does not belong to a recording`},
		{"mixed", "-- client --\n{}\n-- client.request 1 --\nGET /\n", "both stdio and HTTP sections"},
		{"without a number", "-- client.request --\nGET /\n", "sections of HTTP must have a number"},
		{"with a number", "-- client 1 --\n{}\n", "sections of HTTP must have a number"},
		{"no number", "-- server.event x --\nGET /\n", "has no valid number"},
		{"without a head", "-- client.request 1 --\n", "is empty"},
		{"bad quote", "-- client --\n\\\"x\n", "not a Go string"},
	} {
		if _, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %s", c.name, err, c.err)
		}
	}
}

// FuzzLines checks that any line can be read back after quoting. No quoted line may begin a
// section or send control characters to a terminal.
func FuzzLines(f *testing.F) {
	for _, s := range []string{`{"a":1}`, "-- client --", `\`, `\"x"`, "a\r", "\x00\xff", "\x1b[2J", "-- x", "", "é\u202e", "\t-- y --", "-- --"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.Contains(line, []byte("\n")) {
			return // skip it, because a line cannot contain a line end
		}
		file := append([]byte("About.\n-- client --\n"), quoteLine(nil, line)...)
		file = append(file, "-- server --\n{}\n"...)
		tp, err := Parse(file)
		if err != nil {
			t.Fatalf("%v: %q", err, file)
		}
		if len(tp.entries) != 2 || !bytes.Equal(tp.entries[0].body, line) {
			t.Fatalf("%q became %q in %q", line, tp.entries[0].body, file)
		}
		if bytes.ContainsAny(quoteLine(nil, line), "\x00\x1b\r") {
			t.Fatalf("%q", file)
		}
	})
}

// FuzzParse checks that no tape causes a panic, neither in Parse nor in a comparison.
func FuzzParse(f *testing.F) {
	f.Add([]byte("-- client --\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n-- server --\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"), []byte(`{"jsonrpc":"2.0","id":2,"method":"m"}`))
	f.Add([]byte("-- client.request 1 --\nPOST /mcp\nA: b\n\n{}\n-- server.event 1 --\nid: 1\ndata: {}\n-- server.end 1 --\nend\n"), []byte(`{}`))
	f.Fuzz(func(t *testing.T, file, live []byte) {
		tp, err := Parse(file)
		if err != nil {
			return
		}
		for _, client := range []bool{true, false} {
			s := newScore(tp, client, Options{})
			s.take(live, func(int) bool { return true })
			for i := range tp.entries {
				s.messageFor(i)
			}
			s.rest()
		}
	})
}

func TestRedact(t *testing.T) {
	r := newRedactor([]string{"hunter22", "short"})
	for _, c := range []struct{ in, want string }{
		{`{"password":"a","n":1e400}`, `{"password":"[secret-1]","n":1e400}`},
		{`{"password":"a","api_key" : "b"}`, `{"password":"[secret-1]","api_key" : "[secret-2]"}`},
		{`{"schema":{"password":{"type":"string"}}}`, `{"schema":{"password":{"type":"string"}}}`},
		{`{"progressToken":"abc"}`, `{"progressToken":"abc"}`},
		{`{"text":"say hunter22 twice, hunter22"}`, `{"text":"say [secret-3] twice, [secret-3]"}`},
		{`{"hunter22":1}`, `{"[secret-3]":1}`},
		{`{"text":"short"}`, `{"text":"short"}`},
		{`["Authorization: Bearer abcdefgh1234"]`, `["Authorization: Bearer [secret-4]"]`},
		{`{"u":"https://me:pw@h.example/x"}`, `{"u":"https://[secret-5]@h.example/x"}`},
		{`{"tokens":["x"],"secret":["y"]}`, `{"tokens":["x"],"secret":["[secret-6]"]}`},
		{`no json: ghp_abcdefghijklmnopqrstuvwx`, `no json: [secret-7]`},
		{`{"k":"eyJhbGciOiJub25l.eyJzdWIiOiIx.sig"}`, `{"k":"[secret-8]"}`},
		{`{"a":"hunter\u00322"}`, `{"a":"[secret-3]"}`},
		{`{"text":"{\"password\":\"a\"}"}`, `{"text":"{\"password\":\"[secret-1]\"}"}`},
		{` { "x" : "\u0061" } `, ` { "x" : "\u0061" } `},
	} {
		if got := string(r.json([]byte(c.in))); got != c.want {
			t.Errorf("%s\n became %s\n want %s", c.in, got, c.want)
		}
	}
	for _, c := range []struct{ name, value, want string }{
		{"Accept", "application/json", "application/json"},
		{"authorization", "Bearer x", "[secret-9]"},
		{"X-Whatever", "v", "[secret-10]"},
		{"Mcp-Session-Id", "s", "[session-1]"},
		{"Mcp-Param-Region", "eu", "eu"},
		{"Mcp-Param-Api-Key", "k", "[secret-11]"},
	} {
		if got := r.field(c.name, c.value); got != c.want {
			t.Errorf("%s: %s became %s, want %s", c.name, c.value, got, c.want)
		}
	}
	if got := r.address("/messages?sessionId=abc&x=1"); got != "/messages?sessionId=[secret-12]&x=1" {
		t.Errorf("the address became %s", got)
	}
}
