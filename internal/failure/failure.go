package failure

import (
	"log/slog"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// Bounds of a Failure, in bytes except for the number of lines.
const (
	MaxEvidence = 12  // lines
	maxLine     = 400 // of one line of evidence
	maxSentence = 700
	maxAction   = 400
	maxQuoted   = 200 // of the server's words within the sentence
)

// From says where evidence comes from.
type From string

// The origins of evidence.
const (
	Stderr   From = "stderr"   // of the server's process
	Stdout   From = "stdout"   // of the server's process: text that is not a message
	Response From = "response" // the HTTP status, and what the body said
	Exchange From = "exchange" // what was sent, and what came back
	System   From = "system"   // of the operating system, or of the way to the server
)

// Failure says what went wrong. It is an error whose text is the sentence. Of makes it; it
// does not change afterwards. Its JSON has no more than what is said here.
type Failure struct {
	Class  Class  `json:"class"`
	Server string `json:"server,omitempty"` // its configured name; "" if no server is concerned
	// Sentence says what happened, to whom, the cause first. It has no full stop.
	Sentence string `json:"sentence"`
	// Evidence has at most MaxEvidence lines, the telling ones first.
	Evidence     []string `json:"evidence,omitempty"`
	EvidenceFrom From     `json:"evidenceFrom,omitempty"`
	// Action is one thing to do: a command, a setting or a link. It has no full stop.
	Action string `json:"action,omitempty"`
	Status int    `json:"status,omitempty"` // HTTP status; 0 for none
	// Cause is the word for the cause that errors to clients have under data.cause; "" if
	// there is none.
	Cause string `json:"cause,omitempty"`
	// Err is the error that it was made from. It is never shown.
	Err error `json:"-"`

	plain, plainAction string // for Public; "" for no difference
}

func (f *Failure) Error() string { return f.Sentence }

// Unwrap returns the error that the failure was made from.
func (f *Failure) Unwrap() error { return f.Err }

// Text returns the sentence and the action, for places that have room for one text.
func (f *Failure) Text() string {
	if f.Action == "" {
		return f.Sentence
	}
	return f.Sentence + "; " + f.Action
}

// Public returns the failure for clients on other machines: without output of the process,
// without what the operating system said about it, and without paths in the sentence.
func (f *Failure) Public() *Failure {
	if f == nil || f.EvidenceFrom == "" || f.EvidenceFrom == Response || f.EvidenceFrom == Exchange {
		return f
	}
	g := *f
	g.Evidence, g.EvidenceFrom = nil, ""
	if g.plain != "" {
		g.Sentence = g.plain
	}
	if g.plainAction != "" {
		g.Action = g.plainAction
	}
	return &g
}

// AppendJSON appends the failure as a JSON object, in the form that encoding/json writes.
func (f *Failure) AppendJSON(dst []byte) []byte {
	text := func(key, value string) {
		if value != "" {
			dst = append(jsonrpc.AppendQuote(append(dst, ','), key), ':')
			dst = jsonrpc.AppendQuote(dst, value)
		}
	}
	dst = jsonrpc.AppendQuote(append(dst, `{"class":`...), string(f.Class))
	text("server", f.Server)
	dst = jsonrpc.AppendQuote(append(dst, `,"sentence":`...), f.Sentence)
	if len(f.Evidence) > 0 {
		dst = jsonrpc.AppendStrings(append(dst, `,"evidence":`...), f.Evidence)
	}
	text("evidenceFrom", string(f.EvidenceFrom))
	text("action", f.Action)
	if f.Status != 0 {
		dst = strconv.AppendInt(append(dst, `,"status":`...), int64(f.Status), 10)
	}
	text("cause", f.Cause)
	return append(dst, '}')
}

// Parse reads a failure from its JSON form, such as data.failure of an error or a member of
// the status. Its texts are made safe to show. It returns nil if raw is not a failure.
func Parse(raw []byte) *Failure {
	var at [8]jsonrpc.Span
	jsonrpc.FindAll(raw, jsonrpc.Whole(raw), []string{"class", "server", "sentence", "evidence", "evidenceFrom", "action", "status", "cause"}, at[:])
	text := func(i, limit int) string {
		s, _ := jsonrpc.Text(raw, at[i])
		return excerpt.Line(s, limit)
	}
	f := &Failure{
		Class: Class(text(0, 64)), Server: text(1, 128), Sentence: text(2, maxSentence),
		EvidenceFrom: From(text(4, 32)), Action: text(5, maxAction), Cause: text(7, 64),
	}
	if f.Class == "" || f.Sentence == "" {
		return nil
	}
	for line := range jsonrpc.Elements(raw, at[3]) {
		if s, ok := jsonrpc.Text(raw, line); ok && len(f.Evidence) < MaxEvidence {
			f.Evidence = append(f.Evidence, excerpt.Line(s, maxLine))
		}
	}
	if n, ok := jsonrpc.Int(raw, at[6]); ok {
		f.Status = int(n)
	}
	return f
}

// lines is evidence in a log record: an array in JSON, one text elsewhere.
type lines []string

func (l lines) String() string { return strings.Join(l, " | ") }

// Attrs returns the failure as attributes of a log record. The server is not among them,
// because a record about a server has it already.
func (f *Failure) Attrs() []any {
	out := []any{slog.String("class", string(f.Class)), slog.String("sentence", f.Sentence)}
	if len(f.Evidence) > 0 {
		out = append(out, slog.Any("evidence", lines(f.Evidence)), slog.String("evidence_from", string(f.EvidenceFrom)))
	}
	if f.Action != "" {
		out = append(out, slog.String("action", f.Action))
	}
	if f.Status != 0 {
		out = append(out, slog.Int("status", f.Status))
	}
	if f.Cause != "" {
		out = append(out, slog.String("cause", f.Cause))
	}
	return out
}
