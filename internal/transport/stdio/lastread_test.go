package stdio

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// TestLateReader reads only when the time for the last output of a child is over, as on a machine that was too busy to let
// us run: what the child has left isn't lost, and the output ends nevertheless if something else keeps it open.
func TestLateReader(t *testing.T) {
	for name, read := range map[string]func(*os.File) io.Reader{
		"stdout": func(f *os.File) io.Reader {
			return &output{f: f, dead: make(chan struct{}), delay: time.Millisecond, ended: make(chan struct{})}
		},
		"stderr": func(f *os.File) io.Reader { return lastReader{f, time.Millisecond} },
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		defer r.Close()
		if _, err := w.WriteString("why"); err != nil {
			t.Fatal(err)
		}
		if err := r.SetReadDeadline(time.Now().Add(-time.Second)); errors.Is(err, os.ErrNoDeadline) {
			t.Skip("pipes have no deadlines here")
		}
		from := read(r)
		b := make([]byte, 10)
		if n, err := from.Read(b); string(b[:n]) != "why" || err != nil {
			t.Errorf("%s: %q, %v", name, b[:n], err)
		}
		if n, err := from.Read(b); n != 0 || !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s, at its end: %q, %v", name, b[:n], err)
		}
	}
}
