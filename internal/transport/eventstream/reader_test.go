package eventstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func all(t testing.TB, src io.Reader, lim Limits) ([]Event, error) {
	t.Helper()
	r := NewReader(src, lim)
	var out []Event
	for {
		e, err := r.Next()
		if err != nil {
			if _, again := r.Next(); again != err {
				t.Errorf("the error is not final: %v, then %v", err, again)
			}
			return out, err
		}
		out = append(out, e)
	}
}

func msg(data string) Event { return Event{Data: []byte(data)} }

func TestE01_EveryShapeOfTheFormat(t *testing.T) {
	tests := []struct {
		name, in string
		want     []Event
		err      error
	}{
		{"empty", "", nil, io.EOF},
		{"one", "data: x\n\n", []Event{msg("x")}, io.EOF},
		{"no space", "data:x\n\n", []Event{msg("x")}, io.EOF},
		{"only the first space goes", "data:  x \n\n", []Event{msg(" x ")}, io.EOF},
		{"CR", "data: x\rdata: y\r\r", []Event{msg("x\ny")}, io.EOF},
		{"CRLF", "data: x\r\ndata: y\r\n\r\n", []Event{msg("x\ny")}, io.EOF},
		{"mixed", "data: x\r\ndata: y\rdata: z\n\r\ndata: w\n\n", []Event{msg("x\ny\nz"), msg("w")}, io.EOF},
		{"LF CR is two ends", "data: x\n\rdata: y\n\n", []Event{msg("x"), msg("y")}, io.EOF},
		{"mark", "\xEF\xBB\xBFdata: x\n\n", []Event{msg("x")}, io.EOF},
		{"half a mark", "\xEF\xBBdata: x\n\n", nil, io.EOF},
		{"mark alone", "\xEF\xBB\xBF", nil, io.EOF},
		{"second mark counts", "\xEF\xBB\xBF\xEF\xBB\xBFdata: x\n\n", nil, io.EOF},
		{"comments", ":\n: x\n\n:data: y\n\ndata: z\n:\n\n", []Event{msg("z")}, io.EOF},
		{"field without colon", "data\ndata\n\n", []Event{msg("\n")}, io.EOF},
		{"unknown fields", "foo: 1\nDATA: 2\n data: 3\nfoo\n\n", nil, io.EOF},
		{"all fields", "id: 7\nevent: endpoint\nretry: 1500\ndata: x\n\n",
			[]Event{{ID: "7", HasID: true, Name: "endpoint", Data: []byte("x"), Retry: 1500 * time.Millisecond, HasRetry: true}}, io.EOF},
		{"priming", "id: 7\ndata:\n\n", []Event{{ID: "7", HasID: true}}, io.EOF},
		{"id reset", "id\n\n", []Event{{HasID: true}}, io.EOF},
		{"last name and id win", "id: 1\nid: 2\nevent: a\nevent: b\ndata: x\n\n",
			[]Event{{ID: "2", HasID: true, Name: "b", Data: []byte("x")}}, io.EOF},
		{"cut in data", "data: x\n\ndata: y", []Event{msg("x")}, io.ErrUnexpectedEOF},
		{"cut before the blank line", "data: y\n", nil, io.ErrUnexpectedEOF},
		{"cut in a name", "dat", nil, io.ErrUnexpectedEOF},
		{"cut in a long comment", ":comment", nil, io.EOF},
		{"cut after an id", "id: 1\n", nil, io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, src := range []io.Reader{
				strings.NewReader(tt.in),
				iotest.OneByteReader(strings.NewReader(tt.in)),
				iotest.DataErrReader(strings.NewReader(tt.in)),
			} {
				got, err := all(t, src, Limits{})
				if !reflect.DeepEqual(got, tt.want) || err != tt.err {
					t.Errorf("got %+v, %v; want %+v, %v", got, err, tt.want, tt.err)
				}
			}
		})
	}
}

// endless is a reader that repeats text n times without storing the result.
type endless struct {
	text string
	n    int
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	c := copy(p, e.text[e.at:])
	if e.at += c; e.at == len(e.text) {
		e.at = 0
		e.n--
	}
	return c, nil
}

func TestE01_CommentsCostNoMemory(t *testing.T) {
	for _, text := range []string{": keep-alive\n\n", ": one endless line ", "unknown field "} {
		r := NewReader(io.MultiReader(&endless{text: text, n: 1 << 16}, strings.NewReader("\n\ndata: x\n\n")), Limits{Bytes: 16})
		before := cap(r.buf) + cap(r.data)
		if e, err := r.Next(); err != nil || string(e.Data) != "x" {
			t.Errorf("%q: %+v %v", text, e, err)
		}
		if after := cap(r.buf) + cap(r.data); after > before+64 {
			t.Errorf("%q: the buffers grew from %d to %d bytes", text, before, after)
		}
	}
}

