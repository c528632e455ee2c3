package config

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// AppendYAML appends the whole configuration, including defaults, as a file that Parse accepts.
// Credentials and values from the environment are masked, so the output cannot replace the original
// file.
func (s *Snapshot) AppendYAML(dst []byte) []byte {
	p := printer{b: dst, entries: "mcpServers"}
	p.mapping(0, "mcpServers", len(s.Servers), func() {
		for i := range s.Servers {
			p.server(&s.Servers[i])
		}
	})
	p.line(0, "dragoman:")
	p.text(1, "listen", s.Listen)
	if s.PublicURL != "" {
		p.text(1, "publicURL", s.PublicURL)
	}
	if s.TLS != (TLS{}) {
		p.line(1, "tls:")
		p.text(2, "cert", s.TLS.Cert)
		p.text(2, "key", s.TLS.Key)
	}
	if s.EnvFile != "" {
		p.text(1, "envFile", s.EnvFile)
	}
	if s.Database != "" {
		p.text(1, "database", s.databaseForPeople())
	}
	if s.Cluster != (Cluster{}) {
		p.line(1, "cluster:")
		p.text(2, "listen", s.Cluster.Listen)
		p.text(2, "advertise", s.Cluster.Advertise)
		if s.Cluster.Name != "" {
			p.text(2, "name", s.Cluster.Name)
		}
		if s.Cluster.DrainGrace != drainGrace {
			p.text(2, "drainGrace", short(s.Cluster.DrainGrace))
		}
	}
	if s.SealKeys != "" {
		p.text(1, "sealKeys", s.SealKeys)
	}
	if s.VaultKey != "" {
		p.line(1, "vault:")
		p.text(2, "key", s.VaultKey)
	}
	p.line(1, "console: "+strconv.FormatBool(s.Console))
	if s.AllowUnauthenticatedNetworkAccess {
		p.line(1, "allowUnauthenticatedNetworkAccess: true")
	}
	p.access(&s.Access)
	if len(s.Egress.Allow) > 0 {
		p.line(1, "egress:")
		p.list(2, "allow", s.Egress.Allow)
	}
	p.identity(&s.Identity)
	p.line(1, "revisions:")
	p.list(2, "accept", mcp.Dates(s.Revisions.Accept))
	p.text(2, "otherwise", choose(s.Revisions.Refuse, "refuse", "negotiate"))
	p.line(1, "names:")
	p.text(2, "separator", s.Separator)
	p.list(1, "inheritEnv", s.InheritEnv)
	p.limits(&s.Limits)
	if s.Record == RecordAuto {
		host, _, _ := net.SplitHostPort(s.Listen)
		p.line(1, "# record: "+choose(s.Record.On(transport.IsLoopback(host)), "memory", "off"))
	} else {
		p.text(1, "record", recordings[s.Record-1])
	}
	p.audit(&s.Audit)
	p.list(1, "allowedHosts", s.Hosts)
	p.list(1, "allowedOrigins", s.Origins)
	if len(s.Dialects) > 0 {
		p.line(1, "dialects:")
		for _, d := range s.Dialects {
			p.b = appendDialect(p.b, d)
		}
	}
	p.mapping(1, "servers", len(s.Servers), func() {
		for i := range s.Servers {
			p.settings(&s.Servers[i])
		}
	})
	p.policy(s.Policy)
	p.pins(s.Pins)
	p.questions(s.Questions)
	p.tools(&s.Tools)
	p.projects(s.Projects)
	p.log(&s.Log)
	p.traces(&s.Traces)
	return p.b
}

// databaseForPeople returns Database without user, password and query.
func (s *Snapshot) databaseForPeople() string {
	if strings.Contains(s.Database, "://") {
		return maskURL(s.Database)
	}
	return s.Database
}

type printer struct {
	b       []byte
	within  int    // how many levels further in than at the top of the file
	entries string // the path of the servers that are printed
}

