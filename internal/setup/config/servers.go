package config

import (
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// foreign lists the server keys that other clients use and Dragoman ignores. Dragoman does not
// report these keys as typos.
var foreign = []string{
	"alwaysAllow", "autoApprove", "autoStart", "capabilities", "category", "debug",
	"description", "displayName", "envFile", "gallery", "icon", "id", "instructions", "metadata", "name",
	"priority", "roots", "scope", "tags", "title", "transportOptions", "trust", "version",
}

// foreignFilters are the keys with which other clients hide tools.
var foreignFilters = []string{"disabledTools", "enabledTools", "excludeTools", "includeTools", "tools"}

// readServers reads the servers of default or of a project.
func (c *compiler) readServers(entries *node, settings *object, s *Snapshot) {
	if entries == nil {
		entries = &node{}
	}
	all := c.object(entries, c.entries())
	if settings == nil {
		settings = c.object(&node{}, join(c.home, "servers"))
	}
	var names []string
	prefixes := map[string]string{}
	for i := range s.Servers {
		x := &s.Servers[i]
		names = append(names, x.Name)
		c.readShared(settings.object(x.Name), x, prefixes)
	}
	for _, m := range all.n.members {
		path := all.at(m.key)
		names = append(names, m.key)
		if bad := badName(m.key); bad != "" {
			c.problem(m.place(), path, "the name "+bad, nameRules)
		}
		if slices.ContainsFunc(s.Servers, func(x Server) bool { return x.Shared && x.Name == m.key }) {
			c.problem(m.place(), path, "is also in "+join(c.home, "use"), "rename the server, or remove it from use")
			continue
		}
		switch m.value.kind {
		case mappingKind:
		case nullKind:
			c.problem(m.place(), path, "has neither command nor url", "")
			continue
		default:
			c.problem(m.place(), path, "must be a mapping, not "+m.value.kind.String(), "write {command: …, args: […]} for a program, or {url: …} for a server that already runs")
			continue
		}
		srv := Server{
			Name: m.key, Prefix: m.key, InheritEnv: s.InheritEnv,
			CallTimeout: s.Limits.Call, CallMax: s.Limits.CallMax, StartTimeout: s.Limits.Start,
			Message: s.Limits.Message, Also: s.also(),
		}
		if name, ok := strings.CutPrefix(s.VaultKey, "env:"); ok {
			srv.vaultKey = name
		}
		c.server = &srv
		entry := c.object(m.whole(), path)
		c.setOwn(entry)
		c.readEntry(entry, &srv)
		own := settings.object(m.key)
		if own != nil {
			c.readSettings(own, &srv)
		}
		c.readSignIn(own.within("signIn"), &srv, s)
		c.server, c.own = nil, ownEnv{}
		c.claim(prefixes, m.place(), path, &srv)
		if srv.Command == "" {
			srv.InheritEnv = nil
		}
		srv.Fingerprint = fingerprint(&srv, c.dialects)
		s.Servers = append(s.Servers, srv)
	}
	c.warnOfLoose()
	c.strangers(settings, names)
}

// strangers reports the settings of servers that aren't among names.
func (c *compiler) strangers(settings *object, names []string) {
	for _, m := range settings.n.members {
		if slices.Contains(names, m.key) {
			continue
		}
		hint := "add the server to mcpServers, or remove this key"
		if g := Suggest(m.key, names); g != "" {
			hint = "did you mean " + printable(g) + "?"
		}
		c.problem(m.place(), settings.at(m.key), "mcpServers has no server with this name", hint)
	}
}

// claim checks that no other server has the prefix of a server. path is where the server is in the file,
// and prefixes maps the prefixes of the servers before it to their places.
func (c *compiler) claim(prefixes map[string]string, at *node, path string, srv *Server) {
	if other, taken := prefixes[srv.Prefix]; taken && !srv.Disabled && !srv.Unprefixed {
		c.problem(at, path, "has the same prefix as "+other,
			"set another prefix for one of the two servers: "+c.setting(srv.Name, "prefix"))
	} else if !srv.Disabled {
		prefixes[srv.Prefix] = path
	}
}

// entries returns the path of the servers that are being read.
func (c *compiler) entries() string {
	if c.project == "" {
		return "mcpServers"
	}
	return join(c.home, "mcpServers")
}

// setting returns the path of a setting of a server, for a hint.
func (c *compiler) setting(server, key string) string {
	return join(c.home, "servers") + "." + printable(server) + "." + key
}

// CheckName returns nil if name can be the name of a server. Otherwise it returns a Problem without a
// position.
func CheckName(name string) *Problem {
	if bad := badName(name); bad != "" {
		return &Problem{Text: "the name " + bad, Hint: nameRules}
	}
	return nil
}

const nameRules = "use at most 64 characters: letters, digits, _, - and ."

// badName returns the problem with a server's name, or "". The name becomes part of URLs and of tool
// names, so only a few characters are allowed.
func badName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > 64:
		return "is longer than 64 characters"
	case strings.Trim(name, ".") == "":
		return "contains only dots"
	}
	for i := range len(name) {
		if !isNameByte(name[i]) {
			return "contains a character that is not allowed"
		}
	}
	return ""
}

