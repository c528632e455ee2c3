package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// entry is a line that isn't written yet.
type entry struct {
	at             time.Time
	kind           string // "" for a request
	who, name, via string // see Line
	seat           string
	from           string
	project        string
	server, method string
	item, as       string
	query          int // the length of the text of a search
	args           []byte
	size           int // of the arguments, also if they're too long
	outcome, cause string
	code           int64
	took           time.Duration
	resumed        bool
	answers        string // see Line
}

// by sets who has sent a request.
func (e *entry) by(who *identity.Principal) {
	if who == nil {
		return
	}
	e.who, e.name, e.via = who.Subject, who.Name, cmp.Or(who.Run, who.Via)
	if who.Seat != who.Subject {
		e.seat = who.Seat
	}
}

// The kinds of lines that aren't requests.
const (
	kindFile   = "file"   // a file begins
	kindEnd    = "end"    // a file ends
	kindMissed = "missed" // some requests are in no line
	kindDenied = "denied" // somebody was turned away
)

// kindCall is what people call the kind of a request, whose line has none.
const kindCall = "call"

// whyClosed is why the last file of a process ends.
const whyClosed = "closed"

// Line is a line of a trail, as it's read. What is empty is left out.
type Line struct {
	Seq     int64           `json:"seq"`
	At      time.Time       `json:"at"`
	Kind    string          `json:"kind,omitempty"`
	Who     string          `json:"who,omitempty"`
	Name    string          `json:"name,omitempty"`
	Seat    string          `json:"seat,omitempty"`
	Via     string          `json:"via,omitempty"`
	From    string          `json:"from,omitempty"`
	Project string          `json:"project,omitempty"`
	Server  string          `json:"server,omitempty"`
	Method  string          `json:"method,omitempty"`
	Item    string          `json:"item,omitempty"`
	As      string          `json:"as,omitempty"` // what the client calls the item, if that's something else
	Query   int             `json:"queryBytes,omitempty"`
	Args    json.RawMessage `json:"args,omitempty"`
	Size    int             `json:"argsBytes,omitempty"` // of arguments that are too long
	Outcome string          `json:"outcome,omitempty"`
	Cause   string          `json:"cause,omitempty"` // see mcp.Error.Cause
	Code    int64           `json:"code,omitempty"`
	MS      float64         `json:"ms,omitempty"`
	Resumed bool            `json:"resumed,omitempty"`
	Answers string          `json:"answers,omitempty"` // of people who aren't behind the client: "form accept SUBJECT, …"

	// Of a file, and of its end.
	Trail   string `json:"trail,omitempty"`
	File    int    `json:"file,omitempty"`
	Prev    string `json:"prev,omitempty"` // the sum of the last line of the file before
	Act     int64  `json:"act,omitempty"`  // the newest act of the store
	ActSum  []byte `json:"actSum,omitempty"`
	Why     string `json:"why,omitempty"`
	Refused int64  `json:"refused,omitempty"`
	Lost    int64  `json:"lost,omitempty"`
	Denied  int64  `json:"denied,omitempty"`

	Sum string `json:"sum"`
}

const timeFormat = "2006-01-02T15:04:05.000Z"

// appendText appends a member, unless its text is empty.
func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return jsonrpc.AppendQuote(append(append(append(b, `,"`...), name...), `":`...), text)
}

func appendInt(b []byte, name string, n int64) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(append(append(b, `,"`...), name...), `":`...), n, 10)
}

