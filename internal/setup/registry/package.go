package registry

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// Ways returns the ways to run the server, packages first, each in the order of its publisher. A way
// that Dragoman cannot use has a Problem.
func (s *Server) Ways() []Way {
	var out []Way
	for i := range s.packages {
		out = append(out, s.packageWay(&s.packages[i]))
	}
	for i := range s.remotes {
		out = append(out, s.remoteWay(&s.remotes[i]))
	}
	return out
}

// builder makes a Way from a server.json or a manifest.
type builder struct {
	way    Way
	server string // the short name, from which the names of variables are made
	keys   clientfile.Names
}

// fail sets the problem of the way. The first problem stays.
func (b *builder) fail(format string, args ...any) {
	if b.way.Problem == "" {
		b.way.Problem = fmt.Sprintf(format, args...)
	}
}

func (b *builder) caution(format string, args ...any) {
	b.way.Cautions = append(b.way.Cautions, fmt.Sprintf(format, args...))
}

// done returns the way. A way with a problem asks for nothing.
func (b *builder) done() Way {
	for _, e := range b.way.recipe.env {
		if b.way.Kind == MCPB {
			break // a bundle needs no runner, and usually sets such variables for its own interpreter
		}
		upper := strings.ToUpper(e.name)
		if slices.ContainsFunc(runnerVariables, func(p string) bool { return upper == p || strings.HasSuffix(p, "_") && strings.HasPrefix(upper, p) }) {
			b.caution("sets the environment variable %s, which can change what %s does", e.name, cmp.Or(b.way.Program, "the program"))
		}
	}
	w := b.way
	if w.Problem != "" {
		return Way{Kind: w.Kind, What: w.What, Program: w.Program, Problem: w.Problem}
	}
	return w
}

// text checks a text from the registry that becomes a part of the entry.
func (b *builder) text(what, s string) string {
	if bad := badText(s); bad != "" {
		b.fail("cannot be used: %s %s", what, bad)
	}
	return s
}

// count checks the length of a list.
func (b *builder) count(what string, n int) bool {
	if n > maxItems {
		b.fail("has more than %d %s", maxItems, what)
	}
	return n <= maxItems
}

// ask adds a Want and returns its number as in part.want. The Want gets its final key.
func (b *builder) ask(w Want) int {
	if !b.count("values to ask for", len(b.way.Wants)+1) || !b.count("choices", len(w.Choices)) {
		return 0
	}
	w.Key = b.keys.Take(plainKey(w.Key), nil)
	if w.Variable == "" {
		w.Variable = clientfile.VariableName(b.server + "_" + w.Key)
	}
	w.About, w.Placeholder = excerpt.Line(w.About, maxLine), excerpt.Line(w.Placeholder, maxLine)
	for _, c := range w.Choices {
		b.text("a choice for "+w.Key, c)
	}
	if w.Secret { // what the registry shows to everybody is no secret
		w.Default, w.Choices = nil, nil
	}
	// A default that the way itself does not allow is none.
	if slices.ContainsFunc(w.Default, func(d string) bool { return w.bad(d) != "" }) {
		w.Default = nil
	}
	b.way.Wants = append(b.way.Wants, w)
	return len(b.way.Wants)
}

// plainKey converts a name to a key that people can type.
func plainKey(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("_.-", r):
			return r
		}
		return '_'
	}, strings.TrimLeft(excerpt.Cut(s, 64), "-"))
	return cmp.Or(strings.Trim(s, "_"), "value")
}

// formats are the formats of an Input. Another format counts as a string.
var formats = []string{"string", "number", "boolean", "filepath"}

// want returns the Want for an input without a fixed value.
func (in *inputJSON) want(key string, secret bool) Want {
	w := Want{
		Key: key, About: in.Description, Placeholder: in.Placeholder, Format: "string", Choices: in.Choices,
		Required: in.IsRequired, Secret: secret || in.IsSecret || excerpt.SecretName(key),
	}
	if slices.Contains(formats, in.Format) {
		w.Format = in.Format
	}
	if len(w.Choices) == 0 {
		w.Choices = nil
	}
	if in.Default != nil {
		w.Default = []string{*in.Default}
	}
	return w
}

// curly matches a variable in a value, such as {tenant_id}.
var curly = pattern.Later(`\{([A-Za-z_][A-Za-z0-9_-]*)\}`)

// scope says how the variables of a template are resolved.
type scope struct {
	known    map[string]inputJSON
	required bool
	secret   bool
	repeated bool
	// loose makes also a name without a description a variable. The schema says that such a text stays
	// as it is. But as a part of a URL or a header it would never be right, and publishers often forget
	// the description.
	loose bool
}

