package config

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/goccy/go-yaml/ast"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// source has the lines of the file. A problem shows a part of a line. Secrets in this part are masked,
// because problems end up in logs, screenshots and bug reports.
type source struct {
	lines    []string
	comments map[int]int // the column where a comment begins, by line; comments are not shown
	marks    []mark      // sorted; nil if the file could not be parsed
	// secrets are texts that are masked everywhere.
	secrets []string

	line  int // the number of the line that runes contains; 0 for none
	runes []rune
}

// mark is the position at which a key or a scalar begins. secret says whether the text from this
// position to the next mark is secret.
type mark struct {
	line, col int
	secret    bool
}

func (m mark) compare(line, col int) int {
	return cmp.Or(cmp.Compare(m.line, line), cmp.Compare(m.col, col))
}

const (
	// sourceReach is how many characters of a line are read on each side of a problem.
	sourceReach = 600
	// sourceShown is how many characters of a line are shown on each side of a problem.
	sourceShown = 150
	tabWidth    = 4
)

// show sets the source and the caret of each problem that has a position in the file.
func (s *source) show(file string, problems Problems) {
	for i := range problems {
		p := &problems[i]
		if p.File == file && p.Line > 0 && p.Line <= len(s.lines) {
			p.Source, p.Caret = s.excerpt(p.Line, p.Col)
		}
	}
}

// excerpt returns the part of a line around a column, with secrets masked. caret is the position of
// the column in text. text is "" if masking leaves nothing to show.
func (s *source) excerpt(line, col int) (text string, caret int) {
	if s.line != line {
		s.line, s.runes = line, []rune(cover(strings.TrimRight(s.lines[line-1], "\r")))
		if from := s.comments[line] - 1; from >= 0 && from < len(s.runes) {
			s.runes = s.runes[:from]
		}
	}
	at := min(max(col-1, 0), len(s.runes))
	from, to := max(0, at-sourceReach), min(len(s.runes), at+sourceReach)
	var out []rune
	if s.marks != nil {
		out, caret = s.masked(line, from, to, at)
	} else {
		out, caret = s.guarded(line, from, to, at)
	}
	text = s.hide(string(out))
	if text != string(out) { // hide changed the text, so positions after the first change are not valid
		before := []rune(text)
		same := 0
		for same < len(before) && same < len(out) && before[same] == out[same] {
			same++
		}
		caret, out = min(caret, same), before
	}
	first, last := max(0, caret-sourceShown), min(len(out), caret+sourceShown)
	cutLeft, cutRight := from > 0 || first > 0, to < len(s.runes) || last < len(out)
	text, caret = display(out[first:last], caret-first)
	if strings.Trim(text, "*…\"'{}[],:- ") == "" && (strings.Contains(text, mask) || strings.TrimSpace(text) == "") {
		return "", 0
	}
	if cutLeft {
		text, caret = "…"+text, caret+1
	}
	if cutRight {
		text += "…"
	}
	text = strings.TrimRight(text, " ")
	return text, min(caret, utf8.RuneCountInString(text))
}

// hide masks known secrets, text that looks like a secret, and the query of URLs.
func (s *source) hide(text string) string {
	for _, secret := range s.secrets {
		text = strings.ReplaceAll(text, secret, mask)
	}
	text = query().ReplaceAllStringFunc(text, func(url string) string {
		at := strings.IndexByte(url, '?') + 1
		return url[:at] + aroundReferences(url[at:])
	})
	return excerpt.Secrets(text, aroundReferences)
}

