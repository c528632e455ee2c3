package tape

import (
	"errors"
	"strings"
	"testing"
)

// TestWires checks that ParseWire reads either of the two wires of a call's tape. Line ends
// within a message become spaces. A secret has the same placeholder on both wires.
func TestWires(t *testing.T) {
	var out strings.Builder
	r := NewRecorder(&out, "a call", []string{"configured-secret"})
	r.Wire(WireClient, "2025-06-18")
	r.Line(true, []byte("{\"jsonrpc\":\"2.0\",\n\"id\":1,\"method\":\"m\",\"params\":{\"s\":\"configured-secret\"}}"))
	r.Line(false, []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	r.Wire(WireServer, "2026-07-28")
	r.Line(true, []byte(`{"jsonrpc":"2.0","id":9,"method":"m","params":{"s":"configured-secret"}}`))
	if got := out.String(); strings.Contains(got, "configured-secret") || strings.Count(got, "[secret-1]") != 2 || !strings.Contains(got, "\n-- wire server 2026-07-28 --\n-- client --\n") {
		t.Fatalf("the tape:\n%s", got)
	}
	for _, c := range []struct {
		wire    string
		entries int
		legacy  bool
	}{{"", 2, true}, {WireClient, 2, true}, {WireServer, 1, false}} {
		p, err := ParseWire([]byte(out.String()), c.wire)
		if err != nil || len(p.entries) != c.entries || !p.call || p.revision.Legacy() != c.legacy {
			t.Errorf("wire %q: %+v %v", c.wire, p, err)
		}
	}
	if _, err := ParseWire([]byte(out.String()), "other"); !errors.Is(err, ErrNoWire) {
		t.Errorf("another wire: %v", err)
	}
	if _, err := ParseWire([]byte("-- client --\n{}\n"), WireClient); !errors.Is(err, ErrNoWire) {
		t.Errorf("a tape without wires: %v", err)
	}
	if p, err := Parse([]byte("-- client --\n{}\n")); err != nil || p.call {
		t.Errorf("a tape without wires: %v %v", p, err)
	}
}
