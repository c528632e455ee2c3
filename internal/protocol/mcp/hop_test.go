package mcp

import "testing"

func TestForHop(t *testing.T) {
	const cc = ExtensionClientCredentials
	for _, c := range []struct{ caps, ours, want string }{
		{``, "", ``}, {`{}`, "", `{}`}, {`{"extensions":{"x/auth":{}}}`, "", `{"extensions":{"x/auth":{}}}`},
		{`{"a":1,"extensions":{"x":{},"` + cc + `":{"y":2}}}`, "", `{"a":1,"extensions":{"x":{}}}`},
		{`{"extensions":{"io.modelcontextprotocol\/auth\/wif":{}}}`, "", `{"extensions":{}}`},
		{`{"extensions":["` + cc + `"]}`, "", `{"extensions":["` + cc + `"]}`},
		{``, cc, `{"extensions":{"` + cc + `":{}}}`}, {`{"a":1}`, cc, `{"extensions":{"` + cc + `":{}},"a":1}`},
		{`{"extensions":{"` + ExtensionEnterprise + `":{},"x":{}}}`, cc, `{"extensions":{"` + cc + `":{},"x":{}}}`},
		{`{"extensions":{"` + cc + `":{"theirs":1}}}`, cc, `{"extensions":{"` + cc + `":{}}}`},
		{`{"extensions":null}`, cc, `{"extensions":{"` + cc + `":{}}}`},
	} {
		if got := string(ForHop([]byte(c.caps), c.ours)); got != c.want {
			t.Errorf("%s with %q: %s, not %s", c.caps, c.ours, got, c.want)
		}
	}
	caps := []byte(`{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	if n := testing.AllocsPerRun(100, func() { ForHop(caps, "") }); n > 0 {
		t.Errorf("%v allocations for a client without such an extension", n)
	}
}
