package tape

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestSecretsBesideJSON checks that a secret is recognised by its name in each of these
// places: in an environment variable, in text that is not JSON, and within a text.
func TestSecretsBesideJSON(t *testing.T) {
	const secret = "hunter2 hunter2"
	word := strings.ReplaceAll(secret, " ", "")
	for _, line := range []string{
		`{"env":{"GITHUB_TOKEN":"` + secret + `"}}`,
		`{"env":{"STRIPE_KEY":"` + secret + `"}}`,
		`{"db_password":"` + secret + `"}`,
		`{"botToken":"` + secret + `"}`,
		`  "password": "` + secret + `",`,
		`{"a":1,"a":2,"password":"` + secret + `"}`,
		`{"text":"it is {\"password\":\"` + secret + `\"}"}`,
		`{"text":" {\"password\":\"` + secret + `\"}"}`,
		`{"text":"HOME=/x\nAPI_KEY=` + word + `\n"}`,
		`{"uri":"https://h.example/x?a=b&access_token=` + word + `&c=d"}`,
	} {
		got := string(newRedactor(nil).json([]byte(line)))
		if strings.Contains(got, "hunter2") || !strings.Contains(got, "[secret-1]") {
			t.Errorf("%s\n became %s", line, got)
		}
	}
	if got := string(newRedactor([]string{"Bearer k8Fh2mQ1"}).json([]byte(`{"text":"k8Fh2mQ1 is no key"}`))); strings.Contains(got, "k8Fh") {
		t.Errorf("the key alone became %s", got)
	}
	for _, line := range []string{
		`{"progressToken":"a1b2c3d4"}`, `{"nextPageToken":"a1b2c3d4"}`, `{"nextToken":"a1b2c3d4"}`, `{"primaryKey":"a1b2c3d4"}`,
		`{"text":"a=bcdefghi"}`,
	} {
		if got := string(newRedactor(nil).json([]byte(line))); got != line {
			t.Errorf("%s\n became %s", line, got)
		}
	}
}

// TestArgumentsAreCompared checks that the comparison ignores a member by its name only where the
// protocol defines the member.
func TestArgumentsAreCompared(t *testing.T) {
	line := func(n string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"traceparent":"` + n + `"},"clientInfo":{"name":"` + n + `"},"arguments":{"baggage":` + n + `}}}`
	}
	s := newScore(parsed(t, recorded(t, "c "+line("1"))), false, Options{})
	s.take([]byte(line("2")), func(int) bool { return true })
	if d := s.rest(); len(d) != 1 || !strings.Contains(d[0].Where, "arguments.baggage") {
		t.Errorf("it finds %v", d)
	}
}

// TestEventsEndAtAnyBlankLine checks that the three kinds of line ends may be mixed, and that a
// read may end in the middle of a line end.
func TestEventsEndAtAnyBlankLine(t *testing.T) {
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprintf("id: %d\ndata: x", i))
	}
	ends := []string{"\n", "\r\n", "\r"}
	var stream strings.Builder
	for i := range want {
		a, b := ends[i%3], ends[i/3%3]
		stream.WriteString(strings.ReplaceAll(want[i], "\n", a) + a)
		if a == "\r" && b == "\n" {
			b = "\r" // "\r" and "\n" together would be one line end
		}
		stream.WriteString(b)
	}
	for _, size := range []int{1, 2, 3, 7, 1 << 10} {
		var b bytes.Buffer
		body := &tappedBody{r: NewRecorder(&b, "A test.", nil), n: 1, from: io.NopCloser(strings.NewReader(stream.String())), left: -1, stream: true, head: func([]byte) {}}
		buf := make([]byte, size)
		for {
			if _, err := body.Read(buf); err != nil {
				break
			}
		}
		var got []string
		for _, e := range parsed(t, b.String()).entries {
			if e.section == event {
				got = append(got, string(e.body))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in reads of %d the events are %q", size, got)
		}
	}
}

// FuzzTap checks that an event stream passes unchanged and that the tape can be parsed.
func FuzzTap(f *testing.F) {
	for _, s := range []string{"data: x\n\n", "data: x\r\n\r\ndata: y\r\rdata\n\r\n", "\n\n\n", "-- client --\n\n", "id: 1\ndata: {\"token\":\"abcdefgh\",\ndata: \"a\":1}\n\n"} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		var b bytes.Buffer
		body := &tappedBody{r: NewRecorder(&b, "A test.", nil), n: 1, from: io.NopCloser(bytes.NewReader(stream)), left: -1, stream: true, head: func([]byte) {}}
		buf := make([]byte, int(size)+1)
		var passed []byte
		for {
			n, err := body.Read(buf)
			passed = append(passed, buf[:n]...)
			if err != nil {
				break
			}
		}
		if !bytes.Equal(passed, stream) {
			t.Fatalf("%q became %q", stream, passed)
		}
		if _, err := Parse(b.Bytes()); err != nil {
			t.Fatalf("%v in %q", err, b.Bytes())
		}
	})
}

// FuzzRedact checks that redacted JSON is JSON, and that redacting it again has no effect.
func FuzzRedact(f *testing.F) {
	f.Add([]byte(`{"password":"a","text":"{\"token\":\"b\"}"}`))
	f.Add([]byte(`"password": "hunter2 x", API_KEY=abcdefgh https://a:b@c/`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r := newRedactor([]string{"hunter22"})
		once := r.json(line)
		if bytes.Contains(once, []byte("hunter22")) {
			t.Fatalf("%q became %q", line, once)
		}
		if scan(line) != nil && scan(once) == nil {
			t.Fatalf("%q became %q", line, once)
		}
	})
}

// BenchmarkManyMembers compares two objects with many members.
func BenchmarkManyMembers(b *testing.B) {
	var params strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&params, `,"m%d":%d`, i, i)
	}
	line := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"x":1` + params.String() + `}}}`
	file := "A test.\n\n-- client --\n" + line + "\n"
	for b.Loop() {
		tp, err := Parse([]byte(file))
		if err != nil {
			b.Fatal(err)
		}
		s := newScore(tp, false, Options{})
		s.take([]byte(line), func(int) bool { return true })
		if d := s.rest(); len(d) > 0 {
			b.Fatal(d)
		}
	}
}
