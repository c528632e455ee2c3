package tape

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Options control a replay.
type Options struct {
	// Timeout is how long to wait for the peer's next recorded message. 0 means 10 s.
	Timeout time.Duration
	// Strict also compares names, versions and times, which usually differ between runs.
	Strict bool
}

// score is the state of a replay. It records which messages the peer has sent. The replay sends its
// next message as soon as the peer has sent all of the peer's messages that come earlier on the
// tape. score is safe for concurrent use.
type score struct {
	tape    *Tape
	client  bool // true if the replay acts as the client
	options Options

	mu          sync.Mutex
	seen        []bool        // for each entry, whether the peer has sent it; used only for entries of the peer
	moved       chan struct{} // closed and replaced when seen changes
	bonds       *bonds
	differences []Difference
	further     bool // there are more differences
}

func newScore(t *Tape, playClient bool, o Options) *score {
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	return &score{
		tape: t, client: playClient, options: o,
		seen: make([]bool, len(t.entries)), moved: make(chan struct{}), bonds: newBonds(),
	}
}

func (s *score) ours(i int) bool { return s.tape.entries[i].fromClient() == s.client }

func (s *score) differ(d ...Difference) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if room := maxDifferences - len(s.differences); len(d) > room {
		d, s.further = d[:room], true
	}
	s.differences = append(s.differences, d...)
}

// see records that the peer has sent entry i.
func (s *score) see(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeLocked(i)
}

func (s *score) seeLocked(i int) {
	s.seen[i] = true
	close(s.moved)
	s.moved = make(chan struct{})
}

