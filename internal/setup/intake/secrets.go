package intake

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// Secret is a literal secret that Take has moved out of a server.
type Secret struct {
	Variable string // the name of the variable that replaces the secret, as ${Variable}
	Place    string // the setting that had the secret: "env.TOKEN", "headers.Authorization", "args[2]", "url" or "signIn.clientSecret"
	Value    string // the secret itself; "" if the setting had only a placeholder for a secret
}

// Take replaces each literal secret of a server by a reference ${NAME}. It returns a changed copy
// of the server, and the secrets. name is the name of the server. choose returns the name of the
// variable for a secret. The first argument of choose is a suggestion, which is always a valid
// name. The second is the secret, or "" for a placeholder such as YOUR_API_KEY. Take does not
// change values that already contain a reference.
func Take(s clientfile.Server, name string, choose func(suggestion, value string) string) (clientfile.Server, []Secret) {
	if s.Entry == nil {
		return s, nil
	}
	t := &taker{server: name, choose: choose}
	s.Entry = clone(s.Entry)
	for _, part := range []string{"env", "headers"} {
		if v := s.Entry.Get(part); v != nil {
			for i := range v.Members {
				m := &v.Members[i]
				t.place, t.key = part+"."+m.Key, m.Key
				if part == "headers" {
					t.key = ""
					if !strings.EqualFold(m.Key, "Authorization") {
						t.key = name + "_" + m.Key
					}
				}
				m.Value.Text = t.value(m.Value.Text, excerpt.SecretName(m.Key), part == "env" || excerpt.SecretName(m.Key))
			}
		}
	}
	if args := s.Entry.Get("args"); args != nil {
		words := commandOf(s.Entry)[1:]
		for i, item := range args.Items {
			t.place, t.key = fmt.Sprintf("args[%d]", i), ""
			at, secret := excerpt.SecretArgument(words, i)
			switch {
			case secret && at > 0:
				t.key = t.flag(words[i][:at-1])
			case secret:
				t.key = t.flag(words[i-1])
			}
			for secret && at < len(words[i]) && words[i][at] == ' ' {
				at++
			}
			item.Text = words[i][:at] + t.value(words[i][at:], secret, secret)
		}
	}
	if u := s.Entry.Get("url"); u != nil {
		t.place, t.key = "url", ""
		u.Text = t.value(u.Text, false, false)
	}
	if s.Settings.Get("signIn", "clientSecret") != nil {
		s.Settings = clone(s.Settings)
		secret := s.Settings.Get("signIn", "clientSecret")
		t.place, t.key = "signIn.clientSecret", name+"_client_secret"
		secret.Text = t.value(secret.Text, true, true)
	}
	return s, t.found
}

// Literals returns the settings of a server that contain a literal secret. It leaves out settings
// with placeholders.
func Literals(s clientfile.Server) []string {
	var out []string
	_, found := Take(s, "x", func(suggestion, _ string) string { return suggestion })
	for _, f := range found {
		if f.Value != "" && !slices.Contains(out, f.Place) {
			out = append(out, f.Place)
		}
	}
	return out
}

// taker is the state of one call of Take.
type taker struct {
	server string
	choose func(suggestion, value string) string
	found  []Secret
	place  string // the setting that Take reads now
	key    string // the text from which the variable name is suggested; "" means the server's name and "_token"
}

// flag returns the suggestion for the value that follows word in the arguments. word is an option
// such as --api-key, or a variable such as API_KEY.
func (t *taker) flag(word string) string {
	switch word = strings.TrimLeft(word, "-"); {
	case strings.EqualFold(word, "Authorization"):
		return ""
	case word == strings.ToUpper(word):
		return word
	}
	return t.server + "_" + word
}

var (
	// scheme matches the value of an Authorization header. The groups are the scheme and the
	// secret.
	scheme = pattern.Later(`^(?i)((?:bearer|basic|token|apikey|bot)\s+)(\S.*)$`)
	// placeholder matches a text that a person has to replace with a secret.
	placeholder = pattern.Later(`^(?i)(?:<[^<>]+>|\[[^\[\]]+\]|\{\{?[^{}]+\}?\}|your[-_ ].+|my[-_ ](?:api|secret|access|auth)[-_ ].+|.+[-_ ]here|(?:sk-|ghp_|pk_)?[x*.]{3,}|…|change[-_ ]?me|replace[-_ ]?me|insert[-_ ].+|todo)$`)
)

