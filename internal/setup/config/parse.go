package config

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// Default returns the configuration in which every setting has its default value.
func Default() *Snapshot {
	return &Snapshot{
		Listen:    "127.0.0.1:7300",
		Console:   true,
		Identity:  Identity{Name: "dragoman"},
		Revisions: Revisions{Accept: mcp.Revisions()},
		Separator: "__",
		Limits: Limits{
			Body:                4 << 20,
			Message:             16 << 20,
			Call:                60 * time.Second,
			CallMax:             10 * time.Minute,
			Start:               30 * time.Second,
			ManifestClient:      8 * time.Second,
			InitializePerSecond: 5,
			InFlight:            96 << 20,
		},
		Audit: defaultAudit(),
	}
}

// Parse parses the content b of the file called name. It returns a Snapshot, and all problems
// and warnings it found. The Snapshot is nil exactly when at least one problem is an error
// that affects more than one server; see Problem.Server. env looks up an environment variable;
// nil means an empty environment. Relative paths in the file are relative to the file's
// folder. Parse has no side effects and does not retain b or env. It does not read the file that
// dragoman.envFile names, so env must also look up the variables in that file. There are no secrets, so
// each reference to one is a problem of its server.
func Parse(name string, b []byte, env func(string) (string, bool)) (*Snapshot, Problems) {
	return ParseWith(name, b, env, nil)
}

// ParseWith does the same as Parse, and looks up secrets too. The Snapshot keeps secrets, for Where.
func ParseWith(name string, b []byte, env func(string) (string, bool), secrets Secrets) (*Snapshot, Problems) {
	return parse(name, b, lookups{env: env, secrets: secrets}, nil)
}

// parse does the same as ParseWith. The function variables reads the file that dragoman.envFile names.
// If variables is nil, parse does not read that file.
func parse(name string, b []byte, from lookups, variables func(path string) ([]Variable, Problems)) (*Snapshot, Problems) {
	if from.env == nil {
		from.env = func(string) (string, bool) { return "", false }
	}
	c := &compiler{file: name, home: ourKey, process: from.env, variables: variables}
	c.hideSecrets(from.secrets)
	c.env = func(name string) (string, bool) {
		v, ok := c.outer(name)
		if ok && len(v) >= shortestSecret && excerpt.SecretName(name) {
			c.source.secrets = append(c.source.secrets, v)
		}
		return v, ok
	}
	s := c.compile(b)
	c.problems = append(c.problems, c.inEnv...)
	c.source.show(c.file, c.problems)
	if c.fatal {
		return nil, c.problems
	}
	s.secrets, s.readsSecrets, s.secretUses = from.secrets, c.readsSecrets, c.uses
	return s, c.problems
}

// hideSecrets lets references read secrets, and masks these in all problems. secrets may be nil.
func (c *compiler) hideSecrets(secrets Secrets) {
	if secrets == nil {
		return
	}
	c.secrets = func(project, name string) (Secret, bool, error) {
		v, ok, err := secrets(project, name)
		if len(v.Reveal()) >= shortestSecret {
			c.source.secrets = append(c.source.secrets, v.Reveal())
		}
		return v, ok, err
	}
}

// compile parses the content b of the file. The returned Snapshot is valid only if c.fatal is false
// afterwards.
func (c *compiler) compile(b []byte) *Snapshot {
	s := Default()
	s.File = c.file
	root := c.readFile(b)
	s.Empty = root == nil
	if root == nil {
		root = &node{line: 1, col: 1}
	}
	top := c.object(root, "")
	entries := top.get("mcpServers")
	ours := top.object(ourKey)
	if ours == nil {
		ours = c.object(&node{}, ourKey)
	}
	c.readOurs(ours, s)
	c.readDialects(ours.object("dialects"))
	s.Dialects = c.dialects
	settings, projects, rules := ours.object("servers"), ours.object("projects"), ours.get("policy")
	ours.done()
	c.foreignTop(top, ours.known)
	c.readServers(entries, settings, s)
	c.checkFrom(s)
	c.readTraffic(c.traffic, s)
	c.readPolicy(rules, s)
	c.readProjects(projects, s)
	if len(s.Servers) == 0 && c.format != "" {
		c.warning(nil, "", "has no servers; it seems to be "+c.format, c.formatHint)
	}
	c.problems.sort()
	return s
}