func TestE03_BrokenSourceDiscardsThePart(t *testing.T) {
	reset := errors.New("connection reset")
	src := io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(reset))
	got, err := all(t, src, Limits{})
	if err != reset || !reflect.DeepEqual(got, []Event{msg("a")}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestE07_RetryAndIDs(t *testing.T) {
	tests := []struct {
		in   string
		want Event
	}{
		{"retry: 99999999999999999999999\n\n", Event{Retry: 366 * 24 * time.Hour, HasRetry: true}},
		{"retry: 0\n\n", Event{HasRetry: true}},
		{"id: a\x00b\nretry: -1\nretry: 1x\nretry:\nretry: 1.5\ndata: x\n\n", msg("x")},
	}
	for _, tt := range tests {
		got, err := all(t, strings.NewReader(tt.in), Limits{})
		if err != io.EOF || !reflect.DeepEqual(got, []Event{tt.want}) {
			t.Errorf("%q: got %+v, %v", tt.in, got, err)
		}
	}
	for id, ok := range map[string]bool{
		"": false, "a": true, "a b": true, " a": false, "a ": false, "a\x00": false, "a\r": false, "a\n": false, "a\t": false,
		"ü": false, "\x7f": false, strings.Repeat("x", MaxID): true, strings.Repeat("x", MaxID+1): false,
	} {
		if ValidID(id) != ok {
			t.Errorf("ValidID(%.20q) = %v", id, !ok)
		}
	}
}

func TestSizeLimit(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int
		err  error
	}{
		{"data: " + strings.Repeat("x", 10000) + "\n\n", 1, io.EOF},
		{"data: " + strings.Repeat("x", 10001) + "\n\n", 0, ErrTooLarge},
		{strings.Repeat("data: 123456789\n", 1000) + "\n", 1, io.EOF}, // an event with 9,999 bytes of data
		{strings.Repeat("data: 123456789\n", 1001) + "\n", 0, ErrTooLarge},
		{strings.Repeat("data\n", 10002) + "\n", 0, ErrTooLarge},
		{"id: " + strings.Repeat("x", window) + "\n\n", 0, ErrTooLarge},
		{"event: " + strings.Repeat("x", window) + "\n\n", 0, ErrTooLarge},
		{"id: " + strings.Repeat("x", window-6) + "\n\n", 1, io.EOF},
	} {
		for _, src := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in))} {
			got, err := all(t, src, Limits{Bytes: 10000})
			if len(got) != tt.want || err != tt.err {
				t.Errorf("%.12q… (%d bytes): %d events, %v; want %d, %v", tt.in, len(tt.in), len(got), err, tt.want, tt.err)
			}
		}
	}
}

func TestEventIsReturnedBeforeTheNextByteArrives(t *testing.T) {
	pr, pw := io.Pipe()
	r := NewReader(pr, Limits{})
	for _, text := range []string{"data: a\n\n", "data: b\r\n\r", "\ndata: c\r\r"} {
		go pw.Write([]byte(text))
		e, err := r.Next()
		if err != nil || len(e.Data) != 1 {
			t.Fatalf("%q: %+v, %v", text, e, err)
		}
	}
	pw.Close()
	if _, err := r.Next(); err != io.EOF {
		t.Fatal(err)
	}
}

func TestDataIsOwnedByTheCaller(t *testing.T) {
	big := strings.Repeat("y", retain*2)
	got, _ := all(t, strings.NewReader("data: x\n\ndata: "+big+"\n\ndata: z\n\n"), Limits{})
	if len(got) != 3 || string(got[0].Data) != "x" || string(got[1].Data) != big || string(got[2].Data) != "z" {
		t.Fatalf("got %d events", len(got))
	}
}

