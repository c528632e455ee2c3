package failure

import (
	"log/slog"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// These constants bound the contents of a Failure. MaxEvidence counts lines. The other constants
// count bytes.
const (
	MaxEvidence = 12  // number of lines
	maxLine     = 400 // the most bytes of one line of evidence
	maxSentence = 700
	maxAction   = 400
	maxQuoted   = 200 // the most bytes of the server's words in the sentence
)

// From is the origin of evidence.
type From string

// The origins of evidence.
const (
	Stderr   From = "stderr"   // stderr of the server's process
	Stdout   From = "stdout"   // text on stdout of the server's process that is not a message
	Response From = "response" // an HTTP response: its status, some headers and the text of its body
	Exchange From = "exchange" // the message to the server, and its answer
	System   From = "system"   // the operating system, or the network on the way to the server
)

// Failure describes what went wrong with a server or a listener. A Failure is an error, and
// Sentence is its text. A Failure does not change after Of has made it. Its JSON form has the
// exported fields except Err.
type Failure struct {
	Class        Class    `json:"class" doc:"the kind of the failure; docs/failures.md lists all kinds"`
	Server       string   `json:"server,omitempty" doc:"the name of the server in the configuration; left out if the failure is not about a server"`
	Sentence     string   `json:"sentence" doc:"what happened and to which server, with the cause first; without a full stop"`
	Evidence     []string `json:"evidence,omitempty" doc:"at most 12 lines of text that show the cause, the most useful ones first; secrets are masked"`
	EvidenceFrom From     `json:"evidenceFrom,omitempty" doc:"where the evidence comes from: stderr or stdout of the process, the HTTP response, the last exchange of the handshake, or the operating system"`
	Action       string   `json:"action,omitempty" doc:"what to do next: one command, setting or link; without a full stop"`
	Status       int      `json:"status,omitempty" doc:"the HTTP status of the server's response; left out if there is none"`
	Cause        string   `json:"cause,omitempty" doc:"a code for the cause, such as timeout; errors to clients also have this code in data.cause"`
	// Err is the error from which the failure was made. It is never shown.
	Err error `json:"-"`

	plain, plainAction string // the texts for Public; "" if they are the same as the full texts
	flag               string // the result of the method Flag
}

// Flag returns the flag that the action tells the user to add to the command line, with its
// value, such as "--env NAME=VALUE". It returns "" if the action does not name a flag.
func (f *Failure) Flag() string { return f.flag }

func (f *Failure) Error() string { return f.Sentence }

// Unwrap returns the error that the failure was made from.
func (f *Failure) Unwrap() error { return f.Err }

// Text returns the sentence and the action together, for places that show a single text.
func (f *Failure) Text() string {
	if f.Action == "" {
		return f.Sentence
	}
	return f.Sentence + "; " + f.Action
}

// Public returns the failure as clients on other machines may see it. Public leaves out the output
// of the process, the error messages of the operating system, and the paths in the sentence.
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

// AppendJSON appends the failure as a JSON object, in the same form as encoding/json writes
// it.
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
// the status. It makes the texts safe to show. It returns nil if raw is not a failure.
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

// lines is the type of evidence in a log record. In JSON it is an array, elsewhere one text.
type lines []string

func (l lines) String() string { return strings.Join(l, " | ") }

// Lines returns the lines, for a handler that shows them one below the other.
func (l lines) Lines() []string { return l }

// Attrs returns the failure as attributes of a log record. It omits the server, because a
// record about a server already has it.
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