// foreignTop reports unknown top-level keys. Most unknown keys are only warnings, because the files
// of other clients have many unknown keys. The key servers is an error if mcpServers is missing. A
// typo of mcpServers or dragoman is an error too. The parameter ours contains the keys that are valid
// under the key dragoman.
func (c *compiler) foreignTop(top *object, ours []string) {
	strange := 0 // keys that say nothing to us
	for _, m := range top.unknown() {
		switch {
		case m.key == "$schema" || strings.HasPrefix(m.key, "x-"):
		case slices.Contains(clientfile.CompatibilityKeys, m.key):
			c.warning(m.place(), join("", m.key), "is not a top-level key, so it is ignored", "write dragoman.servers.NAME.isolation: call (for api_wrapper) or auto (for resource_connection)")
		case m.key == "servers" && top.get("mcpServers") == nil:
			c.problem(m.place(), join("", m.key), "servers belong under the key mcpServers", "rename the key, or convert the file with `dragoman import --from FILE`")
		case slices.Contains(ours, m.key):
			c.warning(m.place(), join("", m.key), "is not a top-level key, so it is ignored", "move it under the key dragoman, with more indentation")
		case slices.Contains(entryKeys, m.key):
			c.warning(m.place(), join("", m.key), "is not a top-level key, so it is ignored", "write it under mcpServers, below the name of a server")
		default:
			if s := Suggest(m.key, []string{"mcpServers", "dragoman"}); s != "" {
				c.problem(m.place(), join("", m.key), "unknown key", "did you mean "+s+"?")
				continue
			}
			strange++
			c.warning(m.place(), join("", m.key), "is not a known key, so it is ignored", "")
		}
	}
	// A client's file, which we know by its name, may have no servers yet. Any other file without one key
	// that we know is no configuration, perhaps a program.
	if strange > 0 && strange == len(top.n.members) && c.format == "" && !clientfile.Named(c.file) {
		c.problem(nil, "", "is not a configuration: it has no key that Dragoman knows", "name another file, or write servers under mcpServers")
	}
}

// ourKey is the key of Dragoman's own settings.
const ourKey = "dragoman"

func (c *compiler) readOurs(o *object, s *Snapshot) {
	s.EnvFile = c.readEnvFile(o) // must be first, because the other settings may refer to variables in that file
	o.boolean("allowUnauthenticatedNetworkAccess", &s.AllowUnauthenticatedNetworkAccess)
	if n := o.text("listen", &s.Listen); n != nil {
		if err := CheckAddress(s.Listen); err != nil {
			c.problem(n, o.at("listen"), err.Text, err.Hint)
		}
	}
	c.readIdentity(o.object("server"), s)
	c.readRevisions(o.object("revisions"), s)
	if n := o.object("names"); n != nil {
		c.readSeparator(n, s)
	}
	c.readInheritEnv(o, &s.InheritEnv)
	c.readLimits(o.object("limits"), &s.Limits)
	s.Database = c.readDatabase(o)
	s.VaultKey = c.readVault(o.object("vault"))
	s.SealKeys = c.readSealKeys(o)
	s.Cluster = c.readCluster(o.object("cluster"), s.Database)
	c.readEgress(o.object("egress"), s)
	if n := o.text("publicURL", &s.PublicURL); n != nil {
		if bad, hint := badPublicURL(s.PublicURL); bad != "" {
			c.problem(n, o.at("publicURL"), bad, hint)
		}
		s.PublicURL = strings.TrimRight(s.PublicURL, "/")
	}
	c.readAccess(o.object("access"), s)
	c.judgePublicURL(o, s)
	s.TLS = c.readTLS(o.object("tls"))
	o.list("allowedHosts", false, func(n *node, path string, e expansion) {
		if bad := badHost(e.text); bad != "" {
			c.problem(n, path, n.shown()+" "+bad, "write a host name; add :port to allow only one port")
			return
		}
		s.Hosts = append(s.Hosts, strings.ToLower(e.text))
	})
	o.list("allowedOrigins", false, func(n *node, path string, e expansion) {
		if bad := badOrigin(e.text); bad != "" {
			c.problem(n, path, n.shown()+" "+bad, "write scheme://host or scheme://host:port, exactly as browsers send it")
			return
		}
		s.Origins = append(s.Origins, strings.ToLower(e.text))
	})
	o.boolean("console", &s.Console)
	readPins(o, s)
	readQuestions(o, s)
	c.readFinding(o.object("tools"), &s.Tools)
	s.Record = Recording(1 + o.choice("record", recordings, -1))
	c.readAudit(o.object("audit"), &s.Audit)
	if l := o.object("log"); l != nil {
		levels := []string{"debug", "info", "warn", "error"}
		i := l.choice("level", levels, 1)
		s.Log.Level = []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}[i]
		s.Log.JSON = l.choice("format", []string{"text", "json"}, 0) == 1
		l.boolean("calls", &s.Log.Calls)
		l.done()
	}
	if t := o.object("telemetry"); t != nil {
		c.readTraces(t.object("traces"), &s.Traces)
		t.done()
	}
}

