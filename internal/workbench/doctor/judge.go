package doctor

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// maxDepth is how deep a message may be nested so that the doctor still examines what it says.
const maxDepth = 5_000

// read parses a message from the server and reports faults in the form of the message. It returns
// nil if raw is not a message.
func (t *talk) read(raw []byte, of *question) *jsonrpc.Message {
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxLine})
	if err == nil {
		return m
	}
	loose, bad := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxLine, Tolerant: true})
	if bad != nil {
		if m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxLine, Depth: maxDepth, Tokens: maxLine, Tolerant: true}); err == nil {
			t.find(MessageLimit, evidence("> "+t.lastSent, "< "+t.e.redact(raw), "# "+bad.Error()))
			return m
		}
		if of == nil || of.status == 0 {
			t.noise(raw)
		} else if of.status < 300 && len(bytes.TrimSpace(raw)) > 0 && of.id != "" {
			t.find(BodyUnreadable, evidence("> "+of.sent, "< HTTP status "+strconv.Itoa(of.status)+": "+t.e.redact(raw)))
		}
		return nil
	}
	if of != nil && of.odd() || t.odd && (loose.ID == "" || loose.ID == "null") {
		return loose // the id of an error about unreadable input may be null
	}
	if t.big() != nil && aboutBig(loose) {
		return loose // the id may be invalid because the server rounded it
	}
	t.form(loose, err)
	return loose
}

// form reports the faults of a message that only a tolerant parser accepts.
func (t *talk) form(m *jsonrpc.Message, err error) {
	whole := jsonrpc.Whole(m.Raw)
	see := func(code string) { t.find(code, evidence("> "+t.lastSent, "< "+t.e.redact(m.Raw))) }
	known := false
	if jsonrpc.Find(m.Raw, whole, "jsonrpc").IsZero() {
		known = true
		see(NoVersionMember)
	}
	if m.Kind == jsonrpc.Failure {
		code, text := jsonrpc.Find(m.Raw, m.Error, "code"), jsonrpc.Find(m.Raw, m.Error, "message")
		if _, ok := jsonrpc.Int(m.Raw, code); !ok {
			known = true
			see(ErrorCode)
		}
		if jsonrpc.KindOf(m.Raw, text) != '"' {
			known = true
			see(ErrorShape)
		}
	}
	if (m.ID == "" || m.ID == "null") && m.Method == "" {
		return // questionOf reports this fault
	}
	if !known {
		reason := ""
		var bad *jsonrpc.Error
		if errors.As(err, &bad) {
			reason = "# " + bad.Message
		}
		t.find(MessageShape, evidence("> "+t.lastSent, "< "+t.e.redact(m.Raw), reason))
	}
}

// noise reports output that is not a message.
func (t *talk) noise(raw []byte) {
	line := t.e.redact(raw)
	t.find(Noise, evidence("< "+line))
	if len(t.text) < failure.MaxEvidence {
		t.text = append(t.text, line)
	}
}

// printed returns the first lines of t.text as evidence.
func (t *talk) printed() string {
	var out []string
	for _, line := range t.text[:min(len(t.text), 3)] {
		out = append(out, "< "+line)
	}
	return evidence(out...)
}