// fill replaces the variables of a value by Wants.
func (b *builder) fill(text string, s scope) template {
	if !b.count("variables", len(s.known)) {
		return nil
	}
	var out template
	seen := map[string]part{}
	at := 0
	for _, m := range curly().FindAllStringSubmatchIndex(text, -1) {
		name := text[m[2]:m[3]]
		in, known := s.known[name]
		if !known && !s.loose {
			continue
		}
		p, again := seen[name]
		switch {
		case again:
		case in.Value != nil:
			p = part{text: b.text("the variable "+plainKey(name), *in.Value)}
		default:
			w := in.want(name, s.secret)
			w.Required, w.Repeated = w.Required || s.required, s.repeated
			p = part{want: b.ask(w)}
		}
		seen[name] = p
		out = append(out, part{text: text[at:m[0]]}, p)
		at = m[1]
	}
	return append(out, part{text: text[at:]})
}

// input returns the template of an input: its fixed value with variables, or one Want.
func (b *builder) input(in *inputJSON, key string, s scope) template {
	if in.Value != nil {
		s.known, s.required = in.Variables, in.IsRequired
		s.secret = in.IsSecret || excerpt.SecretName(key)
		return b.fill(b.text("the value of "+plainKey(key), *in.Value), s)
	}
	w := in.want(key, false)
	w.Repeated = s.repeated
	return template{{want: b.ask(w)}}
}

// literal returns a slot for an argument that is always the same.
func literal(words ...string) slot {
	var s slot
	for _, w := range words {
		s.words = append(s.words, template{{text: w}})
	}
	return s
}

// arguments returns the slots of a list of arguments. what is the name of the list.
func (b *builder) arguments(what string, list []argumentJSON) []slot {
	if !b.count(what, len(list)) {
		return nil
	}
	var out []slot
	for i := range list {
		a := &list[i]
		name := b.text("the name of an argument", a.Name)
		s := slot{repeated: a.IsRepeated}
		switch {
		case a.Type == "positional":
			s.words = []template{b.input(&a.inputJSON, cmp.Or(a.ValueHint, fmt.Sprintf("argument-%d", i+1)), scope{repeated: a.IsRepeated})}
		case a.Type != "named" || name == "":
			b.fail("has an argument that is neither positional nor named")
			return nil
		case a.bare():
			s = literal(name)
		default:
			value := b.input(&a.inputJSON, name, scope{repeated: a.IsRepeated})
			if len(name) == 2 && name[0] == '-' { // many programs read -e=X as the value =X
				s.words = []template{{{text: name}}, value}
				break
			}
			// "A command-line `--flag={value}`", says the schema.
			s.words = []template{append(template{{text: strings.TrimSuffix(name, "=") + "="}}, value...)}
		}
		out = append(out, s)
	}
	return out
}

// bare reports whether a named argument has nothing but its name. The schema has no other form for a
// flag without a value, such as -y.
func (a *argumentJSON) bare() bool {
	return a.Value == nil && a.Default == nil && a.Description == "" && a.Format == "" && a.Placeholder == "" && len(a.Choices) == 0 && !a.IsRequired && !a.IsSecret
}

// runnerVariables are the beginnings of names of environment variables that change what a package
// runner does: from where it takes the package, or what it loads before it.
var runnerVariables = []string{"PATH", "LD_", "DYLD_", "NODE_OPTIONS", "NPM_", "UV_", "PIP_", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "DOCKER_", "NUGET_", "DOTNET_"}

// environment returns the slots of the environment variables.
func (b *builder) environment(list []keyValueJSON) []slot {
	if !b.count("environment variables", len(list)) {
		return nil
	}
	var out []slot
	for i := range list {
		e := &list[i]
		if !variable().MatchString(e.Name) || slices.ContainsFunc(out, func(s slot) bool { return s.name == e.Name }) {
			b.fail("wants the environment variable %s, whose name is not valid or not unique", excerpt.Quote(e.Name, 100))
			return nil
		}
		before := len(b.way.Wants)
		t := b.input(&e.inputJSON, e.Name, scope{})
		if e.Value == nil && len(b.way.Wants) > before {
			b.way.Wants[before].Variable = e.Name
		}
		out = append(out, slot{name: e.Name, words: []template{t}})
	}
	return out
}

// officialBases are the registries that are not named to people, because the runner uses them anyway. What
// npx, uvx and dnx use depends on how they are set up, so for them we name each registry that is given.
var officialBases = map[Kind][]string{OCI: {"https://docker.io"}}

