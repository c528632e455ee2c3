package tape

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// redactor replaces secrets. It is used under the recorder's lock.
type redactor struct {
	known []string          // exact texts, longest first
	names map[string]string // placeholders by what they stand for
	next  map[string]int    // of each kind
}

// maxNames bounds how many secrets are told apart; more share one placeholder.
const maxNames = 4096

func newRedactor(known []string) *redactor {
	r := &redactor{names: map[string]string{}, next: map[string]int{}}
	add := func(k string) {
		// A short word may be anything, and would tear holes into everything.
		if len(k) >= 6 {
			r.known = append(r.known, k)
		}
	}
	for _, k := range known {
		add(k)
		if fields := strings.Fields(k); len(fields) > 1 { // Bearer XYZ
			for _, f := range fields {
				if len(f) > len("Bearer") {
					add(f)
				}
			}
		}
	}
	slices.SortFunc(r.known, func(a, b string) int { return len(b) - len(a) })
	return r
}

// placeholder stands for a text, always the same for the same one.
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

// isPlaceholder reports whether a text was put in for a secret.
func isPlaceholder(s string) bool { return placeholders.MatchString(s) }

var placeholders = regexp.MustCompile(`^\[(secret|session)(-\d+)?\]$`)

// looks finds what is a secret by its form, whatever it is called: the well-known
// prefixes of keys, signed tokens, credentials in URLs and in Authorization.
var looks = regexp.MustCompile(`(?:` + strings.Join([]string{
	`\bgh[pousr]_[A-Za-z0-9]{20,}`, `\bgithub_pat_[A-Za-z0-9_]{20,}`, `\bglpat-[A-Za-z0-9_-]{16,}`,
	`\bsk-[A-Za-z0-9_-]{16,}`, `\bxox[abeprs]-[A-Za-z0-9-]{10,}`, `\bAKIA[A-Z0-9]{16}\b`, `\bAIza[A-Za-z0-9_-]{30,}`,
	`\bnpm_[A-Za-z0-9]{30,}`, `\bey[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`,
	`-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?`,
}, "|") + `)`)

