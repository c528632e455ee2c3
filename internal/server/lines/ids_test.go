package lines

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// TestIDs checks that the SDK gets an id that it does not change, and the client its own id.
func TestIDs(t *testing.T) {
	for id, hidden := range map[string]string{
		`7`:                       `7`,
		`-12`:                     `-12`,
		`"a"`:                     `"a"`,
		`9007199254740993`:        `"dragoman-number:9007199254740993"`,
		`-9007199254740993`:       `"dragoman-number:-9007199254740993"`,
		`1.0`:                     `"dragoman-number:1.0"`,
		`-0`:                      `"dragoman-number:-0"`,
		`"dragoman-number:5"`:     `"dragoman-string:dragoman-number:5"`,
		`"dragoman-string:\"x\""`: `"dragoman-string:dragoman-string:\"x\""`,
	} {
		var out bytes.Buffer
		l := New(strings.NewReader(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`+"\n"+`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`+"\n"), &out)
		got, err := io.ReadAll(l)
		if want := `{"jsonrpc":"2.0","id":` + hidden + `,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + hidden + `}}` + "\n"; err != nil || string(got) != want {
			t.Errorf("the SDK gets %s, %v", got, err)
		}
		for _, answer := range []string{
			`{"jsonrpc":"2.0","id":ID,"result":{}}` + "\n", `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"\"dragoman-number:1\""}}` + "\n",
			`{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}` + "\n",
		} {
			out.Reset()
			sent := strings.Replace(answer, "ID", hidden, 1)
			if n, err := l.Write([]byte(sent)); err != nil || n != len(sent) || out.String() != strings.Replace(answer, "ID", id, 1) {
				t.Errorf("%s: the client gets %s, %d, %v", sent, out.String(), n, err)
			}
		}
	}
}