// readEntry reads one member of mcpServers.
func (c *compiler) readEntry(o *object, srv *Server) {
	o.boolean("disabled", &srv.Disabled)
	enabled := true
	o.boolean("enabled", &enabled)
	srv.Disabled = srv.Disabled || !enabled
	c.quiet = srv.Disabled
	defer func() { c.quiet = false }()

	kind, typed := c.readKind(o)
	command := o.get("command")
	c.readCommand(o, command, srv)
	address, as := c.readAddress(o, srv)
	if !typed {
		kind = as
	}
	c.readHeaders(o, srv)
	c.readForeignSignIn(o, srv)
	srv.Kind = kind
	c.readCompatibility(o, srv)
	misspelt := c.foreignMembers(o, srv)
	switch {
	case command == nil && address == nil && misspelt:
	case command == nil && address == nil:
		c.problem(o.n, o.path, "has neither command nor url", "add command and args for a program, or url for a server that already runs")
	case command != nil && address != nil:
		c.problem(o.n, o.path, "has both command and url", "keep one of them")
	case command != nil:
		if typed && kind != KindStdio && kind != KindAuto {
			c.problem(o.n, o.path, "has a command, but the type is "+kind.String(), "remove type, or write url instead of command")
		}
		if len(srv.Header) > 0 {
			c.problem(o.get("headers"), o.at("headers"), "works only with a url, but the server has a command", "use env")
		}
		srv.Kind = KindStdio
	default:
		if kind == KindStdio {
			c.problem(o.n, o.path, "has a url, but the type is stdio", "remove type, or write command instead of url")
		}
		for _, key := range []string{"args", "env", "cwd"} {
			if n := o.get(key); n != nil && !(key == "env" && c.own.used) && (len(n.items) > 0 || len(n.members) > 0 || n.kind == scalarKind) {
				c.warning(n, o.at(key), "is ignored, because the server has a url", "")
			}
		}
		srv.Args, srv.shownArgs, srv.Env, srv.shownEnv, srv.Dir = nil, nil, nil, nil, ""
	}
}

// entryKeys are the keys of an entry of mcpServers. settingKeys are the keys of an entry of
// dragoman.servers.
var (
	entryKeys   = []string{"command", "args", "env", "cwd", "url", "headers", "type", "disabled"}
	settingKeys = []string{"callMax", "callTimeout", "caFile", "dialect", "expose", "hint", "inheritEnv", "isolation", "lazy", "ping", "prefix", "revision", "signIn", "startTimeout", "trust"}
)

// foreignMembers reports the keys that Dragoman does not know or does not use. misspelt is true if one
// of these keys looks like a typo of a known key.
func (c *compiler) foreignMembers(o *object, srv *Server) (misspelt bool) {
	for _, m := range o.unknown() {
		path := o.at(m.key)
		switch {
		case m.key == "timeout":
			c.warning(m.place(), path, "is ignored, because some clients use seconds and others milliseconds", "write "+c.setting(srv.Name, "callTimeout"))
		case slices.Contains(foreignFilters, m.key):
			c.warning(m.place(), path, "is ignored", "write "+c.setting(srv.Name, "expose.tools"))
		case slices.Contains(foreign, m.key):
			c.warning(m.place(), path, "is ignored", "")
		case slices.Contains(settingKeys, m.key):
			c.warning(m.place(), path, "is ignored here", "write "+c.setting(srv.Name, m.key))
		default:
			if s := Suggest(m.key, entryKeys); s != "" {
				c.problem(m.place(), path, "unknown key", "did you mean "+s+"?")
				misspelt = true
				continue
			}
			c.warning(m.place(), path, "is not a known key, so it is ignored", "")
		}
	}
	return misspelt
}