// turn waits until the peer has sent all of the peer's entries before entry i. After a timeout, or
// when over is closed, turn records the missing entries as differences. Then turn treats these
// entries as sent, so that the replay can continue.
func (s *score) turn(ctx context.Context, i int, over <-chan struct{}) error {
	late := time.NewTimer(s.options.Timeout)
	defer late.Stop()
	for {
		s.mu.Lock()
		missing := -1
		for k := range i {
			if !s.seen[k] && !s.ours(k) && s.tape.entries[k].waits() {
				missing = k
				break
			}
		}
		moved := s.moved
		s.mu.Unlock()
		if missing < 0 {
			return nil
		}
		select {
		case <-moved:
			late.Reset(s.options.Timeout)
			continue
		case <-over:
		case <-late.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		s.miss(missing)
		late.Reset(s.options.Timeout)
	}
}

// miss records as a difference that the peer has not sent entry k.
func (s *score) miss(k int) {
	s.mu.Lock()
	if s.seen[k] {
		s.mu.Unlock()
		return
	}
	s.seeLocked(k)
	s.mu.Unlock()
	e := &s.tape.entries[k]
	text := string(e.body)
	if len(e.head) > 0 {
		text = e.head[0] + " " + text
	}
	s.differ(Difference{Where: describe(e), Tape: strings.TrimSpace(text)})
}

// describe returns a short description of an entry, for the texts of differences.
func describe(e *Entry) string {
	name := e.section
	if e.exchange > 0 {
		name = fmt.Sprintf("%s %d", e.section, e.exchange)
	}
	if m := scan(payload(e)); m != nil && m.Method != "" {
		name += " " + m.Method
	}
	return name
}

// payload returns the JSON of an entry: a line, a body, or the data of an event.
func payload(e *Entry) []byte {
	if e.section != event {
		return e.body
	}
	return dataOf(e.body)
}

func scan(b []byte) *jsonrpc.Message {
	m, err := jsonrpc.Scan(b, jsonrpc.Limits{Bytes: len(b) + 1, Tolerant: true})
	if err != nil {
		return nil
	}
	return m
}

// compareLocked compares live with entry i. like reports whether live is the same kind of message
// as the entry. out contains the differences between the two messages. after contains the bonds
// that apply if live is the message of the entry.
func (s *score) compareLocked(i int, live []byte) (like bool, out []Difference, after *bonds) {
	e := &s.tape.entries[i]
	want, got := scan(payload(e)), scan(live)
	if (want == nil) != (got == nil) {
		return false, nil, nil
	}
	where := describe(e)
	if want == nil {
		if a, b := strings.TrimSpace(string(payload(e))), strings.TrimSpace(string(live)); a != b && !sameButSecret(a, b) {
			return false, []Difference{{where, a, b}}, s.bonds.copy()
		}
		return true, nil, s.bonds.copy()
	}
	if want.Kind != got.Kind && (want.Method != "" || got.Method != "") || want.Method != got.Method {
		return false, nil, nil
	}
	after = s.bonds.copy()
	// The side that sends a request chooses its id. The client and the server choose their ids
	// independently.
	asker := e.fromClient() == (want.Method != "")
	if want.IDAt.IsZero() != got.IDAt.IsZero() {
		return false, nil, nil
	}
	if !want.IDAt.IsZero() && !after.tie(idBond(asker), canonical(want.Raw, want.IDAt), canonical(got.Raw, got.IDAt)) {
		return false, nil, nil
	}
	c := &comparison{tape: want.Raw, live: got.Raw, strict: s.options.Strict, bonds: after}
	for _, part := range []struct {
		name string
		t, l jsonrpc.Span
	}{{"params", want.Params, got.Params}, {"result", want.Result, got.Result}, {"error", want.Error, got.Error}} {
		switch {
		case part.t.IsZero() && part.l.IsZero():
		case part.t.IsZero():
			c.differ(where+" "+part.name, "", string(part.l.Of(got.Raw)))
		case part.l.IsZero():
			c.differ(where+" "+part.name, string(part.t.Of(want.Raw)), "")
		default:
			c.values(where+" "+part.name, part.name, part.t, part.l)
		}
	}
	return true, c.out, after
}

func idBond(ofClient bool) string {
	if ofClient {
		return "id of client"
	}
	return "id of server"
}

// take finds the entry that matches live, a message from the peer. It examines entry i only if
// may(i) is true. take records the differences and returns the index of the entry, or -1 if no
// entry matches.
func (s *score) take(live []byte, may func(i int) bool) int {
	s.mu.Lock()
	best, bestOut := -1, []Difference(nil)
	var bestBonds *bonds
	for i := range s.tape.entries {
		if s.seen[i] || s.ours(i) || !may(i) {
			continue
		}
		like, out, after := s.compareLocked(i, live)
		if !like {
			continue
		}
		if best < 0 || len(out) < len(bestOut) {
			best, bestOut, bestBonds = i, out, after
		}
		if len(out) == 0 {
			break
		}
	}
	if best >= 0 {
		s.bonds = bestBonds
		s.seeLocked(best)
	}
	s.mu.Unlock()
	s.differ(bestOut...)
	return best
}

// messageFor returns the message to send for entry i. The recorded message contains ids and other
// values that the recorded peer chose. messageFor replaces them with the values that the live peer
// chose.
func (s *score) messageFor(i int) []byte {
	e := &s.tape.entries[i]
	b := payload(e)
	m := scan(b)
	if m == nil {
		return b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var edits jsonrpc.Edits
	swap := func(kind string, at jsonrpc.Span) {
		spelled := canonical(b, at)
		live, ok := s.bonds.live[kind+" "+spelled]
		if !ok {
			s.bonds.tie(kind, spelled, spelled)
			return
		}
		if live == spelled {
			return
		}
		if text, isText := strings.CutPrefix(live, "s"); isText {
			edits.Replace(jsonrpc.NoReason, at, jsonrpc.AppendQuote(nil, text))
		} else {
			edits.Replace(jsonrpc.NoReason, at, []byte(live[1:]))
		}
	}
	if !m.IDAt.IsZero() {
		swap(idBond(e.fromClient() == (m.Method != "")), m.IDAt)
	}
	var walk func(at jsonrpc.Span)
	walk = func(at jsonrpc.Span) {
		switch jsonrpc.KindOf(b, at) {
		case '{':
			for mem := range jsonrpc.Members(b, at) {
				key, _ := jsonrpc.Text(b, mem.Key)
				kind := jsonrpc.KindOf(b, mem.Value)
				if chosen[key] && (kind == '"' || kind == '0') {
					swap(bondOf(key), mem.Value)
					continue
				}
				walk(mem.Value)
			}
		case '[':
			for el := range jsonrpc.Elements(b, at) {
				walk(el)
			}
		}
	}
	walk(m.Params)
	walk(m.Result)
	walk(m.Error)
	return jsonrpc.Splice(nil, b, &edits)
}

// rest returns all differences. They include the recorded messages that the peer has not sent.
func (s *score) rest() []Difference {
	for i := range s.tape.entries {
		if !s.ours(i) && s.tape.entries[i].waits() {
			s.miss(i)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.further {
		return append(slices.Clip(s.differences), furtherDifferences)
	}
	return s.differences
}
