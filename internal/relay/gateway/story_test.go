package gateway_test

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/testkit/transcript"
)

// tapped is a peer's end of a pipe. It keeps every line that this peer sends and receives.
type tapped struct {
	io.ReadWriteCloser
	mu    *sync.Mutex
	in    []byte // the beginning of a line that is not complete yet
	lines *[]string
}

func (e *tapped) Write(b []byte) (int, error) {
	n, err := e.ReadWriteCloser.Write(b)
	e.mu.Lock()
	defer e.mu.Unlock()
	for line := range strings.Lines(string(b)) {
		*e.lines = append(*e.lines, "> "+strings.TrimSuffix(line, "\n"))
	}
	return n, err
}

func (e *tapped) Read(b []byte) (int, error) {
	n, err := e.ReadWriteCloser.Read(b)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.in = append(e.in, b[:n]...)
	for {
		line, rest, whole := bytes.Cut(e.in, []byte("\n"))
		if !whole {
			return n, err
		}
		*e.lines = append(*e.lines, "< "+string(line))
		e.in = rest
	}
}

// peers holds the messages that the two peers of a talk have seen.
type peers struct {
	client, server []string
}

// newRecordedTalk returns a talk with recorded calls, and the messages that its peers see.
func newRecordedTalk(t testing.TB, ring *calls.Ring) (*talk, *peers) {
	t.Helper()
	p := &peers{}
	mu := &sync.Mutex{}
	k := newTalkWith(t, startWith(t, "", nil, ring), func(client, server io.ReadWriteCloser) (io.ReadWriteCloser, io.ReadWriteCloser) {
		return &tapped{ReadWriteCloser: client, mu: mu, lines: &p.client}, &tapped{ReadWriteCloser: server, mu: mu, lines: &p.server}
	})
	return k, p
}

// ofCall returns the lines that do not belong to a handshake.
func ofCall(lines []string) (out []string) {
	skip := map[string]bool{}
	for _, l := range lines {
		m, err := jsonrpc.Scan([]byte(l[2:]), jsonrpc.Limits{Tolerant: true})
		if err != nil {
			out = append(out, l)
			continue
		}
		switch m.Method {
		case mcp.MethodInitialize, mcp.MethodDiscover:
			skip[l[:1]+string(m.ID)] = true
			continue
		case "notifications/initialized":
			continue
		case "":
			if other := map[byte]string{'<': ">", '>': "<"}[l[0]]; skip[other+string(m.ID)] {
				delete(skip, other+string(m.ID))
				continue
			}
		}
		out = append(out, l)
	}
	return out
}

// linesOf returns the messages of a story on wire w, in the format of tapped.lines.
func linesOf(s *calls.Story, w trails.Wire) (out []string) {
	for _, m := range s.Messages {
		if m.Wire != w {
			continue
		}
		way := "> "
		if m.Sent {
			way = "< "
		}
		out = append(out, way+string(m.Text))
	}
	return out
}

// checkStory compares the messages of a story with the messages that the peers have seen. It also
// checks that the edits of each message turn its source into the message.
func checkStory(t *testing.T, s *calls.Story, p *peers) {
	t.Helper()
	if s.Missed != 0 {
		t.Errorf("%d entries are missing", s.Missed)
	}
	if d := cmp.Diff(ofCall(p.client), linesOf(s, trails.ClientWire)); d != "" {
		t.Errorf("the client's wire: -seen +story\n%s", d)
	}
	if d := cmp.Diff(ofCall(p.server), linesOf(s, trails.ServerWire)); d != "" {
		t.Errorf("the server's wire: -seen +story\n%s", d)
	}
	for i, m := range s.Messages {
		if m.Cut() != 0 || i > 0 && m.At < s.Messages[i-1].At {
			t.Errorf("message %d: %d bytes are cut, at %v", i, m.Cut(), m.At)
		}
		if m.Source < 0 {
			continue
		}
		source := s.Messages[m.Source]
		if source.Sent || source.Wire == m.Wire || m.Source >= i {
			t.Errorf("message %d is made from message %d", i, m.Source)
		}
		var notes calls.Notes
		at, to := 0, 0
		for _, h := range calls.Hunks(source.Size, m.Size, m.Edits, &notes) {
			if h.At.Start != at || h.To.Start != to {
				t.Errorf("message %d: hunk %+v does not follow %d and %d", i, h, at, to)
			}
			at, to = h.At.End, h.To.End
			same := string(source.Text[h.At.Start:at]) == string(m.Text[h.To.Start:to])
			if (h.Kind == calls.Same) != (h.Note == "") || h.Kind == calls.Same && !same {
				t.Errorf("message %d: hunk %+v: %q and %q", i, h, source.Text[h.At.Start:at], m.Text[h.To.Start:to])
			}
			if h.Kind != calls.Same && mcp.ReasonText(h.Why) == "" {
				t.Errorf("message %d: hunk %+v has no reason", i, h)
			}
		}
		if at != source.Size || to != m.Size {
			t.Errorf("message %d: the hunks end at %d of %d and %d of %d", i, at, source.Size, to, m.Size)
		}
	}
}

