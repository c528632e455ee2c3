package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	green  = "\x1b[32m"
	plain  = "\x1b[0m"
)

const frameTime = 100 * time.Millisecond

// noticeAfter is how long a step may take before a line reports the step. Only a status without a
// bottom line prints such a line. The programs of the test scripts wait longer, so that a slow machine
// doesn't change what they print.
var noticeAfter = 5 * time.Second

// status writes everything that goes to stderr: lines, log records, and a bottom line that shows
// the current step while a person waits. Its methods are safe for concurrent use. Each method holds
// mu during a write, so that two writes never mix.
//
// After a call of recordsOnly, every line is a JSON record, no matter which goroutine writes it,
// and there is no bottom line.
type status struct {
	out      io.Writer
	records  atomic.Pointer[slog.Logger] // nil if lines are text and not JSON records
	terminal bool                        // out is a terminal
	colour   bool
	frames   []string
	width    func() int

	mu     sync.Mutex
	step   string // the current step; "" for none
	since  time.Time
	told   bool // a line about this step has been printed
	drawn  bool // the bottom line is on the screen
	frame  int
	ending chan struct{} // closed by End; nil before Begin and after End
	ticks  sync.WaitGroup
}

func newStatus(out io.Writer, terminal bool, env func(string) (string, bool)) *status {
	if t, _ := env("TERM"); t == "dumb" || truthy(env, "ACCESSIBLE") {
		terminal = false
	}
	s := &status{out: out, terminal: terminal, frames: []string{"|", "/", "-", `\`}}
	s.colour = terminal && !truthy(env, "NO_COLOR")
	for _, key := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v, _ := env(key); v != "" {
			v = strings.ToUpper(v)
			if strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8") {
				s.frames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
			}
			break
		}
	}
	s.width = func() int {
		if f, ok := out.(interface{ Fd() uintptr }); ok && terminal {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
				return w
			}
		}
		return 80
	}
	return s
}

// Begin starts to show steps, and End stops showing them. Both methods may be called more than
// once.
func (s *status) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending != nil {
		return
	}
	ending := make(chan struct{})
	s.ending = ending
	s.ticks.Go(func() {
		t := time.NewTicker(frameTime)
		defer t.Stop()
		for {
			select {
			case <-ending:
				return
			case <-t.C:
				s.tick()
			}
		}
	})
}

// End removes the bottom line and waits for the goroutine that draws it.
func (s *status) End() {
	s.mu.Lock()
	ending := s.ending
	s.ending, s.step = nil, ""
	s.eraseLocked()
	s.mu.Unlock()
	if ending != nil {
		close(ending)
	}
	s.ticks.Wait()
}

// erase removes the bottom line before anything else is written to the terminal.
func (s *status) erase() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
}

// Pause hides the current step, so that the command can ask the user a question. The returned
// function shows the step again, unless another step has begun.
func (s *status) Pause() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step, since, told := s.step, s.since, s.told
	s.step = ""
	s.eraseLocked()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.step == "" {
			s.step, s.since, s.told = step, since, told
		}
	}
}

// Step sets the current step of a server. An empty step ends the current step. Step shows nothing
// before Begin.
func (s *status) Step(server, step string) {
	text := clean(step)
	if server != "" && text != "" {
		text = clean(server) + ": " + text
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step == text {
		return
	}
	s.step, s.since, s.told = text, time.Now(), false
	if text == "" {
		s.eraseLocked()
	}
}

// Detail replaces the text of the current step. It keeps the start time of the step.
func (s *status) Detail(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step != "" {
		s.step = clean(text)
	}
}

func (s *status) tick() {
	if step, waited := s.lateStep(); step != "" {
		s.Printf("%s … %d s so far", step, int(waited.Seconds()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step == "" || s.ending == nil || !s.terminal || s.records.Load() != nil {
		return
	}
	waited := time.Since(s.since)
	text := s.frames[s.frame%len(s.frames)] + " " + s.step + " …"
	s.frame++
	if waited >= time.Second {
		text += " " + strconv.Itoa(int(waited.Seconds())) + " s"
	}
	fmt.Fprint(s.out, "\r\x1b[K", fit(text, s.width()-1))
	s.drawn = true
}

// lateStep returns the current step if it has taken longer than noticeAfter and no bottom line
// shows it. It returns each step at most once.
func (s *status) lateStep() (step string, waited time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waited = time.Since(s.since)
	if s.step == "" || s.ending == nil || s.told || waited < noticeAfter || s.terminal && s.records.Load() == nil {
		return "", 0
	}
	s.told = true
	return s.step, waited
}

func (s *status) eraseLocked() {
	if s.drawn {
		fmt.Fprint(s.out, "\r\x1b[K")
		s.drawn = false
	}
}

// recordsOnly makes every further line a JSON record. The lines that Printf and label print become
// records too, whatever the log level is.
func (s *status) recordsOnly() {
	s.records.Store(slog.New(slog.NewJSONHandler(jsonLines{s}, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withUnits})))
}

// record reports whether every line must be a JSON record. If so, it logs text as a record.
func (s *status) record(level slog.Level, text string, attrs ...slog.Attr) bool {
	log := s.records.Load()
	if log != nil {
		log.LogAttrs(context.Background(), level, text, attrs...)
	}
	return log != nil
}

// Write prints whole lines above the bottom line. After recordsOnly, it logs each line as a record
// instead.
func (s *status) Write(p []byte) (int, error) {
	if s.records.Load() == nil {
		return s.print(p)
	}
	for line := range bytes.Lines(p) {
		if text := clean(strings.TrimRight(string(line), "\r\n")); strings.TrimSpace(text) != "" {
			s.record(slog.LevelInfo, text, codeOutput)
		}
	}
	return len(p), nil
}

// print removes the bottom line and writes p without changes.
func (s *status) print(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
	return s.out.Write(p)
}

// codeOutput and codeNotice are the codes of the records that Write and Printf log instead of text.
var (
	codeOutput = slog.String("code", "output")
	codeNotice = slog.String("code", "notice")
)

// Printf prints a line of text. After recordsOnly, it logs the line as a record instead.
func (s *status) Printf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !s.record(slog.LevelInfo, clean(text), codeNotice) {
		s.say("", "", text)
	}
}

// say prints a sentence, after a word such as "error" unless that is "".
func (s *status) say(colour, word, text string) {
	head := "dragoman: "
	if word != "" {
		head += word + ": "
	}
	text = s.folded(head + text)
	if s.colour && word != "" {
		text = strings.Replace(text, word, colour+word+plain, 1)
	}
	_, _ = io.WriteString(s, text+"\n")
}

// folded makes a text safe to print. For a terminal it's broken at the terminal's width; the further lines are
// indented, so that none of them looks like the beginning of another message.
func (s *status) folded(text string) string {
	const least, indent = 40, "  "
	text = clean(text)
	width := max(min(s.width(), widestText), least)
	if !s.terminal || s.records.Load() != nil || screen.Width(text) <= width {
		return text
	}
	return strings.Join(wrapped(text, width-len(indent)), "\n"+indent)
}

// line prints a line as it is.
func (s *status) line(text string) { _, _ = io.WriteString(s, clean(text)+"\n") }

// label prints a line that begins with a word such as "error" or "hint". After recordsOnly, it logs
// the line as a record, with the word as its code.
func (s *status) label(colour, word, text string) {
	level := slog.LevelInfo
	switch word {
	case "error":
		level = slog.LevelError
	case "warning":
		level = slog.LevelWarn
	}
	if s.record(level, clean(text), slog.String("code", word)) {
		return
	}
	s.say(colour, word, text)
}
