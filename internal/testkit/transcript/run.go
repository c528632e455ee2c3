package transcript

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the expectations of transcripts with what was seen")

// Update reports whether the test was started with -update. Packages that import transcript also
// use Update for their golden files, because a program can declare a flag only once.
func Update() bool { return *update }

// Ends contains the two links through which a test talks to a running gateway.
type Ends struct {
	Client   io.ReadWriteCloser // the link on which the test plays the client
	Upstream io.ReadWriteCloser // the link on which the test plays the server

	// Wait waits until the gateway has ended. It is called after both links were closed, and may be
	// nil.
	Wait func() error
}

// Start starts a gateway. config is the text of the section config.
type Start func(t testing.TB, config string) Ends

// RunAll runs each file that matches the pattern as a subtest.
func RunAll(t *testing.T, pattern string, start Start) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcript matches %s (%v)", pattern, err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) { Run(t, f, start) })
	}
}

// Run runs one file and compares the gateway's lines with those in the file. It returns when the
// gateway has ended.
func Run(t testing.TB, file string, start Start) {
	t.Helper()
	s, err := parse(file)
	if err != nil {
		t.Fatal(err)
	}
	before := s.format()
	p := newPlay(s, start(t, s.config), *update)
	if err := p.run(); err != nil {
		t.Fatalf("%s: %v\n\nthe session:\n%s", file, err, p.session())
	}
	if after := s.format(); *update && !bytes.Equal(before, after) {
		if err := os.WriteFile(file, after, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: rewritten", file)
	}
}

// play is one run of a script.
type play struct {
	script  *script
	update  bool
	parties map[string]*party
	wait    func() error
	readers sync.WaitGroup
	log     []string // the messages so far
}

func newPlay(s *script, ends Ends, update bool) *play {
	p := &play{script: s, update: update, wait: ends.Wait, parties: map[string]*party{}}
	for name, conn := range map[string]io.ReadWriteCloser{"client": ends.Client, "upstream": ends.Upstream} {
		one := &party{name: name, conn: conn, lines: make(chan string, 1024)}
		p.parties[name] = one
		p.readers.Go(one.read)
	}
	return p
}

// run performs the steps, checks that no unexpected lines arrive, and ends the gateway.
func (p *play) run() error {
	err := p.steps()
	if err == nil {
		err = p.rest()
	}
	return errors.Join(err, p.end())
}

func (p *play) steps() error {
	for i := range p.script.steps {
		st := &p.script.steps[i]
		who := p.parties[st.party]
		var err error
		switch st.action {
		case "send":
			err = p.send(who, st)
		case "expect":
			err = p.expect(who, st)
		case "close":
			p.note(who, "closes", "")
			err = who.finish()
		}
		if err != nil {
			return fmt.Errorf("section %d, %s: %w", i+1, st.name(), err)
		}
	}
	return nil
}

func (p *play) send(who *party, st *step) error {
	for _, line := range st.lines {
		p.note(who, "sends", line)
		if err := who.send(line); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	return nil
}

func (p *play) expect(who *party, st *step) error {
	if len(st.lines) == 0 && p.update {
		first, err := who.next(limit)
		if err != nil {
			return err
		}
		p.note(who, "gets", first)
		st.lines = append(st.lines, first)
		p.drain(who, func(line string) { st.lines = append(st.lines, line) })
		return nil
	}
	if len(st.lines) == 0 {
		return errors.New("the section is empty; fill it with -update, or remove it")
	}
	for i, want := range st.lines {
		got, err := who.next(limit)
		if err != nil {
			return fmt.Errorf("%w\n want %s", err, want)
		}
		p.note(who, "gets", got)
		if matches(want, got) {
			continue
		}
		if !p.update {
			return errors.New(difference(want, got))
		}
		st.lines[i] = got
	}
	return nil
}

// drain passes the lines that arrive at a party to take. It returns when no line has arrived for
// the time quiet.
func (p *play) drain(who *party, take func(line string)) {
	for {
		line, err := who.next(quiet)
		if err != nil {
			return
		}
		p.note(who, "gets", line)
		take(line)
	}
}

// rest closes the outputs that are still open: first the client's, then the server's. It collects
// the lines that still arrive. With -update, rest adds these lines to the script. Without -update,
// rest returns an error if there are any.
func (p *play) rest() error {
	client, upstream := p.parties["client"], p.parties["upstream"]
	var surplus []string
	collect := func(who *party) {
		p.drain(who, func(line string) {
			surplus = append(surplus, who.name+" gets "+line)
			if p.update {
				p.script.steps = append(p.script.steps, step{party: who.name, action: "expect", lines: []string{line}})
			}
		})
	}
	if p.update { // record the lines that arrive before the client closes its output
		collect(client)
		collect(upstream)
	}
	if !client.ended {
		p.note(client, "closes", "")
		if err := client.finish(); err != nil {
			return err
		}
	}
	collect(upstream)
	if !upstream.ended {
		p.note(upstream, "closes", "")
		if err := upstream.finish(); err != nil {
			return err
		}
	}
	collect(client)
	collect(upstream)
	if len(surplus) > 0 && !p.update {
		return fmt.Errorf("unexpected lines:\n %s", strings.Join(surplus, "\n "))
	}
	return nil
}

// end closes both links. It waits until the gateway and the goroutines that read lines have ended.
// It discards the remaining lines, so that these goroutines do not block.
func (p *play) end() error {
	var errs []error
	for _, who := range p.parties {
		who.conn.Close()
	}
	for _, who := range p.parties {
		for range who.lines {
		}
	}
	p.readers.Wait()
	if p.wait != nil {
		if err := p.wait(); err != nil {
			errs = append(errs, fmt.Errorf("the gateway ended with: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (p *play) note(who *party, verb, line string) {
	p.log = append(p.log, fmt.Sprintf("%8s %-6s %s", who.name, verb, line))
}

func (p *play) session() string { return strings.Join(p.log, "\n") }

// difference returns a message that shows where two lines differ.
func difference(want, got string) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] && !strings.HasPrefix(want[i:], wildcard) {
		i++
	}
	from := max(0, i-60)
	return fmt.Sprintf("they differ at byte %d\n want %s\n  got %s\n      %s^", i, cut(want, from), cut(got, from), strings.Repeat(" ", i-from))
}

// cut returns the part of s that begins at the offset from, shortened if it is too long to show.
func cut(s string, from int) string {
	const width = 240
	s = s[min(from, len(s)):]
	if len(s) > width {
		return s[:width] + "..."
	}
	return s
}
