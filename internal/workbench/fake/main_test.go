package fake

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// line is a connection to a fake server in a synctest bubble. The test reads and writes lines.
type line struct {
	t     *testing.T
	s     *Server
	in    *io.PipeWriter
	lines chan string
	done  chan error
}

func play(t *testing.T, name string, set ...string) *line {
	t.Helper()
	o := Options{Version: "1.2.3", Set: map[string]string{}}
	for _, kv := range set {
		k, v, _ := strings.Cut(kv, "=")
		o.Set[k] = v
	}
	s, err := NewServer(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, s)
}

func open(t *testing.T, s *Server) *line {
	r, in := io.Pipe()
	out, w := io.Pipe()
	l := &line{t: t, s: s, in: in, lines: make(chan string, 1000), done: make(chan error, 1)}
	go func() { l.done <- s.ServePipe(t.Context(), r, w) }()
	go func() {
		defer close(l.lines)
		b := bufio.NewReader(out)
		for {
			line, err := b.ReadString('\n')
			if line != "" {
				l.lines <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

func (l *line) say(lines ...string) {
	l.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(l.in, line+"\n"); err != nil {
			l.t.Fatal(err)
		}
	}
}

// receive waits until all goroutines of the bubble are blocked. Then it returns the lines that the
// server has written.
func (l *line) receive() []string {
	synctest.Wait()
	var got []string
	for {
		select {
		case line, ok := <-l.lines:
			if ok {
				got = append(got, line)
				continue
			}
		default:
		}
		return got
	}
}

// want sends the lines in say, and fails the test unless the server writes exactly the lines in
// want.
func (l *line) want(say string, want ...string) {
	l.t.Helper()
	for s := range strings.Lines(say) {
		l.say(strings.TrimSuffix(s, "\n"))
	}
	got := l.receive()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			l.t.Errorf("after %s\nmissing %s", say, want[i])
		case i >= len(want):
			l.t.Errorf("after %s\nunwanted %s", say, got[i])
		case got[i] != want[i]:
			l.t.Errorf("after %s\ngot    %s\nwanted %s", say, got[i], want[i])
		}
	}
}

// broken fails the test unless the server has recorded exactly these violations.
func (l *line) broken(want ...string) {
	l.t.Helper()
	got := l.s.Violations()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		l.t.Errorf("violations:\n%s\nwanted:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// end closes the server's input and fails the test unless ServePipe returns nil.
func (l *line) end() {
	l.t.Helper()
	_ = l.in.Close()
	if err := <-l.done; err != nil {
		l.t.Errorf("ServePipe: %v", err)
	}
	_ = l.s.Close()
}