var query = pattern.Later(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'?#]*\?)[^\s"'}\]]+`)

// A reference to a variable, such as ${NAME}, is no secret. While a line is masked, each character of
// its references is moved to a private area of Unicode, so that the number of characters stays the same.
const covered = '\ue000'

var reference = pattern.Later(`\$?\$\{(?:env:)?[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}`)

// cover moves the references in a line to the private area, except for the defaults in them. A character
// that is already there would be taken for a part of a reference, so it is replaced.
func cover(line string) string {
	line = strings.Map(func(r rune) rune {
		if isCovered(r) {
			return unicode.ReplacementChar
		}
		return r
	}, line)
	move := func(s string) string { return strings.Map(func(r rune) rune { return covered + r }, s) }
	return reference().ReplaceAllStringFunc(line, func(ref string) string {
		if strings.HasPrefix(ref, "$$") { // an escaped ${
			return ref
		}
		head, fallback, ok := strings.Cut(ref, ":-")
		if !ok {
			return move(ref)
		}
		return move(head+":-") + fallback[:len(fallback)-1] + move("}")
	})
}

func isCovered(r rune) bool { return r >= covered && r <= covered+unicode.MaxASCII }

// aroundReferences masks a value, and leaves the references in it. If it has references, quotes around it
// and the scheme of an Authorization header are left too.
func aroundReferences(value string) string {
	if strings.IndexFunc(value, isCovered) < 0 {
		return mask
	}
	var out strings.Builder
	for rest := value; rest != ""; {
		n := strings.IndexFunc(rest, func(r rune) bool { return !isCovered(r) })
		if n < 0 {
			n = len(rest)
		}
		out.WriteString(rest[:n])
		rest = rest[n:]
		if n = strings.IndexFunc(rest, isCovered); n < 0 {
			n = len(rest)
		}
		out.WriteString(literal().ReplaceAllStringFunc(rest[:n], func(text string) string {
			if strings.EqualFold(text, "bearer") || strings.EqualFold(text, "basic") {
				return text
			}
			return mask
		}))
		rest = rest[n:]
	}
	return out.String()
}

// literal matches the text between quotes, brackets and spaces.
var literal = pattern.Later("[^\\s\"'\\[\\]{},](.*[^\\s\"'\\[\\]{},])?")

// masked returns s.runes[from:to] with secret values masked. s.runes is the line with the given
// number. caret is the position in out of the character s.runes[at].
func (s *source) masked(line, from, to, at int) (out []rune, caret int) {
	caret = -1
	i, _ := slices.BinarySearchFunc(s.marks, mark{line: line, col: from + 1}, func(m, t mark) int { return m.compare(t.line, t.col) })
	secret := i > 0 && s.marks[i-1].secret // the line may continue a value that began on an earlier line
	for begin := from; begin < to || begin == from; {
		end := to
		if i < len(s.marks) && s.marks[i].line == line && s.marks[i].col-1 < to {
			end = max(s.marks[i].col-1, begin)
		}
		part := s.runes[begin:end]
		if secret && len(part) > 0 {
			tail := len(part)
			for tail > 0 && strings.ContainsRune(" \t,]}", part[tail-1]) {
				tail--
			}
			if at >= begin && at < begin+tail {
				caret = len(out)
			}
			if tail > 0 {
				out = append(out, []rune(aroundReferences(string(part[:tail])))...)
			}
			begin, part = begin+tail, part[tail:]
		}
		if at >= begin && at < end {
			caret = len(out) + at - begin
		}
		out = append(out, part...)
		if end == to {
			break
		}
		secret, begin = s.marks[i].secret, end
		i++
	}
	if caret < 0 {
		caret = len(out)
	}
	return out, caret
}

var (
	// keyed matches a line that begins with a key. The groups are the text before the value,
	// the key, and the value.
	keyed = pattern.Later(`^(\s*(?:- +)*["']?([A-Za-z_$][\w.$@/-]*)["']?\s*(?::(?:\s+|$)|=\s*))(.*)$`)
	// structure matches a line that has only punctuation and spaces.
	structure = pattern.Later(`^[\s\[\]{},:'"|>&*?-]*$`)
)

// harmless are keys whose values are shown even if the file could not be parsed.
var harmless = []string{
	"mcpServers", "dragoman", "command", "cwd", "type", "transport", "disabled", "enabled", "listen", "server", "servers",
	"name", "title", "version", "join", "revisions", "accept", "otherwise", "names", "separator", "limits", "log", "level",
	"format", "prefix", "isolation", "lazy", "revision", "dialect", "dialects", "expose", "allow", "deny", "inheritEnv", "ping",
	"projects", "use",
}

// guarded is the version of masked for a file that could not be parsed. It shows a value only
// if its key is in harmless.
func (s *source) guarded(line, from, to, at int) (out []rune, caret int) {
	text := string(s.runes[from:to])
	if structure().MatchString(text) {
		return []rune(text), at - from
	}
	m := keyed().FindStringSubmatch(text)
	if from > 0 || m == nil {
		return []rune(mask), 0
	}
	if slices.Contains(harmless, m[2]) && !strings.ContainsAny(m[3], "{:") && !strings.Contains(m[1], "=") && !s.underSecret(line) || structure().MatchString(m[3]) {
		return []rune(text), at
	}
	key := []rune(m[1])
	return append(key, []rune(aroundReferences(m[3]))...), min(at, len(key))
}

// underSecret reports whether a line is below a key whose values are secret. A line is below a key if
// the line has more indentation than the key, or is inside a bracket that the key opens.
func (s *source) underSecret(line int) bool {
	depth, open := indent(s.lines[line-1]), 0
	var above []string // the keys that contain the line, nearest first
	for i := line - 2; i >= 0; i-- {
		l := s.lines[i]
		open += strings.Count(l, "{") + strings.Count(l, "[") - strings.Count(l, "}") - strings.Count(l, "]")
		outer := strings.TrimSpace(l) != "" && indent(l) < depth
		if outer {
			depth = indent(l)
		}
		if !outer && open <= 0 {
			continue
		}
		if m := keyed().FindStringSubmatch(l); m != nil {
			above = append(above, m[2])
			if n := len(above); secretKey(m[2]) || n > 2 && slices.Contains(holders, m[2]) && !slices.Contains(serverKeys, above[n-3]) {
				return true
			}
		}
		open = min(open, 0)
	}
	return false
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// secretKey reports whether all values below a key are secret.
func secretKey(key string) bool {
	lower := strings.ToLower(key)
	switch {
	case lower == "env", lower == "environment", lower == "vault", lower == "tls", lower == "sealkeys", lower == "assertion", strings.HasSuffix(lower, "headers"):
		return true
	case strings.HasPrefix(lower, "x-"): // such a key often has anchors, which env and headers may use
		return true
	}
	return excerpt.SecretName(key)
}

// place says what kind of keys a mapping has.
type place uint8

const (
	elsewhere place = iota
	inHolder        // the keys are names of servers
	inServer        // the keys are settings of a server
)

// holders are the keys whose members are servers.
var holders = []string{"mcpServers", "servers", "mcp_servers", "mcp"}

// serverKeys are the keys that a server may have in Dragoman's file or in a file of another client.
var serverKeys = slices.Concat(foreign, foreignFilters, clientfile.ServerKeys(), settingKeys)

// below returns the kind of the keys below a key, and whether all values below it are secret.
// An unknown key of a server may be a typo of env or headers, so the values below such a key are
// secret.
func (p place) below(key string) (next place, secret bool) {
	switch {
	case slices.Contains(holders, key) && p != inServer && (p != inHolder || key == "servers"):
		next = inHolder
	case p == inHolder:
		next = inServer
	case p == inServer && key == "<<":
		next = inServer
	case p == inServer:
		secret = !slices.Contains(serverKeys, key)
	}
	return next, secret || secretKey(key)
}

// item returns the kind of the keys in an item of a list. If the list is where a mapping of servers
// belongs, each item is treated as a server, because a user may write a list by mistake. Otherwise
// item returns p, because the key << of a server may have a list of mappings.
func (p place) item() place {
	if p == inHolder {
		return inServer
	}
	return p
}

// display returns runes as text for a terminal. It expands tabs, and replaces characters that are not
// printable. caret is the position in text of the rune with the index at.
func display(runes []rune, at int) (text string, caret int) {
	var b strings.Builder
	for i, r := range runes {
		if isCovered(r) {
			r -= covered
		}
		if i == at {
			caret = utf8.RuneCountInString(b.String())
		}
		switch {
		case r == '\t':
			b.WriteString(strings.Repeat(" ", tabWidth))
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		default:
			b.WriteRune(unicode.ReplacementChar)
		}
	}
	if at >= len(runes) {
		caret = utf8.RuneCountInString(b.String())
	}
	return b.String(), caret
}

// marker collects the marks of a file. It reads the syntax tree of the YAML library, because the tree
// of nodes omits invalid parts, such as the second of two equal keys.
type marker struct {
	at    func(ast.Node) *node
	marks []mark
	// shared lists the anchors that have an alias in a place where values are secret.
	shared map[string]bool
	all    bool // whether all anchors are treated as shared
	// places maps an anchor to the place of its first alias that has a place other than elsewhere.
	places map[string]place
}

// marksOf returns the marks of a file, sorted.
func marksOf(docs []*ast.DocumentNode, at func(ast.Node) *node) []mark {
	m := &marker{at: at, shared: map[string]bool{}, places: map[string]place{}}
	// An alias comes after its anchor, so the first pass does not know all shared anchors. An
	// anchor may contain aliases, and each alias may require another pass. In the eighth pass, all
	// anchors are treated as shared.
	for pass, known := 1, -1; known < len(m.shared)+len(m.places) && pass <= 8; pass++ {
		known, m.all, m.marks = len(m.shared)+len(m.places), pass == 8, []mark{}
		for _, d := range docs {
			m.read(d.Body, elsewhere, false)
		}
	}
	slices.SortStableFunc(m.marks, func(a, b mark) int { return a.compare(b.line, b.col) })
	return m.marks
}

func (m *marker) add(n ast.Node, secret bool) {
	p := m.at(n)
	m.marks = append(m.marks, mark{p.line, p.col, secret})
}

func (m *marker) read(n ast.Node, at place, secret bool) {
	switch n := n.(type) {
	case nil, *ast.NullNode: // there is no value to show, and the node may have no position
	case *ast.MappingNode:
		for _, v := range n.Values {
			m.pair(v, at, secret)
		}
	case *ast.MappingValueNode:
		m.pair(n, at, secret)
	case *ast.SequenceNode:
		flag := ""
		for _, v := range n.Values {
			text := plainText(v)
			m.read(v, at.item(), secret || flag != "" && !strings.HasPrefix(text, "-"))
			flag = ""
			if strings.HasPrefix(text, "-") && excerpt.SecretName(text) {
				flag = text // --token VALUE
			}
		}
	case *ast.AnchorNode:
		m.add(n, false)
		name := n.Name.GetToken().Value
		if at == elsewhere {
			at = m.places[name]
		}
		m.read(n.Value, at, secret || m.all || m.shared[name])
	case *ast.AliasNode:
		m.add(n, false)
		name := n.Value.GetToken().Value
		if secret {
			m.shared[name] = true
		}
		if at != elsewhere && m.places[name] == elsewhere {
			m.places[name] = at
		}
	case *ast.TagNode:
		m.add(n, false)
		m.read(n.Value, at, secret)
	default:
		m.add(n, secret || flagged(plainText(n)) || hasSecretArgument(strings.Fields(plainText(n))))
	}
}

func (m *marker) pair(v *ast.MappingValueNode, at place, secret bool) {
	if v.Key == nil {
		return
	}
	key := keyNode(v.Key)
	if key == nil {
		key = v.Key
	}
	name := key.GetToken().Value
	m.add(key, secret && hasValue(name))
	next, hidden := at.below(name)
	m.read(v.Value, next, secret || hidden || name == "listen" && strings.Contains(plainText(v.Value), "@"))
}

// plainText returns the text of a string node, and "" for any other node.
func plainText(n ast.Node) string {
	if s, ok := n.(*ast.StringNode); ok {
		return s.Value
	}
	return ""
}

// flagged reports whether text contains the name of a secret and the secret, as in --token=VALUE or
// "Authorization: VALUE".
func flagged(text string) bool {
	at := strings.IndexAny(text, "=:")
	return at > 0 && excerpt.SecretName(text[:at])
}

// marksOfTree does the same as marksOf, for a file that is not YAML.
func marksOfTree(root *node) []mark {
	marks := []mark{}
	var read func(n *node, at place, secret bool)
	read = func(n *node, at place, secret bool) {
		if n.kind == scalarKind {
			marks = append(marks, mark{n.line, n.col, secret || flagged(n.text) || hasSecretArgument(strings.Fields(n.text))})
		}
		for i, item := range n.items {
			after := i > 0 && strings.HasPrefix(n.items[i-1].text, "-") && excerpt.SecretName(n.items[i-1].text)
			read(item, at.item(), secret || after && !strings.HasPrefix(item.text, "-"))
		}
		for i := range n.members {
			m := &n.members[i]
			marks = append(marks, mark{m.line, m.col, secret && hasValue(m.key)})
			next, hidden := at.below(m.key)
			read(m.value, next, secret || hidden || m.key == "listen" && strings.Contains(m.value.text, "@"))
		}
	}
	read(root, elsewhere, false)
	slices.SortStableFunc(marks, func(a, b mark) int { return a.compare(b.line, b.col) })
	return marks
}
