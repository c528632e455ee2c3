package clientfile

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// reading has the state of the conversion of one server.
type reading struct {
	c *Client
	s *Server
	x expander

	command      []*Value // the words of the command, with their positions
	venv         *Member  // the Python environment of the command, or nil
	typ, address string
	addressAt    *Value
	entry        *Value // the other members of the converted entry, such as cwd and disabled
	headers, env *Value
	allow, deny  []string
	settings     *Value
	signIn       signIn
}

func readServer(c *Client, m *Member, project string, inputs map[string]*Value, opt Options) Server {
	s := Server{Name: Name(m.Key), Original: m.Key, Project: project, Line: m.Line, Col: m.Col}
	r := &reading{c: c, s: &s, entry: &Value{Kind: Map, Line: m.Line, Col: m.Col}, settings: Mapping(), headers: Mapping(), env: Mapping()}
	r.x = expander{refs: c.refs, os: opt.OS, project: project, inputs: inputs, found: s.need}
	r.x.note = func(text string) { r.note(m, text, false) }
	r.signIn = signIn{out: Mapping(), text: r.scalar, note: r.note}
	if m.Value.Kind != Map {
		r.broken(m, "is "+m.Value.Kind.String()+", not a server")
		return s
	}
	entry := m.Value
	if inner, ok := c.unwrapped(entry); ok {
		entry = inner
		entry.drop("type") // `dragoman run URL` finds the transport out
	}
	for i := range entry.Members {
		r.member(&entry.Members[i])
	}
	if s.Broken {
		return s
	}
	if s.Dragoman = isDragoman(r.words(), r.address, opt.Addresses); s.Dragoman {
		s.Variables, s.Notes = nil, nil
		return s
	}
	r.finish(m, opt)
	return s
}

// need records a variable that the server needs. It records each variable only once. The variable
// is optional only if all references to it have a default.
func (s *Server) need(v Variable) {
	for i := range s.Variables {
		if s.Variables[i].Name == v.Name {
			s.Variables[i].Optional = s.Variables[i].Optional && v.Optional
			return
		}
	}
	s.Variables = append(s.Variables, v)
}

func (r *reading) note(m *Member, text string, harmless bool) {
	r.s.Notes = append(r.s.Notes, Note{Key: m.Key, Text: text, Harmless: harmless, Line: m.Line, Col: m.Col})
}

func (r *reading) broken(m *Member, text string) {
	r.s.Broken = true
	n := Note{Key: m.Key, Text: text, Line: m.Line, Col: m.Col}
	if m.Key == r.s.Original {
		n.Key = ""
	}
	r.s.Notes = append(r.s.Notes, n)
}

// scalar returns a string with the text and the position of v. References in the text are converted
// to ${NAME}.
func (r *reading) scalar(v *Value) *Value {
	return &Value{Kind: String, Text: r.x.expand(v.Text), Line: v.Line, Col: v.Col}
}

// list returns the text of each scalar in the list m.Value.
func (r *reading) list(m *Member) []string {
	var out []string
	for _, i := range r.items(m) {
		out = append(out, i.Text)
	}
	return out
}

// items returns the scalars in the list m.Value. It adds a note for each other value.
func (r *reading) items(m *Member) []*Value {
	if m.Value.Kind != List {
		if m.Value.Kind != Null {
			r.note(m, "is "+m.Value.Kind.String()+", not a list, so it is ignored", false)
		}
		return nil
	}
	var out []*Value
	for _, i := range m.Value.Items {
		if !i.scalar() {
			r.note(m, "has an item that is "+i.Kind.String()+", so it is ignored", false)
			continue
		}
		out = append(out, i)
	}
	return out
}

// These are the texts of notes about keys that Dragoman's own file does not have.
const (
	approvals  = "is ignored: your client asks for approvals, but Dragoman does not"
	tokens     = "is ignored: Dragoman signs in by itself if the server supports OAuth; if it needs another token, add a header with the token"
	unneeded   = "is ignored: Dragoman does not need this key"
	impossible = "is ignored: Dragoman has no setting for this key"
)

