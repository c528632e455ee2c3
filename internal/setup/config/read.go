package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
)

// compiler holds the state of one Parse.
type compiler struct {
	file string
	// process looks up a variable in the environment of the process. env also looks in the file that
	// dragoman.envFile names. variables reads that file. If variables is nil, that file is not read.
	process, env func(string) (string, bool)
	variables    func(path string) ([]Variable, Problems)
	fromEnv      map[string]string // the variables in the file of dragoman.envFile
	inEnv        Problems          // problems with the file of dragoman.envFile
	envPath      string            // the path of the file of dragoman.envFile; "" for none
	secrets      Secrets           // nil if this program can't read any
	problems     Problems
	dialects     []*dialect.Profile // dialects that the file defines
	source       source
	// quiet turns problems with references into warnings. It is true while the entry of a disabled
	// server is read, because the variables for a disabled server are often not set.
	quiet bool
	// masks is true while a value is read that is masked wherever we show it. Only such a value may have
	// a secret. secret is the name of the last secret that a reference names.
	masks  bool
	secret string
	noted  []string // the names of all secrets that the references of a value name
	// uses has, by the name of a secret, the paths of values outside the servers that refer to it.
	uses map[string][]string
	// readsSecrets says whether any value refers to a secret.
	readsSecrets bool
	// server is the server that is being read. If one of its references names a variable or a secret that
	// is not set, only this server is unusable.
	server *Server
	own    ownEnv // the env of server
	// from is the value of server.instructions.from, until checkFrom has the servers.
	from *node
	// startGiven says whether the file has limits.start, so that package runners have no default of their own.
	startGiven bool
	traffic    *node // limits.traffic, until the servers that it names are known
	// home is the path of the settings that are being read: "dragoman", or that of a project. project is
	// that project's name, or "" for default, and stored says that it's a project of the store. broken is
	// the first problem that makes the whole project unusable.
	home    string
	project string
	stored  bool
	broken  *Problem
	common  []Server // those of default, which a project may use
	loose   []loosePackage
	// format describes the file if it seems to be something other than a list of servers. formatHint
	// says what the user can do about such a file.
	format, formatHint string
	fatal              bool            // whether a problem makes the whole file unusable
	asked              map[string]bool // the paths of all members that were looked up; nil to record none
}

func (c *compiler) problem(at *node, path, text, hint string) {
	c.report(at, path, text, hint, false)
}

func (c *compiler) warning(at *node, path, text, hint string) {
	c.report(at, path, text, hint, true)
}

func (c *compiler) report(at *node, path, text, hint string, warning bool) {
	c.add(at, Problem{Path: path, Text: text, Hint: hint, Warning: warning})
}

// add sets the position of the problem p and returns p. It also appends p to c.problems, except if
// c.problems is already full.
func (c *compiler) add(at *node, p Problem) Problem {
	p.File, p.Project = c.file, c.project
	for _, secret := range c.source.secrets {
		p.Text = strings.ReplaceAll(p.Text, secret, mask)
	}
	if at != nil {
		p.Line, p.Col = at.line, at.col
	}
	if !p.Warning && p.Server == "" {
		c.fatal = c.fatal || p.Project == ""
		if p.Project != "" && c.broken == nil {
			c.broken = &p
		}
	}
	const most = 200 // a longer list of problems would not help the user
	if len(c.problems) < most {
		c.problems = append(c.problems, p)
	}
	return p
}

// object reads the members of one mapping. It records the keys that were looked up, so that all other
// keys can be reported as unknown.
type object struct {
	c     *compiler
	path  string
	n     *node
	known []string
}

// object returns a reader for n, which must be a mapping or null. For null, object returns a reader
// for an empty mapping. For any other value, object reports a problem and does the same.
func (c *compiler) object(n *node, path string) *object {
	switch n.kind {
	case mappingKind, nullKind:
	default:
		hint := ""
		if strings.HasSuffix(path, ".env") || strings.HasSuffix(path, ".headers") {
			hint = "write NAME: VALUE, each on a line of its own, or {NAME: VALUE} on one"
		}
		c.problem(n, path, "must be a mapping, not "+n.kind.String(), hint)
		n = &node{line: n.line, col: n.col}
	}
	return &object{c: c, path: path, n: n}
}