// readCompatibility reads the key compatibility_mode, which other programs use instead of isolation.
func (c *compiler) readCompatibility(o *object, srv *Server) {
	for _, key := range clientfile.CompatibilityKeys {
		var mode string
		n := o.text(key, &mode)
		if n == nil {
			continue
		}
		if word, ok := clientfile.Isolation(mode); ok {
			srv.Isolation = Isolation(slices.Index(isolations, word))
			c.warning(n, o.at(key), "means isolation: "+word, "write it as "+c.setting(srv.Name, "isolation"))
		} else {
			c.warning(n, o.at(key), n.shown()+" is not a known mode, so it is ignored", "write "+c.setting(srv.Name, "isolation"))
		}
	}
}

// readKind reads the key type. Some clients use the key transport or transportType instead, and
// spell the values differently. typed is true if the entry has a valid type.
func (c *compiler) readKind(o *object) (k Kind, typed bool) {
	for _, key := range []string{"type", "transport", "transportType"} {
		var s string
		n := o.text(key, &s)
		if n == nil || typed {
			continue
		}
		typed = true
		switch strings.ToLower(fold(s)) {
		case "stdio", "local":
			k = KindStdio
		case "http", "streamablehttp":
			k = KindHTTP
		case "sse":
			k = KindSSE
		case "auto", "remote":
			k = KindAuto
		default:
			typed = false
			c.problem(n, o.at(key), n.shown()+" is not a kind of server", "write stdio, http or sse, or remove the key")
		}
	}
	return k, typed
}

func (c *compiler) readCommand(o *object, command *node, srv *Server) {
	const split = "put the first word into `command`, and the other words into `args`"
	switch {
	case command == nil:
	case command.kind == sequenceKind:
		c.problem(command, o.at("command"), "must be a single value, not a list", split)
	default:
		if e, ok := c.scalar(command, o.at("command")); ok && e.text == "" {
			c.problem(command, o.at("command"), "must not be empty", "")
		} else if ok {
			srv.Command = e.text
		}
	}
	c.masks = true
	o.list("args", false, func(_ *node, _ string, e expansion) {
		srv.Args = append(srv.Args, e.text)
		srv.shownArgs = append(srv.shownArgs, e.shown)
		srv.outside = append(srv.outside, e.outside...)
	})
	c.masks = false
	if command != nil && len(srv.Args) == 0 && strings.Contains(srv.Command, " ") && !filepath.IsAbs(srv.Command) {
		c.warning(command, o.at("command"), "contains spaces, but must be the name of one program, because no shell is used", split)
	}
	if !c.startGiven && srv.Runner() != "" {
		srv.StartTimeout = RunnerStart
	}
	if runner := unpinned(srv.Command, srv.Args); command != nil && runner != "" {
		c.loose = append(c.loose, loosePackage{runner, srv.Name, command, o.at("command")})
	}
	if n := o.text("cwd", &srv.Dir); n != nil {
		srv.Dir = c.relative(n, o.at("cwd"), srv.Dir)
	}
	if env := o.object("env"); env != nil {
		srv.Env, srv.shownEnv = make(map[string]Secret, len(env.n.members)), make(map[string]string, len(env.n.members))
		for _, m := range env.n.members {
			path := env.at(nameOnly(m.key))
			if m.key == "" || strings.ContainsAny(m.key, "=\x00") {
				c.problem(m.place(), path, "is not a valid variable name", "")
				continue
			}
			if m.value.kind == nullKind {
				c.problem(m.place(), path, "has no value", `write "" for an empty value, or ${`+printable(m.key)+`} to pass on the variable of Dragoman`)
				continue
			}
			c.own.open = []string{m.key}
			e, ok := c.masked(m.value, path)
			c.own.open = nil
			if ok {
				srv.Env[m.key] = NewSecret(e.text)
				srv.shownEnv[m.key] = e.shown
				srv.outside = append(srv.outside, e.outside...)
			} else if c.server != nil && c.server.Unusable != nil {
				srv.Env[m.key] = NewSecret("") // the server cannot be started, but the configuration can still be printed
			}
		}
	}
}

// addressKeys are the keys for the URL of a server.
var addressKeys = []string{"url", "httpUrl", "serverUrl"}

