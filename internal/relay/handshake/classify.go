package handshake

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// failureKind is the meaning of an error answer to an opening request. The error code does not show
// the meaning, because servers use each of -32600, -32601 and -32602 for several meanings.
type failureKind uint8

const (
	otherFailure failureKind = iota
	notSupported             // the method is unknown
	wrongParams              // the method is known, but its parameters are wrong
	notReady                 // the server accepts the request later, or after notifications/initialized
	wrongVersion             // the server refuses the protocol version
)

func (k failureKind) String() string {
	return [...]string{"other", "not supported", "wrong parameters", "not ready", "wrong version"}[k]
}

// errorAnswer is the part of an error answer that a handshake needs.
type errorAnswer struct {
	kind     failureKind
	number   int64    // the code, or 0 if the code is not an integer
	code     string   // the code as text; if the code is a string, it is sanitised and truncated
	text     string   // the message, sanitised and truncated
	modern   bool     // true if only modern servers send this code
	gated    bool     // true if the message clearly says that the server waits for the end of the handshake
	versions []string // the versions that the server lists, at most maxVersions

	sign, low string // what hasSign searches: the code, and the truncated message in lower case
}

// hasSign reports whether the error matches one of a profile's signs.
func (f *errorAnswer) hasSign(signs []dialect.Sign) bool {
	return dialect.HasSign(signs, f.sign, f.low)
}

// readFailure classifies an error answer. m must be a Failure.
func readFailure(m *jsonrpc.Message) errorAnswer {
	keys := [...]string{"code", "message", "data"}
	var at [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Error, keys[:], at[:])
	var f errorAnswer
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
	f.versions = listedVersions(m.Raw, at[2])
	f.gated = f.number != jsonrpc.CodeInternal && waitsForInitialized(low)
	f.kind = f.classify(low, word)
	if f.kind == wrongVersion && f.versions == nil {
		f.versions = datesIn(low)
	}
	return f
}

// readFailure does the same as the function readFailure, and also uses the signs of the dialect.
func (o *opening) readFailure(m *jsonrpc.Message) errorAnswer {
	f := readFailure(m)
	if p := o.offer.Dialect; p != nil {
		switch {
		case f.hasSign(p.Errors.NotReady):
			f.kind = notReady
		case f.hasSign(p.Errors.WrongVersion):
			f.kind = wrongVersion
			if f.versions == nil {
				f.versions = datesIn(f.low)
			}
		case f.hasSign(p.Errors.WrongParams):
			f.kind = wrongParams
		}
	}
	return f
}

// maxRead is how many bytes of an error message are searched for phrases.
const maxRead = 2 << 10

// classify returns the kind of the error. low is the error's message in lower case. word is the
// error's code if the code is a string.
func (f *errorAnswer) classify(low, word string) failureKind {
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

// These lists contain phrases in the error messages of existing servers.
var (
	notReadyWords = []string{
		"not initialized", "not initialised", "not yet initialized", "before initializ", "before initialis",
		"initialization was complete", "uninitialized", "not ready", "still starting", "still initializing",
	}
	// gateWords contains phrases that can only be about the initialization of the MCP session.
	// Other phrases may come from a tool, for example about a database that is not initialized.
	gateWords = []string{
		"client not initialized", "client is not initialized", "server not initialized", "server is not initialized",
		"session not initialized", "session is not initialized", "before initialization was complete",
		"during session initialization", "before initialize", "notifications/initialized",
	}
	wrongParamsWords  = []string{"missing field", "invalid param", "invalid request param", "missing param", "validation error"}
	notSupportedWords = []string{"method not found", "unknown method", "unknown variant", "not implemented", "unsupported method", "method not supported"}
	// versionWords contains words that show a refusal of the version in a text that also contains
	// "protocol version".
	versionWords = []string{"unsupported", "not supported", "expected", "invalid", "unknown", "mismatch", "incompatible", "supported version", "supports"}
)

// waitsForInitialized reports whether an error message says that the server waits for
// notifications/initialized. low is the message in lower case.
func waitsForInitialized(low string) bool {
	low = strings.TrimSpace(low)
	return strings.HasPrefix(low, "not initialized") || strings.HasPrefix(low, "not yet initialized") || hasAny(low, gateWords)
}

// aboutVersion reports whether an error message is a variant of "Unsupported protocol version" or
// "Expected: 2025-03-26". low is the message in lower case.
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

// listedVersions returns the versions in an error's data. The versions are in the member supported
// (2026-07-28 and 2024-11-05 §Lifecycle, "Error Handling"), or in a member with a similar name.
func listedVersions(raw []byte, data jsonrpc.Span) []string {
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

// datesIn returns the parts of a text that look like a revision's date, without duplicates. It
// returns at most maxVersions dates.
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

// ReadyWaits are the delays before the retries of a request. They apply when the server has refused
// the request because the server was not ready.
var ReadyWaits = [...]time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 800 * time.Millisecond}

// NotReady reports whether an answer says that the server has not yet processed
// notifications/initialized. In this case the server has not executed the request, and the request
// may be retried. NotReady accepts only unambiguous phrases, and returns false for an internal
// error. Otherwise it could mistake a tool's error for such an answer. m may be any message or nil.
func NotReady(m *jsonrpc.Message) bool {
	return m != nil && m.Kind == jsonrpc.Failure && readFailure(m).gated
}

// UntilReady calls send. As long as late reports that the server was not ready, UntilReady waits
// for the next delay of ReadyWaits and calls send again. It returns the last answer, or the first
// error. late is the function NotReady or the method Outcome.NotReady. The function by waits as
// Offer.Wait does. If by is nil, UntilReady uses a timer.
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