// untold maps keys to the texts of notes. Dragoman's own file does not have these keys.
var untold = map[string]string{
	"trust": approvals, "autoApprove": approvals, "alwaysAllow": approvals, "default_tools_approval_mode": approvals,
	"toolPermissions": approvals, "default_permissions": approvals,
	"headersHelper": tokens, "authProviderType": tokens, "targetAudience": tokens,
	"targetServiceAccount": tokens, "authorization_token": tokens, "http_headers_command": tokens,
	"sandbox": impossible, "sandboxEnabled": impossible, "experimental_environment": impossible, "environment_id": impossible,
	"description": unneeded, "name": unneeded, "displayName": unneeded, "title": unneeded, "icon": unneeded, "id": unneeded,
	"version": unneeded, "gallery": unneeded, "dev": unneeded, "metadata": unneeded, "required": unneeded,
	"supports_parallel_tool_calls": unneeded, "alwaysLoad": unneeded, "role": unneeded, "extension": unneeded, "category": unneeded,
}

// member converts one key of a server's entry in the client's file.
func (r *reading) member(m *Member) {
	v := m.Value
	switch m.Key {
	case "command":
		switch {
		case v.Kind == List: // the form in opencode's file
			r.command = append(r.items(m), r.command...)
		case v.scalar() && v.Text != "":
			r.command = append([]*Value{v}, r.command...)
		}
	case "args":
		r.command = append(r.command, r.items(m)...)
	case "env", "environment":
		r.variables(m)
	case "env_vars":
		r.inherited(m)
	case "envFile":
		r.note(m, "is ignored: write the variables of "+v.text()+" under env, or set them in the environment of Dragoman", false)
	case "cwd":
		if v.scalar() && v.Text != "" {
			r.entry.set("cwd", r.scalar(v))
		}
	case "venv":
		if v.scalar() && v.Text != "" {
			r.venv = m
		}
	case "url", "httpUrl", "serverUrl":
		if r.address, r.addressAt = v.text(), v; m.Key == "httpUrl" {
			r.typ = "http"
		}
	case "type", "transport", "transportType":
		r.kind(m)
	case "headers", "http_headers", "env_http_headers":
		r.header(m)
	case "bearer_token_env_var":
		if name := v.text(); variable().MatchString(name) {
			r.s.need(Variable{Name: name})
			r.headers.set("Authorization", &Value{Kind: String, Text: "Bearer ${" + name + "}", Line: v.Line, Col: v.Col})
		}
	case "oauth", "auth", "scopes", "oauth_resource":
		r.signIn.member(m)
	case "disabled", "enabled":
		if (v.text() == "true") == (m.Key == "disabled") {
			r.entry.set("disabled", boolean(true))
		}
	case CompatibilityKeys[0], CompatibilityKeys[1]:
		r.compatibility(m)
	case "timeout", "tool_timeout_sec", "startup_timeout_sec", "startup_timeout_ms":
		r.timeout(m)
	case "enabled_tools", "includeTools":
		if r.allow = names(r.list(m)); v.Kind == List && len(r.allow) == 0 {
			r.deny = append(r.deny, "*")
		}
	case "disabled_tools", "excludeTools":
		r.deny = append(r.deny, names(r.list(m))...)
	case "tools":
		if v.Kind != List || len(v.Items) > 0 && v.Items[0].Kind == Map {
			r.note(m, approvals, true)
			return
		}
		if list := names(r.list(m)); !slices.Contains(list, "*") {
			r.allow = list
		}
	default:
		if v.Kind == Null || v.Kind == Bool && v.Text == "false" || m.Key == "authProviderType" && v.Text == "dynamic_discovery" {
			return // the key turns off a feature that Dragoman does not have
		}
		text, known := untold[m.Key]
		if !known {
			text = "is ignored: the key is unknown"
		}
		r.note(m, text, text == unneeded || text == approvals)
	}
}

// names returns the names of the tools in list. In Gemini's files, arguments in parentheses may
// follow a name. names removes them.
func names(list []string) []string {
	var out []string
	for _, n := range list {
		n, _, _ = strings.Cut(n, "(")
		if n = strings.TrimSpace(n); n != "" {
			out = append(out, n)
		}
	}
	return out
}

func (r *reading) kind(m *Member) {
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(m.Value.text())) {
	case "", "stdio", "local", "remote", "auto":
	case "http", "streamablehttp":
		r.typ = "http"
	case "sse":
		r.typ = "sse"
	case "ws", "websocket":
		r.broken(m, "MCP has no WebSocket transport, so Dragoman cannot reach this server")
	default:
		r.broken(m, strconv.Quote(m.Value.text())+" is a type of server that only this client supports")
	}
}

