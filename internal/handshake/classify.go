package handshake

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/dialect"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// failureKind is what an error answer to an opening request means. Codes alone do
// not tell: -32600, -32601 and -32602 are each used for all of these.
type failureKind uint8

const (
	otherFailure failureKind = iota
	notSupported             // the method is unknown
	wrongParams              // the method is known, what it was given is not right
	notReady                 // later, or after notifications/initialized
	wrongVersion             // the protocol version is refused
)

func (k failureKind) String() string {
	return [...]string{"other", "not supported", "wrong parameters", "not ready", "wrong version"}[k]
}

// failure is an error answer as far as a handshake cares.
type failure struct {
	kind     failureKind
	number   int64    // the code, 0 when it is no integer
	code     string   // as it is shown: a number, or a text in quotes
	text     string   // the message, cleaned and clipped
	modern   bool     // only modern servers send this code
	gated    bool     // not ready, in words that only mean the handshake
	versions []string // that the server says it speaks, at most maxVersions

	sign, low string // the code without quotes, and the message in small letters, clipped
}

// shows reports whether the error bears one of a profile's signs.
func (f *failure) shows(signs []dialect.Sign) bool { return dialect.HasSign(signs, f.sign, f.low) }

// readFailure is the one classifier of error answers. m is a Failure.
func readFailure(m *jsonrpc.Message) failure {
	keys := [...]string{"code", "message", "data"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Error, keys[:], at[:])
	var f failure
	word := ""
	if n, ok := jsonrpc.Int(m.Raw, at[0]); ok {
		f.number, f.code = n, strconv.FormatInt(n, 10)
		f.modern = mcp.IsModernCode(n)
	} else if word, ok = jsonrpc.Text(m.Raw, at[0]); ok {
		f.code = excerpt.Line(word, 40)
	}
	text, _ := jsonrpc.Text(m.Raw, at[1])
	f.text = excerpt.Line(text, maxSaid)
	low := strings.ToLower(text[:min(len(text), maxRead)])
	f.sign, f.low = f.code, low
	f.versions = listed(m.Raw, at[2])
	f.gated = f.number != jsonrpc.CodeInternal && gated(low)
	f.kind = f.classify(low, word)
	if f.kind == wrongVersion && f.versions == nil {
		f.versions = datesIn(low)
	}
	return f
}

// readFailure is that of an opening, which knows the words of its dialect.
func (o *opening) readFailure(m *jsonrpc.Message) failure {
	f := readFailure(m)
	if p := o.offer.Dialect; p != nil {
		switch {
		case f.shows(p.Errors.NotReady):
			f.kind = notReady
		case f.shows(p.Errors.WrongVersion):
			f.kind = wrongVersion
			if f.versions == nil {
				f.versions = datesIn(f.low)
			}
		case f.shows(p.Errors.WrongParams):
			f.kind = wrongParams
		}
	}
	return f
}

// maxRead bounds how much of a message is searched for what it means, in bytes.
const maxRead = 2 << 10

// classify decides by the error's text in small letters, its code as a word and
// what is already read.
func (f *failure) classify(low, word string) failureKind {
	switch {
	case f.number == mcp.CodeUnsupportedVersion,
		strings.Contains(strings.ToLower(word), "protocol_version"),
		!f.modern && len(datesIn(strings.Join(f.versions, " "))) > 0,
		aboutVersion(low):
		return wrongVersion
	case f.gated || hasAny(low, notReadyWords):
		return notReady
	case f.number == jsonrpc.CodeInvalidParams, hasAny(low, wrongParamsWords):
		return wrongParams
	case f.number == jsonrpc.CodeMethodNotFound, hasAny(low, notSupportedWords):
		return notSupported
	}
	return otherFailure
}