// get returns the value of a member, or nil if the member is absent or null.
func (o *object) get(key string) *node {
	if !slices.Contains(o.known, key) {
		o.known = append(o.known, key)
	}
	if o.c.asked != nil {
		o.c.asked[o.at(key)] = true
	}
	for i := range o.n.members {
		if m := &o.n.members[i]; m.key == key && m.value.kind != nullKind {
			return m.value
		}
	}
	return nil
}

func (o *object) at(key string) string { return join(o.path, key) }

// object returns a reader for a member, or nil if the member is absent or null.
func (o *object) object(key string) *object {
	if o.get(key) == nil {
		return nil
	}
	for i := range o.n.members {
		if m := &o.n.members[i]; m.key == key {
			return o.c.object(m.whole(), o.at(key))
		}
	}
	return nil
}

// within does the same as object, also if o is nil.
func (o *object) within(key string) *object {
	if o == nil {
		return nil
	}
	return o.object(key)
}

// unknown returns the members that were never looked up.
func (o *object) unknown() []*member {
	var out []*member
	for i := range o.n.members {
		if m := &o.n.members[i]; !slices.Contains(o.known, m.key) {
			out = append(out, m)
		}
	}
	return out
}

// done reports an unknown key for each member that was never looked up.
func (o *object) done() {
	for _, m := range o.unknown() {
		hint := "valid keys: " + oneOf(o.known)
		if s := Suggest(m.key, o.known); s != "" {
			hint = "did you mean " + s + "?"
		}
		o.c.problem(m.place(), o.at(m.key), "unknown key", hint)
	}
}

// whole returns the value with the position of its key. If a problem is reported at this position, an
// editor jumps to the key.
func (m *member) whole() *node {
	n := *m.value
	n.line, n.col = m.line, m.col
	return &n
}

func (m *member) place() *node { return &node{line: m.line, col: m.col} }

// noteSecrets keeps which secrets the value at a path refers to: with the server that it belongs to, or by itself.
func (c *compiler) noteSecrets(path string) {
	for _, name := range c.noted {
		c.readsSecrets = true
		switch {
		case c.server == nil:
			if c.uses == nil {
				c.uses = map[string][]string{}
			}
			c.uses[name] = append(c.uses[name], path)
		case !slices.Contains(c.server.secrets, name):
			c.server.secrets = append(c.server.secrets, name)
		}
	}
}

// scalar returns the text of a scalar with its references replaced. It returns false if the text
// cannot be used.
func (c *compiler) scalar(n *node, path string) (expansion, bool) {
	if n.kind != scalarKind {
		c.problem(n, path, "must be a single value, not "+n.kind.String(), "")
		return expansion{}, false
	}
	c.secret, c.noted = "", nil
	e, bad, hint := expand(n.text, c.lookups())
	c.noteSecrets(path)
	missing := e.missing
	switch {
	case c.secret != "" && !c.masks:
		c.problem(n, path, "must not contain ${secret:"+c.secret+"}, because Dragoman shows this value", "use the secret in the env, headers, args or url of a server")
		return expansion{}, false
	case missing.Variable != "" && c.inEnv.Err() != nil:
		return expansion{}, false // the variable may be in the file of dragoman.envFile, which could not be read
	}
	if bad != "" {
		of := missing != (Missing{}) && c.server != nil // the problem of one server
		if of {
			if c.server.unset == nil {
				c.server.unset = map[string]string{}
			}
			c.server.unset[path] = missing.reference()
		}
		if v := missing.Variable; v != "" && c.envPath != "" {
			hint = "write " + v + "=VALUE into " + filepath.Base(c.envPath) + ", or write ${" + v + ":-default}"
		}
		p := Problem{Path: path, Text: bad, Hint: hint, Warning: c.quiet}
		if missing.Secret != "" {
			// Outside the servers, only the headers of traces may have secrets. Traces are no reason to
			// refuse the file.
			p.Missing, p.Warning = missing, c.quiet || c.server == nil
		}
		if of && !c.quiet {
			p.Server, p.Missing = c.server.Name, missing
			if missing.Variable != "" {
				p.EnvFile = c.envPath
			}
		}
		p = c.add(n, p)
		if p.Server != "" && c.server.Unusable == nil {
			c.server.Unusable = &p
		}
		return expansion{}, false
	}
	if strings.ContainsRune(e.text, 0) {
		c.problem(n, path, "must not contain a NUL character", "")
		return expansion{}, false
	}
	return e, true
}

// masked does the same as scalar, for a value that is masked wherever we show it.
func (c *compiler) masked(n *node, path string) (expansion, bool) {
	c.masks = true
	defer func() { c.masks = false }()
	return c.scalar(n, path)
}

