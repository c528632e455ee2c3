package jsonrpc

import (
	"strings"
	"testing"
)

func TestSalvage(t *testing.T) {
	long := strings.Repeat(`{"a":"b\"}]"},`, 1000)
	for _, c := range []struct {
		frame string
		kind  Kind
		id    ID
	}{
		// These answers are not JSON, but servers send them.
		{`{"jsonrpc":"2.0","id":5,"result":{"x":NaN}}`, Result, "5"},
		{`{"result":{"x":NaN},"jsonrpc":"2.0","id":5}`, Result, "5"},
		{"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{\"x\":\"\xff\"}}", Result, `"a"`},
		{"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{\"x\":\"a\tb\\x\"}}", Result, "5"},
		{`{"jsonrpc":"2.0","id":5,"result":{"x":1,}}`, Result, "5"},
		{`{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"said "no" to it"}}`, Result, "5"},
		{`{"jsonrpc":"2.0","id":5,"result":"said "no" to it"}`, Result, "5"},
		{`{"id":5,"result":{'a':1}}`, Result, "5"},
		{` { "jsonrpc" : "2.0" , "id" : 5 , "result" : {"a":[` + long + `nul]} } ` + "\r\n", Result, "5"},
		{`{"result":[` + long + `nul],"id":-7.0,"jsonrpc":"2.0"}`, Result, "-7.0"},
		{`{"jsonrpc":"2.0","id":5,"result":{}}` + "\x00", Result, "5"},
		{`{"jsonrpc":"2.0","id":5,"result":{}}{"jsonrpc":"2.0","method":"x"}`, Result, "5"},
		// These frames are cut off. Salvage sees only their beginning.
		{`{"jsonrpc":"2.0","id":5,"result":{"x":"ab`, Result, "5"},
		{`{"jsonrpc":"2.0","id":5,"result":`, Result, "5"},
		{`{"jsonrpc":"2.0","id":5,"resu`, 0, ""},
		{`{"jsonrpc":"2.0","result":{"x":"ab`, Result, ""},
		{`{"jsonrpc":"2.0","result":{"x":"ab"},"id":5`, Result, ""},
		{`{"jsonrpc":"2.0","result":{"x":"ab"},"id":5}]`, Result, ""},
		{`{"jsonrpc":"2.0","id":5,"result":{"x":"te{"jsonrpc":"2.0","id":6,"result":{}}`, Result, "5"},
		// A text that is not escaped may contain ids, too.
		{`{"jsonrpc":"2.0","result":{"x":"a"},"id":6,"y":{"z":"b"},"id":5}`, 0, ""},
		{`{"jsonrpc":"2.0","result":{"x":"a"},"id":6,"y":"b"},"id":5}`, Result, ""},
		{`{"jsonrpc":"2.0","id":5,"result":{"x":"a"},"id":6,"y":{"z":"b"}}`, 0, ""},
		{`{"jsonrpc":"2.0","result":{"x":"a"},"id":6,"y":[{"z":"b"},"id":5}`, Result, ""},
		// These frames are calls, or cannot be classified.
		{`{"jsonrpc":"2.0","id":5,"method":"x","params":{"a":NaN}}`, Request, "5"},
		{`{"jsonrpc":"2.0","method":"x","params":{"a":NaN}}`, Request, ""},
		{`{"jsonrpc":"2.0","id":5,"method":"x","result":{"a":NaN}}`, 0, ""},
		{`{"jsonrpc":"2.0","id":5}`, 0, ""},
		{`{"jsonrpc":"2.0","id":null,"result":{"a":NaN}}`, Result, ""},
		{`{"jsonrpc":"2.0","id":{},"result":{"a":NaN}}`, 0, ""},
		{`{"jsonrpc":"2.0","id":5x,"result":{"a":NaN}}`, Result, ""},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", MaxID) + `","result":{"a":NaN}}`, 0, ""},
		{`{"jsonrpc":"2.0","id":"\ud83d","result":{"a":NaN}}`, Result, ""},
		{`{"jsonrpc":"2.0","id":5,"ID":6,"result":{"a":NaN}}`, 0, ""},
		{`{"jsonrpc":"2.0","id":5,"\u0069d":6,"result":{"a":NaN}}`, 0, ""},
		{`{"jsonrpc":"2.0","id":5,"id":5,"result":{"a":NaN}}`, 0, ""},
		{`{"level":"info","id":5,"result":"ok","bad":NaN`, 0, ""},
		{`{"jsonrpc":"2.0","id":5,"x":1,"result":"ok","bad":NaN}`, Result, "5"},
		{`{"jsonrpc":"2.0","id":5,"result":` + strings.Repeat("[", salvageDepth+1), Result, "5"},
		{`{"jsonrpc":"2.0","result":` + strings.Repeat("[", salvageDepth+1) + strings.Repeat("]", salvageDepth+1) + `,"id":5}`, Result, ""},
		{`[{"jsonrpc":"2.0","id":5,"result":{}}]`, 0, ""},
		{`Server started {"id":5,"result":1}`, 0, ""},
		{"\ufeff{\"id\":5,\"result\":1}", 0, ""},
		{`"jsonrpc": "2.0", "id": 5, "result": {`, 0, ""},
		{``, 0, ""}, {`{`, 0, ""}, {`{}`, 0, ""}, {`}`, 0, ""}, {`{]`, 0, ""},
	} {
		if kind, id := verdictOn([]byte(c.frame)); kind != c.kind || id != c.id {
			t.Errorf("%.200s: kind %d with id %q, want %d with %q", c.frame, kind, id, c.kind, c.id)
		}
	}
}

// TestSuspect checks that Suspect returns the id of a frame without a method, even if nothing shows
// that the frame is an answer.
func TestSuspect(t *testing.T) {
	for frame, want := range map[string]ID{
		`{"jsonrpc":"2.0","id":5}`: "5", `{"jsonrpc":"2.0","id":5,'result':{}}`: "5", `{"jsonrpc":"2.0","id":5,"resu`: "5",
		`{"jsonrpc":"2.0","Id":9,"id":5,"Result":{},"result":{}}`: "5", `{"jsonrpc":"2.0","id":5,"result":{}}`: "5",
		`{"jsonrpc":"2.0","id":5,"result":{},"error":{}}`: "5", `{"id":5,"jsonrpc":"2.0","x":{"y":NaN}}`: "5",
		`{"id":5}`: "", `{"jsonrpc":"2.0","id":5,"method":"x"`: "", `{"jsonrpc":"2.0","id":5,"id":6}`: "",
		`{"jsonrpc":"2.0","id":null}`: "", `{"level":"info","id":5,"x":NaN}`: "", `[{"jsonrpc":"2.0","id":5}]`: "",
		`{"jsonrpc":"2.0","x":{"a":"b"},"id":5`: "", `{"jsonrpc":"2.0","id":5,"\u0069d":6}`: "",
	} {
		var s Salvage
		_, _ = s.Write([]byte(frame))
		if got := s.Suspect(); got != want {
			t.Errorf("%s: %q, want %q", frame, got, want)
		}
	}
}

// TestSalvageIsDecidedEarly checks that Decided is true as soon as the rest of the frame cannot
// change the verdict. This matters for an endless frame.
func TestSalvageIsDecidedEarly(t *testing.T) {
	for frame, want := range map[string]bool{
		`xxx`: true, `{"jsonrpc":"2.0","id":5,"result":{"`: true, `{"jsonrpc":"2.0","id":5,"method":"x",`: true,
		`{"jsonrpc":"2.0","id":5,`: false, `{"id":5,"method":"x","a":1,`: false, `{"id":5,"method":"x","a":1,"jsonrpc":"2.0",`: true, `{"result":{"a":"`: false, `{"id":1,"id":2`: true,
	} {
		var s Salvage
		_, _ = s.Write([]byte(frame))
		if s.Decided() != want {
			t.Errorf("%s: decided is %v", frame, !want)
		}
	}
}

func FuzzSalvage(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":5,"result":{"x":NaN}}`, `{"result":{"x":"y"},"jsonrpc":"2.0","id":5}`, `{"id":5,"error":{"code":1,"message":"a"}}`, `{"id":5,"method":"x","a":1,"jsonrpc":"2.0"}`,
		`a"},"id":4,"z":{"y":"b`, `a"}],"id":4,"z":[{"y":"b`, `","id":4,"x":"`, `\`, `"`, `"}},"id":4,"result":{"a":{"b":"`, `"}}`, `"}}{"id":4,"result":{"a":{"b":"`, sample, odd,
	} {
		f.Add([]byte(s), 7)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		kind, id := verdictOn(b)
		// The verdict does not depend on the pieces in which the frame arrives.
		var s Salvage
		for rest, n := b, max(cut, 1); len(rest) > 0; rest = rest[min(n, len(rest)):] {
			before := s.Decided()
			was, wasID := s.Verdict()
			_, _ = s.Write(rest[:min(n, len(rest))])
			if is, isID := s.Verdict(); before && isID != wasID && isID != "" {
				t.Fatalf("%q: decided on %d %q, then on %d %q", b, was, wasID, is, isID)
			}
		}
		if k, i := s.Verdict(); k != kind || i != id {
			t.Fatalf("%q in pieces of %d: %d %q, else %d %q", b, cut, k, i, kind, id)
		}
		// If the frame is a valid message, the verdict agrees with Scan.
		if m, err := Scan(b, Limits{Tolerant: true, Bytes: len(b) + 1, Depth: salvageDepth - 1}); err == nil {
			want := m.ID
			if want == "null" {
				want = ""
			}
			wantKind := Result
			if m.Kind == Request || m.Kind == Notification {
				wantKind = Request
			}
			if id := s.Suspect(); id != "" && (id != want || wantKind == Request) {
				t.Fatalf("%q: Suspect returns %q, but the message is %+v", b, id, m)
			}
			if kind != 0 && (kind != wantKind || id != want) {
				t.Fatalf("%q: the verdict is %d %q, but the message is %+v", b, kind, id, m)
			}
		}
		// A text that the server has not escaped may contain anything. The verdict has the correct
		// id or no id.
		for _, frame := range [][2]string{
			{`{"jsonrpc":"2.0","id":31,"result":{"content":[{"type":"text","text":"`, `"}]}}`},
			{`{"result":{"content":[{"type":"text","text":"`, `"}]},"jsonrpc":"2.0","id":31}`},
			{`{"jsonrpc":"2.0","result":"`, `","id":31}`},
			{`{"jsonrpc":"2.0","error":{"code":1,"message":"`, `"},"id":31}`},
			{`{"id":31,"result":"`, `"}`},
		} {
			if _, id := verdictOn([]byte(frame[0] + string(b) + frame[1])); id != "" && id != "31" {
				t.Fatalf("%s%s%s: taken for the answer to %s", frame[0], b, frame[1], id)
			}
			var s Salvage
			_, _ = s.Write([]byte(frame[0] + string(b) + frame[1]))
			if id := s.Suspect(); id != "" && id != "31" {
				t.Fatalf("%s%s%s: Suspect returns %s", frame[0], b, frame[1], id)
			}
			// The frame is cut off, or joined with the next frame.
			if _, id := verdictOn([]byte(frame[0] + string(b))); id != "" && id != "31" && strings.Contains(frame[0], "31") {
				t.Fatalf("%s%s: taken for the answer to %s", frame[0], b, id)
			}
		}
	})
}

// verdictOn returns the Verdict on a frame that is written in one piece.
func verdictOn(frame []byte) (kind Kind, id ID) {
	var s Salvage
	_, _ = s.Write(frame)
	return s.Verdict()
}