// projects prints the projects that can be used. Of a server of default, it prints that the project uses it.
func (p *printer) projects(all []Project) {
	if !slices.ContainsFunc(all, func(x Project) bool { return x.Config != nil }) {
		return
	}
	p.line(1, "projects:")
	for _, x := range all {
		s := x.Config
		if s == nil {
			p.line(2, "# "+word(x.Name)+" cannot be used")
			continue
		}
		p.line(2, word(x.Name)+":")
		p.within, p.entries = 2, join(join("dragoman.projects", x.Name), "mcpServers")
		if x.Title != "" {
			p.text(1, "title", x.Title)
		}
		var use []string
		var own []*Server
		for i := range s.Servers {
			if y := &s.Servers[i]; y.Shared {
				use = append(use, y.Name)
			} else {
				own = append(own, y)
			}
		}
		p.list(1, "use", use)
		p.identity(&s.Identity)
		p.limits(&s.Limits)
		p.expose(1, s.Expose)
		p.policy(s.Policy)
		p.pins(s.Pins)
		p.questions(s.Questions)
		p.tools(&s.Tools)
		p.within = 3
		p.mapping(0, "mcpServers", len(own), func() {
			for _, y := range own {
				p.server(y)
			}
		})
		p.within = 2
		p.mapping(1, "servers", len(s.Servers), func() {
			for i := range s.Servers {
				p.settings(&s.Servers[i])
			}
		})
		p.within, p.entries = 0, "mcpServers"
	}
}

func (p *printer) log(l *Log) {
	p.line(1, "log:")
	p.text(2, "level", levelName(l.Level))
	p.text(2, "format", choose(l.JSON, "json", "text"))
	p.line(2, "calls: "+strconv.FormatBool(l.Calls))
}

func (p *printer) traces(t *Traces) {
	if t.Endpoint == "" {
		return
	}
	p.line(1, "telemetry:")
	p.line(2, "traces:")
	p.text(3, "endpoint", t.Endpoint)
	if len(t.Header) > 0 {
		p.line(3, "headers:")
	}
	for _, f := range t.Header {
		p.text(4, f.Name, f.Value.String())
	}
}

func (p *printer) limits(l *Limits) {
	p.line(1, "limits:")
	p.text(2, "body", bytesText(l.Body))
	p.text(2, "message", bytesText(l.Message))
	p.text(2, "call", short(l.Call))
	p.text(2, "callMax", short(l.CallMax))
	p.text(2, "start", short(l.Start))
	if l.Starts > 0 {
		p.line(2, "starts: "+strconv.Itoa(l.Starts))
	}
	p.text(2, "manifestClient", short(l.ManifestClient))
	p.text(2, "inFlight", bytesText(l.InFlight))
	p.line(2, "initializePerSecond: "+strconv.Itoa(l.InitializePerSecond))
	if l.Result > 0 {
		p.text(2, "result", bytesText(l.Result))
	}
	if l.Alone {
		p.text(2, "scope", "replica")
	}
	p.traffic(l.Traffic)
}

func (p *printer) server(s *Server) {
	p.line(1, word(s.Name)+":")
	path := join(p.entries, s.Name)
	if s.Kind == KindStdio {
		p.setting(2, s, join(path, "command"), "command", s.Command)
		args := excerpt.Arguments(s.argsForPeople(), mask)
		for i := range len(s.Args) + len(s.unset) {
			if name := s.unset[join(path, "args")+"["+strconv.Itoa(i)+"]"]; name != "" {
				args = slices.Insert(slices.Clone(args), min(i, len(args)), "${"+name+"}")
			}
		}
		p.list(2, "args", args)
		if s.Dir != "" || s.unset[join(path, "cwd")] != "" {
			p.setting(2, s, join(path, "cwd"), "cwd", s.Dir)
		}
	} else {
		address := "url"
		for _, key := range addressKeys {
			if s.unset[join(path, key)] != "" {
				address = key
			}
		}
		p.setting(2, s, join(path, address), "url", s.Describe())
		if s.Kind != KindAuto {
			p.text(2, "type", s.Kind.String())
		}
	}
	if len(s.Env) > 0 {
		p.line(2, "env:")
		for _, k := range slices.Sorted(maps.Keys(s.Env)) {
			p.secret(3, s, join(join(path, "env"), k), k)
		}
	}
	if len(s.Header) > 0 {
		p.line(2, "headers:")
		for _, f := range s.Header {
			p.secret(3, s, join(join(path, "headers"), f.Name), f.Name)
		}
	}
	if s.Disabled {
		p.line(2, "disabled: true")
	}
}

