package admin

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// TestRing checks that a ring is bounded in items and in bytes, and reports how many items a reader
// has missed. An ended ring accepts no more items and reports its end.
func TestRing(t *testing.T) {
	r := NewRing[string](3, 10)
	if _, more, last := r.Read(0, 9); more == nil || last {
		t.Error("an empty ring has items, or is over")
	}
	_, more, _ := r.Read(0, 9)
	for i := range 5 {
		if n := r.Add(strconv.Itoa(i), 1); n != uint64(i+1) {
			t.Errorf("number %d of item %d", n, i)
		}
	}
	select {
	case <-more:
	default:
		t.Error("a reader that waits is not woken")
	}
	read := func(after uint64, limit int) (got string) {
		items, _, _ := r.Read(after, limit)
		for _, x := range items {
			got += strconv.FormatUint(x.Number, 10) + ":" + x.Item
			if x.Missed > 0 {
				got += "(" + strconv.FormatUint(x.Missed, 10) + " missed)"
			}
			got += " "
		}
		return strings.TrimSpace(got)
	}
	for _, c := range []struct {
		after uint64
		limit int
		want  string
	}{
		{0, 9, "3:2(2 missed) 4:3 5:4"},
		{1, 1, "3:2(1 missed)"},
		{2, 9, "3:2 4:3 5:4"},
		{4, 9, "5:4"},
		{5, 9, ""},
		{1 << 60, 9, ""},
		{r.Tail(1), 9, "5:4"},
		{r.Tail(-1), 9, "3:2 4:3 5:4"},
		{r.After(r.ID(4)), 9, "5:4"},
		{r.After("other-4"), 9, "3:2 4:3 5:4"},
		{r.After(r.ID(4) + "-1"), 9, "3:2 4:3 5:4"},
		{r.After("\x00"), 9, "3:2 4:3 5:4"},
	} {
		if got := read(c.after, c.limit); got != c.want {
			t.Errorf("after %d: %q, not %q", c.after, got, c.want)
		}
	}
	r.Add("large", 100)
	if got := read(0, 9); got != "6:large(5 missed)" {
		t.Errorf("after a large item: %q", got)
	}
	r.End()
	if r.Add("late", 1) != 0 {
		t.Error("an item was added after the end")
	}
	if got := read(5, 9); got != "6:large" {
		t.Errorf("after the end: %q", got)
	}
	if _, more, last := r.Read(6, 9); more != nil || !last {
		t.Error("the end is not reported")
	}
}

// TestStreams checks that a reader that connects again gets the items that it missed. At the
// maximum number of readers, the API refuses a further reader and does not disturb the others.
// A stream ends when its ring ends or when Drain is called.
func TestStreams(t *testing.T) {
	ring, streams := NewRing[string](100, 1000), NewStreams(2)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after := uint64(0)
		if id := lastEventID(r); id != "" {
			after = ring.After(id)
		}
		streams.Serve(w, r, ring.Follow(after, func(x Numbered[string]) (string, []byte) {
			if x.Item == "secret" {
				return "", nil
			}
			return "item", []byte(x.Item)
		}))
	}))
	defer web.Close()
	defer streams.Drain()
	open := func(id string) (*http.Response, *eventstream.Reader) {
		t.Helper()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL, nil)
		if id != "" {
			req.Header.Set("Last-Event-ID", id)
		}
		resp, err := web.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp, eventstream.NewReader(resp.Body, eventstream.Limits{})
	}
	next := func(in *eventstream.Reader, want string) string {
		t.Helper()
		e, err := in.Next()
		if err != nil || e.Name+" "+string(e.Data) != want {
			t.Fatalf("%q %q %v, not %q", e.Name, e.Data, err, want)
		}
		return e.ID
	}
	for _, x := range []string{"one", "secret", "two"} {
		ring.Add(x, 1)
	}
	first, in := open("")
	defer first.Body.Close()
	id := next(in, "item one")
	next(in, "item two")
	second, again := open(id)
	defer second.Body.Close()
	next(again, "item two")
	third, _ := open("")
	body, _ := io.ReadAll(bufio.NewReader(third.Body))
	_ = third.Body.Close()
	if third.StatusCode != http.StatusServiceUnavailable || third.Header.Get("Content-Type") != "application/problem+json" || third.Header.Get("Retry-After") != "5" || !strings.Contains(string(body), "too-many-streams") {
		t.Errorf("one reader too many: %d %s", third.StatusCode, body)
	}
	ring.Add("three", 1)
	next(in, "item three")
	next(again, "item three")
	streams.Drain()
	next(in, "end {}")
	next(again, "end {}")
}

// TestStreamEnds checks that the reader of an ended ring gets the remaining items and the end event.
func TestStreamEnds(t *testing.T) {
	ring, streams := NewRing[string](100, 1000), NewStreams(2)
	ring.Add("one", 1)
	ring.End()
	out := httptest.NewRecorder()
	streams.Serve(out, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), ring.Follow(0, func(x Numbered[string]) (string, []byte) { return "item", []byte(x.Item) }))
	if got := out.Body.String(); !strings.Contains(got, "event: item\nid: "+ring.ID(1)+"\ndata: one\n") || !strings.HasSuffix(got, "event: end\ndata: {}\n\n") {
		t.Errorf("%q", got)
	}
}