var (
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)([A-Za-z0-9._~+/=-]{8,})`)
	// A member or a variable within a text, or in JSON that is none to us.
	inJSON   = regexp.MustCompile(`"([^"\\]{1,63})"\s*:\s*"((?:[^"\\]|\\.)+)|\\"([^"\\]{1,63})\\"\s*:\s*\\"((?:[^"\\]|\\[^"])+)`)
	setTo    = regexp.MustCompile(`\b([A-Za-z][A-Za-z0-9_.-]{0,62})=([^\s"'&;,<>\\]{6,})`)
	userinfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)([^/\s"'@]+)@`)
)

// text redacts running text.
func (r *redactor) text(s string) string {
	for _, k := range r.known {
		if strings.Contains(s, k) {
			s = strings.ReplaceAll(s, k, r.placeholder("secret", k))
		}
	}
	s = looks.ReplaceAllStringFunc(s, func(m string) string { return r.placeholder("secret", m) })
	s = bearer.ReplaceAllStringFunc(s, func(m string) string {
		p := bearer.FindStringSubmatch(m)
		return p[1] + p[2] + r.placeholder("secret", p[3])
	})
	s = r.named(inJSON, r.named(setTo, s))
	return userinfo.ReplaceAllStringFunc(s, func(m string) string {
		p := userinfo.FindStringSubmatch(m)
		return p[1] + r.placeholder("secret", p[2]) + "@"
	})
}

// named replaces what is a secret by its name. Of the pattern's groups each first
// one of two is a name, and the second what goes by it.
func (r *redactor) named(pattern *regexp.Regexp, s string) string {
	var out strings.Builder
	from := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(s, -1) {
		for g := 2; g < len(at); g += 4 {
			if at[g] < 0 || !secretName(s[at[g]:at[g+1]]) || isPlaceholder(s[at[g+2]:at[g+3]]) {
				continue
			}
			out.WriteString(s[from:at[g+2]])
			out.WriteString(r.placeholder("secret", s[at[g+2]:at[g+3]]))
			from = at[g+3]
		}
	}
	if from == 0 {
		return s
	}
	out.WriteString(s[from:])
	return out.String()
}

// secretNames are members and parameters whose text is a secret by its name, in
// lower case and without separators.
var secretNames = map[string]bool{
	"password": true, "passwd": true, "passphrase": true, "secret": true, "clientsecret": true,
	"token": true, "accesstoken": true, "refreshtoken": true, "idtoken": true, "authtoken": true, "sessiontoken": true,
	"apikey": true, "accesskey": true, "secretkey": true, "privatekey": true, "authorization": true, "cookie": true,
	"credential": true, "credentials": true, "clientassertion": true, "codeverifier": true,
}

// secretEnds are what further such names end with: those of variables, mostly.
var secretEnds = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey", "privatekey"}

// positions are tokens that say where somebody is and let nobody in.
var positions = []string{"progresstoken", "pagetoken", "nexttoken", "continuationtoken", "cursortoken", "synctoken"}

var separators = strings.NewReplacer("-", "", "_", "", ".", "", " ", "")

func secretName(name string) bool {
	if len(name) >= 64 {
		return false
	}
	n := separators.Replace(strings.ToLower(name))
	ends := func(s string) bool { return strings.HasSuffix(n, s) }
	switch {
	case secretNames[n]:
		return true
	case slices.ContainsFunc(positions, ends):
		return false
	case strings.HasSuffix(name, "_KEY") && name == strings.ToUpper(name):
		return true
	}
	return slices.ContainsFunc(secretEnds, ends)
}

// json redacts one JSON text; what is none is taken as running text.
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
		for m := range jsonrpc.Members(raw, at) {
			key, _ := jsonrpc.Text(raw, m.Key)
			if clean := r.text(key); clean != key {
				e.Replace(m.Key, jsonrpc.AppendQuote(nil, clean))
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
		case s != "" && secretName(name):
			clean = r.placeholder("secret", s)
		case startsJSON(s):
			clean = string(r.json([]byte(s))) // tools often answer with JSON in a text
		default:
			clean = r.text(s)
		}
		if clean != s {
			e.Replace(at, jsonrpc.AppendQuote(nil, clean))
		}
	}
}

// startsJSON reports whether a text may be an object or an array.
func startsJSON(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[")
}

// harmless are the fields of a header that are written down as they are. What is
// not among them may be a credential under a name that we do not know.
var harmless = map[string]bool{
	"accept": true, "accept-encoding": true, "accept-language": true, "allow": true, "cache-control": true, "connection": true,
	"content-encoding": true, "content-length": true, "content-type": true, "date": true, "host": true, "last-event-id": true,
	"mcp-method": true, "mcp-name": true, "mcp-protocol-version": true, "origin": true, "retry-after": true, "server": true,
	"transfer-encoding": true, "user-agent": true, "vary": true, "x-accel-buffering": true,
}

// field redacts a field of a header.
func (r *redactor) field(name, value string) string {
	switch l := strings.ToLower(name); {
	case l == "mcp-session-id":
		return r.placeholder("session", value)
	case harmless[l], strings.HasPrefix(l, "mcp-param-") && !secretName(l[len("mcp-param-"):]), strings.HasPrefix(l, "access-control-"):
		return r.text(value)
	}
	return r.placeholder("secret", value)
}

// address redacts the credentials and the query of a URL.
func (r *redactor) address(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return r.text(s)
	}
	parts := strings.Split(u.RawQuery, "&")
	for i, p := range parts {
		name, value, ok := strings.Cut(p, "=")
		if ok && value != "" && (secretName(name) || strings.EqualFold(name, "sessionId") || strings.EqualFold(name, "session_id")) {
			parts[i] = name + "=" + r.placeholder("secret", value)
		}
	}
	u.RawQuery = strings.Join(parts, "&")
	return r.text(u.String())
}

// inText finds placeholders in a text.
var inText = regexp.MustCompile(`\[(?:secret|session)(?:-\d+)?\]`)