// TestStory records a call with progress and a server request for each combination of client era
// and server era. The story has the bytes that the two peers have seen, in the same order.
func TestStory(t *testing.T) {
	for _, client := range []string{"legacy", "modern"} {
		for _, server := range []string{"legacy", "modern"} {
			t.Run(client+" to "+server, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ring := calls.New(calls.Options{Record: true})
					k, p := newRecordedTalk(t, ring)
					defer k.end()
					s := &scripted{talk: k, client: client, server: server}
					s.open()
					s.call()
					synctest.Wait()
					all := ring.All()
					if len(all) != 1 || !all[0].Recorded || all[0].Running() || all[0].Outcome != "ok" {
						t.Fatalf("calls %+v", all)
					}
					if want := map[string]int{"legacy": 1, "modern": 2}[client]; all[0].Asked != want {
						t.Errorf("%d requests, want %d", all[0].Asked, want)
					}
					story, ok := ring.Story(all[0].Number)
					if !ok {
						t.Fatal("there is no story")
					}
					checkStory(t, &story, p)
					// Dragoman made each call to the server from a request of the client. It made
					// each message to the client from a message of the server.
					for i, m := range story.Messages {
						if m.Sent && m.Source < 0 {
							t.Errorf("message %d has no source: %s", i, m.Text)
						}
					}
				})
			})
		}
	}
}

// TestNoStory checks that, without recording, a call has no story and the ring holds no messages.
func TestNoStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := calls.New(calls.Options{})
		k, _ := newRecordedTalk(t, ring)
		defer k.end()
		s := &scripted{talk: k, client: "legacy", server: "modern"}
		s.open()
		s.call()
		synctest.Wait()
		if all := ring.All(); len(all) != 1 || all[0].Recorded || ring.Held() != 0 {
			t.Errorf("calls %+v, %d bytes", all, ring.Held())
		}
		if _, ok := ring.Story(1); ok {
			t.Error("there is a story")
		}
	})
}

// TestStoriesOfTranscripts plays the conversations of testdata/transcripts with recording.
// A peer has seen each message of each story, byte for byte. The polls of a task are in the story
// of the call that became the task.
func TestStoriesOfTranscripts(t *testing.T) {
	files, err := filepath.Glob(transcripts)
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txtar")
		t.Run(name, func(t *testing.T) {
			ring, p := calls.New(calls.Options{Record: true}), &peers{}
			synctest.Test(t, func(t *testing.T) {
				transcript.Run(t, f, func(t testing.TB, config string) transcript.Ends {
					ends, mu := startWith(t, config, nil, ring), &sync.Mutex{}
					ends.Client = &tapped{ReadWriteCloser: ends.Client, mu: mu, lines: &p.client}
					ends.Upstream = &tapped{ReadWriteCloser: ends.Upstream, mu: mu, lines: &p.server}
					return ends
				})
			})
			if strings.Contains(name, "codex") {
				return // the adapter of Codex changes the messages before they reach the server
			}
			polls := 0
			for _, c := range ring.All() {
				story, ok := ring.Story(c.Number)
				if !ok {
					continue
				}
				for _, line := range linesOf(&story, trails.ClientWire) {
					if !slices.Contains(p.client, line) && !c.Running() && c.Cause == "" {
						t.Errorf("the client has not seen %s", line)
					}
				}
				for _, line := range linesOf(&story, trails.ServerWire) {
					if !slices.Contains(p.server, line) && c.Cause == "" {
						t.Errorf("the server has not seen %s", line)
					}
					if c.Method == mcp.MethodCallTool && strings.Contains(line, `"tasks/get"`) {
						polls++
					}
				}
			}
			if name == "tasks-legacy-modern-awaited" && polls == 0 {
				t.Error("no story has the polls of the task")
			}
		})
	}
}
