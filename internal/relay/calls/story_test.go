package calls

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

var update = flag.Bool("update", false, "write the golden files")

// reasonOf returns the reason with a code.
func reasonOf(t *testing.T, code string) jsonrpc.Reason {
	t.Helper()
	for r := jsonrpc.Reason(1); mcp.ReasonCode(r) != ""; r++ {
		if mcp.ReasonCode(r) == code {
			return r
		}
	}
	t.Fatalf("no reason is called %s", code)
	return 0
}

// TestHunks reads the files of testdata/hunks. Each file has a text, edits, and the expected
// hunks. Each byte of the source and of the message must be in exactly one hunk.
func TestHunks(t *testing.T) {
	files, err := filepath.Glob("testdata/hunks/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(f)
			if err != nil {
				t.Fatal(err)
			}
			trail := trails.New(1 << 20)
			var source, text []byte
			var kept []txtar.File
			for _, x := range a.Files {
				switch x.Name {
				case "source":
					source = bytes.TrimSuffix(x.Data, []byte("\n"))
					text = source
					trail.Received(trails.ClientWire, source, trails.Head{})
				case "edits":
					text = spliced(t, trail, text, string(x.Data))
				default:
					continue
				}
				kept = append(kept, x)
			}
			trail.Sent(trails.ServerWire, text)
			texts, entries, missed := trail.Story()
			all := messagesOf(texts, entries)
			if missed != 0 || len(all) != 2 || all[1].Source != 0 || !bytes.Equal(all[1].Text, text) {
				t.Fatalf("the story is %+v", all)
			}
			got := hunksText(t, &all[0], &all[1])
			if *update {
				a.Files = append(kept, txtar.File{Name: "hunks", Data: []byte(got)})
				if err := os.WriteFile(f, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(a.Files[len(a.Files)-1].Data); want != got {
				t.Errorf("-want +got\n%s", cmp.Diff(want, got))
			}
		})
	}
}

// spliced applies edits, one on each line, in the form "REASON: OLD => NEW".
func spliced(t *testing.T, trail *trails.Trail, text []byte, edits string) []byte {
	t.Helper()
	var e jsonrpc.Edits
	for line := range strings.Lines(edits) {
		code, change, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		before, after, ok := strings.Cut(change, "=>")
		before, after = strings.TrimSpace(before), strings.TrimSpace(after)
		at := bytes.LastIndex(text, []byte(before))
		if before == "" {
			at = bytes.LastIndexByte(text, '}') // an insertion at the end
		}
		if code == "id" {
			at = bytes.Index(text, []byte(before))
		}
		if !ok || at < 0 {
			t.Fatalf("the line %q", line)
		}
		if before == "" {
			e.Insert(reasonOf(t, code), at, []byte(after))
		} else {
			e.Replace(reasonOf(t, code), jsonrpc.Span{Start: at, End: at + len(before)}, []byte(after))
		}
	}
	return trail.Splice(nil, text, &e)
}

// hunksText returns the hunks of a message as lines. It checks that the hunks contain each
// byte once.
func hunksText(t *testing.T, source, m *Message) string {
	t.Helper()
	var out strings.Builder
	var notes Notes
	var left, right []byte
	for _, h := range Hunks(source.Size, m.Size, m.Edits, &notes) {
		a, b := source.Text[h.At.Start:h.At.End], m.Text[h.To.Start:h.To.End]
		left, right = append(left, a...), append(right, b...)
		switch h.Kind {
		case Same:
			fmt.Fprintf(&out, "  %s\n", a)
			if string(a) != string(b) {
				t.Errorf("the same are %q and %q", a, b)
			}
		default:
			fmt.Fprintf(&out, "%s %s (%s): %s => %s\n", h.Note, h.Kind, mcp.ReasonCode(h.Why), a, b)
		}
	}
	if !bytes.Equal(left, source.Text) || !bytes.Equal(right, m.Text) {
		t.Errorf("the hunks hold %q and %q", left, right)
	}
	return out.String()
}

// TestComposedEdits changes a text several times. The edits of the story must turn the first text
// into the last text. The bytes between the edits must be the same in both texts.
func TestComposedEdits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		trail := trails.New(1 << 20)
		text := []byte("abcdefghijklmnopqrstuvwxyz"[:1+r.IntN(26)])
		trail.Received(trails.ClientWire, text, trails.Head{})
		for stage := range 1 + r.IntN(4) {
			var e jsonrpc.Edits
			for range r.IntN(5) {
				from := r.IntN(len(text) + 1)
				to := from + r.IntN(len(text)+1-from)
				with := strings.Repeat(fmt.Sprint(stage), r.IntN(4))
				if from == to {
					e.Insert(mcp.WhyID, from, []byte(with))
				} else {
					e.Replace(mcp.WhyName, jsonrpc.Span{Start: from, End: to}, []byte(with))
				}
			}
			text = trail.Splice(nil, text, &e)
		}
		trail.Sent(trails.ServerWire, text)
		texts, entries, _ := trail.Story()
		all := messagesOf(texts, entries)
		if all[1].Source != 0 {
			t.Fatalf("round %d: no source", round)
		}
		hunksText(t, &all[0], &all[1])
		if t.Failed() {
			t.Fatalf("round %d: %+v", round, all)
		}
	}
}

// TestLetters checks that edits with the same reason have the same letter, and that losses have
// numbers.
func TestLetters(t *testing.T) {
	var n Notes
	got := n.Of(mcp.WhyID) + n.Of(mcp.WhyStructured) + n.Of(mcp.WhyName) + n.Of(mcp.WhyID) + n.Of(mcp.WhyContent) + n.Of(mcp.WhyStructured)
	if got != "a1ba21" {
		t.Errorf("notes %s", got)
	}
	if letters(25)+letters(26)+letters(27)+letters(701)+letters(702) != "zaaabzzaaa" {
		t.Error("letters after z are wrong")
	}
}

// recorded runs a call whose request and answer have the given size.
func recorded(r *Ring, number uint64, size int) {
	c := request(number, "t")
	x := r.Begin(c, nil)
	a := mcp.NewAttempt(c)
	a.Server = "s"
	x.Routed(a)
	c.Trail.Sent(trails.ServerWire, c.Msg.Raw)
	c.Trail.Received(trails.ServerWire, bytes.Repeat([]byte{'x'}, size), trails.Head{})
	x.Answered(a, mcp.Ending{Outcome: "ok"})
	x.End(size, false)
}

// TestBounds checks that a recording keeps the beginning of a long message, and that many calls with
// short messages are kept. All recordings together have a limit, even if the messages are large.
func TestBounds(t *testing.T) {
	const bytes16 = 16 << 20
	r := New(Options{Record: true, Bytes: bytes16})
	for n := range uint64(500) {
		recorded(r, n+1, 100)
	}
	count := func() (n int) {
		for _, c := range r.All() {
			if c.Recorded {
				n++
			}
		}
		return n
	}
	if n := count(); n != 500 {
		t.Errorf("%d stories", n)
	}
	recorded(r, 1000, 100_000)
	s, ok := r.Story(1000)
	if last := s.Messages[len(s.Messages)-1]; !ok || last.Size != 100_000 || len(last.Text) != maxMessage || last.Cut() != 100_000-maxMessage {
		t.Errorf("the long message: %d of %d bytes", len(last.Text), last.Size)
	}
	for n := range uint64(100) {
		c := request(2000+n, "t")
		x := r.Begin(c, nil)
		x.Routed(mcp.NewAttempt(c))
		for i := range 80 {
			c.Trail.Received(trails.ServerWire, bytes.Repeat([]byte{byte(i)}, maxMessage), trails.Head{})
		}
		x.End(1, false)
		if held := r.Held(); held > bytes16 {
			t.Fatalf("%d bytes are held", held)
		}
	}
	if n := count(); n < 10 || n > 100 {
		t.Errorf("%d stories", n)
	}
	s, _ = r.Story(2099)
	if s.Missed == 0 || len(s.Messages) == 0 {
		t.Errorf("%d messages of the long call, %d missed", len(s.Messages), s.Missed)
	}
	r.Record(false)
	if count() != 0 || r.Held() != 0 {
		t.Errorf("after it was switched off: %d stories, %d bytes", count(), r.Held())
	}
}

// TestNotesAreBounded checks that a recording has the answer of a call, even if very many
// notifications came before the answer.
func TestNotesAreBounded(t *testing.T) {
	r := New(Options{Record: true})
	c := request(1, "t")
	x := r.Begin(c, nil)
	x.Routed(mcp.NewAttempt(c))
	for i := range 10_000 {
		c.Trail.Received(trails.ServerWire, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d}}`, i), trails.Head{})
	}
	c.Trail.Received(trails.ServerWire, []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), trails.Head{})
	x.End(1, false)
	s, _ := r.Story(1)
	if last := s.Messages[len(s.Messages)-1]; len(s.Messages) != maxNotes+2 || s.Missed != 10_000-maxNotes || !strings.Contains(string(last.Text), "result") {
		t.Errorf("%d messages, %d missed, the last is %s", len(s.Messages), s.Missed, last.Text)
	}
}

// TestWindows checks that a window records the calls of one server or one client, even if the
// recording of all calls is off.
func TestWindows(t *testing.T) {
	r := New(Options{})
	until := time.Now().Add(time.Hour)
	call := func(number uint64, server string) bool {
		c := request(number, "t")
		x := r.Begin(c, nil)
		a := mcp.NewAttempt(c)
		x.Routed(a) // the server of the call is known only from here on
		a.Server = server
		x.Answered(a, mcp.Ending{Outcome: "ok"})
		x.End(1, false)
		got, _ := r.Find(number)
		return got.Recorded
	}
	if call(1, "a") || r.Held() != 0 {
		t.Error("a call is recorded without a window")
	}
	for range 2 { // the second pass renews the window
		if !r.RecordFor(Window{Server: "a", Until: until}) {
			t.Error("a window is refused")
		}
	}
	if !call(2, "a") || call(3, "b") {
		t.Error("the window of a server")
	}
	r.RecordFor(Window{Client: "cursor", Until: until})
	if !call(4, "b") {
		t.Error("the window of a client")
	}
	if all, windows := r.Recording(); all || len(windows) != 2 {
		t.Errorf("%v, %+v", all, windows)
	}
	r.RecordFor(Window{Client: "CURSOR", Until: time.Now()})
	r.RecordFor(Window{Server: "a", Until: time.Now()})
	if call(5, "a") {
		t.Error("a window does not end")
	}
	for i := range maxWindows {
		r.RecordFor(Window{Server: fmt.Sprint(i), Until: until})
	}
	if r.RecordFor(Window{Server: "more", Until: until}) {
		t.Error("too many windows")
	}
}

// TestResumedStory checks that the story of a parked call continues with the retry.
func TestResumedStory(t *testing.T) {
	r := New(Options{Record: true})
	c := request(1, "t")
	x := r.Begin(c, nil)
	x.Routed(mcp.NewAttempt(c))
	trail := c.Trail
	x.Answered(mcp.NewAttempt(c), mcp.Ending{Outcome: parked})
	x.End(1, false)
	trail.Received(trails.ServerWire, []byte("between"), trails.Head{})
	again := request(2, "t")
	y := r.Begin(again, nil)
	y.Routed(mcp.NewAttempt(again))
	again.Resume(1)
	if again.Trail != trail {
		t.Fatal("the retry has another trail")
	}
	again.Trail.Sent(trails.ClientWire, []byte("answer"))
	y.End(1, false)
	s, _ := r.Story(1)
	if len(s.Messages) != 4 || string(s.Messages[1].Text) != "between" || string(s.Messages[3].Text) != "answer" {
		t.Errorf("the story: %+v", s.Messages)
	}
	r.Record(false)
	if r.Held() != 0 {
		t.Errorf("%d bytes are held", r.Held())
	}
}

// TestTellingCallsAreKeptLongest checks that the recordings of failed calls and of calls with losses stay
// when those of other calls have gone. They leave room for the newest other calls.
func TestTellingCallsAreKeptLongest(t *testing.T) {
	r := New(Options{Record: true, Bytes: 1 << 20})
	call := func(number uint64, how mcp.Ending, size int) {
		c := request(number, "t")
		x := r.Begin(c, nil)
		a := mcp.NewAttempt(c)
		x.Routed(a)
		c.Trail.Received(trails.ServerWire, bytes.Repeat([]byte{byte(number)}, size), trails.Head{})
		x.Answered(a, how)
		x.End(size, false)
	}
	has := func(number uint64) bool { c, _ := r.Find(number); return c.Recorded }
	call(1, mcp.Ending{Outcome: mcp.Failed, Code: -32603}, 8<<10)
	call(2, mcp.Ending{Outcome: "ok"}, 8<<10)
	call(3, mcp.Ending{Outcome: "ok"}, 8<<10)
	r.Lost(3, "structuredContent", "objects only")
	for n := range uint64(200) {
		call(10+n, mcp.Ending{Outcome: "ok"}, 8<<10)
	}
	if !has(1) || has(2) || !has(3) || has(10) || !has(209) {
		t.Errorf("kept: failed %v, old %v, lossy %v, next %v, newest %v", has(1), has(2), has(3), has(10), has(209))
	}
	for n := range uint64(200) {
		call(1000+n, mcp.Ending{Outcome: mcp.Failed, Code: -32603}, 8<<10)
	}
	call(2000, mcp.Ending{Outcome: "ok"}, 8<<10)
	call(2001, mcp.Ending{Outcome: "ok"}, 8<<10)
	if has(1) || !has(1199) || !has(2000) || !has(2001) {
		t.Error("many failed calls leave no room for others")
	}
	r.Record(false)
	if r.plain.bytes != 0 || r.telling.bytes != 0 || r.Held() != 0 {
		t.Errorf("%d and %d bytes are left of %d", r.plain.bytes, r.telling.bytes, r.Held())
	}
}

// TestTraceOfARunningCall checks that a call can be found by its client's trace while it runs, and that a retry of a parked
// call is found by its own.
func TestTraceOfARunningCall(t *testing.T) {
	const first, second = "0af7651916cd43dd8448eb211c80319c", "1bf7651916cd43dd8448eb211c80319c"
	r := New(Options{Record: true})
	traced := func(number uint64, trace string) (*mcp.Call, *Record) {
		m := jsonrpc.NewRequest("1", mcp.MethodCallTool, []byte(`{"name":"t","_meta":{"traceparent":"00-`+trace+`-b7ad6b7169203331-01"}}`))
		c := mcp.NewCall(m, m.Param("_meta"), &mcp.ClientInfo{Revision: mcp.R20260728})
		c.Number = number
		x := r.Begin(c, nil)
		x.Routed(mcp.NewAttempt(c))
		return c, x
	}
	c, x := traced(1, first)
	if all := r.All(); len(all) != 1 || !all[0].Running() || all[0].Trace != first {
		t.Errorf("%+v", all)
	}
	x.Answered(mcp.NewAttempt(c), mcp.Ending{Outcome: parked})
	x.End(1, false)
	retry, y := traced(2, second)
	retry.Resume(1)
	y.Answered(mcp.NewAttempt(retry), mcp.Ending{Outcome: "ok"})
	y.End(1, false)
	if all := r.All(); len(all) != 1 || all[0].Running() || all[0].Trace != second {
		t.Errorf("%+v", all)
	}
}
