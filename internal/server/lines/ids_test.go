package lines

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// TestIDs checks that the SDK gets an id that it does not change, and that the client gets its own
// id back.
func TestIDs(t *testing.T) { synctest.Test(t, testIDs) }

func testIDs(t *testing.T) {
	const own = `"dragoman:1"`
	for _, id := range []string{
		`7`, `-12`, `9007199254740993`, `-9007199254740993`, `1.0`, `-0`, `"a"`, `""`, `"\u0061\/\n<\ud83d\ude00"`, `"dragoman:5"`, `"dragoman\u003a5"`,
	} {
		for _, answer := range []string{
			`{"jsonrpc":"2.0","id":ID,"result":{"id":"dragoman:1"}}`,
			`{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"\"dragoman:1\""}}`,
			`{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`,
			`{"jsonrpc":"2.0","id":ID,"result":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}`,
			`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"requestId":"dragoman:1"}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		} {
			var out bytes.Buffer
			l := New(strings.NewReader(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`+"\n"), &out)
			got, err := io.ReadAll(l)
			if want := `{"jsonrpc":"2.0","id":` + own + `,"method":"ping"}` + "\n"; err != nil || string(got) != want {
				t.Errorf("the SDK gets %s, %v", got, err)
			}
			sent, want := strings.ReplaceAll(answer, ":ID", ":"+own)+"\n", strings.ReplaceAll(answer, ":ID", ":"+id)+"\n"
			if n, err := l.Write([]byte(sent)); err != nil || n != len(sent) || out.String() != want {
				t.Errorf("%s: the client gets %s, %d, %v", sent, out.String(), n, err)
			}
		}
	}
}