// setting prints a setting of a server. If the value refers to a variable that is not set, or to a
// secret, setting prints the reference instead. path is the path of the setting in the file.
func (p *printer) setting(depth int, s *Server, path, key, value string) {
	if name := s.unset[path]; name != "" {
		written := "${" + name + "}"
		if key == "url" && s.shownURL != "" {
			written = s.shownURL
		}
		what := "this variable"
		if written != "${"+name+"}" {
			what = "${" + name + "}"
		}
		p.line(depth, word(key)+": "+word(written)+"  # "+lacking(name, what))
		return
	}
	p.text(depth, key, value)
}

// secret prints a setting with a masked value, such as an entry of env or headers. It adds a comment if the value refers
// to a variable or a secret that is not set.
func (p *printer) secret(depth int, s *Server, path, key string) {
	if name := s.unset[path]; name != "" {
		p.line(depth, word(key)+": "+word(mask)+"  # "+lacking(name, "${"+name+"}"))
		return
	}
	p.text(depth, key, mask)
}

// lacking says what is missing: the reference, called what if it's a variable.
func lacking(reference, what string) string {
	if strings.HasPrefix(reference, "secret:") {
		return "${" + reference + "} cannot be read"
	}
	return what + " is not set"
}

func (p *printer) identity(id *Identity) {
	p.line(1, "server:")
	p.text(2, "name", id.Name)
	if id.Title != "" {
		p.text(2, "title", id.Title)
	}
	if id.Version != "" {
		p.text(2, "version", id.Version)
	}
	in := &id.Instructions
	if in.Outside {
		p.line(2, "allowSecretsInInstructions: true")
	}
	p.line(2, "instructions:")
	switch {
	case in.Outside:
		p.text(3, "text", mask)
	case in.Text != "":
		p.text(3, "text", in.Text)
	case in.File != "":
		p.text(3, "file", in.File)
	case in.From != "":
		p.text(3, "from", in.From)
	case len(in.Command) > 0:
		p.list(3, "command", excerpt.Arguments(in.Command, mask))
		if in.Keep != 0 {
			p.text(3, "keep", short(in.Keep))
		}
	}
	p.text(3, "join", in.Join.String())
}

func (p *printer) settings(s *Server) {
	p.line(2, word(s.Name)+":")
	switch {
	case s.Unprefixed:
		p.text(3, "prefix", noPrefix)
	case s.Prefix == "": // a shared server has that of default
	case s.Prefix != noPrefix: // a server named none has the prefix "none", but the setting prefix: none means no prefix
		p.text(3, "prefix", s.Prefix)
	}
	if s.Shared {
		p.expose(3, s.Expose)
		return
	}
	p.text(3, "isolation", s.Isolation.String())
	if s.Revision != mcp.Unknown {
		p.text(3, "revision", s.Revision.String())
	}
	if s.Dialect != "" {
		p.text(3, "dialect", s.Dialect)
	}
	if s.CAFile != "" {
		p.text(3, "caFile", s.CAFile)
	}
	p.signIn(s)
	p.line(3, fmt.Sprintf("lazy: %t", s.Lazy))
	if s.Command != "" {
		p.list(3, "inheritEnv", s.InheritEnv)
	}
	p.text(3, "callTimeout", short(s.CallTimeout))
	p.text(3, "callMax", short(s.CallMax))
	start := "startTimeout: " + word(short(s.StartTimeout))
	if runner := s.Runner(); runner != "" && s.StartTimeout == RunnerStart {
		start += "  # the default for " + runner + ", which may have to download the package"
	}
	p.line(3, start)
	if s.Ping > 0 {
		p.text(3, "ping", short(s.Ping))
	}
	p.expose(3, s.Expose)
	if s.Hint != "" {
		p.text(3, "hint", s.Hint)
	}
	if s.TrustAnnotations {
		p.text(3, "trust", "annotations")
	}
}

