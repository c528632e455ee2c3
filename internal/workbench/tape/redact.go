package tape

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// redactor replaces secrets. The lock of the Recorder guards it.
type redactor struct {
	known *excerpt.Known
	names map[string]string // the placeholder of each secret text
	next  map[string]int    // the number in the last placeholder of each kind
}

// maxNames limits the number of secrets that have their own placeholder. All other secrets of a
// kind share one placeholder.
const maxNames = 4096

func newRedactor(known []string) *redactor {
	var all []string
	add := func(k string) {
		// A text of less than six bytes could be part of an ordinary word.
		if len(k) >= 6 {
			all = append(all, k)
		}
	}
	for _, k := range known {
		add(k)
		if fields := strings.Fields(k); len(fields) > 1 { // for example Bearer XYZ
			for _, f := range fields {
				if len(f) > len("Bearer") {
					add(f)
				}
			}
		}
	}
	return &redactor{known: excerpt.NewKnown(all), names: map[string]string{}, next: map[string]int{}}
}

// placeholder returns the placeholder for a text. It always returns the same placeholder for the
// same text.
func (r *redactor) placeholder(kind, text string) string {
	if n, ok := r.names[text]; ok {
		return n
	}
	if len(r.names) >= maxNames {
		return "[" + kind + "]"
	}
	r.next[kind]++
	n := fmt.Sprintf("[%s-%d]", kind, r.next[kind])
	r.names[text] = n
	return n
}

// isPlaceholder reports whether a text is a placeholder.
func isPlaceholder(s string) bool { return placeholders().MatchString(s) }

var placeholders = pattern.Later(`^\[(secret|session)(-\d+)?\]$`)

// text redacts plain text, which may contain JSON.
func (r *redactor) text(s string) string {
	s = r.known.Replace(s, func(secret string) string { return r.placeholder("secret", secret) })
	return excerpt.Secrets(s, func(secret string) string {
		if isPlaceholder(secret) {
			return secret
		}
		return r.placeholder("secret", secret)
	})
}

// json redacts JSON. If b is not valid JSON, json redacts it as plain text.
func (r *redactor) json(b []byte) []byte {
	if jsonrpc.Valid(b, jsonrpc.Limits{Bytes: len(b) + 1}) != nil {
		return []byte(r.text(string(b)))
	}
	var e jsonrpc.Edits
	r.value(b, jsonrpc.Whole(b), "", &e)
	return jsonrpc.Splice(nil, b, &e)
}

func (r *redactor) value(raw []byte, at jsonrpc.Span, name string, e *jsonrpc.Edits) {
	switch jsonrpc.KindOf(raw, at) {
	case '{':
		pair := pairName(raw, at)
		for m := range jsonrpc.Members(raw, at) {
			key, _ := jsonrpc.Text(raw, m.Key)
			if key == "value" && pair != "" {
				r.value(raw, m.Value, pair, e)
				continue
			}
			if clean := r.text(key); clean != key {
				e.Replace(jsonrpc.NoReason, m.Key, jsonrpc.AppendQuote(nil, clean))
			}
			r.value(raw, m.Value, key, e)
		}
	case '[':
		for el := range jsonrpc.Elements(raw, at) {
			r.value(raw, el, name, e)
		}
	case '"':
		s, _ := jsonrpc.Text(raw, at)
		var clean string
		switch {
		case excerpt.SecretText(name, s):
			clean = r.placeholder("secret", s)
		case startsJSON(s):
			clean = string(r.json([]byte(s))) // tools often return JSON in a string
		default:
			clean = r.text(s)
		}
		if clean != s {
			e.Replace(jsonrpc.NoReason, at, jsonrpc.AppendQuote(nil, clean))
		}
	case '0':
		if excerpt.SecretNumber(name) {
			e.Replace(jsonrpc.NoReason, at, jsonrpc.AppendQuote(nil, r.placeholder("secret", string(at.Of(raw)))))
		}
	}
}

// pairName returns the string in the member "name" or "key" of an object. If neither member is a
// string, pairName returns "". Lists of environment variables and of headers often consist of
// objects with a name and a value.
func pairName(raw []byte, at jsonrpc.Span) string {
	for _, key := range []string{"name", "key"} {
		if name, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, at, key)); ok {
			return name
		}
	}
	return ""
}

// startsJSON reports whether a text could be a JSON object or array.
func startsJSON(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[")
}

// harmless lists header fields that are not credentials. Only secrets within their values are
// replaced.
var harmless = map[string]bool{
	"accept": true, "accept-encoding": true, "accept-language": true, "allow": true, "cache-control": true, "connection": true,
	"content-encoding": true, "content-length": true, "content-type": true, "date": true, "host": true, "last-event-id": true,
	"mcp-method": true, "mcp-name": true, "mcp-protocol-version": true, "origin": true, "retry-after": true, "server": true,
	"transfer-encoding": true, "user-agent": true, "vary": true, "x-accel-buffering": true,
}

// field returns the value of a header field, redacted.
func (r *redactor) field(name, value string) string {
	switch l := strings.ToLower(name); {
	case l == "mcp-session-id":
		return r.placeholder("session", value)
	case harmless[l], strings.HasPrefix(l, "mcp-param-") && !excerpt.SecretName(l[len("mcp-param-"):]), strings.HasPrefix(l, "access-control-"):
		return r.text(value)
	}
	return r.placeholder("secret", value)
}

// address redacts a URL. It also replaces session ids, and the values of query parameters whose
// names suggest a secret.
func (r *redactor) address(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return r.text(s)
	}
	parts := strings.Split(u.RawQuery, "&")
	for i, p := range parts {
		name, value, ok := strings.Cut(p, "=")
		if ok && value != "" && (excerpt.SecretName(name) || strings.EqualFold(name, "sessionId") || strings.EqualFold(name, "session_id")) {
			parts[i] = name + "=" + r.placeholder("secret", value)
		}
	}
	u.RawQuery = strings.Join(parts, "&")
	return r.text(u.String())
}

// inText matches placeholders in a text.
var inText = pattern.Later(`\[(?:secret|session)(?:-\d+)?\]`)