func (r *reading) variables(m *Member) {
	if m.Value.Kind != Map {
		r.list(&Member{Key: m.Key, Value: &Value{Kind: m.Value.Kind}})
		return
	}
	for _, e := range m.Value.Members {
		switch {
		case e.Key == "" || strings.ContainsAny(e.Key, "=\x00"):
			r.note(m, strconv.Quote(e.Key)+" is not a valid name of an environment variable, so it is ignored", false)
		case e.Value.Kind == Null:
			r.note(m, e.Key+" has no value, so it is ignored", false)
		case !e.Value.scalar():
			r.note(m, e.Key+" is "+e.Value.Kind.String()+", so it is ignored", false)
		default:
			r.env.set(e.Key, r.scalar(e.Value))
		}
	}
}

// inherited converts env_vars, Codex's list of the environment variables that a server inherits.
func (r *reading) inherited(m *Member) {
	list := &Value{Kind: List, Line: m.Line, Col: m.Col}
	for _, i := range m.Value.Items {
		name := i.text()
		if i.Kind == Map {
			if name = i.Get("name").text(); i.Get("source").text() == "remote" {
				r.note(m, name+" is an environment variable of another machine, so it is ignored", false)
				continue
			}
		}
		if variable().MatchString(name) {
			list.Items = append(list.Items, Text(name))
		}
	}
	if len(list.Items) > 0 {
		r.settings.set("inheritEnv", list)
	}
}

func (r *reading) header(m *Member) {
	if m.Value.Kind != Map {
		r.list(&Member{Key: m.Key, Value: &Value{Kind: m.Value.Kind}})
		return
	}
	for _, h := range m.Value.Members {
		switch {
		case !h.Value.scalar():
			r.note(m, h.Key+" is "+h.Value.Kind.String()+", so it is ignored", false)
		case m.Key == "env_http_headers":
			if variable().MatchString(h.Value.Text) {
				r.s.need(Variable{Name: h.Value.Text})
				r.headers.set(h.Key, &Value{Kind: String, Text: "${" + h.Value.Text + "}", Line: h.Value.Line, Col: h.Value.Col})
			}
		default:
			r.headers.set(h.Key, r.scalar(h.Value))
		}
	}
}

// timeout converts a timeout setting. If the unit is unknown or the value is out of range, timeout
// adds a note instead.
func (r *reading) timeout(m *Member) {
	unit := map[string]string{"timeout": r.c.timeout, "startup_timeout_ms": "ms"}[m.Key]
	if strings.HasSuffix(m.Key, "_sec") {
		unit = "s"
	}
	n, err := strconv.ParseFloat(m.Value.text(), 64)
	if unit == "ms" {
		n /= 1000
	}
	key := "callTimeout"
	if strings.HasPrefix(m.Key, "startup") {
		key = "startTimeout"
	}
	switch {
	case unit == "":
		r.note(m, "is ignored: some clients use seconds and others milliseconds; write dragoman.servers."+r.s.Name+".callTimeout", false)
	case err != nil || n < 1 || n > 24*3600:
		r.note(m, "is ignored: "+key+" must be between 1 s and 24 h", false)
	default:
		r.settings.set(key, &Value{Kind: String, Text: strconv.FormatFloat(n, 'f', -1, 64) + "s", Line: m.Line, Col: m.Col})
	}
}

// finish creates the converted entry from the parts that the other methods collected.
func (r *reading) finish(m *Member, opt Options) {
	head := &Value{Kind: Map, Line: m.Line, Col: m.Col}
	defer r.resolved(r.env) // deferred, because the conversion of the arguments and the working directory may add variables
	switch {
	case len(r.command) > 0 && r.command[0].Text != "" && r.address == "":
		r.folder(m, opt)
		head.set("command", r.program(opt))
		if len(r.command) > 1 {
			args := &Value{Kind: List, Line: r.command[1].Line, Col: r.command[1].Col}
			for _, w := range r.command[1:] {
				args.Items = append(args.Items, r.scalar(w))
			}
			head.set("args", args)
		}
		if len(r.env.Members) > 0 {
			head.set("env", r.env)
		}
	case r.address != "" && len(r.command) == 0:
		if u := strings.ToLower(r.address); strings.HasPrefix(u, "unix:") || strings.HasPrefix(u, "pipe:") {
			r.broken(m, "Dragoman does not support this kind of socket: "+r.address)
			return
		}
		if r.typ != "" {
			head.set("type", &Value{Kind: String, Text: r.typ, Line: r.addressAt.Line, Col: r.addressAt.Col})
		}
		head.set("url", r.scalar(&Value{Text: r.address, Line: r.addressAt.Line, Col: r.addressAt.Col}))
		if len(r.headers.Members) > 0 {
			head.set("headers", r.headers)
		}
		if len(r.signIn.out.Members) > 0 {
			r.settings.set("signIn", r.signIn.out)
		}
		if r.usesEnv() {
			head.set("env", r.env)
			r.env = Mapping()
		}
		if r.entry.Get("cwd") != nil || len(r.env.Members) > 0 {
			r.note(m, "env and cwd are ignored, because the server has a url", true)
			r.entry = without(r.entry, []string{"cwd"})
		}
	case r.address != "":
		r.broken(m, "has both a command and a url")
		return
	default:
		r.broken(m, "has neither a command nor a url")
		return
	}
	head.Members = append(head.Members, r.entry.Members...)
	r.s.Entry = head
	r.expose()
	if len(r.settings.Members) > 0 {
		r.s.Settings = r.settings
	}
	if r.s.Name != r.s.Original {
		r.s.Notes = append(r.s.Notes, Note{Text: "is called " + strconv.Quote(r.s.Original) + " in the client's file; Dragoman allows only letters, digits, _, - and . in names", Harmless: true, Line: m.Line, Col: m.Col})
	}
}