// readDatabase reads the path or the URL of the database. Only whoever opens it knows whether it's usable.
func (c *compiler) readDatabase(o *object) string {
	var where string
	n := o.text("database", &where)
	scheme, _, isURL := strings.Cut(where, "://")
	switch {
	case n == nil:
		return ""
	case !isURL:
		return c.relative(n, o.at("database"), where)
	}
	switch _, err := url.Parse(where); {
	case scheme != "postgres" && scheme != "postgresql":
		c.problem(n, o.at("database"), "has an unknown scheme", "write the path of a file, or a URL that begins with postgres://")
	case err != nil:
		c.problem(n, o.at("database"), "is not a URL", "write postgres://user@host:5432/database, and percent-encode special characters in the password")
	}
	return where
}

// readVault reads where the vault's key is. Somebody may have written the key itself, so a problem doesn't
// show the value; see also secretKey.
func (c *compiler) readVault(o *object) (key string) {
	if o == nil {
		return ""
	}
	n := o.text("key", &key)
	name, named := strings.CutPrefix(key, "env:")
	if n != nil && key != "keyring" && !(named && isVariable(name)) {
		c.problem(n, o.at("key"), "does not say where the vault's key is", "write keyring or env:NAME, or remove it to use the file vault.key")
	}
	o.done()
	return key
}

// readSealKeys reads the path of the file with the keys that replicas share. Somebody may have written a key itself, so
// a problem doesn't show the value.
func (c *compiler) readSealKeys(o *object) (path string) {
	n := o.text("sealKeys", &path)
	if n == nil {
		return ""
	}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(path)); err == nil && len(raw) >= 16 || strings.Contains(path, "\n") {
		c.problem(n, o.at("sealKeys"), "is not a path", "write the keys into a file of their own, and the path of this file here")
		return ""
	}
	return c.relative(n, o.at("sealKeys"), path)
}

// readTLS reads the paths of the certificate and its key. Only whoever loads the files knows whether they're
// usable. Somebody may have written the key itself, so a problem doesn't show the value; see also secretKey.
func (c *compiler) readTLS(o *object) (t TLS) {
	if o == nil {
		return t
	}
	for _, x := range []struct {
		name string
		dst  *string
	}{{"cert", &t.Cert}, {"key", &t.Key}} {
		switch n := o.text(x.name, x.dst); {
		case n == nil:
			c.problem(o.n, o.path, x.name+" is missing", "write {cert: FILE, key: FILE}, with the paths of two PEM files")
		case strings.Contains(*x.dst, "-----BEGIN") || strings.Contains(*x.dst, "\n"):
			c.problem(n, o.at(x.name), "is not a path", "write the "+x.name+" into a file of its own, and the path of this file here")
		default:
			*x.dst = c.relative(n, o.at(x.name), *x.dst)
		}
	}
	o.done()
	return t
}

func (c *compiler) readTraces(o *object, t *Traces) {
	if o == nil {
		return
	}
	if n := o.text("endpoint", &t.Endpoint); n != nil {
		switch u, err := url.Parse(t.Endpoint); {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Fragment != "":
			c.problem(n, o.at("endpoint"), "must be an http or https URL", "write the address of a collector, such as http://127.0.0.1:4318")
		case u.User != nil || u.RawQuery != "":
			c.problem(n, o.at("endpoint"), "must not contain a user, a password or a query", "put credentials into "+o.at("headers"))
		}
	}
	var h Server
	c.readHeaders(o, &h)
	t.Header = h.Header
	if t.Endpoint == "" && len(t.Header) > 0 {
		c.problem(o.get("headers"), o.at("headers"), "works only with an endpoint", "add "+o.at("endpoint"))
	}
	o.done()
}

