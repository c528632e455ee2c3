package clientfile

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// ServerKeys returns the keys of a server's entry that Read knows. The result has the keys of all
// clients, sorted.
func ServerKeys() []string {
	keys := strings.Fields(`command args env environment env_vars envFile cwd url httpUrl serverUrl type transport transportType
		headers http_headers env_http_headers bearer_token_env_var disabled enabled timeout tool_timeout_sec startup_timeout_sec
		startup_timeout_ms compatibility_mode compatibilityMode enabled_tools includeTools disabled_tools excludeTools tools`)
	keys = append(keys, SignInKeys()...)
	for k := range untold {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// leastSecret is the length in bytes of the shortest text that Secrets returns.
const leastSecret = 4

// Secrets returns the secret texts in a file, longest first. These are the values of variables and
// headers, and the values of members and arguments with a name such as token or password. All
// values below unknown keys of a server are secret too, because such a key may be a typo of env or
// headers. For each value, Secrets returns each line of the decoded text, and each line as it is
// written in the file. It omits true, false, and lines shorter than leastSecret. It returns nil for
// a file that cannot be parsed. In YAML, which only Dragoman's own file is, it looks at the servers alone, and doesn't
// take a reference such as ${NAME} for a secret.
func Secrets(path string, b []byte) []string {
	root, err := Parse(path, b)
	if err != nil {
		return secretsOfOurs(b)
	}
	f := secretFinder{lines: splitLines(bytes.TrimPrefix(b, bom)), known: ServerKeys()}
	f.read(root, false)
	for _, c := range clients {
		_, servers := c.find(root)
		f.servers(servers)
	}
	f.servers(root.Get("mcpServers"))
	if projects := root.Get("projects"); isMap(projects) {
		for _, m := range projects.Members {
			f.servers(m.Value.Get("mcpServers"))
		}
	}
	return f.all()
}

// secretsOfOurs returns the secrets of the servers in Dragoman's own YAML file.
func secretsOfOurs(b []byte) []string {
	root, ok := plainYAML(b)
	if !ok {
		return nil
	}
	f := secretFinder{lines: splitLines(bytes.TrimPrefix(b, bom))}
	homes := []*Value{root}
	if projects := root.Get("dragoman", "projects"); isMap(projects) {
		for _, m := range projects.Members {
			homes = append(homes, m.Value)
		}
	}
	for _, home := range homes {
		if servers := home.Get("mcpServers"); servers != nil {
			f.read(servers, false)
		}
	}
	var literal []string
	for _, s := range f.all() {
		if !strings.Contains(s, "${") {
			literal = append(literal, s)
			continue
		}
		for _, word := range reference.Split(s, -1) {
			if word = strings.TrimSpace(word); len(word) > len("Bearer") {
				literal = append(literal, word)
			}
		}
	}
	slices.SortFunc(literal, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(literal)
}

// reference matches what stands for a variable or a secret.
var reference = regexp.MustCompile(`\$\{[^}]*\}`)

// all returns what was found, longest first.
func (f *secretFinder) all() []string {
	// A word such as --header Authorization=NAME looks like a secret, but names a variable of the entry.
	f.found = slices.DeleteFunc(f.found, func(s string) bool { return slices.Contains(f.variables, s) })
	slices.SortFunc(f.found, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return slices.Compact(f.found)
}

// secretFinder collects the secrets of a file.
type secretFinder struct {
	lines, known, found []string
	variables           []string // the names of the variables that servers set
}

func (f *secretFinder) add(s string) {
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); len(l) >= leastSecret && l != "true" && l != "false" {
			f.found = append(f.found, l)
		}
	}
}

// read collects the secrets in a value. If secret is true, every scalar in the value is secret.
func (f *secretFinder) read(v *Value, secret bool) {
	if v.scalar() && secret {
		f.add(v.Text)
		f.add(f.written(v))
	}
	var words []string
	for _, item := range v.Items {
		f.read(item, secret)
		words = append(words, item.text())
	}
	for i, item := range v.Items {
		if at, ok := excerpt.SecretArgument(words, i); ok {
			raw := f.written(item)
			f.add(words[i][at:])
			f.add(raw[min(at, len(raw)):])
		}
	}
	for _, m := range v.Members {
		f.read(m.Value, secret || secretMember(m.Key))
	}
}

// servers collects all values below the unknown keys of each server.
func (f *secretFinder) servers(v *Value) {
	if !isMap(v) {
		return
	}
	for _, s := range v.Members {
		if !isMap(s.Value) || s.Key == "servers" {
			continue
		}
		for _, m := range s.Value.Members {
			if strings.HasPrefix(m.Key, "env") && isMap(m.Value) {
				for _, v := range m.Value.Members {
					f.variables = append(f.variables, v.Key)
				}
			}
			if !slices.Contains(f.known, m.Key) {
				f.read(m.Value, true)
			}
		}
	}
}

// secretMember reports whether all values below a key are secret.
func secretMember(key string) bool {
	lower := strings.ToLower(key)
	return lower == "env" || lower == "environment" || lower == "envfile" || strings.HasSuffix(lower, "headers") || excerpt.SecretName(key)
}

// written returns the text of a quoted string as it is written in the file, without the quotes. For
// any other value, it returns "".
func (f *secretFinder) written(v *Value) string {
	if v.Kind != String || v.Line < 1 || v.Line > len(f.lines) || v.Col < 1 || v.Col > len(f.lines[v.Line-1]) {
		return ""
	}
	line := f.lines[v.Line-1][v.Col-1:]
	quote := line[:1]
	switch {
	case quote != `"` && quote != "'":
		return ""
	case strings.HasPrefix(line, strings.Repeat(quote, 3)):
		quote = strings.Repeat(quote, 3)
	}
	var out strings.Builder
	for rest, at := line[len(quote):], v.Line; ; at++ {
		for i := 0; i < len(rest); i++ {
			switch {
			case rest[i] == '\\' && quote[0] == '"':
				i++
			case strings.HasPrefix(rest[i:], quote):
				return out.String() + rest[:i]
			}
		}
		out.WriteString(rest)
		if len(quote) == 1 || at >= len(f.lines) {
			return out.String()
		}
		rest = f.lines[at]
	}
}

// wordSecret is the minimum length in bytes of a secret that Mask also replaces inside words.
const wordSecret = 6

// Mask replaces the secrets in a line of a file with mask. secrets is the result of Secrets. Mask
// replaces a secret shorter than wordSecret only if the secret is a whole word, because a short
// text often occurs inside ordinary words.
func Mask(line string, secrets []string, mask string) string {
	for _, s := range secrets {
		if len(s) >= wordSecret {
			line = strings.ReplaceAll(line, s, mask)
			continue
		}
		var out strings.Builder
		rest, before := line, byte(' ')
		for {
			i := strings.Index(rest, s)
			if i < 0 {
				break
			}
			if i > 0 {
				before = rest[i-1]
			}
			end := i + len(s)
			text := s
			if strings.IndexByte(" \t\"'`=:,;[{(", before) >= 0 && (end == len(rest) || strings.IndexByte(" \t\"'`,;]})\\", rest[end]) >= 0) {
				text = mask
			}
			out.WriteString(rest[:i] + text)
			rest, before = rest[end:], s[len(s)-1]
		}
		line = out.String() + rest
	}
	return line
}