// readAddress reads the key url. Some clients use the key httpUrl or serverUrl instead. at is the value
// of the key, and as is the transport that the key implies.
func (c *compiler) readAddress(o *object, srv *Server) (at *node, as Kind) {
	for _, key := range addressKeys {
		n := o.get(key)
		if n == nil || at != nil {
			continue
		}
		at = n
		if key == "httpUrl" {
			as = KindHTTP
		}
		e, ok := c.masked(n, o.at(key))
		if !ok {
			if srv.unset[o.at(key)] != "" {
				srv.shownURL = writtenURL(n.text)
			}
			continue
		}
		if bad, hint := badURL(e.text); bad != "" {
			c.problem(n, o.at(key), bad, hint)
			continue
		}
		srv.URL = e.text
		srv.shownURL = maskURL(e.text)
		if e.from {
			srv.shownURL = maskURL(e.shown)
			srv.outside = append(srv.outside, e.outside...)
		}
	}
	return at, as
}

// badURL returns the problem with a server's URL, or "". The problem does not repeat the URL, because
// the URL may contain credentials.
func badURL(text string) (bad, hint string) {
	const form = "use http://host:port/path or https://host/path"
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "is not a URL", form
	case u.Scheme == "ws" || u.Scheme == "wss":
		return "is a WebSocket, and MCP has no WebSocket transport", form
	case u.Scheme != "http" && u.Scheme != "https":
		return "must begin with http:// or https://", form
	case u.Hostname() == "":
		return "has no host", form
	case u.Fragment != "":
		return "must not have a fragment (the part after #)", ""
	}
	if p := u.Port(); p != "" {
		if _, err := strconv.ParseUint(p, 10, 16); err != nil {
			return "has an invalid port", form
		}
	}
	return "", ""
}

// ownHeaders are set by the transport and cannot be configured.
var ownHeaders = []string{
	"Accept", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Host", "Keep-Alive",
	"Last-Event-Id", "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

func (c *compiler) readHeaders(o *object, srv *Server) {
	h := o.object("headers")
	if h == nil {
		return
	}
	seen := map[string]bool{}
	for _, m := range h.n.members {
		path := h.at(nameOnly(m.key))
		if bad, hint := badHeader(m.key); bad != "" {
			c.problem(m.place(), path, bad, hint)
			continue
		}
		if m.value.kind == nullKind {
			c.problem(m.place(), path, "has no value", "")
			continue
		}
		if seen[http.CanonicalHeaderKey(m.key)] {
			c.problem(m.place(), path, "is listed twice; header names are not case-sensitive", "")
			continue
		}
		seen[http.CanonicalHeaderKey(m.key)] = true
		e, ok := c.masked(m.value, path)
		if !ok {
			if srv.unset[path] != "" { // the value refers to a variable that is not set
				srv.Header = append(srv.Header, Field{Name: m.key})
			}
			continue
		}
		if bad := badHeaderValue(e.text); bad != "" {
			c.problem(m.value, path, bad, "")
			continue
		}
		srv.Header = append(srv.Header, Field{Name: m.key, Value: NewSecret(e.text)})
		srv.outside = append(srv.outside, e.outside...)
	}
}

func badHeader(name string) (bad, hint string) {
	for i := range len(name) {
		// RFC 9110 §5.6.2: these are the characters of a token.
		if c := name[i]; !isNameByte(c) && !strings.ContainsRune("!#$%&'*+^`|~", rune(c)) {
			return "is not a valid header name", ""
		}
	}
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case name == "":
		return "is not a valid header name", ""
	case slices.Contains(ownHeaders, canonical), strings.HasPrefix(canonical, "Mcp-Param-"):
		return "Dragoman sets this header itself", "remove the header"
	}
	return "", ""
}

func badHeaderValue(v string) string {
	// RFC 9110 §5.5 does not allow control characters. net/http would refuse them too, but later and
	// without the position in the file.
	if strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return "a header's value must be one line without control characters"
	}
	return ""
}

// noPrefix is the value of the setting prefix with which a server's items keep their own names.
const noPrefix = "none"

