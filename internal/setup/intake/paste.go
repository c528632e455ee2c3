package intake

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/base/servername"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// These are the limits of Paste.
const (
	MaxPaste  = 1 << 20 // the maximum length of a text in bytes
	MaxServer = 100     // the maximum number of servers in one text
)

// Pasted is the result of Paste.
type Pasted struct {
	Form    string              // the kind of text: "a command", "a URL", "JSON", "YAML" or "TOML"
	Servers []clientfile.Server // at least one
	Notes   []string            // notes about the whole text
	// Unsure contains the names of the servers that a person should confirm. If a text has several
	// commands, a command without a known launcher may be a step of an installation and not a
	// server.
	Unsure []string
}

// PasteError is the reason why Paste cannot read a text. It never contains the pasted text.
type PasteError struct {
	Text string // the problem, in lower case and without a full stop
	Hint string // what to do; "" if Text already says what to do
	Line int    // 1-based; 0 if unknown
}

// Error returns the problem with its line number.
func (e *PasteError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("line %d: %s", e.Line, e.Text)
	}
	return e.Text
}

const pasteForms = "paste a command such as `npx -y PACKAGE`, a URL, or a snippet with mcpServers in JSON, YAML or TOML"

// Paste reads a text that a person has copied: commands with the quoting of a shell, URLs, links
// that install a server in an editor, or a snippet or a whole file of a client. Paste also reads
// commands that add a server to another client, such as claude mcp add. Paste runs nothing. It uses
// only the fields OS and Addresses of opt. The error is always a *PasteError.
func Paste(text string, opt clientfile.Options) (Pasted, error) {
	if len(text) > MaxPaste {
		return Pasted{}, &PasteError{Text: "the text is larger than 1 MiB", Hint: "paste only the entry of the server"}
	}
	p, err := paste(unfenced(text), opt)
	if err == nil && len(p.Servers) == 0 {
		err = &PasteError{Text: "the text has no MCP servers", Hint: pasteForms}
	}
	if err != nil {
		return Pasted{}, asPasteError(err)
	}
	return p, nil
}

func asPasteError(err error) *PasteError {
	var mine *PasteError
	var shell *shellNeeded
	var syntax *clientfile.SyntaxError
	var bad *config.Error
	switch {
	case errors.As(err, &mine):
		return mine
	case errors.As(err, &shell):
		return &PasteError{Text: shell.Error(), Hint: "Dragoman starts programs without a shell: paste only the command that starts the server"}
	case errors.As(err, &syntax):
		return &PasteError{Text: syntax.Text, Line: syntax.Line, Hint: pasteForms}
	case errors.As(err, &bad):
		return &PasteError{Text: bad.Problems[0].Text, Line: bad.Problems[0].Line, Hint: bad.Problems[0].Hint}
	}
	return &PasteError{Text: err.Error(), Hint: pasteForms}
}

// unfenced returns the content of the first fenced code block in a Markdown text. If there is no
// code block, unfenced returns the text.
func unfenced(text string) string {
	text = strings.TrimPrefix(strings.ReplaceAll(text, "\r\n", "\n"), "\ufeff")
	_, rest, ok := strings.Cut("\n"+text, "\n```")
	if !ok {
		return strings.TrimSpace(text)
	}
	_, rest, _ = strings.Cut(rest, "\n") // skip the name of the language
	rest, _, _ = strings.Cut(rest, "\n```")
	return strings.TrimSpace(strings.TrimSuffix(rest, "```"))
}

var (
	tomlTable = pattern.Later(`^\[[A-Za-z_][A-Za-z0-9_."' -]*\]\s*(?:#.*)?$`)
	yamlKey   = pattern.Later(`^(?:[A-Za-z0-9_][A-Za-z0-9_.@/-]*|"[^"]+"|'[^']+'):(?:\s|$)`)
)

