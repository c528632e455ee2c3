package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Limits of dragoman.dialects.
const (
	mostDialects = 64
	mostEntries  = 32       // the most entries of one list
	mostWord     = 256      // the most bytes of one text or one path
	mostParams   = 16 << 10 // the most bytes of the initialize params
)

// Look returns the profiles to try for a server that has no configured dialect. The profiles of the
// file that have a detect section come first, followed by the built-in profiles. Look returns nil if
// the file has no profile with a detect section.
func (s *Snapshot) Look() []*dialect.Profile {
	var own []*dialect.Profile
	for _, p := range s.Dialects {
		if len(p.Detect.Has) > 0 {
			own = append(own, p)
		}
	}
	if own == nil {
		return nil
	}
	return append(own, dialect.Builtin()...)
}

// profile returns the profile with the given name, or nil if there is none.
func profile(own []*dialect.Profile, name string) *dialect.Profile {
	for _, p := range own {
		if p.Name == name {
			return p
		}
	}
	return dialect.Lookup(name)
}

// dialectNames returns the names of all dialects that a server may use.
func dialectNames(own []*dialect.Profile) []string {
	var out []string
	for _, p := range slices.Concat(own, dialect.Builtin()) {
		out = append(out, p.Name)
	}
	return out
}

// chooseDialect looks up the configured dialect of a server. The returned Problem has
// no position.
func chooseDialect(own []*dialect.Profile, name string) (*dialect.Profile, *Problem) {
	p := profile(own, name)
	if p != nil || name == "" {
		return p, nil
	}
	names := dialectNames(own)
	hint := "write " + oneOf(names)
	if g := Suggest(name, names); g != "" {
		hint = "did you mean " + printable(g) + "? " + hint
	}
	return nil, &Problem{Path: "dialect", Text: strconv.Quote(printable(name)) + " is not a known dialect", Hint: hint + ", or define a dialect under dragoman.dialects"}
}

// readDialects reads dragoman.dialects.
func (c *compiler) readDialects(o *object) {
	if o == nil {
		return
	}
	if len(o.n.members) > mostDialects {
		c.problem(o.n, o.path, "has more than "+strconv.Itoa(mostDialects)+" dialects", "")
		return
	}
	for _, m := range o.n.members {
		path := o.at(m.key)
		switch bad := badName(m.key); {
		case bad != "":
			c.problem(m.place(), path, "the name "+bad, "use at most 64 characters: letters, digits, _, - and .")
		case dialect.Lookup(m.key) != nil:
			c.problem(m.place(), path, "is the name of a built-in dialect", "use another name, and add like: "+m.key+" to copy the settings of the built-in dialect")
		}
		p := c.readDialect(c.object(m.whole(), path), m.key)
		c.dialects = append(c.dialects, p)
	}
}

func (c *compiler) readDialect(o *object, name string) *dialect.Profile {
	p := &dialect.Profile{}
	like := dialect.Standard
	if n := o.text("like", &like); n != nil {
		if dialect.Lookup(like) == nil {
			var names []string
			for _, b := range dialect.Builtin() {
				names = append(names, b.Name)
			}
			hint := "write " + oneOf(names)
			if g := Suggest(like, names); g != "" {
				hint = "did you mean " + printable(g) + "? " + hint
			}
			c.problem(n, o.at("like"), n.shown()+" is not a built-in dialect", hint)
		}
	}
	if b := dialect.Lookup(like); b != nil {
		*p = *b
	}
	p.Name, p.About, p.Detect = name, "a dialect of the configuration", dialect.Detect{}
	c.word(o, "about", &p.About)
	if d := o.object("detect"); d != nil {
		p.Detect = dialect.Detect{Has: c.paths(d, "has", nil), Lacks: c.paths(d, "lacks", nil)}
		if len(p.Detect.Has) == 0 {
			c.problem(d.n, d.path, "would match every server, because detect.has is missing", "add has: with a member of the initialize result that only servers of this dialect send")
		}
		d.done()
	}
	if op := o.object("open"); op != nil {
		c.readOpening(op, &p.Open)
	}
	if t := o.object("tools"); t != nil {
		c.readTools(t, &p.Tools)
	}
	if e := o.object("errors"); e != nil {
		p.Errors.NotReady = c.signs(e, "notReady", p.Errors.NotReady)
		p.Errors.WrongVersion = c.signs(e, "wrongVersion", p.Errors.WrongVersion)
		p.Errors.WrongParams = c.signs(e, "wrongParams", p.Errors.WrongParams)
		c.readToolErrors(e, &p.Errors)
		e.done()
	}
	if o.get("never") != nil {
		p.Never = c.methods(o, "never")
	}
	o.size("maxMessage", &p.MaxMessage, leastSize, mostSize)
	o.done()
	if p.Bridge != "" && len(p.Detect.Has) > 0 {
		c.problem(o.n, o.path, "has both detect and like: "+p.Bridge+", but Dragoman cannot detect a dialect of this kind", "remove detect, and set the dialect of the server")
	}
	if p.Open.Pushed && p.Tools.Manifest == "" {
		c.problem(o.n, o.path, "has open.pushed, but no tools.manifest", "add tools: {manifest: …}, or like: "+dialect.ManifestPushed)
	}
	return p
}

