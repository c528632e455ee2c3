package calls

import (
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/trails"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Story contains a recorded call and its messages. The caller gets its own copy, but must not
// change the bytes of the messages. Secrets are not masked.
type Story struct {
	Call     Call
	Messages []Message // in chronological order
	Missed   int       // how many messages and edits were not recorded
}

// Message is one message between Dragoman and the client or a server.
type Message struct {
	At   time.Duration // the time of the message, counted from the start of the call
	Wire trails.Wire
	Sent bool   // true if Dragoman sent the message; false if Dragoman received the message
	Text []byte // the recorded bytes: the whole message, or only its beginning
	Size int    // the length of the whole message in bytes
	// Failed is the reason why the message could not be sent, or why no response to the message
	// came. It is "" if there was no failure.
	Failed            string
	Request, Response *trails.Head // the heads of the HTTP request and of the HTTP response; nil if absent
	// Source is the index of the message from which Dragoman made this message. It is -1 for a
	// message that Dragoman received, or that Dragoman did not make from another message.
	Source int
	// Edits are the changes that made this message from its source, in order of position. They do
	// not overlap. All bytes outside of the edits were copied from the source.
	Edits []Edit
}

// Cut returns the number of bytes of the message that were not recorded.
func (m *Message) Cut() int { return m.Size - len(m.Text) }

// Edit is one change. The bytes at To in the message replace the bytes at At in its source. To or
// At may be empty, but at least one of them is not empty.
type Edit struct {
	Why    jsonrpc.Reason
	At, To jsonrpc.Span
}

// Story returns the story of a recorded call. ok is false if the ring has no recording of the call.
func (r *Ring) Story(number uint64) (s Story, ok bool) {
	if r == nil {
		return Story{}, false
	}
	c, t, ok := r.find(number)
	if t == nil {
		return Story{}, false
	}
	s.Call = c
	texts, entries, missed := t.Story()
	s.Messages, s.Missed = messagesOf(texts, entries), missed
	return s, ok
}

// messagesOf returns the messages in a trail, each with its source and edits.
func messagesOf(texts []trails.Text, entries []trails.Entry) []Message {
	var all []Message
	at := make([]int, len(entries)) // the message of entries[i] is all[at[i]]
	for i, e := range entries {
		if e.Wire == 0 {
			continue
		}
		at[i] = len(all)
		m := Message{
			At: e.At, Wire: e.Wire, Sent: e.Sent, Text: texts[e.Text].Bytes, Size: texts[e.Text].Size,
			Failed: e.Failed, Request: e.Request, Response: e.Response, Source: -1,
		}
		if e.Sent {
			if source, ops, ok := sourceOf(texts, entries, i); ok {
				m.Source, m.Edits = at[source], editsOf(ops)
			}
		}
		all = append(all, m)
	}
	return all
}

// sourceOf finds the entry whose message Dragoman changed into the message of entry i. It returns
// the index of this entry and the steps of the change.
func sourceOf(texts []trails.Text, entries []trails.Entry, i int) (source int, how []op, ok bool) {
	text := entries[i].Text
	how = []op{{at: jsonrpc.Span{End: texts[text].Size}, n: texts[text].Size, kept: true}}
	for j := i - 1; j >= 0; j-- {
		e := &entries[j]
		switch {
		case e.Text != text:
		case e.Wire == 0:
			how = compose(opsOf(e.Changes, texts[e.Input].Size), how)
			text = e.Input
		case !e.Sent && e.Wire != entries[i].Wire:
			return j, how, true
		}
	}
	return 0, nil, false
}

// op is one step in the change of an input text to an output text. The step converts the span at of
// the input to the next n bytes of the output. kept is true if the step copies the bytes unchanged.
type op struct {
	at   jsonrpc.Span
	n    int
	kept bool
	why  jsonrpc.Reason
}

// opsOf returns the steps that apply changes to an input. size is the size of the input in bytes.
func opsOf(changes []jsonrpc.Change, size int) (ops []op) {
	from := 0
	keep := func(to int) {
		if to > from {
			ops = append(ops, op{at: jsonrpc.Span{Start: from, End: to}, n: to - from, kept: true})
		}
	}
	for _, c := range changes {
		keep(c.At.Start)
		ops = append(ops, op{at: c.At, n: c.To.End - c.To.Start, why: c.Why})
		from = c.At.End
	}
	keep(size)
	return ops
}

// compose returns one list of steps that has the same effect as the steps in a followed by the
// steps in b.
func compose(a, b []op) (out []op) {
	position := 0 // where the next step starts in the input of a
	// take removes from a the steps that produce the next n bytes of output, and returns these
	// steps. It also removes the steps directly after them that produce no bytes.
	take := func(n int) (taken []op) {
		for len(a) > 0 && (n > 0 || a[0].n == 0) {
			x := a[0]
			switch {
			case x.n <= n:
				a = a[1:]
			case x.kept:
				x.n, x.at.End = n, x.at.Start+n
				a[0].n -= n
				a[0].at.Start += n
			default: // the first part of the step replaces the input bytes, and the second part only inserts bytes
				x.n = n
				a[0].n -= n
				a[0].at = jsonrpc.Span{Start: x.at.End, End: x.at.End}
			}
			n -= x.n
			position = x.at.End
			taken = append(taken, x)
		}
		return taken
	}
	a = slices.Clone(a)
	for _, y := range b {
		start := position
		if len(a) > 0 {
			start = a[0].at.Start
		}
		var taken []op
		if size := y.at.End - y.at.Start; size > 0 {
			taken = take(size)
		}
		if y.kept {
			out = append(out, taken...)
			continue
		}
		x := op{at: jsonrpc.Span{Start: start, End: start}, n: y.n, why: y.why}
		if len(taken) > 0 {
			x.at.End = position
		}
		out = append(out, x)
	}
	return append(out, take(0)...)
}

// editsOf converts the steps that change something to edits.
func editsOf(ops []op) (edits []Edit) {
	to := 0
	for _, x := range ops {
		if !x.kept && (x.n > 0 || x.at.End > x.at.Start) {
			edits = append(edits, Edit{Why: x.why, At: x.at, To: jsonrpc.Span{Start: to, End: to + x.n}})
		}
		to += x.n
	}
	return edits
}

// IsLoss reports whether an edit whose reason is why leaves something out because a revision cannot
// express it. prefix is the beginning of Loss.What for such an edit.
func IsLoss(why jsonrpc.Reason) (prefix string, yes bool) {
	switch why {
	case mcp.WhyStructured:
		return "structuredContent", true
	case mcp.WhyOutputSchema:
		return "outputSchema", true
	case mcp.WhyContent:
		return "content.", true
	case mcp.WhySampling:
		return "sampling.", true
	}
	return "", false
}