func (c *compiler) readIdentity(o *object, s *Snapshot) {
	id := &s.Identity
	if o == nil {
		o = c.object(&node{}, join(c.home, "server"))
	}
	o.text("name", &id.Name)
	o.text("title", &id.Title)
	o.text("version", &id.Version)
	allow := false
	o.boolean("allowSecretsInInstructions", &allow)
	if i := o.object("instructions"); i != nil {
		c.readInstructions(i, &id.Instructions, allow)
	}
	o.done()
	for _, v := range []struct {
		name string
		dst  *string
	}{{"DRAGOMAN_SERVER_NAME", &id.Name}, {"DRAGOMAN_SERVER_TITLE", &id.Title}, {"DRAGOMAN_SERVER_VERSION", &id.Version}} {
		if text, ok := c.process(v.name); ok && text != "" {
			*v.dst = text
		}
	}
	if id.Name == "" {
		c.problem(o.n, o.at("name"), "must not be empty", "remove the key to use the name dragoman")
	}
	for _, text := range []string{id.Name, id.Title, id.Version} {
		if len(text) > 256 || strings.ContainsFunc(text, isControl) {
			c.problem(o.n, o.path, "a name, title or version must have at most 256 bytes and no control characters", "")
			break
		}
	}
}

// readInstructions reads the instructions. Every client can read the instructions, so values from the
// environment in the text are a problem. If outside is true, such values are allowed.
func (c *compiler) readInstructions(o *object, in *Instructions, outside bool) {
	var sources []string
	if n := o.text("text", &in.Text); n != nil {
		e, _, _ := expand(n.text, lookups{env: c.env})
		if in.Outside = e.from; e.from && !outside {
			c.problem(n, o.at("text"), "contains ${…}, and every client would read the value", "write the text itself, or set "+join(c.home, "server")+".allowSecretsInInstructions: true if the value is not secret")
		}
		if !outside && !e.from && excerpt.MaskSecrets(n.text) != n.text {
			c.problem(n, o.at("text"), "contains text that looks like a credential, and every client would read it", "remove it, or set "+join(c.home, "server")+".allowSecretsInInstructions: true if it is not secret")
			c.source.secrets = append(c.source.secrets, n.text)
		}
		sources = append(sources, "text")
	}
	for _, key := range []string{"file", "command"} {
		if n := o.get(key); n != nil && c.stored {
			c.problem(n, o.at(key), "works only in the configuration file, but the project is in the store", "use the key text")
		}
	}
	if n := o.text("file", &in.File); n != nil {
		sources = append(sources, "file")
		in.File = c.relative(n, o.at("file"), in.File)
	}
	if o.get("command") != nil {
		sources = append(sources, "command")
		in.Command = o.texts("command")
		if len(in.Command) == 0 || in.Command[0] == "" {
			c.problem(o.get("command"), o.at("command"), "must be a list of a program and its arguments", "write [program, argument, …]")
		}
	}
	if c.from = o.text("from", &in.From); c.from != nil {
		sources = append(sources, "from")
	}
	o.duration("keep", &in.Keep, leastKeep, mostTime)
	if n := o.get("keep"); n != nil && in.Command == nil {
		c.problem(n, o.at("keep"), "works only with a command, but no command is configured", "remove this key; a file is read again when it changes")
	}
	if len(sources) > 1 {
		c.problem(o.n, o.path, "has "+strings.Join(sources, " and "), "keep one of them")
	}
	in.Join = Join(o.choice("join", joins, int(OwnFirst)))
	o.done()
}

// checkFrom checks that the instructions come from a requirements server. s has the servers by now.
func (c *compiler) checkFrom(s *Snapshot) {
	n := c.from
	if c.from = nil; n == nil {
		return
	}
	path := join(join(join(c.home, "server"), "instructions"), "from")
	var names []string
	for i := range s.Servers {
		x := s.Servers[i].bind(c.common)
		switch is := IsRequirements(x.Args); {
		case x.Name == s.Identity.Instructions.From && is:
			return
		case x.Name == s.Identity.Instructions.From:
			c.problem(n, path, n.shown()+" is not a requirements server", "name a server whose args begin with: server, requirements")
			return
		case is:
			names = append(names, x.Name)
		}
	}
	hint := "add a server with the command dragoman and the args: server, requirements"
	if len(names) > 0 {
		hint = "write " + oneOf(names)
	}
	c.problem(n, path, "there is no server "+n.shown(), hint)
}

func (c *compiler) readRevisions(o *object, s *Snapshot) {
	if o == nil {
		return
	}
	if n := o.get("accept"); n != nil {
		var accept []mcp.Revision
		o.list("accept", false, func(n *node, path string, e expansion) {
			r, ok := mcp.ParseRevision(e.text)
			switch {
			case !ok:
				c.problem(n, path, n.shown()+" is not a revision", "write "+oneOf(revisionDates()))
			case slices.Contains(accept, r):
				c.warning(n, path, n.shown()+" is listed twice", "")
			default:
				accept = append(accept, r)
			}
		})
		if n.kind == sequenceKind && len(n.items) == 0 {
			c.problem(n, o.at("accept"), "the list is empty", "list at least one revision, or remove the key to accept all")
		}
		slices.SortFunc(accept, func(a, b mcp.Revision) int {
			if a.Newer(b) {
				return -1
			}
			return 1
		})
		s.Revisions.Accept = accept
	}
	s.Revisions.Refuse = o.choice("otherwise", []string{"negotiate", "refuse"}, 0) == 1
	o.done()
}

