package transcript

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// relay is a gateway that greets the client, passes each line on, and says goodbye when the
// upstream ends. It drops lines that contain "swallow".
func relay(t testing.TB, config string) Ends {
	client, runnerClient := Pipe()
	upstream, runnerUpstream := Pipe()
	var wg sync.WaitGroup
	pass := func(from io.Reader, to *Link, last string) {
		in := bufio.NewScanner(from)
		for in.Scan() {
			if !strings.Contains(in.Text(), "swallow") {
				io.WriteString(to, in.Text()+"\n")
			}
		}
		io.WriteString(to, last)
		to.CloseWrite()
	}
	wg.Go(func() { pass(client, upstream, "") })
	wg.Go(func() {
		if greeting, ok := strings.CutPrefix(config, "greeting: "); ok {
			io.WriteString(client, `{"hello":"`+strings.TrimSpace(greeting)+"\"}\n")
			pass(upstream, client, "{\"bye\":true}\n")
		} else {
			pass(upstream, client, "")
		}
	})
	return Ends{Client: runnerClient, Upstream: runnerUpstream, Wait: func() error { wg.Wait(); return nil }}
}

func TestRunAll(t *testing.T) { RunAll(t, filepath.Join("testdata", "*.txtar"), relay) }

// write parses a transcript from its text.
func write(t *testing.T, text string) *script {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.txtar")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := parse(file)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFailures(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"another byte", "-- client.send --\n{\"a\":1}\n-- upstream.expect --\n{\"a\": 1}\n", "differ at byte 5"},
		{"another byte after a wildcard", "-- client.send --\n{\"a\":\"1\"}\n-- upstream.expect --\n{\"b\":\"<*>\"}\n", "differ at byte 2"},
		{"wildcard past a quote", "-- client.send --\n{\"a\":\"1\",\"b\":\"2\"}\n-- upstream.expect --\n{\"a\":\"<*>\"}\n", "want {\"a\":\"<*>\"}"},
		{"unexpected at the upstream", "-- client.send --\n1\n2\n-- upstream.expect --\n1\n", "unexpected lines:\n upstream gets 2"},
		{"unexpected at the client", "-- upstream.send --\n1\n", "unexpected lines:\n client gets 1"},
		{"never comes", "-- client.send --\nswallow\n-- upstream.expect --\nswallow\n", errSlow.Error()},
		{"gateway gone", "-- upstream.close --\n-- client.expect --\n1\n", "EOF"},
		{"empty expectation", "-- client.send --\n1\n-- upstream.expect --\n", "the section is empty"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := write(t, "About failures.\n"+tc.text)
			synctest.Test(t, func(t *testing.T) {
				err := newPlay(s, relay(t, ""), false).run()
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("error = %v, want %s", err, tc.want)
				}
			})
		})
	}
}

// TestStuckWrite checks that a write ends even if the gateway does not read.
func TestStuckWrite(t *testing.T) {
	s := write(t, "About patience.\n-- client.send --\n1\n")
	synctest.Test(t, func(t *testing.T) {
		deaf, client := Pipe()
		_, upstream := Pipe()
		err := newPlay(s, Ends{Client: client, Upstream: upstream, Wait: deaf.Close}, false).run()
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("error = %v, want that the pipe was closed", err)
		}
	})
}

func TestSessionIsShown(t *testing.T) {
	s := write(t, "About sessions.\n-- client.send --\n1\n-- upstream.expect --\n1\n-- upstream.send --\n2\n-- client.expect --\n3\n")
	p := newPlay(s, relay(t, ""), false)
	if err := p.run(); err == nil || !strings.Contains(err.Error(), "section 4, client.expect") {
		t.Errorf("error = %v", err)
	}
	want := "  client sends  1\nupstream gets   1\nupstream sends  2\n  client gets   2"
	if got := p.session(); got != want {
		t.Errorf("session:\n%s\nwant:\n%s", got, want)
	}
}

func TestUpdate(t *testing.T) {
	s := write(t, "About updates.\n\n-- client.send --\n1\n2\n-- upstream.expect --\n1\nx\n-- client.send --\n\"v1\"\n-- upstream.expect --\n\"<*>\"\n-- upstream.send --\n3\n4\n-- client.expect --\n-- upstream.send --\n5\n")
	synctest.Test(t, func(t *testing.T) {
		if err := newPlay(s, relay(t, ""), true).run(); err != nil {
			t.Fatal(err)
		}
	})
	want := "About updates.\n\n-- client.send --\n1\n2\n-- upstream.expect --\n1\n2\n-- client.send --\n\"v1\"\n-- upstream.expect --\n\"<*>\"\n-- upstream.send --\n3\n4\n-- client.expect --\n3\n4\n-- upstream.send --\n5\n-- client.expect --\n5\n"
	if got := string(s.format()); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestRefused(t *testing.T) {
	for name, text := range map[string]string{
		"description":                        "-- client.send --\n1\n",
		"must begin with client or upstream": "Prose.\n-- server.send --\n1\n",
		"or close":                           "Prose.\n-- client.sends --\n1\n",
		"first":                              "Prose.\n-- client.send --\n1\n-- config --\na: b\n",
		"nothing":                            "Prose.\n-- client.send --\n",
		"empty":                              "Prose.\n-- client.close --\n1\n",
		"no conversa":                        "Prose.\n",
	} {
		file := filepath.Join(t.TempDir(), "x.txtar")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := parse(file); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: error = %v, want %q in it", text, err, name)
		}
	}
}

func TestLines(t *testing.T) {
	lines, err := Lines(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(lines) != 8 {
		t.Errorf("%d lines, %v; want 8", len(lines), err)
	}
}

func TestMatches(t *testing.T) {
	tests := []struct {
		want, got string
		ok        bool
	}{
		{"", "", true},
		{"a", "a", true},
		{"a", "ab", false},
		{"ab", "a", false},
		{`"<*>"`, `""`, true},
		{`"<*>"`, `"1.2.3"`, true},
		{`"<*>"`, `"a":"b"`, false},
		{`"v<*>","w<*>"`, `"v1","w2"`, true},
		{`"v<*>","w<*>"`, `"v1","x2"`, false},
	}
	for _, tc := range tests {
		if matches(tc.want, tc.got) != tc.ok {
			t.Errorf("matches(%s, %s) != %t", tc.want, tc.got, tc.ok)
		}
	}
}