// base returns the package registry if it is not the official one. Otherwise it returns "".
func (b *builder) base(given string) string {
	given = strings.TrimRight(given, "/")
	if given == "" || slices.Contains(officialBases[b.way.Kind], given) || b.way.Kind == MCPB {
		return ""
	}
	b.text("the package registry", given)
	if bad := badAddress(given); bad != "" {
		b.fail("is in the package registry %s, which %s", excerpt.Quote(given, 200), bad)
	} else if b.way.Kind != OCI {
		b.caution("takes the package from %s, which is not the official registry", excerpt.Word(given, 200))
	}
	return given
}

// badAddress does the same as badURL for a text.
func badAddress(s string) string {
	u, err := url.Parse(s)
	if err != nil || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "is not a valid URL"
	}
	return badURL(u)
}

// identify checks the name and the version of a package.
func (b *builder) identify(p *packageJSON, name, version *regexp.Regexp) {
	switch {
	case len(p.Identifier) > maxPackage || !name.MatchString(p.Identifier):
		b.fail("is not the name of a package of %s", b.way.Kind)
	case p.Version == "":
		b.fail("has no version, so it would run whatever is newest")
	case len(p.Version) > maxVersion || !version.MatchString(p.Version):
		b.fail("has the version %s, which is not one exact version", excerpt.Quote(p.Version, 100))
	}
}

func (s *Server) packageWay(p *packageJSON) Way {
	b := &builder{server: s.Short(), way: Way{Kind: Kind(p.RegistryType), What: excerpt.Word(p.Identifier, 200)}}
	if p.Version != "" {
		b.way.What += "@" + excerpt.Word(p.Version, 100)
	}
	if p.Transport.Type != "stdio" && p.Transport.Type != "" {
		b.fail("speaks HTTP: start it yourself, and add its URL")
		return b.done()
	}
	base := b.base(p.RegistryBaseURL)
	switch b.way.Kind {
	case NPM:
		b.identify(p, npmName(), semver())
		b.run("npx", []slot{literal("-y")}, flagOf("--registry=", base), p)
	case PyPI:
		b.identify(p, pypiName(), pypiVersion())
		b.run("uvx", nil, flagOf("--default-index=", base), p)
	case NuGet:
		b.identify(p, nugetName(), nugetVersion())
		b.run("dnx", []slot{literal("--yes")}, flagOf("--source=", base), p)
	case OCI:
		b.container(p, base)
	case MCPB:
		b.bundle(p)
	default:
		b.way.Kind = Kind(excerpt.Name(p.RegistryType))
		b.fail("is a package of %s, which Dragoman cannot run", excerpt.Quote(p.RegistryType, 40))
	}
	if p.FileSHA256 != "" && b.way.Kind != MCPB {
		// "If present, MCP clients must validate the downloaded file", which only the runner could.
		b.caution("has a SHA-256 in the registry, which %s does not check", b.way.Program)
	}
	return b.done()
}

// flagOf returns a slot for a flag with a value, or none if the value is "".
func flagOf(flag, value string) []slot {
	if value == "" {
		return nil
	}
	return []slot{literal(flag + value)}
}

// run sets the recipe for a package that the program runs by its name. own are the arguments that
// the program always gets.
func (b *builder) run(program string, own, source []slot, p *packageJSON) {
	b.way.Program, b.way.recipe.command = program, program
	b.otherRunner(p, program)
	args := slices.Concat(own, source, b.runtime(p, "-y", "--yes"), []slot{literal(p.Identifier + "@" + p.Version)})
	rest := b.arguments("arguments", p.PackageArguments)
	if b.way.Kind == NuGet && len(rest) > 0 {
		args = append(args, literal("--")) // dnx would take flags after the package for its own
	}
	b.way.recipe.args = append(args, rest...)
	b.way.recipe.env = b.environment(p.EnvironmentVariables)
}

// otherRunner refuses arguments that were written for another program.
func (b *builder) otherRunner(p *packageJSON, program string) {
	if p.RuntimeHint != "" && p.RuntimeHint != program && len(p.RuntimeArguments) > 0 {
		b.fail("has arguments for %s, but Dragoman would run it with %s", excerpt.Quote(p.RuntimeHint, 40), program)
	}
}

// runtime returns the arguments for the runner itself. usual are words that the runner gets anyway.
// Any other argument is a caution: it could name another package, or open the container.
func (b *builder) runtime(p *packageJSON, usual ...string) []slot {
	var out []slot
	for _, s := range b.arguments("arguments for "+b.way.Program, p.RuntimeArguments) {
		shown := b.shown(s)
		if slices.Contains(usual, shown) {
			continue
		}
		if b.way.Kind != OCI || !setsVariable(s) {
			b.caution("passes %s to %s itself", excerpt.Quote(shown, 200), b.way.Program)
		}
		out = append(out, s)
	}
	return out
}