func paste(text string, opt clientfile.Options) (Pasted, error) {
	first := ""
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "//") {
			first = l
			break
		}
	}
	switch {
	case first == "":
		return Pasted{}, &PasteError{Text: "nothing was pasted", Hint: pasteForms}
	case clientfile.LooksLikeJSON([]byte(text)):
		return snippet("JSON", "paste.json", text, opt)
	case strings.HasPrefix(first, "[") && !tomlTable().MatchString(first):
		return snippet("JSON", "paste.json", `{"mcpServers": `+strings.TrimRight(text, ", \t\n")+`}`, opt)
	case strings.HasPrefix(first, `"`) && yamlKey().MatchString(first) && strings.Contains(text, "{"):
		return snippet("JSON", "paste.json", "{"+text+"}", opt)
	case tomlTable().MatchString(first):
		return snippet("TOML", "paste.toml", text, opt)
	case yamlKey().MatchString(first):
		return snippet("YAML", "paste.yaml", text, opt)
	}
	return commands(text, opt)
}

// snippet reads a snippet or a whole file of a client. form becomes Pasted.Form. The extension of
// name decides whether the text is parsed as JSON, TOML or YAML.
func snippet(form, name, text string, opt clientfile.Options) (Pasted, error) {
	root, err := config.ParseSnippet(name, []byte(text))
	if err != nil {
		return Pasted{}, err
	}
	return fromValue(form, name, root, opt)
}

// fromValue reads the servers of a snippet.
func fromValue(form, name string, root *clientfile.Value, opt clientfile.Options) (Pasted, error) {
	client := clientfile.Identify(name, root)
	if inner := root.Get("context_servers"); client == nil && inner != nil {
		root = within(inner)
	}
	if list := root.Get("mcpServers"); list != nil && list.Kind == clientfile.List {
		root = within(named(list.Items))
		client = nil
	}
	if root.Get("inputs") != nil && root.Get("mcpServers") != nil {
		root.Members = append(root.Members, clientfile.Member{Key: "servers", Value: root.Get("mcpServers")})
		client, _ = clientfile.ByID("vscode")
	}
	switch {
	case client != nil:
	case isEntry(root):
		root = within(named([]*clientfile.Value{root}))
	case root.Kind == clientfile.Map && len(root.Members) > 0 && isEntry(root.Members[0].Value):
		root = within(root)
	}
	if client == nil {
		client = clientfile.Identify(name, root)
	}
	if client == nil {
		e := &PasteError{Text: "the text has no MCP servers", Hint: pasteForms}
		if what, hint := clientfile.Format(root); what != "" {
			e.Text, e.Hint = "the text has no MCP servers; it seems to be "+what, hint
		}
		return Pasted{}, e
	}
	opt.AllProjects, opt.Most = true, MaxServer
	file := clientfile.Read(client, name, root, false, opt)
	out := Pasted{Form: form, Servers: file.Servers}
	if file.Unread > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("The text has %d servers. Only the first %d are used.", len(file.Servers)+file.Unread, MaxServer))
	}
	for _, n := range file.Notes {
		out.Notes = append(out.Notes, n.String())
	}
	for i := range out.Servers { // Dragoman's own configuration file may also have settings for each server
		if own := root.Get("dragoman", "servers", out.Servers[i].Original); own != nil && out.Servers[i].Entry != nil {
			out.Servers[i].Settings = own
		}
	}
	return out, nil
}

// isEntry reports whether a value looks like an entry for one server.
func isEntry(v *clientfile.Value) bool {
	if v == nil || v.Kind != clientfile.Map {
		return false
	}
	for _, key := range []string{"command", "url", "httpUrl", "serverUrl"} {
		if x := v.Get(key); x != nil && x.Kind != clientfile.Map {
			return true
		}
	}
	return false
}

func within(servers *clientfile.Value) *clientfile.Value {
	return clientfile.Mapping("mcpServers", servers)
}

// named returns a mapping from names to entries. An entry without a name is named after its command
// or its host.
func named(entries []*clientfile.Value) *clientfile.Value {
	out := &clientfile.Value{Kind: clientfile.Map}
	var names clientfile.Names
	for _, e := range entries {
		name := ""
		if n := e.Get("name"); n != nil && n.Kind == clientfile.String {
			name = n.Text
		}
		if name == "" && isEntry(e) {
			name = nameOfEntry(e)
		}
		name = names.Take(cmp.Or(name, "server"), nil)
		out.Members = append(out.Members, clientfile.Member{Key: name, Value: e, Line: e.Line, Col: e.Col})
	}
	return out
}