// append appends the members of an entry behind the number of the line. Its secrets are masked with m.
func (e *entry) append(b []byte, m *masks) []byte {
	b = append(e.at.UTC().AppendFormat(append(b, `,"at":"`...), timeFormat), '"')
	b = appendText(b, "kind", e.kind)
	b = appendText(b, "who", e.who)
	b = appendText(b, "name", e.name)
	b = appendText(b, "seat", e.seat)
	b = appendText(b, "via", e.via)
	b = appendText(b, "from", e.from)
	b = appendText(b, "project", e.project)
	b = appendText(b, "server", e.server)
	b = appendText(b, "method", m.text(e.project, e.method))
	b = appendText(b, "item", m.text(e.project, e.item))
	b = appendText(b, "as", m.text(e.project, e.as))
	b = appendInt(b, "queryBytes", int64(e.query))
	switch {
	case e.args != nil:
		b = append(b, `,"args":`...)
		at := len(b)
		b = append(b, m.args(e.project, e.args)...)
		for i := at; i < len(b); i++ { // JSON has line breaks only between its tokens
			if b[i] == '\n' || b[i] == '\r' {
				b[i] = ' '
			}
		}
	case e.size > 0:
		b = appendInt(b, "argsBytes", int64(e.size))
	}
	b = appendText(b, "outcome", e.outcome)
	b = appendText(b, "cause", e.cause)
	b = appendInt(b, "code", e.code)
	if e.kind == "" {
		b = strconv.AppendFloat(append(b, `,"ms":`...), float64(e.took.Microseconds())/1000, 'f', -1, 64)
	}
	if e.resumed {
		b = append(b, `,"resumed":true`...)
	}
	b = appendText(b, "answers", e.answers)
	return b
}

const (
	beforeSum = `,"sum":"`
	afterSum  = `"}`
	sumSize   = 43 // of a hash in base64
)

// chain makes a line of members, and returns it behind dst, and its sum.
func chain(dst []byte, seq int64, prev, members []byte) (line, sum []byte) {
	from := len(dst)
	dst = append(strconv.AppendInt(append(dst, `{"seq":`...), seq, 10), members...)
	sum = sumOf(prev, dst[from:])
	dst = append(dst, beforeSum...)
	dst = base64.RawURLEncoding.AppendEncode(dst, sum)
	return append(dst, afterSum+"\n"...), sum
}

func sumOf(prev, body []byte) []byte {
	h := sha256.New()
	_, _ = h.Write(prev)
	_, _ = h.Write(body)
	return h.Sum(nil)
}

// cut returns the two parts of a line without its line break: what the sum is of, and the sum.
func cut(line []byte) (body, sum []byte, ok bool) {
	rest, found := bytes.CutSuffix(line, []byte(afterSum))
	at := len(rest) - sumSize
	if !found || at < 0 {
		return nil, nil, false
	}
	sum, err := base64.RawURLEncoding.DecodeString(string(rest[at:]))
	body, found = bytes.CutSuffix(rest[:at], []byte(beforeSum))
	return body, sum, found && err == nil
}

// kindOf returns the kind of a line, which comes behind its number and its time.
func kindOf(line []byte) string {
	_, rest, _ := bytes.Cut(line, []byte(`,"at":"`))
	if len(rest) < len(timeFormat) {
		return ""
	}
	rest, ok := bytes.CutPrefix(rest[len(timeFormat):], []byte(`","kind":"`))
	kind, _, found := bytes.Cut(rest, []byte(`"`))
	if !ok || !found {
		return ""
	}
	return string(kind)
}

// masks has what masks secrets for a while: to make it anew for each line would take longer than the line.
type masks struct {
	o     *Options
	texts map[string]func(string) string
	raws  map[string]func([]byte) []byte
}

func newMasks(o *Options) *masks {
	return &masks{o, map[string]func(string) string{}, map[string]func([]byte) []byte{}}
}

func (m *masks) text(project, text string) string {
	if text == "" || m.o.Clean == nil {
		return text
	}
	f, ok := m.texts[project]
	if !ok {
		f = m.o.Clean(project)
		m.texts[project] = f
	}
	if f == nil {
		return text
	}
	return f(text)
}

func (m *masks) args(project string, raw []byte) []byte {
	if m.o.Masker == nil {
		return raw
	}
	f, ok := m.raws[project]
	if !ok {
		f = m.o.Masker(project)
		m.raws[project] = f
	}
	return f(raw)
}