func TestNoProgress(t *testing.T) {
	r := NewReader(readerFunc(func([]byte) (int, error) { return 0, nil }), Limits{})
	if _, err := r.Next(); err != io.ErrNoProgress {
		t.Fatal(err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestAppend(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{string(AppendEvent(nil, "", "", []byte("{}"))), "data: {}\n\n"},
		{string(AppendEvent(nil, "7", "message", []byte("{}"))), "event: message\nid: 7\ndata: {}\n\n"},
		{string(AppendEvent(nil, "7", "", nil)), "id: 7\ndata: \n\n"},
		{string(AppendEvent(nil, "a\nb", "c\rd", []byte("x"))), "data: x\n\n"},
		{string(AppendEvent(nil, "", "", []byte("a\nb\r\nc\rd\n"))), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
		{string(AppendComment(nil, "")), ":\n\n"},
		{string(AppendComment(nil, "a\nb")), ": a b\n\n"},
		{string(AppendRetry(nil, 1500*time.Millisecond)), "retry: 1500\n"},
		{string(AppendRetry(nil, -1)), "retry: 0\n"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

// reference applies the algorithm of the HTML standard to the whole text at once.
func reference(in string) (out []Event, cut bool) {
	in = strings.TrimPrefix(in, "\xEF\xBB\xBF")
	in = strings.ReplaceAll(in, "\r\n", "\n")
	in = strings.ReplaceAll(in, "\r", "\n")
	lines := strings.Split(in, "\n")
	last := lines[len(lines)-1]
	var e Event
	var data []string
	seen := false
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if seen {
				if d := strings.Join(data, "\n"); d != "" {
					e.Data = []byte(d)
				}
				out = append(out, e)
			}
			e, data, seen = Event{}, nil, false
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data, seen = append(data, value), true
		case "event":
			e.Name, seen = value, true
		case "id":
			if !strings.Contains(value, "\x00") {
				e.ID, e.HasID, seen = value, true, true
			}
		case "retry":
			if d, ok := parseRetry([]byte(value)); ok {
				e.Retry, e.HasRetry, seen = d, true, true
			}
		}
	}
	return out, seen || strings.HasPrefix(last, "data:") || len(last) > 0 && len(last) < 7 && last[0] != ':' ||
		strings.HasPrefix(last, "event:") || strings.HasPrefix(last, "id:") || strings.HasPrefix(last, "retry:")
}

// chunked is a reader that returns its text in pieces whose sizes the fuzzer chooses.
type chunked struct {
	text  string
	sizes []byte
	i     int
}

func (c *chunked) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := len(p)
	if len(c.sizes) > 0 {
		n = min(n, int(c.sizes[c.i%len(c.sizes)])+1)
		c.i++
	}
	n = copy(p[:n], c.text)
	c.text = c.text[n:]
	return n, nil
}

func FuzzReader(f *testing.F) {
	f.Add("data: x\r\n\r\nid: 1\ndata:\n\n", []byte{0})
	f.Add("\xEF\xBB\xBFretry: 10\revent: a\rdata\rdata: y\r\r:c\n\n", []byte{1, 5})
	f.Add("data: a\n\rdata: b\n\n\n\nid: a\x00b\n\ndat", []byte{})
	f.Add("data:"+strings.Repeat(" long", 2000)+"\n\n: c"+strings.Repeat("c", 9000)+"\n\n", []byte{255})
	f.Fuzz(func(t *testing.T, in string, sizes []byte) {
		want, cut := reference(in)
		wantErr := io.EOF
		if cut {
			wantErr = io.ErrUnexpectedEOF
		}
		got, err := all(t, &chunked{text: in, sizes: sizes}, Limits{})
		if err == ErrTooLarge && len(in) > window {
			return
		}
		if !reflect.DeepEqual(got, want) || err != wantErr {
			t.Fatalf("%q by %v: got %+v, %v; want %+v, %v", in, sizes, got, err, want, wantErr)
		}
		for _, e := range got {
			again, err := all(t, bytes.NewReader(AppendEvent(nil, e.ID, e.Name, e.Data)), Limits{})
			if err != io.EOF || len(again) != 1 || !bytes.Equal(again[0].Data, e.Data) || again[0].ID != e.ID {
				if strings.ContainsRune(e.Name, 0) {
					continue
				}
				t.Fatalf("written and read again: %+v became %+v, %v", e, again, err)
			}
		}
	})
}

func TestReaderAllocations(t *testing.T) {
	text := "event: message\ndata: " + strings.Repeat("x", 1024) + "\n\n"
	r := NewReader(&endless{text: text, n: 1 << 20}, Limits{})
	r.Next()
	if n := testing.AllocsPerRun(100, func() { r.Next() }); n > 1 {
		t.Errorf("reading an event makes %v allocations, want 1", n)
	}
	dst := make([]byte, 0, 4096)
	data := []byte(text[20:100])
	if n := testing.AllocsPerRun(100, func() { dst = AppendEvent(dst[:0], "1", "message", data) }); n > 0 {
		t.Errorf("writing an event makes %v allocations, want 0", n)
	}
}

func BenchmarkReader(b *testing.B) {
	for _, size := range []int{64, 1024, 65536, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			text := "event: message\ndata: " + strings.Repeat("x", size) + "\n\n"
			r := NewReader(&endless{text: text, n: 1 << 30}, Limits{})
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	data := bytes.Repeat([]byte("x"), 1024)
	dst := make([]byte, 0, 2048)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendEvent(dst[:0], "1", "message", data)
	}
}