// nameOfEntry returns a name for an entry that has no name. The name is made from the entry's URL
// or command.
func nameOfEntry(e *clientfile.Value) string {
	for _, key := range []string{"url", "httpUrl", "serverUrl"} {
		if u := e.Get(key); u != nil {
			return nameOfURL(u.Text)
		}
	}
	words := []string{}
	if c := e.Get("command"); c.Kind == clientfile.List {
		for _, i := range c.Items {
			words = append(words, i.Text)
		}
	} else {
		words = commandOf(e)
	}
	if len(words) == 0 || words[0] == "" {
		return "server"
	}
	dir := ""
	if d := e.Get("cwd"); d != nil {
		dir = d.Text
	}
	return clientfile.Name(servername.OfCommand(words, dir))
}

// nameOfURL returns the name of the organisation in a host name, such as example for
// mcp.example.com. Clients put the name of a server in front of the names of its tools, and some
// clients allow no dots in the names of tools.
func nameOfURL(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "server"
	}
	labels := strings.Split(u.Hostname(), ".")
	if len(labels) < 2 || strings.Trim(u.Hostname(), "0123456789.") == "" || strings.Contains(u.Hostname(), ":") {
		return clientfile.Name(servername.OfHost(u.Host))
	}
	at := len(labels) - 2
	if at > 0 && len(labels[at]) <= 3 && labels[at-1] != "mcp" && labels[at-1] != "api" && labels[at-1] != "www" {
		at-- // for example example.co.uk
	}
	return clientfile.Name(labels[at])
}

// found collects the servers that a pasted text describes.
type found struct {
	servers clientfile.Value
	names   clientfile.Names
}

func (f *found) add(name string, entry *clientfile.Value) {
	f.servers.Members = append(f.servers.Members, clientfile.Member{Key: f.names.Take(name, nil), Value: entry})
}

// pasted reads the servers as a file of this form.
func (f *found) pasted(form string, opt clientfile.Options) (Pasted, error) {
	return fromValue(form, "paste.json", within(&f.servers), opt)
}

// commands reads command lines, URLs and install links.
func commands(text string, opt clientfile.Options) (Pasted, error) {
	f := found{servers: clientfile.Value{Kind: clientfile.Map}}
	if address := strings.TrimSpace(text); !strings.ContainsAny(address, " \t\n\"'") {
		if name, entry, ok, err := installLink(address); err != nil {
			return Pasted{}, err
		} else if ok {
			f.add(cmp.Or(name, nameOfEntry(entry)), entry)
			return f.pasted("an install link", opt)
		}
		if full := cmp.Or(WithScheme(address), address); strings.Contains(full, "://") {
			f.add(nameOfURL(full), clientfile.Mapping("url", clientfile.Text(full)))
			out, err := f.pasted("a URL", opt)
			if full != address {
				out.Notes = append(out.Notes, "The address has no scheme, so Dragoman uses "+full[:strings.Index(full, "://")]+".")
			}
			return out, err
		}
	}
	lines, err := commandLines(text, opt.OS == "windows")
	if err != nil {
		return Pasted{}, err
	}
	form := "a command"
	for _, l := range lines {
		if inner, ok, err := addCommand(l); err != nil {
			return Pasted{}, err
		} else if ok {
			for _, m := range inner.Members {
				f.add(m.Key, m.Value)
			}
			continue
		}
		if len(l.words) == 1 && strings.Contains(l.words[0], "://") {
			form = "a URL"
			f.add(nameOfURL(l.words[0]), clientfile.Mapping("url", clientfile.Text(l.words[0])))
			continue
		}
		entry := started(l.words, l.env)
		if l.dir != "" {
			entry.Members = append(entry.Members, clientfile.Member{Key: "cwd", Value: clientfile.Text(l.dir)})
		}
		f.add(nameOfEntry(entry), entry)
	}
	if len(f.servers.Members) == 0 {
		return Pasted{}, &PasteError{Text: "the text has no command", Hint: pasteForms}
	}
	out, err := f.pasted(form, opt)
	if err == nil && len(lines) > 1 {
		out.unsure()
	}
	return out, err
}

