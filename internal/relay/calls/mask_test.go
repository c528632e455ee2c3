package calls

import (
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
)

// TestMask checks that secrets are masked in every part of a message. The other bytes and the
// length stay the same, and JSON stays valid.
func TestMask(t *testing.T) {
	m := NewMasker([]string{`s3cr3t"quoted`, "Bearer configured-token", "short", "pässw😀rd!"})
	const key = "ghp_0123456789abcdefghijABCDEFGHIJ"
	stars := func(n int) string { return strings.Repeat("*", n) }
	for _, c := range []struct{ in, want string }{
		{`{"a":"` + key + `","b":1}`, `{"a":"` + stars(len(key)) + `","b":1}`},
		{`{"password":"hunter2","count":3}`, `{"password":"*******","count":3}`},
		{`{"password":1234,"max_tokens":99}`, `{"password":9999,"max_tokens":99}`},
		{`{"text":"the token configured-token is set"}`, `{"text":"the token ` + stars(16) + ` is set"}`},
		{`{"text":"a s3cr3t\"quoted b"}`, `{"text":"a ` + stars(14) + ` b"}`},
		{`{"text":"s3cr3t\u0022quoted"}`, `{"text":"` + stars(18) + `"}`},
		{`{"env":[{"name":"API_TOKEN","value":"abc"},{"value":"def","name":"DB_PASSWORD"},{"name":"HOME","value":"/home"}]}`,
			`{"env":[{"name":"API_TOKEN","value":"***"},{"value":"***","name":"DB_PASSWORD"},{"name":"HOME","value":"/home"}]}`},
		{`{"text":"{\"password\":\"hunter2\"}"}`, `{"text":"{\"password\":\"*******\"}"}`},
		{`{"u":"https://me:pass@host/"}`, `{"u":"https://*******@host/"}`},
		{`{"` + key + `":1}`, `{"` + stars(len(key)) + `":1}`},
		{`{"text":"-----BEGIN PRIVATE KEY-----\nMIIabc","b":[1]}`, `{"text":"` + stars(len(`-----BEGIN PRIVATE KEY-----\nMIIabc`)) + `","b":[1]}`},
		{`{"progressToken":"ab","text":"short Łódź \u0141"}`, `{"progressToken":"ab","text":"short Łódź \u0141"}`},
		{`<html>` + key + `</html>`, `<html>` + stars(len(key)) + `</html>`},
		{`{"a":"and configured-tok`, `{"a":"and ` + stars(14)},
		{`{"a":"s3cr\"s3cr3t\"quo`, `{"a":"s3cr\"` + stars(11)},
		{`{"text":"{\"a\":\"s3cr3t\\\"qu`, `{"text":"{\"a\":\"` + stars(12)},
		{`{"a":"s3cr3t\u00`, `{"a":"` + stars(10)},
		{`{"a":"con`, `{"a":"con`},
		{`{"a":"configured-tok"}`, `{"a":"configured-tok"}`},
		{`{"a":"x","password":"hunt`, `{"a":"x","password":"****`},
		{`{"text":"sent {\"password\":1234,\"user\":5} now"}`, `{"text":"sent {\"password\":****,\"user\":5} now"}`},
		{`{"text":"INFO [{\"name\":\"API_TOKEN\",\"value\":\"abc\"}]\nINFO {\"msg\":\"s3cr3\\u0074\\\"quoted\"}"}`,
			`{"text":"INFO [{\"name\":\"API_TOKEN\",\"value\":\"***\"}]\nINFO {\"msg\":\"` + stars(22) + `\"}"}`},
		{`{"text":"{\"password\": p, note: \"hello\"}"}`, `{"text":"{\"password\": p, note: \"hello\"}"}`},
		{`{"text":"pässw\ud83d\ude00rd!"}`, `{"text":"` + stars(len(`pässw\ud83d\ude00rd!`)) + `"}`},
		{`level=error {"msg":"s3cr3t\u0022quoted"}`, `level=error {"msg":"` + stars(18) + `"}`},
		{``, ``},
	} {
		got, spans := m.Message([]byte(c.in))
		if string(got) != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
		if len(got) != len(c.in) || (len(spans) > 0) != (c.in != c.want) {
			t.Errorf("%s: %d bytes, spans %v", c.in, len(got), spans)
		}
		for i := range got {
			inside := false
			for _, s := range spans {
				inside = inside || i >= s.Start && i < s.End
			}
			if got[i] != c.in[i] && !inside {
				t.Errorf("%s: byte %d was masked outside of %v", c.in, i, spans)
			}
		}
		if valid := func(b []byte) bool { return jsonrpc.Valid(b, jsonrpc.Limits{}) == nil }; valid([]byte(c.in)) != valid(got) {
			t.Errorf("%s became %s", c.in, got)
		}
	}
}

