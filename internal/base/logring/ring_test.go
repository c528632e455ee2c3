package logring

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// line formats a record as one line.
func line(x Record) string {
	s := fmt.Sprintf("%d.%d %s", x.Seq, x.Ordinal, x.Server)
	if x.Missed > 0 {
		s += fmt.Sprintf(" missed %d", x.Missed)
	}
	if x.Stderr {
		return s + " stderr: " + x.Clean(x.Text)
	}
	s += " " + x.Level.String() + ": " + x.Text
	for _, a := range x.Attrs {
		s += " " + a.Key + "=" + a.Value
	}
	return s
}

func lines(all []Record) (out []string) {
	for _, x := range all {
		out = append(out, line(x))
	}
	return out
}

func read(r *Ring, after Cursor, f Filter) []string {
	all, _ := r.Read(after, f, 1<<20)
	return lines(all)
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// TestRecords checks that readers get the log records and stderr lines of several servers in
// order. A reader can read all records, or the records of one server, from the beginning or from
// a cursor.
func TestRecords(t *testing.T) {
	r := New()
	var passed bytes.Buffer
	log := slog.New(NewHandler(r, slog.NewTextHandler(&passed, &slog.HandlerOptions{Level: slog.LevelWarn})))
	say := r.Stderr("a", func(s string) string { return strings.ReplaceAll(s, "secret", "***") })
	log.Info("started", "listen", "x:1", slog.Group("of", slog.Int("n", 1)), slog.Group("", slog.Bool("b", true)))
	own := []byte("the secret")
	say(own)
	copy(own, "overwritten")
	say(nil)
	log.Debug("not kept")
	log.With("server", "a", "x", 1).WithGroup("g").Warn("ended", "y", 2, slog.Attr{})
	log.Info("late", "server", "b")
	all := []string{
		"1.1  INFO: started listen=x:1 of_n=1 b=true",
		"2.1 a stderr: the ***",
		"3.2 a WARN: ended x=1 g_y=2",
		"4.1 b INFO: late",
	}
	want(t, read(r, Cursor{}, Filter{}), all...)
	want(t, read(r, Cursor{}, Filter{Server: "a"}), all[1:3]...)
	want(t, read(r, Cursor{2, 1}, Filter{}), all[2:]...)
	want(t, read(r, Cursor{2, 1}, Filter{Server: "a"}), all[2])
	want(t, read(r, Cursor{}, Filter{Server: "c"}))
	want(t, read(r, r.Tail(Filter{}, 1), Filter{}), all[3])
	want(t, read(r, r.Tail(Filter{Server: "a"}, 1), Filter{Server: "a"}), all[2])
	want(t, read(r, r.Tail(Filter{}, 9), Filter{}), all...)
	want(t, read(r, r.Tail(Filter{}, -1), Filter{}), all...)
	want(t, read(r, r.Tail(Filter{}, 0), Filter{}))
	want(t, read(r, New().Tail(Filter{}, 0), Filter{}), all...)
	if r.Has("c") || !r.Has("b") {
		t.Error("Has is wrong")
	}
	if n := strings.Count(passed.String(), "\n"); n != 1 || !strings.Contains(passed.String(), "server=a x=1 g.y=2") {
		t.Errorf("passed on: %s", passed.String())
	}
}

// TestBounds checks that the ring keeps the last records of each server. If a server prints a
// lot to stderr, the ring still keeps its log records. A reader learns the exact number of
// records that it missed.
func TestBounds(t *testing.T) {
	r := New()
	log := slog.New(NewHandler(r, slog.DiscardHandler))
	log.Info("opened", "server", "a")
	say := r.Stderr("a", nil)
	say([]byte("first"))
	cursor := r.Tail(Filter{}, 0)
	ofServer := r.Tail(Filter{Server: "a"}, 0)
	for range maxRecords + 10 {
		say([]byte("x"))
	}
	log.Info("other", "server", "b")
	all := read(r, Cursor{}, Filter{})
	want(t, all[:2], "1.1 a INFO: opened", "13.13 a missed 11 stderr: x")
	if len(all) != maxRecords+2 {
		t.Errorf("%d records", len(all))
	}
	want(t, read(r, cursor, Filter{})[:1], "13.13 a missed 10 stderr: x")
	want(t, read(r, ofServer, Filter{Server: "a"})[:1], "13.13 a missed 10 stderr: x")
	// A reader that reads in small portions learns of each gap once.
	missed := uint64(0)
	for at := cursor; ; {
		some, more := r.Read(at, Filter{}, 7)
		if len(some) == 0 {
			if more == nil {
				t.Error("more is closed, although there is no further record")
			}
			break
		}
		for _, x := range some {
			missed += x.Missed
		}
		at = Cursor{some[len(some)-1].Seq, some[len(some)-1].Ordinal}
	}
	if missed != 10 {
		t.Errorf("missed %d", missed)
	}

	long := strings.Repeat("y", 2*maxText)
	for i := range totalBytes / maxText {
		server := fmt.Sprint("s", i%64)
		r.Stderr(server, nil)([]byte(long))
		slog.New(NewHandler(r, slog.DiscardHandler)).Info(long, "server", server, "z", long)
	}
	if r.bytes > totalBytes || r.records > totalRecord {
		t.Errorf("%d records with %d bytes", r.records, r.bytes)
	}
	n, bytes := 0, 0
	for name, s := range r.servers {
		for _, q := range s.kinds {
			sum := 0
			for _, x := range q.records {
				sum += x.size()
				if len(x.Text) > maxText {
					t.Fatalf("a text of %d bytes", len(x.Text))
				}
			}
			if sum != q.bytes || sum > maxBytes {
				t.Errorf("%s: %d bytes, counted %d", name, sum, q.bytes)
			}
			n, bytes = n+len(q.records), bytes+sum
		}
	}
	if n != r.records || bytes != r.bytes {
		t.Errorf("%d records with %d bytes, counted %d with %d", n, bytes, r.records, r.bytes)
	}
	for i := range 2 * maxServers {
		r.Stderr(fmt.Sprint("many", i), nil)([]byte("x"))
	}
	if len(r.servers) > maxServers {
		t.Errorf("%d servers", len(r.servers))
	}
}

// TestFollow checks that readers that wait get every record exactly once, while several
// goroutines write.
func TestFollow(t *testing.T) {
	r := New()
	const writers, each = 4, 200
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			seen := uint64(0)
			for at := (Cursor{}); seen < writers*each; {
				some, more := r.Read(at, Filter{}, 16)
				for _, x := range some {
					if seen += 1 + x.Missed; x.Seq != seen {
						t.Errorf("record %d after %d", x.Seq, seen-1)
					}
					at = Cursor{x.Seq, x.Ordinal}
				}
				if more != nil {
					<-more
				}
			}
		})
	}
	for i := range writers {
		all.Go(func() {
			say := r.Stderr(fmt.Sprint(i), nil)
			for range each {
				say([]byte("x"))
			}
		})
	}
	all.Wait()
}

