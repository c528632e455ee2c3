package clientfile

import (
	"net/url"
	"slices"
	"strings"
)

// SignInKeys returns the keys of a server's entry with which clients say how to sign in: oauth of Claude
// Code, VS Code, Gemini CLI, opencode and Codex, auth of Cursor, and scopes and oauth_resource of Codex.
func SignInKeys() []string { return []string{"oauth", "auth", "scopes", "oauth_resource"} }

// SignIn returns the settings for dragoman.servers.NAME.signIn that the keys of an entry stand for, and notes
// about what has no such setting. Other keys than those of SignInKeys are ignored.
func SignIn(entry *Value) (settings *Value, notes []Note) {
	s := signIn{out: Mapping(), text: func(v *Value) *Value { return v }}
	s.note = func(m *Member, text string, harmless bool) {
		notes = append(notes, Note{Key: m.Key, Text: text, Harmless: harmless, Line: m.Line, Col: m.Col})
	}
	for i := range entry.Members {
		s.member(&entry.Members[i])
	}
	return s.out, notes
}

// signIn has the state of the conversion of one entry.
type signIn struct {
	out  *Value
	text func(*Value) *Value // converts the references in a scalar
	note func(m *Member, text string, harmless bool)
}

// signInKeys maps the keys in oauth and auth of all clients to settings. Cursor writes its keys in upper
// case, and Codex with underscores.
var signInKeys = map[string]string{
	"clientid": "clientID", "clientsecret": "clientSecret",
	"authorizationurl": "authorizationURL", "tokenurl": "tokenURL",
	"redirecturi": "callback", "callbackurl": "callback",
}

// member converts one key of a server's entry.
func (s *signIn) member(m *Member) {
	v := m.Value
	switch {
	case m.Key == "scopes":
		s.scopes(v)
	case m.Key == "oauth_resource":
		if v.scalar() {
			s.out.set("resource", s.text(v))
		}
	case m.Key == "oauth" && v.Kind == Bool && v.Text == "false": // opencode: no sign-in for this server
		s.out.set("how", &Value{Kind: String, Text: "headers", Line: m.Line, Col: m.Col})
	case v.Kind == Map:
		for i := range v.Members {
			s.key(&v.Members[i])
		}
	case m.Key == "auth" && v.Text == "oauth", v.Kind == Null, v.Kind == Bool: // what Dragoman does anyway
	default:
		s.note(m, "is "+v.Kind.String()+", so it is ignored", false)
	}
}

// key converts one key in oauth or auth.
func (s *signIn) key(m *Member) {
	v := m.Value
	plain := strings.ToLower(strings.ReplaceAll(m.Key, "_", ""))
	if key, ok := signInKeys[plain]; ok {
		if v.scalar() && v.Text != "" {
			s.out.set(key, s.text(v))
		}
		return
	}
	switch plain {
	case "scopes", "scope":
		s.scopes(v)
	case "callbackport":
		if v.scalar() && s.out.Get("callback") == nil {
			host := "localhost" // as Claude Code registers it
			if strings.Contains(m.Key, "_") {
				host = "127.0.0.1" // as Codex does
			}
			s.out.set("callback", &Value{Kind: String, Text: "http://" + host + ":" + v.Text + "/callback", Line: v.Line, Col: v.Col})
		}
	case "authservermetadataurl":
		if issuer := issuerOf(v.text()); issuer != "" {
			s.out.set("issuer", &Value{Kind: String, Text: issuer, Line: v.Line, Col: v.Col})
		} else if v.text() != "" {
			s.note(m, "is ignored: it is not the well-known URL of an issuer; write the issuer itself into signIn.issuer", false)
		}
	case "audiences": // Gemini CLI sends them as one parameter
		var all []string
		for _, i := range v.Items {
			all = append(all, i.text())
		}
		if len(all) > 0 {
			s.out.set("params", Mapping("audience", &Value{Kind: String, Text: strings.Join(all, " "), Line: v.Line, Col: v.Col}))
		}
	case "enabled":
	default:
		if v.Kind != Null {
			s.note(m, impossible, false)
		}
	}
}

func (s *signIn) scopes(v *Value) {
	list := &Value{Kind: List, Line: v.Line, Col: v.Col}
	add := func(v *Value) {
		for _, word := range strings.Fields(v.text()) {
			list.Items = append(list.Items, s.text(&Value{Kind: String, Text: word, Line: v.Line, Col: v.Col}))
		}
	}
	add(v)
	for _, i := range v.Items {
		add(i)
	}
	if len(list.Items) > 0 {
		s.out.set("scopes", list)
	}
}

// wellKnown are the parts of the path of an issuer's metadata (RFC 8414 §3.1, OpenID Connect Discovery §4).
var wellKnown = []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"}

// issuerOf returns the issuer whose metadata is at a URL, or "" if the URL isn't a well-known one.
func issuerOf(metadata string) string {
	u, err := url.Parse(metadata)
	if err != nil || u.Scheme != "https" || u.RawQuery != "" {
		return ""
	}
	i := slices.IndexFunc(wellKnown, func(part string) bool { return strings.Contains(u.Path, part) })
	if i < 0 {
		return ""
	}
	before, after, _ := strings.Cut(u.EscapedPath(), wellKnown[i])
	if before != "" && after != "" || after != "" && after[0] != '/' {
		return ""
	}
	return u.Scheme + "://" + u.Host + before + after
}