// TestMaskText checks that JSON in an error message is searched like JSON in a message.
func TestMaskText(t *testing.T) {
	m := NewMasker([]string{`s3cr3t"quoted`})
	if got, want := m.Text("", `refused: {"pin":1234,"msg":"s3cr3\u0074\"quoted"}`), `refused: {"pin":****,"msg":"`+strings.Repeat("*", 19)+`"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestMaskDeepText checks that the time for JSON within strings of JSON is bounded: each level of the
// text has a brace, and would be searched again.
func TestMaskDeepText(t *testing.T) {
	text := "hunter22"
	for range 120 {
		quote := "\\u0022"
		text = "{" + strings.ReplaceAll(quote+text+quote, "\\", `\u005c`)
		if len(text) > 200_000 {
			break
		}
	}
	m := NewMasker([]string{"hunter22"})
	began := time.Now()
	if got, _ := m.Message([]byte(`{"a":"` + text + `"}`)); strings.Contains(string(got), "hunter22") || time.Since(began) > 30*time.Second {
		t.Errorf("%d bytes took %s", len(got), time.Since(began))
	}
}

// TestMaskHead checks that Dragoman masks the values of unknown header fields, and cuts session
// ids.
func TestMaskHead(t *testing.T) {
	m := NewMasker(nil)
	plain := trails.NewHead("POST", "/mcp", 0, map[string][]string{
		"Authorization": {"Bearer abc"}, "Cookie": {"a=b"}, "Content-Type": {"application/json"}, "Mcp-Session-Id": {"5f0c91d2-e21a-11"}, "X-Content-Type-Options": {"nosniff"},
		"X-Api-Key": {"k"}, "Mcp-Param-Region": {"eu"}, "Mcp-Param-Token": {"t"},
	})
	h := m.Head(&plain)
	got := ""
	for _, f := range h.Fields() {
		got += f.Name + ": " + f.Value + "\n"
	}
	want := "Authorization: ***\nContent-Type: application/json\nCookie: ***\nMcp-Param-Region: eu\nMcp-Param-Token: ***\nMcp-Session-Id: 5f0c91d2***\nX-Api-Key: ***\nX-Content-Type-Options: nosniff\n"
	if got != want {
		t.Errorf("got\n%s", got)
	}
	if m.Head(nil) != nil {
		t.Error("a head of nothing")
	}
}

// TestMaskedSpans checks that the spans of secrets do not overlap if Message finds a secret in
// several ways.
func TestMaskedSpans(t *testing.T) {
	const key = "ghp_0123456789abcdefghijABCDEFGHIJ"
	m := NewMasker([]string{key[:20]})
	for _, in := range []string{`{"name":"TOKEN","value":"x ` + key + `"}`, `{"a":"` + key[:12], `<` + key} {
		_, spans := m.Message([]byte(in))
		for i, s := range spans {
			if s.End <= s.Start || i > 0 && s.Start < spans[i-1].End {
				t.Errorf("%s: %v", in, spans)
			}
		}
		if len(spans) == 0 {
			t.Errorf("%s: nothing is masked", in)
		}
	}
}

// FuzzMask checks that masking never changes the length, breaks JSON, or panics.
func FuzzMask(f *testing.F) {
	f.Add(`{"password":"hunter2\u00e9","a":[{"name":"TOKEN","value":"x"}]}`)
	f.Add(`{"a":"Bearer abcdefgh`)
	f.Add("\"\\")
	m := NewMasker([]string{"abcdefgh"})
	f.Fuzz(func(t *testing.T, in string) {
		got, _ := m.Message([]byte(in))
		if len(got) != len(in) {
			t.Fatalf("%q became %q", in, got)
		}
		if jsonrpc.Valid([]byte(in), jsonrpc.Limits{}) == nil && jsonrpc.Valid(got, jsonrpc.Limits{}) != nil {
			t.Fatalf("%q became %q", in, got)
		}
	})
}