// unsure sets Unsure for a text with several commands. If Unsure is not empty, it adds a note about
// these servers.
func (p *Pasted) unsure() {
	for _, s := range p.Servers {
		if s.Entry != nil && s.Entry.Get("command") != nil && !servername.Launches(commandOf(s.Entry)) {
			p.Unsure = append(p.Unsure, s.Name)
		}
	}
	if n := len(p.Unsure); n > 0 {
		const most = 5
		names := strings.Join(p.Unsure[:min(n, most)], ", ")
		if n > most {
			names += fmt.Sprintf(" and %d more", n-most)
		}
		p.Notes = append(p.Notes, "The text has several commands. Those that do not start with a known launcher, such as npx or uvx, are not chosen: "+names+".")
	}
}

// started returns the entry of a server that a command starts.
func started(words []string, env []assignment) *clientfile.Value {
	entry := clientfile.Mapping("command", clientfile.Text(words[0]))
	if len(words) > 1 {
		entry.Members = append(entry.Members, clientfile.Member{Key: "args", Value: clientfile.Texts(words[1:])})
	}
	if len(env) > 0 {
		v := &clientfile.Value{Kind: clientfile.Map}
		for _, e := range env {
			v.Members = append(v.Members, clientfile.Member{Key: e.name, Value: clientfile.Text(e.value)})
		}
		entry.Members = append(entry.Members, clientfile.Member{Key: "env", Value: v})
	}
	return entry
}

// adders are the programs that have a subcommand mcp add.
var adders = []string{"claude", "codex", "gemini", "cursor-agent", "qwen"}

// valued are the flags of mcp add that take a value.
var valued = strings.Fields("-s --scope -t --transport -e --env -H --header --url --timeout --description --bearer-token-env-var --include-tools --exclude-tools")

