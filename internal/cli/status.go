package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	red    = "\x1b[31m"
	yellow = "\x1b[33m"
	plain  = "\x1b[0m"
)

const (
	frameTime = 100 * time.Millisecond
	// noticeAfter is how long a step takes before a line is printed for it, when stderr
	// is not a terminal.
	noticeAfter = 5 * time.Second
)

// status writes everything that goes to stderr: lines, log records, and a line at the
// bottom that shows the current step while a person waits. Its methods are safe for
// concurrent use. It holds its lock while it writes, so that writes do not mix.
type status struct {
	out      io.Writer
	terminal bool // out is a terminal
	colour   bool
	frames   []string
	width    func() int

	mu     sync.Mutex
	step   string // the current step; "" for none
	since  time.Time
	told   bool // a line was printed for this step
	drawn  bool // the bottom line is on the screen
	frame  int
	ending chan struct{} // closed by End; nil before Begin and after End
	ticks  sync.WaitGroup
}

func newStatus(out io.Writer, terminal bool, env func(string) (string, bool)) *status {
	if t, _ := env("TERM"); t == "dumb" {
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

// Begin starts to show steps. End stops it. Both may be called more than once.
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

// Step sets the current step of a server. An empty step means that it is done. Nothing is
// shown before Begin.
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

// Detail replaces the text of the current step without restarting its clock.
func (s *status) Detail(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step != "" {
		s.step = clean(text)
	}
}

func (s *status) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step == "" || s.ending == nil {
		return
	}
	waited := time.Since(s.since)
	if !s.terminal {
		if !s.told && waited >= noticeAfter {
			s.told = true
			fmt.Fprintf(s.out, "dragoman: %s … %d s so far\n", s.step, int(waited.Seconds()))
		}
		return
	}
	text := s.frames[s.frame%len(s.frames)] + " " + s.step + " …"
	s.frame++
	if waited >= time.Second {
		text += " " + strconv.Itoa(int(waited.Seconds())) + " s"
	}
	fmt.Fprint(s.out, "\r\x1b[K", fit(text, s.width()-1))
	s.drawn = true
}

func (s *status) eraseLocked() {
	if s.drawn {
		fmt.Fprint(s.out, "\r\x1b[K")
		s.drawn = false
	}
}

// Write prints whole lines above the bottom line.
func (s *status) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eraseLocked()
	return s.out.Write(p)
}

// Printf prints a line for people.
func (s *status) Printf(format string, args ...any) {
	s.line("dragoman: " + fmt.Sprintf(format, args...))
}

func (s *status) line(text string) { _, _ = io.WriteString(s, clean(text)+"\n") }

// label prints a line for people that begins with a word such as "error" or "hint".
func (s *status) label(colour, word, text string) {
	if s.colour {
		word = colour + word + plain
	}
	_, _ = io.WriteString(s, "dragoman: "+word+": "+clean(text)+"\n")
}