func (c *compiler) readOpening(o *object, op *dialect.Opening) {
	negated(o, "probe", &op.NoProbe)
	negated(o, "initialized", &op.NoInitialized)
	o.boolean("pushed", &op.Pushed)
	op.Identity = c.paths(o, "identity", op.Identity)
	var date string
	if n := o.text("version", &date); n != nil {
		r, ok := mcp.ParseRevision(date)
		if !ok || !r.Can(mcp.Handshake) {
			c.problem(n, o.at("version"), n.shown()+" is not a revision that initialize can offer", "write "+oneOf(mcp.Dates(mcp.Revisions(mcp.Handshake))))
		} else {
			op.Version = r
		}
	}
	switch n := o.get("params"); {
	case n == nil:
	case n.kind == mappingKind:
		op.NoParams, op.Params = false, c.params(n, o.at("params"))
	default:
		op.NoParams = o.choice("params", []string{"standard", "none"}, 0) == 1
		op.Params = nil
	}
	o.done()
}

// negated reads a boolean and stores its opposite in the parameter not.
func negated(o *object, key string, not *bool) {
	is := !*not
	o.boolean(key, &is)
	*not = !is
}

func (c *compiler) readTools(o *object, t *dialect.Tools) {
	if one := c.pathOf(o, "manifest"); one != nil {
		t.Manifest = *one
	}
	t.Schema = c.paths(o, "schema", t.Schema)
	t.Confirm = c.paths(o, "confirm", t.Confirm)
	t.Undo = c.paths(o, "undo", t.Undo)
	o.boolean("repair", &t.Repair)
	o.boolean("wrap", &t.Wrap)
	o.done()
}

func (c *compiler) readToolErrors(o *object, e *dialect.Errors) {
	t := o.object("tool")
	if t == nil {
		return
	}
	e.Tool = nil
	for _, m := range t.n.members {
		path := t.at(m.key)
		code, err := strconv.ParseInt(m.key, 10, 32)
		if err != nil {
			c.problem(m.place(), path, "is not an error code", "write a whole number, for example -32001")
			continue
		}
		x := dialect.ToolError{Code: code}
		if m.value.kind != nullKind {
			c.word(t, m.key, &x.Means)
		}
		e.Tool = append(e.Tool, x)
	}
	if len(e.Tool) > mostEntries {
		c.problem(t.n, t.path, "has more than "+strconv.Itoa(mostEntries)+" codes", "")
	}
}

// word reads a setting that is a short text for people, and stores the text in dst.
func (c *compiler) word(o *object, key string, dst *string) {
	var s string
	n := o.text(key, &s)
	switch {
	case n == nil:
	case s == "" || len(s) > mostWord || strings.ContainsFunc(s, isControl):
		c.problem(n, o.at(key), "must be a text of 1 to "+strconv.Itoa(mostWord)+" bytes without control characters", "")
	default:
		*dst = s
	}
}