// readSettings reads the settings of one server under dragoman.servers.
func (c *compiler) readSettings(o *object, srv *Server) {
	c.readPrefix(o, srv)
	srv.Isolation = Isolation(o.choice("isolation", isolations, int(srv.Isolation)))
	var date string
	if n := o.text("revision", &date); n != nil {
		r, ok := mcp.ParseRevision(date)
		if !ok {
			c.problem(n, o.at("revision"), n.shown()+" is not a revision", "write "+oneOf(revisionDates()))
		}
		srv.Revision = r
	}
	if n := o.text("dialect", &srv.Dialect); n != nil {
		var bad *Problem
		if srv.Profile, bad = chooseDialect(c.dialects, srv.Dialect); bad != nil {
			c.problem(n, o.at("dialect"), n.shown()+" is not a known dialect", bad.Hint)
		} else if srv.Profile != nil && srv.Profile.Bridge != "" && srv.URL != "" {
			c.problem(n, o.at("dialect"), n.shown()+" works only with a command, not with a url", "")
		}
	}
	if n := o.text("caFile", &srv.CAFile); n != nil {
		srv.CAFile = c.relative(n, o.at("caFile"), srv.CAFile)
		if srv.Command != "" {
			c.warning(n, o.at("caFile"), "is ignored, because the server has a command", "set NODE_EXTRA_CA_CERTS or SSL_CERT_FILE in env of the server")
		}
	}
	o.boolean("lazy", &srv.Lazy)
	c.readInheritEnv(o, &srv.InheritEnv)
	switch n := o.get("inheritEnv"); {
	case n != nil && c.stored:
		c.problem(n, o.at("inheritEnv"), "works only in the configuration file, but the project is in the store", "use env, with ${secret:NAME} for what must stay secret")
	case n != nil && srv.URL != "":
		c.warning(n, o.at("inheritEnv"), "is ignored, because the server has a url", "")
	}
	o.duration("callTimeout", &srv.CallTimeout, leastTime, mostTime)
	if o.get("callMax") == nil && srv.CallTimeout > srv.CallMax {
		srv.CallMax = srv.CallTimeout
	}
	o.duration("callMax", &srv.CallMax, leastTime, mostTime)
	o.duration("startTimeout", &srv.StartTimeout, leastTime, mostTime)
	c.readPing(o, srv)
	if srv.CallTimeout > srv.CallMax {
		c.problem(o.n, o.at("callMax"), fmt.Sprintf("%s is shorter than callTimeout, which is %s", short(srv.CallMax), short(srv.CallTimeout)), "raise callMax or lower callTimeout")
	}
	c.readExpose(o.object("expose"), &srv.Expose)
	c.readHint(o, srv)
	o.get("signIn") // readSignIn reads it, whether or not there are settings
	o.done()
}

func (c *compiler) readPrefix(o *object, srv *Server) {
	n := o.text("prefix", &srv.Prefix)
	if n != nil && srv.Prefix == noPrefix {
		srv.Prefix, srv.Unprefixed = "", true
	} else if n != nil {
		if bad := badName(srv.Prefix); bad != "" {
			c.problem(n, o.at("prefix"), n.shown()+" "+bad, nameRules)
		}
	}
}

func (c *compiler) readExpose(o *object, e *Expose) {
	if o == nil {
		return
	}
	c.readFilter(o, "tools", &e.Tools)
	c.readFilter(o, "prompts", &e.Prompts)
	c.readFilter(o, "resources", &e.Resources)
	o.done()
}

// The limits of the setting ping. A shorter interval would cause too much traffic, and a longer
// interval would detect a failure too late.
const (
	leastPing = 5 * time.Second
	mostPing  = time.Hour
)

// pingOff is the value of the setting ping that turns pings off.
const pingOff = "off"

// readPing reads the interval of the pings of one server. The dialect and the revision of the
// server must be read before readPing is called.
func (c *compiler) readPing(o *object, srv *Server) {
	var text string
	n := o.text("ping", &text)
	if n == nil || text == pingOff {
		return
	}
	o.duration("ping", &srv.Ping, leastPing, mostPing)
	switch {
	case srv.Ping == 0:
	case srv.Revision != mcp.Unknown && !srv.Revision.Can(mcp.Ping):
		c.warning(n, o.at("ping"), "has no effect, because revision "+srv.Revision.String()+" has no ping", "")
	case srv.Profile.Suppresses(mcp.MethodPing):
		c.warning(n, o.at("ping"), "has no effect, because servers of the dialect "+printable(srv.Dialect)+" do not accept a ping", "")
	}
}

func (c *compiler) readFilter(o *object, key string, f *Filter) {
	n := o.object(key)
	if n == nil {
		return
	}
	f.Allow, f.Deny = n.texts("allow"), n.texts("deny")
	if a := n.get("allow"); a != nil && a.kind == sequenceKind && len(a.items) == 0 {
		c.problem(a, n.at("allow"), "an empty list would allow everything", `remove the list, or write deny: ["*"] to show nothing`)
	}
	n.done()
}