// text reads a scalar into dst and returns the node of the scalar. It returns nil if it does not
// change dst.
func (o *object) text(key string, dst *string) *node {
	n := o.get(key)
	if n == nil {
		return nil
	}
	e, ok := o.c.scalar(n, o.at(key))
	if !ok {
		return nil
	}
	*dst = e.text
	return n
}

func (o *object) boolean(key string, dst *bool) {
	var s string
	n := o.text(key, &s)
	if n == nil {
		return
	}
	switch strings.ToLower(s) {
	case "true":
		*dst = true
	case "false":
		*dst = false
	default:
		o.c.problem(n, o.at(key), "must be true or false", "")
	}
}

// choice reads a value that must be one of names, and returns the index of the value in names. It
// returns def if the key is absent or the value is invalid.
func (o *object) choice(key string, names []string, def int) int {
	var s string
	n := o.text(key, &s)
	if n == nil {
		return def
	}
	if i := slices.Index(names, s); i >= 0 {
		return i
	}
	hint := "write " + oneOf(names)
	if g := Suggest(s, names); g != "" {
		hint = "did you mean " + g + "? " + hint
	}
	o.c.problem(n, o.at(key), n.shown()+" is not a valid value", hint)
	return def
}

// shown returns the text of a scalar in quotes, for a message. References are not replaced.
func (n *node) shown() string { return strconv.Quote(printable(n.text)) }

func (o *object) duration(key string, dst *time.Duration, least, most time.Duration) {
	var s string
	n := o.text(key, &s)
	if n == nil {
		return
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		hint := "write a number with its unit, for example 90s, 5m or 1h30m"
		if _, err := strconv.Atoi(s); err == nil {
			hint = "add the unit, for example 90s or 5m"
		}
		o.c.problem(n, o.at(key), n.shown()+" is not a duration", hint)
	case d < least || d > most:
		o.c.problem(n, o.at(key), fmt.Sprintf("must be between %s and %s", short(least), short(most)), "")
	default:
		*dst = d
	}
}

// short formats a duration without trailing zero units: 10m, not 10m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var units = []struct {
	suffix string
	factor int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1}}

func (o *object) size(key string, dst *int, least, most int) {
	var s string
	n := o.text(key, &s)
	if n == nil {
		return
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		v, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 40)
		if err != nil {
			break
		}
		if v > uint64(most/u.factor) || int(v)*u.factor < least {
			o.c.problem(n, o.at(key), "must be between "+bytesText(least)+" and "+bytesText(most), "")
			return
		}
		*dst = int(v) * u.factor
		return
	}
	o.c.problem(n, o.at(key), n.shown()+" is not a size", "write a number of bytes, or a number with a unit, for example 512KiB or 4MiB")
}

// bytesText formats a size in the largest unit that divides it.
func bytesText(n int) string {
	for _, u := range []int{2, 1, 0} {
		if f := units[u].factor; n >= f && n%f == 0 {
			return strconv.Itoa(n/f) + units[u].suffix
		}
	}
	return strconv.Itoa(n)
}

func (o *object) count(key string, dst *int, least, most int) {
	var s string
	n := o.text(key, &s)
	if n == nil {
		return
	}
	v, err := strconv.Atoi(s)
	if err != nil || v < least || v > most {
		o.c.problem(n, o.at(key), fmt.Sprintf("must be a whole number between %d and %d", least, most), "")
		return
	}
	*dst = v
}

// list reads a list of scalars, and calls each for every valid item. If alone is true, list also
// accepts a single scalar as a list with one item.
func (o *object) list(key string, alone bool, each func(n *node, path string, e expansion)) {
	n := o.get(key)
	if n == nil {
		return
	}
	path := o.at(key)
	items := n.items
	switch {
	case n.kind == scalarKind && alone:
		items = []*node{n}
	case n.kind != sequenceKind:
		o.c.problem(n, path, "must be a list, not "+n.kind.String(), "write ["+strings.Join(strings.Fields(printable(n.text)), ", ")+"]")
		return
	}
	for i, it := range items {
		p := path
		if n.kind == sequenceKind {
			p += "[" + strconv.Itoa(i) + "]"
		}
		if e, ok := o.c.scalar(it, p); ok {
			each(it, p, e)
		}
	}
}

func (o *object) texts(key string) []string {
	var out []string
	o.list(key, false, func(_ *node, _ string, e expansion) { out = append(out, e.text) })
	return out
}
