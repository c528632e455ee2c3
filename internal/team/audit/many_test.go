package audit

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// many writes lines into files of a process, as it would have written them: a line for each millisecond, but every
// slow-th request took half of the time until then.
func many(t testing.TB, folder string, files, each, slow int) (first time.Time) {
	t.Helper()
	first = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	n := 0
	for i := range files {
		out, err := os.Create(filepath.Join(folder, nameOf("20260102T030405.000Z-00000000", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		w := bufio.NewWriter(out)
		for range each {
			at := first.Add(time.Duration(n) * time.Millisecond)
			if n%slow == slow-1 {
				at = at.Add(-time.Duration(n/2) * time.Millisecond)
			}
			fmt.Fprintf(w, `{"seq":%d,"at":%q,"who":"p:1","name":"Ada","via":"key","seat":"k:1","from":"192.0.2.7:4711","project":"default","server":"gh","method":"tools/call","item":"tool-%d","outcome":"ok","ms":12.5,"sum":"0123456789012345678901234567890123456789012"}`+"\n", n, at.Format(timeFormat), n)
			n++
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return first
}

// trailIn returns a trail with the files of a folder.
func trailIn(t testing.TB, folder string) *Trail {
	x := New(Options{Folder: folder, Settings: func() Settings { return Settings{} }})
	t.Cleanup(x.Close)
	return x
}

// TestManyPages reads files of many blocks in pages: each entry is there once, the newest first, also those of requests
// that took long, what was added since the first page, and what a filter selects.
func TestManyPages(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const all = 3 * 2000
	first := many(t, folder, 3, 2000, 100)
	x := trailIn(t, folder)
	for _, q := range []Query{{}, {Since: first.Add(2 * time.Second), Until: first.Add(4 * time.Second)}, {What: "tool-11"}} {
		seen, before, want := map[int64]bool{}, Place{}, 0
		for i := range all {
			at := first.Add(time.Duration(i) * time.Millisecond)
			if i%100 == 99 {
				at = at.Add(-time.Duration(i/2) * time.Millisecond)
			}
			if e := (Entry{At: at, Line: &Line{At: at}}); q.reaches(&e) && q.selects("default", nil, fmt.Sprint("gh/tool-", i)) {
				want++
			}
		}
		for {
			q.Before, q.Most = before, 700
			list, last, err := x.Read(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				if p := list[i].place(); seen[p.Seq] || !before.At.IsZero() && before.compare(p) >= 0 {
					t.Fatalf("entry %d comes twice, or in another order", p.Seq)
				}
				seen[list[i].Line.Seq], before = true, list[i].place()
			}
			if before = last; len(list) < q.Most {
				break
			}
		}
		if len(seen) != want || want < 100 {
			t.Errorf("%d entries of %d", len(seen), want)
		}
	}
}

// BenchmarkNextPage reads pages of the console from the middle of a million calls.
func BenchmarkNextPage(b *testing.B) {
	folder := b.TempDir()
	first := many(b, folder, 10, 100_000, 10_000)
	x := trailIn(b, folder)
	began := time.Now()
	if _, _, err := x.Read(b.Context(), Query{Most: 50}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms-first")
	q := Query{Most: 50, Before: Place{At: first.Add(500 * time.Second), Seq: 500_000}}
	b.ReportAllocs()
	for b.Loop() {
		list, last, err := x.Read(b.Context(), q)
		if err != nil || len(list) != 50 {
			b.Fatal(len(list), err)
		}
		q.Before = last
	}
}

// BenchmarkRareSearch looks in a million calls for what is in none of them.
func BenchmarkRareSearch(b *testing.B) {
	folder := b.TempDir()
	many(b, folder, 10, 100_000, 10_000)
	x := trailIn(b, folder)
	for _, q := range []Query{{What: "set roles"}, {Who: "nobody"}, {Project: "shop"}} {
		q.Most = 50
		b.Run(q.What+q.Who+q.Project, func(b *testing.B) {
			for b.Loop() {
				if list, _, err := x.Read(b.Context(), q); err != nil || len(list) > 0 {
					b.Fatal(list, err)
				}
			}
		})
	}
}
