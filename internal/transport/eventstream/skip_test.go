package eventstream

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestSkip checks that the Reader writes an event over the limit to Skip in pieces, completely and
// in order. The Reader does not keep this event, and then reads the next event.
func TestSkip(t *testing.T) {
	long := strings.Repeat("0123456789", 5000)
	stream := "id: 1\ndata: a\n\nid: 2\nevent: x\ndata: " + long + "\ndata: " + long + "\n\ndata: b\n\n"
	for name, src := range map[string]io.Reader{"at once": strings.NewReader(stream), "byte by byte": iotest.OneByteReader(strings.NewReader(stream))} {
		var skipped bytes.Buffer
		r := NewReader(src, Limits{Bytes: 1000, Skip: &skipped, Endless: 1 << 20})
		var got []string
		for {
			e, err := r.Next()
			if err != nil {
				if err != io.EOF {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			if e.Skipped {
				if e.ID != "2" || e.Name != "x" || e.Data != nil || skipped.String() != long+"\n"+long {
					t.Errorf("%s: %+v after %d bytes", name, e, skipped.Len())
				}
				got = append(got, "skipped")
				continue
			}
			got = append(got, string(e.Data))
		}
		if strings.Join(got, " ") != "a skipped b" || cap(r.data) > retain {
			t.Errorf("%s: %q, and %d bytes are kept", name, got, cap(r.data))
		}
	}
}

func TestSkipEnds(t *testing.T) {
	var skipped bytes.Buffer
	r := NewReader(strings.NewReader("data: "+strings.Repeat("x", 100_000)), Limits{Bytes: 1000, Skip: &skipped, Endless: 50_000})
	if _, err := r.Next(); err != ErrTooLarge || skipped.Len() > 60_000 {
		t.Errorf("got %v after %d bytes", err, skipped.Len())
	}
}