// addCommand reads a command that adds a server to a client, such as claude mcp add or code
// --add-mcp. ok is false for any other command.
func addCommand(l commandLine) (servers *clientfile.Value, ok bool, err error) {
	w := l.words
	program := strings.TrimSuffix(w[0][strings.LastIndexAny(w[0], `/\`)+1:], ".exe")
	switch {
	case len(w) == 3 && w[1] == "--add-mcp":
		root, err := config.ParseSnippet("paste.json", []byte(unescaped(w[2])))
		if err != nil {
			return nil, true, err
		}
		return named([]*clientfile.Value{root}), true, nil
	case len(w) < 4 || !slices.Contains(adders, program) || w[1] != "mcp":
		return nil, false, nil
	case w[2] == "add-json":
		args := slices.DeleteFunc(slices.Clone(w[3:]), func(a string) bool { return strings.HasPrefix(a, "-") })
		if len(args) < 2 {
			return nil, true, &PasteError{Text: "the command has no JSON after the name", Hint: pasteForms}
		}
		root, err := config.ParseSnippet("paste.json", []byte(unescaped(args[len(args)-1])))
		if err != nil {
			return nil, true, err
		}
		return clientfile.Mapping(args[len(args)-2], root), true, nil
	case w[2] != "add":
		return nil, false, nil
	}
	return addedServer(w[3:], l.env)
}

// addedServer reads the words after mcp add: the name of the server, its URL or command, and flags.
func addedServer(rest []string, env []assignment) (servers *clientfile.Value, ok bool, err error) {
	var positional []string
	headers, address, kind := &clientfile.Value{Kind: clientfile.Map}, "", ""
	byURL := func() bool { return len(positional) == 2 && strings.Contains(positional[1], "://") }
	for len(rest) > 0 && (len(positional) < 2 || byURL()) { // flags may also follow a URL
		a := rest[0]
		rest = rest[1:]
		if a == "--" {
			positional = append(positional, rest...)
			rest = nil
			break
		}
		if !strings.HasPrefix(a, "-") {
			positional = append(positional, a)
			continue
		}
		flag, value, inline := strings.Cut(a, "=")
		if !inline && slices.Contains(valued, flag) && len(rest) > 0 {
			value, rest = rest[0], rest[1:]
		}
		switch flag {
		case "-e", "--env":
			name, v, _ := strings.Cut(value, "=")
			env = append(env, assignment{name, v})
		case "-H", "--header":
			name, v, _ := strings.Cut(value, ":")
			headers.Members = append(headers.Members, clientfile.Member{Key: strings.TrimSpace(name), Value: clientfile.Text(strings.TrimSpace(v))})
		case "--url":
			address = value
		case "-t", "--transport":
			kind = value
		case "--bearer-token-env-var":
			headers.Members = append(headers.Members, clientfile.Member{Key: "Authorization", Value: clientfile.Text("Bearer ${" + value + "}")})
		}
	}
	if len(positional) > 1 && positional[1] == "--" {
		positional = append(positional[:1], positional[2:]...)
	}
	positional = append(positional, rest...) // the words after the command are its arguments, even if they look like flags
	if len(positional) == 0 || len(positional) == 1 && address == "" {
		return nil, true, &PasteError{Text: "the command does not contain a server to start or to connect to", Hint: pasteForms}
	}
	if address == "" && !byURL() {
		return clientfile.Mapping(positional[0], started(positional[1:], env)), true, nil
	}
	entry := &clientfile.Value{Kind: clientfile.Map}
	if kind != "" {
		entry.Members = append(entry.Members, clientfile.Member{Key: "type", Value: clientfile.Text(kind)})
	}
	entry.Members = append(entry.Members, clientfile.Member{Key: "url", Value: clientfile.Text(cmp.Or(address, positional[len(positional)-1]))})
	if len(headers.Members) > 0 {
		entry.Members = append(entry.Members, clientfile.Member{Key: "headers", Value: headers})
	}
	return clientfile.Mapping(positional[0], entry), true, nil
}

// unescaped reverses the function escaped. ParseSnippet needs the text as it was pasted.
func unescaped(text string) string { return strings.ReplaceAll(text, "$${", "${") }

// installLink reads a link that installs a server in Cursor or VS Code. ok is false for any
// other address.
func installLink(address string) (name string, entry *clientfile.Value, ok bool, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", nil, false, nil
	}
	q := u.Query()
	text := q.Get("config")
	switch {
	case u.Scheme == "vscode" || u.Scheme == "vscode-insiders":
		if u.Opaque != "mcp/install" {
			return "", nil, false, nil
		}
		text, err = url.QueryUnescape(u.RawQuery)
	case u.Scheme == "cursor", strings.HasSuffix(u.Path, "/install-mcp"), strings.HasSuffix(u.Path, "/mcp/install"):
		if text == "" {
			return "", nil, false, nil
		}
		if !strings.HasPrefix(strings.TrimSpace(text), "{") {
			var b []byte
			if b, err = base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/", " ", "+", "=", "").Replace(text)); err == nil {
				text = string(b)
			}
		}
	default:
		return "", nil, false, nil
	}
	var root *clientfile.Value
	if err == nil {
		root, err = config.ParseSnippet("paste.json", []byte(text))
	}
	if err != nil || !isEntry(root) {
		return "", nil, true, &PasteError{Text: "the link does not contain a valid server configuration", Hint: pasteForms}
	}
	if n := root.Get("name"); n != nil {
		name = n.Text
	}
	return cmp.Or(q.Get("name"), name), root, true, nil
}

// withoutScheme matches text that looks like a URL without its scheme.
var withoutScheme = pattern.Later(`^(?:localhost|\[[0-9a-fA-F:]+\]|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)(?::[0-9]+(?:/.*)?|/.*)$`)

// WithScheme adds the probable scheme to a word that looks like a URL without a scheme. For any
// other word, WithScheme returns "".
func WithScheme(word string) string {
	switch {
	case !withoutScheme().MatchString(word):
		return ""
	case strings.HasPrefix(word, "localhost"), strings.HasPrefix(word, "127."), strings.HasPrefix(word, "["):
		return "http://" + word
	}
	return "https://" + word
}