func revisionDates() []string { return mcp.Dates(mcp.Revisions()) }

func (c *compiler) readSeparator(o *object, s *Snapshot) {
	if n := o.text("separator", &s.Separator); n != nil {
		path := o.at("separator")
		switch {
		case s.Separator == "" || len(s.Separator) > 8 || strings.Trim(s.Separator, "_-./") != "":
			c.problem(n, path, "must have one to eight characters, each of them _ - . or /", "")
		case strings.Trim(s.Separator, "_-") != "":
			c.warning(n, path, "some clients accept only letters, digits, _ and - in tool names", "use _ or -")
		}
	}
	o.done()
}

const (
	leastKeep = 100 * time.Millisecond
	leastTime = time.Second
	mostTime  = 24 * time.Hour
	leastSize = 1 << 10
	mostSize  = 1 << 30
	// mostInFlight is as much memory as an int can count, on machines of 32 bits.
	mostInFlight = min(1<<36, math.MaxInt)
)

// readLimits reads the limits but traffic, which names servers, so it's read when they are known.
func (c *compiler) readLimits(o *object, l *Limits) {
	if c.traffic = nil; o == nil {
		return
	}
	c.traffic = o.get("traffic")
	o.size("body", &l.Body, leastSize, mostSize)
	o.size("message", &l.Message, leastSize, mostSize)
	o.duration("call", &l.Call, leastTime, mostTime)
	o.duration("callMax", &l.CallMax, leastTime, mostTime)
	o.duration("start", &l.Start, leastTime, mostTime)
	c.startGiven = c.startGiven || o.get("start") != nil
	o.count("starts", &l.Starts, 1, 10_000)
	o.duration("manifestClient", &l.ManifestClient, leastTime, mostTime)
	o.size("inFlight", &l.InFlight, 1<<20, mostInFlight)
	o.count("initializePerSecond", &l.InitializePerSecond, 1, 10_000)
	if c.project == "" {
		l.Alone = o.choice("scope", []string{"cluster", "replica"}, 0) == 1
	}
	if n := o.get("result"); n != nil && strings.Trim(n.text, "0kKMGiB ") == "" {
		c.problem(n, o.at("result"), n.shown()+" would leave nothing of a result", "remove it for whole results, or write at least 1KiB")
	} else {
		o.size("result", &l.Result, leastSize, mostSize)
	}
	if l.Call > l.CallMax {
		c.problem(o.n, o.at("call"), fmt.Sprintf("%s is longer than callMax, which is %s", short(l.Call), short(l.CallMax)), "raise "+o.at("callMax")+" or lower "+o.at("call"))
	}
	o.done()
}

// relative returns the path p of a setting. A relative path is resolved against the folder of the
// configuration file.
func (c *compiler) relative(n *node, path, p string) string {
	switch {
	case p == "":
		c.problem(n, path, "must not be empty", "")
		return ""
	case p == "~" || strings.HasPrefix(p, "~/"):
		c.problem(n, path, "~ is not replaced with your home directory", "write ${HOME}")
		return ""
	case filepath.IsAbs(p):
		return p
	case c.stored:
		c.problem(n, path, "must be an absolute path, because the project is in no folder", "")
		return ""
	}
	return filepath.Join(filepath.Dir(c.file), p)
}

func badHost(h string) string {
	switch {
	case h == "":
		return "is empty"
	case strings.Contains(h, "*"):
		return "contains *, which allows too much"
	case strings.Contains(h, "://"), strings.ContainsAny(h, "/?#@ "), strings.ContainsFunc(h, isControl):
		return "is not a host"
	}
	if u, err := url.Parse("http://" + h); err != nil || u.Host != h {
		return "is not a host"
	}
	return ""
}

func badOrigin(o string) string {
	switch {
	case o == "null":
		return "would allow every sandboxed web page"
	case strings.Contains(o, "*"):
		return "contains *, which allows too much"
	}
	u, err := url.Parse(o)
	if err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != o {
		return "is not an origin"
	}
	return ""
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }
