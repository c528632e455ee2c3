package cli

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
)

func noEnv(string) (string, bool) { return "", false }

// syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct{ logtest.Buffer }

func (s *syncBuffer) take() string { return s.Take() }

func TestSpinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out syncBuffer
		s := newStatus(&out, true, noEnv)
		s.Step("gh", "not yet")
		time.Sleep(time.Second)
		if got := out.take(); got != "" {
			t.Errorf("before Begin: %q", got)
		}
		s.Begin()
		s.Begin()
		s.Step("gh", "starting npx")
		time.Sleep(3*time.Second + frameTime/2)
		got := out.take()
		if !strings.HasSuffix(got, "\r\x1b[K/ gh: starting npx … 3 s") {
			t.Errorf("after 3 s: %q", got)
		}
		// A log record appears above the bottom line, and the line is erased first.
		slog.New(slog.NewTextHandler(s, nil)).Info("hello")
		if got := out.take(); !strings.HasPrefix(got, "\r\x1b[Ktime=") || !strings.HasSuffix(got, "\n") {
			t.Errorf("a record: %q", got)
		}
		time.Sleep(frameTime)
		if got := out.take(); strings.Contains(got, "\n") || !strings.Contains(got, "starting npx") {
			t.Errorf("after a record: %q", got)
		}
		s.Step("gh", "")
		if got := out.take(); got != "\r\x1b[K" {
			t.Errorf("after the end of the step: %q", got)
		}
		s.Step("gh", "calling x\x1b[2J")
		s.Detail(strings.Repeat("long ", 100))
		time.Sleep(frameTime)
		if got := out.take(); len([]rune(strings.TrimPrefix(got, "\r\x1b[K"))) > 79 || strings.Contains(got, "[2J") {
			t.Errorf("with a long text: %q", got)
		}
		s.End()
		s.End()
		out.take()
		time.Sleep(time.Minute)
		if got := out.take(); got != "" {
			t.Errorf("after End: %q", got)
		}
		s.Begin() // End must stop the goroutine, or synctest fails
		s.End()
	})
}

func TestNoticesWithoutTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out syncBuffer
		s := newStatus(&out, false, noEnv)
		s.Begin()
		s.Step("gh", "starting npx")
		time.Sleep(noticeAfter - time.Millisecond)
		if got := out.take(); got != "" {
			t.Errorf("a line was printed too early: %q", got)
		}
		time.Sleep(time.Minute)
		if got := out.take(); got != "dragoman: gh: starting npx … 5 s so far\n" {
			t.Errorf("%q", got)
		}
		s.Step("gh", "listing tools")
		time.Sleep(noticeAfter + frameTime)
		if got := out.take(); !strings.Contains(got, "listing tools") {
			t.Errorf("%q", got)
		}
		s.End()
	})
}

func TestColours(t *testing.T) {
	for _, tt := range []struct {
		terminal bool
		env      map[string]string
		colour   bool
		frame    string
	}{
		{true, nil, true, "|"},
		{false, nil, false, "|"},
		{true, map[string]string{"NO_COLOR": "1"}, false, "|"},
		{true, map[string]string{"TERM": "dumb"}, false, "|"},
		{true, map[string]string{"LANG": "de_DE.UTF-8"}, true, "⠋"},
		{true, map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, true, "|"},
	} {
		s := newStatus(&bytes.Buffer{}, tt.terminal, func(k string) (string, bool) { v, ok := tt.env[k]; return v, ok })
		if s.colour != tt.colour || s.frames[0] != tt.frame {
			t.Errorf("%+v: colour %t, frame %s", tt, s.colour, s.frames[0])
		}
	}
	var out bytes.Buffer
	newStatus(&out, true, noEnv).label(red, "error", "x\x1b[0m\ny")
	if got := out.String(); got != "dragoman: \x1b[31merror\x1b[0m: x\\x1b[0m\\ny\n" {
		t.Errorf("%q", got)
	}
}

func TestBytesOf(t *testing.T) {
	for n, want := range map[int]string{0: "0 bytes", 999: "999 bytes", 1000: "1 kB", 12345: "12 kB", 2_500_000: "2.5 MB"} {
		if got := bytesOf(n); got != want {
			t.Errorf("bytesOf(%d) = %s", n, got)
		}
	}
}

func TestTables(t *testing.T) {
	var out bytes.Buffer
	a := &app{world: world{stdout: &out, screen: true, width: 30, status: newStatus(&out, false, noEnv)}}
	rows := [][2]string{{"a", "short"}, {"a_longer_name", strings.Repeat("word ", 20)}, {strings.Repeat("n", 60), "cut off"}}
	if err := a.printTable(rows); err != nil {
		t.Fatal(err)
	}
	want := "a              short\n" +
		"a_longer_name  word word word…\n" +
		strings.Repeat("n", 60) + "…\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// TestMessagesFitTerminal checks where messages are broken on a terminal, and that they aren't anywhere else.
func TestMessagesFitTerminal(t *testing.T) {
	separator := string(os.PathListSeparator)
	path := "PATH=" + strings.Join([]string{"/usr/local/go/bin", "/home/me/.cargo/bin", "/usr/local/sbin", "/usr/bin"}, separator)
	for _, c := range []struct{ text, want string }{
		{"short", "short"},
		{"the server did not answer, and its process has ended", "the server did not\n  answer, and its process has ended"},
		{"no `dragoman serve` runs; `dragoman connect cursor --url http://h` says it", "no `dragoman serve`\n  runs;\n  `dragoman connect cursor --url http://h`\n  says it"},
		{"one stray ` and a text that is long enough to be broken", "one stray ` and a text\n  that is long enough to be broken"},
		{path, "\n  PATH=/usr/local/go/bin:\n  /home/me/.cargo/bin:\n  /usr/local/sbin:/usr/bin"},
		{"see https://example.com/a/very/long/address/that/nobody/can/break", "see\n  https://example.com/a/very/long/address/that/nobody/can/break"},
		{"it said \"a\ndragoman: error: b\" and some more words", `it said "a\ndragoman:` + "\n  error: b\" and some more words"},
	} {
		var out syncBuffer
		s := newStatus(&out, true, noEnv)
		s.width, s.colour = func() int { return 40 }, false
		s.label(red, "hint", c.text)
		want := strings.ReplaceAll("dragoman: hint: "+c.want+"\n", " \n", "\n")
		if got := strings.ReplaceAll(out.take(), separator, ":"); got != want {
			t.Errorf("on a terminal:\n%s\nwant\n%s", got, want)
		}
		s.terminal = false
		s.label(red, "hint", c.text)
		if got := out.take(); got != "dragoman: hint: "+clean(c.text)+"\n" {
			t.Errorf("elsewhere:\n%s", got)
		}
		s.terminal = true
		s.recordsOnly()
		s.label(red, "hint", c.text)
		if got := out.take(); strings.Count(got, "\n") != 1 {
			t.Errorf("as a record:\n%s", got)
		}
	}
}