// expose converts the lists of tools that the client shows and hides.
func (r *reading) expose() {
	if len(r.allow)+len(r.deny) == 0 {
		return
	}
	tools := Mapping()
	if len(r.allow) > 0 {
		tools.set("allow", Texts(r.allow))
	}
	if len(r.deny) > 0 {
		tools.set("deny", Texts(r.deny))
	}
	r.settings.set("expose", Mapping("tools", tools))
}

// usesEnv reports whether the address or a header refers to a variable of env. To expand such a
// reference, Dragoman looks in env before it looks in its own environment.
func (r *reading) usesEnv() bool {
	texts := []string{r.address}
	for _, h := range r.headers.Members {
		texts = append(texts, h.Value.Text)
	}
	for _, e := range r.env.Members {
		if slices.ContainsFunc(texts, func(t string) bool { return refersTo(t, e.Key) }) {
			return true
		}
	}
	return false
}

// refersTo reports whether text refers to the variable called name. References in text have the
// form of Dragoman.
func refersTo(text, name string) bool {
	return strings.Contains(text, "${"+name+"}") || strings.Contains(text, "${"+name+":-") || strings.Contains(text, "${env:"+name+"}")
}

// resolved updates the list of variables that the user must set. It removes each variable that env
// defines.
func (r *reading) resolved(env *Value) {
	r.s.Variables = slices.DeleteFunc(r.s.Variables, func(v Variable) bool {
		own := env.Get(v.Name)
		return own != nil && !refersTo(own.Text, v.Name)
	})
}

// words returns the words of the command as strings.
func (r *reading) words() []string {
	var out []string
	for _, w := range r.command {
		out = append(out, w.Text)
	}
	return out
}

// ourArgs returns the arguments of a command that starts Dragoman. It returns false for any other
// command.
func ourArgs(command []string) ([]string, bool) {
	if len(command) == 0 {
		return nil, false
	}
	base := strings.ToLower(command[0][strings.LastIndexAny(command[0], `/\`)+1:])
	switch strings.TrimSuffix(strings.TrimSuffix(base, ".exe"), ".cmd") {
	case "dragoman":
		return command[1:], true
	case "npx", "bunx", "pnpx":
		for i, w := range command[1:] {
			if strings.HasPrefix(w, "@dragoman/cli") {
				return command[i+2:], true
			}
			if !strings.HasPrefix(w, "-") {
				break
			}
		}
	}
	return nil, false
}

// isDragoman reports whether an entry is for Dragoman. This is the case if command starts `dragoman
// serve`, or if address is an MCP endpoint with a host and port from ours.
func isDragoman(command []string, address string, ours []string) bool {
	if args, ok := ourArgs(command); ok && len(args) > 0 && args[0] == "serve" {
		return true
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	path := strings.TrimSuffix(u.Path, "/")
	switch {
	case path == "/mcp", path == "/sse", path == "/find/mcp", path == "/find/sse":
	case strings.HasPrefix(path, "/s/"), strings.HasPrefix(path, "/p/"):
		if !strings.HasSuffix(path, "/mcp") && !strings.HasSuffix(path, "/sse") {
			return false
		}
	default:
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	for _, a := range ours {
		host, p, err := net.SplitHostPort(a)
		if err == nil && p == port && (strings.EqualFold(host, u.Hostname()) || local(host) && local(u.Hostname())) {
			return true
		}
	}
	return false
}

// local reports whether host names this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || strings.EqualFold(host, "localhost") || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}