// badPath says why p is not a valid path to a JSON member. It returns "" if p is valid.
func badPath(p string) string {
	switch {
	case p == "":
		return "is empty"
	case len(p) > mostWord:
		return "is longer than " + strconv.Itoa(mostWord) + " bytes"
	case strings.ContainsFunc(p, isControl):
		return "contains a control character"
	case slices.Contains(strings.Split(p, "."), ""):
		return "begins or ends with a dot, or has two dots in a row"
	case strings.Count(p, ".") > 7:
		return "has more than eight names"
	}
	return ""
}

const pathForm = "write the names of members, separated by dots, for example metadata.schema"

func (c *compiler) pathOf(o *object, key string) *dialect.Path {
	var s string
	n := o.text(key, &s)
	if n == nil {
		return nil
	}
	if bad := badPath(s); bad != "" {
		c.problem(n, o.at(key), n.shown()+" "+bad, pathForm)
		return nil
	}
	p := dialect.Path(s)
	return &p
}

func (c *compiler) paths(o *object, key string, usual []dialect.Path) []dialect.Path {
	if o.get(key) == nil {
		return usual
	}
	var out []dialect.Path
	o.list(key, true, func(n *node, path string, e expansion) {
		if bad := badPath(e.text); bad != "" {
			c.problem(n, path, n.shown()+" "+bad, pathForm)
			return
		}
		out = append(out, dialect.Path(e.text))
	})
	c.bounded(o, key, len(out))
	return out
}

func (c *compiler) bounded(o *object, key string, n int) {
	if n > mostEntries {
		c.problem(o.get(key), o.at(key), "has more than "+strconv.Itoa(mostEntries)+" entries", "")
	}
}

// signs reads a list of signs. Each sign is an error code or a part of an error message, and
// identifies an error. signs returns usual if the setting is missing.
func (c *compiler) signs(o *object, key string, usual []dialect.Sign) []dialect.Sign {
	if o.get(key) == nil {
		return usual
	}
	var out []dialect.Sign
	o.list(key, true, func(n *node, path string, e expansion) {
		_, err := strconv.ParseInt(e.text, 10, 64)
		switch {
		case err != nil && len(e.text) < 4:
			c.problem(n, path, n.shown()+" is too short, so it would match too many messages", "write an error code, or a longer part of the message")
		case len(e.text) > mostWord || strings.ContainsFunc(e.text, isControl):
			c.problem(n, path, "must have at most "+strconv.Itoa(mostWord)+" bytes and no control characters", "")
		default:
			out = append(out, dialect.Sign(strings.ToLower(e.text)))
		}
	})
	c.bounded(o, key, len(out))
	return out
}

// methods reads the list of methods that Dragoman never sends to servers of the dialect.
func (c *compiler) methods(o *object, key string) []string {
	var out []string
	o.list(key, true, func(n *node, path string, e expansion) {
		name, _ := strings.CutSuffix(e.text, "*")
		switch {
		case e.text == "" || len(e.text) > mostWord || strings.ContainsFunc(e.text, isControl) || strings.Contains(name, "*"):
			c.problem(n, path, n.shown()+" is not a method", "write the name of a method, or a prefix and *, for example notifications/*")
		case strings.HasPrefix(mcp.MethodInitialize, name) && (name != e.text || name == mcp.MethodInitialize):
			c.problem(n, path, n.shown()+" matches initialize, which Dragoman needs to open a connection", "use open: {params: none} to send it without params")
		default:
			out = append(out, e.text)
		}
	})
	c.bounded(o, key, len(out))
	return out
}

// params reads the initialize params that a dialect adds, replaces or removes. A param that is null in
// the file is removed. Its Value in the result is nil.
func (c *compiler) params(n *node, path string) []jsonrpc.Field {
	var out []jsonrpc.Field
	size := 0
	for _, m := range n.members {
		f := jsonrpc.Field{Key: m.key}
		if m.value.kind != nullKind {
			f.Value = c.json(nil, m.value, join(path, m.key))
		}
		if strings.ContainsFunc(m.key, func(r rune) bool { return isControl(r) || r == '"' || r == '\\' }) {
			c.problem(m.place(), path, "a member name must not contain quotes, backslashes or control characters", "")
			continue
		}
		size += len(m.key) + len(f.Value)
		out = append(out, f)
	}
	if size > mostParams {
		c.problem(n, path, "is larger than "+bytesText(mostParams), "")
		return nil
	}
	return out
}

