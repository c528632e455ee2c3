package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

func TestGlob(t *testing.T) {
	for _, test := range []struct {
		pattern string
		exact   bool
		yes, no string
	}{
		{"*.md", false, "a.md A.MD sub/a.md", "a.mdx md"},
		{"*.md", true, "a.md", "A.MD"},
		{"report", false, "report.txt my-Report sub/REPORTS", "repor report/x"},
		{"a?c", false, "abc aXc", "ac abbc"},
		{"[a-c]x", false, "ax bx", "dx"},
		{"[!a-c]x", false, "dx", "ax"},
		{"[^a]x", false, "bx", "ax"},
		{"[]]x", false, "]x", "x"},
		{"*.{go,md}", false, "a.go a.md", "a.txt"},
		{"**/test/*.go", false, "test/a.go x/test/a.go x/y/test/a.go", "test.go x/test/y/a.go"},
		{"src/**", false, "src/a src/b/c", "a/src/b"},
		{"/top.txt", false, "top.txt", "sub/top.txt"},
		{"a+b(c).txt*", false, "a+b(c).txt a+b(c).txt2", "aab(c).txt"},
		{"a,b*", false, "a,b a,bc", "a b"},
	} {
		match, err := matcher(test.pattern, test.exact)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		for _, s := range strings.Fields(test.yes) {
			if !match(s) {
				t.Errorf("%s does not match %s", test.pattern, s)
			}
		}
		for _, s := range strings.Fields(test.no) {
			if match(s) {
				t.Errorf("%s matches %s", test.pattern, s)
			}
		}
	}
	for _, bad := range []string{"[a", "{a", "[z-a]", "[", "[]", strings.Repeat("*", maxPattern+1)} {
		if _, err := matcher(bad, false); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestSearch(t *testing.T) {
	r := open(t, Options{})
	r.put("a.txt", "one\nTwo words\nthree two\n")
	r.put("sub/deep/b.txt", "\xef\xbb\xbftwo")
	r.put("sub/c.md", utf16of("nothing\r\nthe ਊ sign\r\nzwei two\r\n", utf16Less))
	r.put("sub/d.md", utf16of("nothing\nthe ਊ sign\nzwei two\n", utf16More))
	r.put("bin", "two\x00")
	r.put(".git/two.txt", "two")
	for _, test := range []struct {
		a    args
		want string
	}{
		{args{"pattern": "*.txt"}, "a.txt sub/deep/b.txt"},
		{args{"pattern": "*.txt", "hidden": true}, ".git/two.txt a.txt sub/deep/b.txt"},
		{args{"pattern": "deep"}, "sub/deep"},
		{args{"pattern": "*", "type": "folder"}, "sub sub/deep"},
		{args{"pattern": "*", "path": "sub"}, "sub/c.md sub/d.md sub/deep sub/deep/b.txt"},
		{args{"content": "two"}, "a.txt:2 a.txt:3 sub/c.md:3 sub/d.md:3 sub/deep/b.txt:1"},
		{args{"content": "Two", "case_sensitive": true}, "a.txt:2"},
		{args{"content": "^two$", "regex": true}, "sub/deep/b.txt:1"},
		{args{"content": "two", "pattern": "*.md"}, "sub/c.md:3 sub/d.md:3"},
		{args{"content": "ਊ"}, "sub/c.md:2 sub/d.md:2"},
		{args{"pattern": "none"}, ""},
	} {
		var out searchOut
		r.OK("search_files", test.a, &out)
		var got []string
		for _, f := range out.Results {
			if f.Lines == nil {
				got = append(got, f.Path)
			}
			for _, l := range f.Lines {
				got = append(got, fmt.Sprintf("%s:%d", f.Path, l.Line))
			}
		}
		if strings.Join(got, " ") != test.want || !out.Complete {
			t.Errorf("%v: %v (complete: %v)", test.a, got, out.Complete)
		}
	}
	var out searchOut
	r.OK("search_files", args{"pattern": "*", "max_results": 2}, &out)
	if len(out.Results) != 2 || out.Complete || out.Stopped == "" {
		t.Errorf("with two results: %+v", out)
	}
	r.Refused("search_files", args{}, "neither pattern nor content")
	r.Refused("search_files", args{"content": "(", "regex": true}, "not a regular expression")
	r.Refused("search_files", args{"pattern": "[a"}, "bracket")
	r.Refused("search_files", args{"pattern": "a", "path": "a.txt"}, "not a folder")
}

func TestSearchLongLines(t *testing.T) {
	r := open(t, Options{})
	r.put("long", strings.Repeat("x", searchLine+10)+"needle"+strings.Repeat("y", 1000)+"\nneedle\n")
	var out searchOut
	r.OK("search_files", args{"content": "needle"}, &out)
	if len(out.Results) != 1 || len(out.Results[0].Lines) != 2 || out.Results[0].Lines[1].Line != 2 {
		t.Fatalf("%+v", out)
	}
	if n := len(out.Results[0].Lines[0].Text); n > 260 {
		t.Errorf("the line has %d bytes", n)
	}
}

// TestSearchDeadline checks that a search stops after its time limit.
func TestSearchDeadline(t *testing.T) {
	t.Parallel()
	var ticks atomic.Int64
	r := openWith(t, Options{}, func(s *Server) {
		s.now = func() time.Time { return time.Unix(30*ticks.Add(1), 0) } // the clock advances half a minute with each call
	})
	for i := range 600 {
		r.put(fmt.Sprintf("%d/f", i), "")
	}
	var out searchOut
	r.OK("search_files", args{"pattern": "none"}, &out)
	if out.Complete || !strings.Contains(out.Stopped, "50s") {
		t.Errorf("%+v", out)
	}
}

// TestSearchProgress cancels a search while it reports progress.
func TestSearchProgress(t *testing.T) {
	s, err := Open(Options{Roots: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for i := range 2000 {
		if err := os.WriteFile(fmt.Sprintf("%s/%d", s.roots[0].abs, i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var ticks atomic.Int64
	s.now = func() time.Time {
		return time.Unix(ticks.Add(1), 0).Add(-time.Duration(ticks.Load()) * time.Second / 2)
	} // the clock advances half a second with each call
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reports atomic.Int64
	client, server := mcp.NewInMemoryTransports()
	ss, err := s.mcp.Connect(t.Context(), server, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ss.Close() }()
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
			if reports.Add(1) == 3 {
				cancel()
			}
		},
	})
	session, err := c.Connect(t.Context(), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	p := &mcp.CallToolParams{Name: "search_files", Arguments: args{"pattern": "none"}}
	p.SetProgressToken("token")
	if _, err := session.CallTool(ctx, p); err == nil && reports.Load() < 3 {
		t.Errorf("%d reports of progress", reports.Load())
	}
	if reports.Load() < 3 {
		t.Errorf("%d reports of progress", reports.Load())
	}
}

// TestSearchLargeExpression searches with expressions that would take very long.
func TestSearchLargeExpression(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	r.put("line", strings.Repeat("a", 50_000))
	slow := "(?s)" + strings.Repeat("(?:.{0,999})", 70) + "b"
	r.Refused("search_files", args{"content": slow, "regex": true}, "too large")
	r.Refused("search_files", args{"pattern": strings.Repeat("*?", 500)}, "too large")
	var out searchOut
	r.OK("search_files", args{"content": "a{10}$", "regex": true}, &out)
	if len(out.Results) != 1 || !out.Complete {
		t.Errorf("%+v", out)
	}
}

// TestSearchStops checks that a search checks its time limit and its context while it searches one
// long line.
func TestSearchStops(t *testing.T) {
	large := "bx{900}y{900}" // its size makes the parts of the line small, so no part takes long
	t.Run("deadline", func(t *testing.T) {
		var ticks atomic.Int64
		r := openWith(t, Options{}, func(s *Server) {
			s.now = func() time.Time { return time.Unix(30*ticks.Add(1), 0) }
		})
		r.put("line", strings.Repeat("a", 60_000))
		var out searchOut
		r.OK("search_files", args{"content": large, "regex": true, "case_sensitive": true}, &out)
		if out.Complete || !strings.Contains(out.Stopped, "50s") {
			t.Errorf("%+v", out)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		var looks atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		r := openWith(t, Options{}, func(s *Server) {
			s.now = func() time.Time {
				if looks.Add(1) == 2 { // after the first part
					cancel()
				}
				return time.Unix(0, 0)
			}
		})
		r.put("line", strings.Repeat("a", 60_000))
		_, _, err := r.s.search(ctx, noRequest(), searchIn{Content: large, Regex: true, CaseSensitive: true})
		if !errors.Is(err, context.Canceled) || looks.Load() > 3 {
			t.Errorf("%v after %d looks at the clock", err, looks.Load())
		}
	})
}

// TestLongCallsLeaveRoom starts as many long calls as possible. Short calls still run, and a long
// call that is cancelled while it waits occupies no place.
func TestLongCallsLeaveRoom(t *testing.T) {
	s, err := Open(Options{Roots: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var ends []func()
	for range maxLong {
		end, err := s.begin(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.begin(ctx, true); !errors.Is(err, context.Canceled) {
		t.Errorf("one more long call: %v", err)
	}
	for range maxRunning - maxLong {
		end, err := s.begin(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		defer end()
	}
	if _, err := s.begin(ctx, false); !errors.Is(err, context.Canceled) {
		t.Errorf("one more call: %v", err)
	}
	for _, end := range ends {
		end()
	}
	end, err := s.begin(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	end()
}

// TestLongCallsWaitApart fills the server with running and waiting long calls. Short calls still
// run, and the server refuses one more long call.
func TestLongCallsWaitApart(t *testing.T) {
	s, err := Open(Options{Roots: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	synctest.Test(t, func(t *testing.T) {
		s.long = tools.NewGate(maxLong, maxLongWaiting) // makes the gate's channel in the bubble
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for range maxLong + maxLongWaiting {
			waiting.Go(func() {
				end, err := s.begin(ctx, true)
				if err == nil {
					<-ctx.Done()
					end()
				} else if !errors.Is(err, context.Canceled) {
					t.Errorf("a long call: %v", err)
				}
			})
		}
		synctest.Wait()
		if _, err := s.begin(t.Context(), true); err == nil || err.Error() != "Too many calls are waiting: the limit is 256. Wait for the answers of some calls first." {
			t.Errorf("one more long call: %v", err)
		}
		if end, err := s.begin(t.Context(), false); err != nil {
			t.Errorf("a short call: %v", err)
		} else {
			end()
		}
		cancel()
		waiting.Wait()
	})
}