// TestShownOnce checks that secrets are masked only once for all readers, because masking is
// the most expensive step.
func TestShownOnce(t *testing.T) {
	r := New()
	r.add(Record{Text: "text", Attrs: []Attr{{"a", "secret"}, {"b", "kept"}}})
	calls := 0
	clean := func(text string) string {
		calls++
		return strings.ReplaceAll(text, "secret", "***")
	}
	for range 3 {
		all, _ := r.Read(Cursor{}, Filter{}, 10)
		text, attrs := all[0].Shown(clean)
		if d := cmp.Diff([]Attr{{"a", "***"}, {"b", "kept"}}, attrs); d != "" || text != "text" {
			t.Errorf("%q %s", text, d)
		}
		if all[0].Attrs[0].Value != "secret" {
			t.Error("the record was changed")
		}
	}
	if calls != 5 {
		t.Errorf("%d calls", calls)
	}
}

// TestParts checks that each project reads its own records alone, even if their servers have the same
// name, and that a part which is forgotten keeps nothing.
func TestParts(t *testing.T) {
	r := New()
	var next bytes.Buffer
	log := slog.New(NewHandler(r, slog.NewTextHandler(&next, nil)))
	shop := r.Part("shop")
	log.Info("of all")
	log.Info("mine", "server", "gh", "project", "default")
	log.With("project", "shop").With("server", "gh").Info("the shop's")
	log.Info("of nobody", "project", "gone")
	shop.Stderr("gh", nil)([]byte("a line"))
	want(t, read(r, Cursor{}, Filter{}), "1.1  INFO: of all", "2.1 gh INFO: mine project=default")
	want(t, read(shop, Cursor{}, Filter{Server: "gh"}), "1.1 gh INFO: the shop's project=shop", "2.2 gh stderr: a line")
	if r.Part("shop") != shop || !shop.Has("gh") || shop.Has("") {
		t.Error("the part is another one, or has records of others")
	}
	r.Forget("shop")
	log.Info("too late", "project", "shop")
	want(t, read(shop, Cursor{Seq: 2}, Filter{}))
	want(t, read(r.Part("shop"), Cursor{}, Filter{}))
	if n := bytes.Count(next.Bytes(), []byte("\n")); n != 5 {
		t.Errorf("%d records were passed on", n)
	}
}
