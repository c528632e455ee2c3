package handshake

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Step is one exchange of a handshake and the decision that followed the exchange.
type Step struct {
	At     time.Duration // the time from the start of Open until Got was known
	Sent   string        // the method and the version; "" if the answer was unsolicited
	Got    string        // the answer, a status, a timeout, or the end of the link
	Reason string        // the reason for the next step

	// Params and Answer are the first MaxShown bytes of the params that were sent and of the
	// answer, as they were on the wire. They may hold secrets. ParamsSize and AnswerSize are the
	// full sizes in bytes. A size of 0 means that there were no params, or no answer.
	Params, Answer         []byte
	ParamsSize, AnswerSize int
}

// Progress reports that a message is being sent, or that its outcome is known.
type Progress struct {
	N         int    // the number of this report, from 1
	Sent, Got string // Got is "" while the outcome is not known
	Reason    string // the reason for the next step; "" while the outcome is not known
	// If Got is "", Bytes are the first MaxShown bytes of the params. Otherwise, Bytes are the
	// first MaxShown bytes of the answer. They may hold secrets. Size is the full size in bytes.
	Bytes []byte
	Size  int
}

// MaxShown is the maximum length in bytes of Step.Params, and of Step.Answer.
const MaxShown = 4 << 10

// Trace is the history of a handshake. It has at most maxSteps steps. Texts from the server are
// truncated and printable.
type Trace []Step

// maxSteps is greater than the number of steps of the longest handshake. The longest handshake has
// two probes, and sends initialize once for each wait, each version and each probe.
const maxSteps = 16

// String returns the trace with one line for each step.
func (t Trace) String() string {
	var b strings.Builder
	for _, s := range t {
		at := strconv.FormatInt(s.At.Milliseconds(), 10)
		b.WriteString(strings.Repeat(" ", max(0, 6-len(at))))
		b.WriteString(at)
		b.WriteString(" ms  ")
		if s.Sent != "" {
			b.WriteString(s.Sent)
			b.WriteString(" -> ")
		}
		b.WriteString(s.Got)
		b.WriteString("; ")
		b.WriteString(s.Reason)
		b.WriteByte('\n')
	}
	return b.String()
}

// AppendJSON appends the trace as a JSON array of objects. The members of each object are atMs,
// sent, got and reason.
func (t Trace) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for i, s := range t {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"atMs":`...)
		dst = strconv.AppendInt(dst, s.At.Milliseconds(), 10)
		if s.Sent != "" {
			dst = append(dst, `,"sent":`...)
			dst = jsonrpc.AppendQuote(dst, s.Sent)
		}
		dst = append(dst, `,"got":`...)
		dst = jsonrpc.AppendQuote(dst, s.Got)
		dst = append(dst, `,"reason":`...)
		dst = jsonrpc.AppendQuote(dst, s.Reason)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// watch reports progress to Offer.Watch.
func (o *opening) watch(p Progress) {
	if o.offer.Watch != nil {
		o.watched++
		p.N = o.watched
		o.offer.Watch(p)
	}
}

// note adds a step to the trace.
func (o *opening) note(sent, got, reason string) {
	o.watch(Progress{Sent: sent, Got: got, Reason: reason, Bytes: o.bytes.Answer, Size: o.bytes.AnswerSize})
	defer func() { o.bytes = Step{} }()
	if o.offer.Inner != nil {
		o.trace = o.offer.Inner()
		return
	}
	if len(o.trace) < maxSteps {
		step := o.bytes
		step.At, step.Sent, step.Got, step.Reason = time.Since(o.begun), sent, got, reason
		o.trace = append(o.trace, step)
	}
}

// maxSaid is the maximum length in bytes of one text from the server in the trace.
const maxSaid = 200

// describe returns a short description of a message.
func describe(m *jsonrpc.Message) string {
	if m.Kind == jsonrpc.Failure {
		f := readFailure(m)
		s := "error"
		if f.code != "" {
			s += " " + excerpt.Word(f.code, 40)
		}
		if f.text != "" {
			s += " " + strconv.Quote(f.text)
		}
		return s
	}
	if jsonrpc.KindOf(m.Raw, m.Result) != '{' {
		return "a result that is not an object"
	}
	var names []string
	for member := range jsonrpc.Members(m.Raw, m.Result) {
		if len(names) == 6 {
			names = append(names, "…")
			break
		}
		key, _ := jsonrpc.Text(m.Raw, member.Key)
		name := excerpt.Word(key, 40)
		switch key {
		case "protocolVersion":
			if v, ok := jsonrpc.Text(m.Raw, member.Value); ok {
				name += " " + excerpt.Word(v, 40)
			}
		case "supportedVersions":
			name += " " + join(texts(m.Raw, member.Value))
		}
		names = append(names, name)
	}
	if names == nil {
		return "an empty result"
	}
	return "a result with " + strings.Join(names, ", ")
}

// maxVersions is the maximum number of versions that are read from a server's list.
const maxVersions = 16

// texts returns the first maxVersions strings of an array. The strings are sanitised. texts returns
// nil if the array contains no strings.
func texts(raw []byte, array jsonrpc.Span) []string {
	var out []string
	for at := range jsonrpc.Elements(raw, array) {
		if s, ok := jsonrpc.Text(raw, at); ok {
			if s = excerpt.Line(s, 40); s != "" {
				out = append(out, s)
			}
		}
		if len(out) == maxVersions {
			break
		}
	}
	return out
}

func join(versions []string) string {
	if len(versions) == 0 {
		return "(none)"
	}
	shown := make([]string, len(versions))
	for i, v := range versions {
		shown[i] = excerpt.Word(v, 40)
	}
	return strings.Join(shown, "/")
}

// keepSent stores the params of a request for the next step of the trace.
func (o *opening) keepSent(params []byte) {
	o.bytes = Step{Params: shown(params), ParamsSize: len(params)}
}

// keepAnswer stores an answer for the next step of the trace. The answer may be nil.
func (o *opening) keepAnswer(m *jsonrpc.Message) {
	if m != nil {
		o.bytes.Answer, o.bytes.AnswerSize = shown(m.Raw), len(m.Raw)
	}
}

// shown returns a copy of the first MaxShown bytes of b.
func shown(b []byte) []byte { return bytes.Clone(b[:min(len(b), MaxShown)]) }