// json appends the YAML value n to dst as JSON. An unquoted scalar that looks like a number or a
// boolean becomes a JSON number or boolean.
func (c *compiler) json(dst []byte, n *node, path string) []byte {
	switch n.kind {
	case mappingKind:
		dst = append(dst, '{')
		for i, m := range n.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(jsonrpc.AppendQuote(dst, m.key), ':')
			dst = c.json(dst, m.value, join(path, m.key))
		}
		return append(dst, '}')
	case sequenceKind:
		dst = append(dst, '[')
		for i, it := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = c.json(dst, it, path+"["+strconv.Itoa(i)+"]")
		}
		return append(dst, ']')
	case scalarKind:
		e, ok := c.scalar(n, path)
		if ok && e.from {
			c.problem(n, path, "must not contain ${...}, because the settings of a dialect are shown without masking", "put credentials into env or headers of the server")
		}
		if !ok || e.from {
			return append(dst, "null"...)
		}
		if !n.quoted && (e.text == "true" || e.text == "false" || isJSONNumber(e.text)) {
			return append(dst, e.text...)
		}
		return jsonrpc.AppendQuote(dst, e.text)
	}
	return append(dst, "null"...)
}

func isJSONNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789+-.eE") == "" && jsonrpc.Valid([]byte(s), jsonrpc.Limits{}) == nil
}

// appendDialect appends a profile as a member of dragoman.dialects. It writes every setting of the
// profile, including the settings that the profile inherited.
func appendDialect(dst []byte, d *dialect.Profile) []byte {
	p := printer{b: dst}
	p.line(2, word(d.Name)+":")
	p.text(3, "about", d.About)
	if len(d.Detect.Has) > 0 {
		p.line(3, "detect:")
		p.list(4, "has", texts(d.Detect.Has))
		p.list(4, "lacks", texts(d.Detect.Lacks))
	}
	p.line(3, "open:")
	p.line(4, "probe: "+strconv.FormatBool(!d.Open.NoProbe))
	p.line(4, "initialized: "+strconv.FormatBool(!d.Open.NoInitialized))
	p.line(4, "pushed: "+strconv.FormatBool(d.Open.Pushed))
	p.list(4, "identity", texts(d.Open.Identity))
	if d.Open.Version != mcp.Unknown {
		p.text(4, "version", d.Open.Version.String())
	}
	switch {
	case d.Open.NoParams:
		p.text(4, "params", "none")
	case len(d.Open.Params) > 0:
		all := []byte{'{'}
		for i, f := range d.Open.Params {
			if i > 0 {
				all = append(all, ", "...)
			}
			all = append(append(jsonrpc.AppendQuote(all, f.Key), ": "...), orNull(f.Value)...)
		}
		p.line(4, "params: "+string(all)+"}")
	}
	p.line(3, "tools:")
	if d.Tools.Manifest != "" {
		p.text(4, "manifest", string(d.Tools.Manifest))
	}
	p.list(4, "schema", texts(d.Tools.Schema))
	p.list(4, "confirm", texts(d.Tools.Confirm))
	p.list(4, "undo", texts(d.Tools.Undo))
	p.line(4, "repair: "+strconv.FormatBool(d.Tools.Repair))
	p.line(4, "wrap: "+strconv.FormatBool(d.Tools.Wrap))
	p.line(3, "errors:")
	p.list(4, "notReady", texts(d.Errors.NotReady))
	p.list(4, "wrongVersion", texts(d.Errors.WrongVersion))
	p.list(4, "wrongParams", texts(d.Errors.WrongParams))
	p.mapping(4, "tool", len(d.Errors.Tool), func() {
		for _, t := range d.Errors.Tool {
			p.line(5, strconv.Quote(strconv.FormatInt(t.Code, 10))+": "+means(t.Means))
		}
	})
	p.list(3, "never", d.Never)
	if d.MaxMessage > 0 {
		p.text(3, "maxMessage", bytesText(d.MaxMessage))
	}
	return p.b
}

func texts[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = string(s)
	}
	return out
}

func means(s string) string {
	if s == "" {
		return "null"
	}
	return word(s)
}

func orNull(json []byte) []byte {
	if json == nil {
		return []byte("null")
	}
	return json
}