// value returns the text of a setting with its secrets replaced. If whole is true, the whole text
// is a secret. If asked is true, the text may be a placeholder.
func (t *taker) value(text string, whole, asked bool) string {
	if text == "" || strings.Contains(strings.ReplaceAll(text, "$${", ""), "${") {
		return text
	}
	before := ""
	if m := scheme().FindStringSubmatch(text); m != nil && whole {
		before, text = m[1], m[2]
	}
	switch {
	case asked && placeholder().MatchString(text):
		return before + t.take("")
	case whole:
		return before + t.take(text)
	}
	return before + excerpt.Secrets(text, func(secret string) string {
		if reference().MatchString(secret) {
			return secret // a reference that already replaces a secret
		}
		return t.take(secret)
	})
}

// take records a secret and returns the reference that replaces the secret.
func (t *taker) take(text string) string {
	key := t.key
	if key == "" {
		key = t.server + "_token"
	}
	value := strings.ReplaceAll(text, "$${", "${") // the secret as Dragoman reads it from the file
	name := t.choose(variableName(key), value)
	t.found = append(t.found, Secret{Variable: name, Place: t.place, Value: value})
	return "${" + name + "}"
}

var validVariable = pattern.Later(`^[A-Za-z_][A-Za-z0-9_]*$`)

// variableName converts text to the name of an environment variable. A text that is already such a
// name in upper case stays unchanged.
func variableName(s string) string {
	if validVariable().MatchString(s) && s == strings.ToUpper(s) {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ToUpper(s) {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "_") {
			b.WriteByte('_')
		}
	}
	name := strings.TrimSuffix(b.String(), "_")
	if len(name) > 64 {
		name = strings.Trim(name[:64], "_")
	}
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "VALUE_" + name
	}
	return strings.TrimSuffix(name, "_")
}

// reference matches a reference to a variable, such as ${NAME}. It does not match a reference with
// a default value.
var reference = pattern.Later(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}`)

// AsSecrets returns a copy of a value in which each variable is a secret, ${secret:NAME}: a project of the store has no
// variables of the machine.
func AsSecrets(v *clientfile.Value) *clientfile.Value {
	if v == nil {
		return nil
	}
	out := &clientfile.Value{Kind: v.Kind}
	for i, part := range strings.Split(v.Text, "$${") { // which is no reference
		if i > 0 {
			out.Text += "$${"
		}
		out.Text += reference().ReplaceAllString(part, "$${secret:$1}")
	}
	for _, x := range v.Items {
		out.Items = append(out.Items, AsSecrets(x))
	}
	for _, m := range v.Members {
		out.Members = append(out.Members, clientfile.Member{Key: m.Key, Value: AsSecrets(m.Value)})
	}
	return out
}

// References returns the names of the variables that a server refers to without a default value.
// Each name occurs once.
func References(s *clientfile.Server) (names []string) {
	var walk func(v *clientfile.Value)
	walk = func(v *clientfile.Value) {
		if v == nil {
			return
		}
		for _, m := range reference().FindAllStringSubmatch(strings.ReplaceAll(v.Text, "$${", ""), -1) {
			if !slices.Contains(names, m[1]) {
				names = append(names, m[1])
			}
		}
		for _, i := range v.Items {
			walk(i)
		}
		for _, m := range v.Members {
			walk(m.Value)
		}
	}
	walk(s.Entry)
	walk(s.Settings)
	return names
}

// clone returns a deep copy of a value.
func clone(v *clientfile.Value) *clientfile.Value {
	if v == nil {
		return nil
	}
	out := *v
	out.Items, out.Members = nil, nil
	for _, i := range v.Items {
		out.Items = append(out.Items, clone(i))
	}
	for _, m := range v.Members {
		m.Value = clone(m.Value)
		out.Members = append(out.Members, m)
	}
	return &out
}
