package doctor

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// read scans what a server said, and finds what is wrong with its form. It returns
// nil for what is no message at all.
func (t *talk) read(raw []byte, of *question) *jsonrpc.Message {
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxLine})
	if err == nil {
		return m
	}
	loose, bad := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxLine, Tolerant: true})
	if bad != nil {
		if of == nil || of.status == 0 {
			t.noise(raw)
		} else if of.status < 300 && len(bytes.TrimSpace(raw)) > 0 && of.id != "" {
			t.e.find(BodyUnreadable, evidence("> "+of.said, "< HTTP status "+strconv.Itoa(of.status)+": "+t.e.veil(raw)))
		}
		return nil
	}
	if of != nil && of.odd() || t.odd && (loose.ID == "" || loose.ID == "null") {
		return loose // an error about what could not be read may have a null id
	}
	if t.big() != nil && aboutBig(loose) {
		return loose // a number that has lost digits may be spelled as no id may be
	}
	t.form(loose, err)
	return loose
}

// form finds what only a tolerant reader accepts.
func (t *talk) form(m *jsonrpc.Message, err error) {
	whole := jsonrpc.Whole(m.Raw)
	see := func(code string) { t.e.find(code, evidence("> "+t.said, "< "+t.e.veil(m.Raw))) }
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
		return // whose says what that means
	}
	if !known {
		reason := ""
		var bad *jsonrpc.Error
		if errors.As(err, &bad) {
			reason = "# " + bad.Message
		}
		t.e.find(MessageShape, evidence("> "+t.said, "< "+t.e.veil(m.Raw), reason))
	}
}

// noise is what stands on standard output and is no message.
func (t *talk) noise(raw []byte) {
	t.e.find(Noise, evidence("< "+t.e.veil(raw)))
}