// signIn prints how we sign in to a server with a URL. Without settings, it prints nothing.
func (p *printer) signIn(s *Server) {
	x := &s.SignIn
	if s.Command != "" {
		return
	}
	before := len(p.b)
	p.line(3, "signIn:")
	empty := len(p.b)
	if x.How != HowAuto && !(x.How == HowHeaders && s.authorized()) {
		p.text(4, "how", x.How.String())
	}
	if x.Shared {
		p.text(4, "per", "shared")
	}
	if len(x.Scopes) > 0 {
		p.list(4, "scopes", x.Scopes)
	}
	home := strings.TrimSuffix(strings.TrimSuffix(p.entries, "mcpServers"), ".")
	if home == "" {
		home = ourKey
	}
	path := join(join(join(home, "servers"), s.Name), "signIn")
	for _, t := range []struct{ key, value string }{
		{"clientID", x.ClientID}, {"clientSecret", x.ClientSecret.Reveal()}, {"privateKey", x.PrivateKey.Reveal()}, {"assertion", x.Assertion},
		{"issuer", x.Issuer}, {"authorizationURL", x.AuthorizationURL}, {"tokenURL", x.TokenURL}, {"clientMetadataURL", x.ClientMetadataURL},
		{"callback", x.Callback}, {"resource", x.Resource},
	} {
		switch {
		case t.key == "clientSecret" || t.key == "privateKey":
			if t.value != "" || s.unset[join(path, t.key)] != "" {
				p.secret(4, s, join(path, t.key), t.key)
			}
		case t.value != "":
			p.text(4, t.key, t.value)
		}
	}
	if x.Provider.Issuer != "" {
		p.line(4, "provider:")
		p.text(5, "issuer", x.Provider.Issuer)
		p.text(5, "clientID", x.Provider.ClientID)
		if place := join(path, "provider.clientSecret"); x.Provider.ClientSecret.Reveal() != "" || s.unset[place] != "" {
			p.secret(5, s, place, "clientSecret")
		}
	}
	if len(x.Params) > 0 {
		p.line(4, "params:")
		for _, name := range slices.Sorted(maps.Keys(x.Params)) {
			p.text(5, name, excerpt.MaskSecrets(x.Params[name]))
		}
	}
	if x.Hold > 0 {
		p.text(4, "hold", short(x.Hold))
	}
	if len(p.b) == empty {
		p.b = p.b[:before]
	}
}

func (p *printer) expose(indent int, e Expose) {
	if e.IsZero() {
		return
	}
	p.line(indent, "expose:")
	for _, x := range []struct {
		name string
		f    *Filter
	}{{"tools", &e.Tools}, {"prompts", &e.Prompts}, {"resources", &e.Resources}} {
		if len(x.f.Allow) == 0 && len(x.f.Deny) == 0 {
			continue
		}
		p.line(indent+1, x.name+":")
		if len(x.f.Allow) > 0 {
			p.list(indent+2, "allow", x.f.Allow)
		}
		if len(x.f.Deny) > 0 {
			p.list(indent+2, "deny", x.f.Deny)
		}
	}
}

func (p *printer) line(indent int, text string) {
	p.b = append(p.b, strings.Repeat("  ", p.within+indent)...)
	p.b = append(p.b, text...)
	p.b = append(p.b, '\n')
}

func (p *printer) text(indent int, key, value string) { p.line(indent, word(key)+": "+word(value)) }

func (p *printer) list(indent int, key string, values []string) {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = word(v)
	}
	p.line(indent, key+": ["+strings.Join(words, ", ")+"]")
}

func (p *printer) mapping(indent int, key string, n int, body func()) {
	if n == 0 {
		p.line(indent, key+": {}")
		return
	}
	p.line(indent, key+":")
	body()
}

// word formats text as a YAML scalar: without quotes if that is unambiguous, else in double
// quotes.
func word(s string) string {
	plain := s != ""
	for i := range len(s) {
		c := s[i]
		if !(isNameByte(c) || c == '/' && i > 0 || c == ':' && i+1 < len(s) && i > 0 && s[i+1] != ' ') {
			plain = false
		}
	}
	// A word that begins with a letter may be null or a boolean in YAML. Any other first
	// character may begin a number or YAML punctuation.
	first := byte(0)
	if s != "" {
		first = s[0]
	}
	letter := first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z'
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf":
		letter = false
	}
	if plain && (letter || quantity(s)) {
		return s
	}
	// YAML accepts all escapes of strconv.Quote, including \a, \v, \x and \U, which JSON does not
	// have.
	return strconv.Quote(s)
}

// quantity reports whether s is a number followed by one of the units of this package. Such text is
// not a number in YAML.
func quantity(s string) bool {
	switch strings.TrimLeft(s, "0123456789") {
	case "s", "m", "h", "KiB", "MiB", "GiB":
		return true
	}
	return false
}

func choose(cond bool, yes, no string) string {
	if cond {
		return yes
	}
	return no
}

func levelName(l slog.Level) string { return strings.ToLower(l.String()) }