// The words by which servers in the field say what their codes do not.
var (
	notReadyWords = []string{
		"not initialized", "not initialised", "not yet initialized", "before initializ", "before initialis",
		"initialization was complete", "uninitialized", "not ready", "still starting", "still initializing",
	}
	// gateWords are those that mean this conversation's own initialization; a tool
	// may well say of a database that it is not initialized.
	gateWords = []string{
		"client not initialized", "client is not initialized", "server not initialized", "server is not initialized",
		"session not initialized", "session is not initialized", "before initialization was complete",
		"during session initialization", "before initialize", "notifications/initialized",
	}
	wrongParamsWords  = []string{"missing field", "invalid param", "invalid request param", "missing param", "validation error"}
	notSupportedWords = []string{"method not found", "unknown method", "unknown variant", "not implemented", "unsupported method", "method not supported"}
	// refusals, next to the words "protocol version".
	versionWords = []string{"unsupported", "not supported", "expected", "invalid", "unknown", "mismatch", "incompatible", "supported version", "supports"}
)

// gated recognises the refusals of servers that wait for
// notifications/initialized.
func gated(low string) bool {
	low = strings.TrimSpace(low)
	return strings.HasPrefix(low, "not initialized") || strings.HasPrefix(low, "not yet initialized") || hasAny(low, gateWords)
}

// aboutVersion recognises "Unsupported protocol version" and "Expected:
// 2025-03-26" in their spellings.
func aboutVersion(low string) bool {
	if strings.Contains(low, "protocol version") || strings.Contains(low, "protocolversion") || strings.Contains(low, "protocol_version") {
		return hasAny(low, versionWords)
	}
	after, found := "", false
	for _, w := range []string{"expected", "supported version", "unsupported version"} {
		if _, after, found = strings.Cut(low, w); found {
			break
		}
	}
	return found && len(datesIn(after)) > 0
}

func hasAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// listed returns the versions that an error's data names: in supported (2026-07-28
// and 2024-11-05 §Lifecycle, "Error Handling"), or as others spell it.
func listed(raw []byte, data jsonrpc.Span) []string {
	keys := [...]string{"supported", "supported_versions", "supportedVersions", "supportedProtocolVersions", "expected"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(raw, data, keys[:], at[:])
	for _, s := range at {
		if list := texts(raw, s); list != nil {
			return list
		}
		if one, ok := jsonrpc.Text(raw, s); ok {
			if list := datesIn(one[:min(len(one), maxRead)]); list != nil {
				return list
			}
		}
	}
	return nil
}

// datesIn returns what looks like a revision's date in a text, each once and at
// most maxVersions of them.
func datesIn(s string) []string {
	const form = "2000-00-00"
	var out []string
next:
	for i := 0; i+len(form) <= len(s) && len(out) < maxVersions; i++ {
		if i > 0 && isDigit(s[i-1]) || i+len(form) < len(s) && isDigit(s[i+len(form)]) {
			continue
		}
		for j := range len(form) {
			if c := s[i+j]; form[j] == '-' && c != '-' || form[j] != '-' && !isDigit(c) {
				continue next
			}
		}
		date := s[i : i+len(form)]
		for _, have := range out {
			if have == date {
				continue next
			}
		}
		out = append(out, date)
	}
	return out
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// ReadyWaits are the times after which a request is repeated that a server
// answered by saying that it is not ready.
var ReadyWaits = [...]time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 800 * time.Millisecond}

// NotReady reports whether an answer says that the server has not yet taken in
// notifications/initialized, so that the same request may be sent again: it was
// refused before it was looked at. Only words that can mean nothing else count,
// and never an internal error, so that a tool's own complaint is not taken for
// one. m may be any message or nil.
func NotReady(m *jsonrpc.Message) bool {
	return m != nil && m.Kind == jsonrpc.Failure && readFailure(m).gated
}

// UntilReady calls send, and again after each of ReadyWaits while late says that the
// server was not ready for it: NotReady, or that of an Outcome. It returns the last
// answer, or the first error. by waits as Offer.Wait does and may be nil.
func UntilReady(ctx context.Context, by func(context.Context, time.Duration) error, late func(*jsonrpc.Message) bool, send func() (*jsonrpc.Message, error)) (*jsonrpc.Message, error) {
	m, err := send()
	for _, d := range ReadyWaits {
		if err != nil || !late(m) {
			break
		}
		if wait(ctx, d, by) != nil {
			break
		}
		m, err = send()
	}
	return m, err
}