// setsVariable reports whether a slot sets a variable within a container, as in -e NAME=VALUE. Without
// the =, docker would take the variable from the user's environment.
func setsVariable(s slot) bool {
	return len(s.words) == 2 && s.words[0][0].text == "-e" && strings.Contains(s.words[1][0].text, "=")
}

// shown returns the words of a slot for people, with {key} in place of values.
func (b *builder) shown(s slot) string {
	var words []string
	for _, t := range s.words {
		var w strings.Builder
		for _, p := range t {
			if w.WriteString(p.text); p.want > 0 {
				w.WriteString("{" + b.way.Wants[p.want-1].Key + "}")
			}
		}
		words = append(words, w.String())
	}
	return strings.Join(words, " ")
}

// container sets the recipe for a container image.
func (b *builder) container(p *packageJSON, base string) {
	b.way.Program, b.way.recipe.command = "docker", "docker"
	b.otherRunner(p, "docker")
	ref, ok := parseImage(p.Identifier)
	if ok && base != "" && ref.host == "" { // the schema before 2025-10-11
		if u, err := url.Parse(base); err == nil {
			ref.host, ok = u.Host, imageHost().MatchString(u.Host)
		}
	}
	if p.Version != "" && ref.tag == "" {
		ref.tag = ":" + p.Version
		ok = ok && imageTag().MatchString(p.Version)
	}
	switch {
	case !ok || len(p.Identifier) > maxText:
		b.fail("is not the name of a container image")
		return
	case ref.tag == "" || ref.tag == ":"+latest:
		b.fail("has no exact version, so it would run whatever is newest")
		return
	case !ref.trusted():
		b.caution("takes the image from %s, which is not one of the usual registries", ref.host)
	}
	b.way.What = ref.String()
	args := slices.Concat([]slot{literal("run", "-i", "--rm")}, b.runtime(p, "run", "-i", "--interactive", "--rm"))
	for _, e := range b.environment(p.EnvironmentVariables) {
		if t := e.words[0]; slices.ContainsFunc(e.wants(), func(w int) bool { return b.way.Wants[w-1].Secret }) {
			// docker takes the value from its own environment, where ps does not show it.
			args = append(args, slot{words: []template{{{text: "-e"}}, {{text: e.name}}}, needs: e.wants()})
			b.way.recipe.env = append(b.way.recipe.env, e)
		} else {
			args = append(args, slot{words: []template{{{text: "-e"}}, append(template{{text: e.name + "="}}, t...)}})
		}
	}
	b.way.recipe.args = slices.Concat(args, []slot{literal(ref.String())}, b.arguments("arguments", p.PackageArguments))
}

func (s *Server) remoteWay(t *transportJSON) Way {
	b := &builder{server: s.Short(), way: Way{Kind: Remote, What: excerpt.Word(t.URL, 200)}}
	switch t.Type {
	case "streamable-http":
	case "sse":
		b.way.recipe.sse = true
	default:
		b.fail("has the transport %s, which Dragoman does not know", excerpt.Quote(t.Type, 40))
	}
	b.way.recipe.url = b.fill(b.text("the URL", t.URL), scope{known: t.Variables, required: true, loose: true})
	if bad := badAddress(curly().ReplaceAllString(t.URL, "1")); bad != "" && !strings.HasPrefix(t.URL, "{") {
		b.fail("%s", bad)
	}
	// A variable may be the host, or a part of it, or the port.
	u, err := url.Parse(curly().ReplaceAllString(t.URL, "1.example"))
	if err != nil {
		u, err = url.Parse(curly().ReplaceAllString(t.URL, "1"))
	}
	if err == nil && u.Host != "" && mcp.PlaceOf(u) != "" {
		b.caution("connects to %s, which is on %s", excerpt.Word(u.Host, 100), mcp.PlaceOf(u))
	}
	if !b.count("headers", len(t.Headers)) {
		return b.done()
	}
	for i := range t.Headers {
		h := &t.Headers[i]
		if !header().MatchString(h.Name) || slices.ContainsFunc(b.way.recipe.headers, func(s slot) bool { return strings.EqualFold(s.name, h.Name) }) {
			b.fail("wants the header %s, whose name is not valid or not unique", excerpt.Quote(h.Name, 100))
			break
		}
		words := []template{b.input(&h.inputJSON, h.Name, scope{loose: true})}
		b.way.recipe.headers = append(b.way.recipe.headers, slot{name: h.Name, words: words})
	}
	return b.done()
}
