package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/screen"
)

// importFlags are the flags of import.
type importFlags struct {
	from, only           []string
	into                 string
	allProjects, dry, js bool
}

func (a *app) importCommand() *cobra.Command {
	var o importFlags
	c := &cobra.Command{
		Use:   "import [--from CLIENT]... [--into FILE]",
		Short: "Import the servers of another MCP client",
		Long: `Read the servers of other MCP clients and add them to the configuration file.
CLIENT is claude (Claude Desktop), claude-code, cursor, vscode, codex, gemini,
opencode, all, or the path of a file. Without --from, the command only shows
which clients have servers, and where.

A server that is new is added. One that is the same is left alone. A server with
the same name but other settings is not imported; --only NAME=NEW imports it
under another name. The output lists everything that cannot be carried over, for
each server. Comments and order of the configuration file stay, and the files of
the clients are not changed. A new configuration file is made in the user's
configuration directory.

A variable in a client's file stays a variable: the output lists those that you
have to set. Literal values are copied as they are, credentials too. The
configuration file then has mode 0600, and a warning names them.`,
		Example: `  # Which clients have servers?
  dragoman import

  # Import those of Cursor and Codex, but look first.
  dragoman import --from cursor --from codex --dry-run
  dragoman import --from cursor --from codex

  # Import one server of a file under another name.
  dragoman import --from ./mcp.json --only files=files-work --into dragoman.yaml`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("use `dragoman import --from "+clean(args[0])+"`", "unexpected argument %q", args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			if len(o.from) == 0 {
				if len(o.only) > 0 || o.into != "" || o.dry || o.allProjects {
					return usagef("add --from CLIENT, with one of "+strings.Join(clientfile.IDs(), ", "), "no client to import from")
				}
				return a.showClients(o.js)
			}
			return a.runImport(o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(c)
	f.StringArrayVar(&o.from, "from", nil, "import from `CLIENT`: a name, all, or a file (repeatable)")
	f.StringVar(&o.into, "into", "", "add the servers to the configuration `FILE` (default: the one that serve uses)")
	f.StringArrayVar(&o.only, "only", nil, "import only the server `NAME`, or NAME=NEW to rename it (repeatable)")
	f.BoolVar(&o.allProjects, "all-projects", false, "also import the servers that Claude Code keeps for other projects")
	f.BoolVar(&o.dry, "dry-run", false, "show what would be imported, and write nothing")
	f.BoolVar(&o.js, "json", false, "print JSON")
	_ = c.RegisterFlagCompletionFunc("from", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return append(clientfile.IDs(), "all"), cobra.ShellCompDirectiveDefault
	})
	_ = c.MarkFlagFilename("into", "yaml", "yml", "json")
	return c
}

// machine describes where the clients on this machine keep their files.
func (a *app) machine() clientfile.Machine {
	home, _ := a.env("HOME")
	if home == "" {
		home, _ = a.env("USERPROFILE")
	}
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	folder, _ := os.Getwd()
	return clientfile.Machine{OS: runtime.GOOS, Home: home, Folder: folder, Env: a.env}
}

// addresses returns the addresses on which this Dragoman may listen: the default, and the
// configured one. An entry in a client's file with such an address is an entry of Dragoman.
func (a *app) addresses(file string) []string {
	out := []string{config.Default().Listen}
	if listen, _ := a.listenAddress(file); listen != out[0] {
		out = append(out, listen)
	}
	return out
}

// source is a file of a client that has been read.
type source struct {
	word  string // the value of --from
	place clientfile.Place
	root  *clientfile.Value
	file  clientfile.File
}

// readPlace reads the file of a client. It returns nil if the file does not exist.
func (a *app) readPlace(m clientfile.Machine, p clientfile.Place, all bool, addresses []string) (*source, error) {
	b, err := clientfile.Load(p.Path)
	if err != nil || b == nil {
		return nil, err
	}
	root, err := clientfile.Parse(p.Path, b)
	if err != nil {
		return nil, err
	}
	if p.Client == nil {
		if p.Client = clientfile.Identify(p.Path, root); p.Client == nil {
			return nil, withHint(fmt.Errorf("%s has no MCP servers", p.Path), "servers are under mcpServers, servers, mcp or mcp_servers")
		}
	}
	project := p.Project
	if project == "" {
		project = projectOf(root, m.Folder)
	}
	opt := clientfile.Options{OS: m.OS, Project: project, AllProjects: all, Addresses: addresses}
	return &source{place: p, root: root, file: clientfile.Read(p.Client, p.Path, root, p.Project != "", opt)}, nil
}

// projectOf returns the folder of the Claude Code project that contains folder: folder itself
// or its nearest parent with settings. If there is none, it returns folder.
func projectOf(root *clientfile.Value, folder string) string {
	for at := folder; ; at = filepath.Dir(at) {
		if root.Get("projects", at) != nil {
			return at
		}
		if at == filepath.Dir(at) {
			return folder
		}
	}
}

// sources reads the files that --from selects.
func (a *app) sources(o importFlags, addresses []string) ([]*source, error) {
	m := a.machine()
	var out []*source
	for _, word := range o.from {
		var places []clientfile.Place
		c, known := clientfile.ByID(word)
		switch {
		case word == "all":
			for _, c := range clientfile.Clients() {
				places = append(places, m.Places(c)...)
			}
		case known:
			places = m.Places(c)
		default:
			p := clientfile.Place{Path: word}
			if st, err := os.Stat(word); err != nil || st.IsDir() {
				hint := "use one of " + strings.Join(clientfile.IDs(), ", ") + ", all, or the path of a file"
				if s := config.Suggest(word, clientfile.IDs()); s != "" {
					hint = "did you mean " + s + "?"
				}
				return nil, usagef(hint, "--from %q is neither a client nor a file", word)
			}
			p.Project = projectOfFile(word)
			places = []clientfile.Place{p}
		}
		found := false
		for _, p := range places {
			s, err := a.readPlace(m, p, o.allProjects, addresses)
			if err != nil {
				return nil, err
			}
			if s != nil {
				found = true
				if s.word = s.place.Client.ID; !known && word != "all" {
					s.word = word
				}
				out = append(out, s)
			}
		}
		if !found && known {
			var paths []string
			for _, p := range places {
				paths = append(paths, p.Path)
			}
			return nil, withHint(fmt.Errorf("%s has no configuration here", c.Title), "looked for %s; name another file with --from FILE", strings.Join(paths, ", "))
		}
	}
	return out, nil
}

// projectOfFile returns the folder of the project that a file belongs to, by its path, or "".
func projectOfFile(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	dir := filepath.Dir(abs)
	switch name := filepath.Base(abs); {
	case name == ".mcp.json":
		return dir
	case filepath.Base(dir) == ".vscode":
		return filepath.Dir(dir)
	}
	return ""
}

// The result of the import for one server.
const (
	statusNew       = "new"
	statusSame      = "same"
	statusDifferent = "different"
	statusSkipped   = "skipped"
)

// candidate is one server that could be imported.
type candidate struct {
	status string
	why    string // why it is skipped; "" otherwise
	name   string // the name in Dragoman's file
	server clientfile.Server
	source *source
	parsed config.Server
}

func (a *app) runImport(o importFlags) error {
	rename, err := onlyNames(o.only)
	if err != nil {
		return err
	}
	into, before, err := a.importTarget(o.into)
	if err != nil {
		return err
	}
	old, err := a.parseOurs(into, before)
	if err != nil {
		return err
	}
	sources, err := a.sources(o, []string{config.Default().Listen, old.Listen})
	if err != nil {
		return err
	}
	all := a.candidates(sources, rename, old)
	for name := range rename {
		if !slices.ContainsFunc(all, func(c candidate) bool { return c.server.Name == name || c.server.Original == name }) {
			return usagef("run `dragoman import --from "+clean(o.from[0])+" --dry-run` for the names", "no server is named %q there", name)
		}
	}
	var add []clientfile.Added
	for _, c := range all {
		if c.status == statusNew {
			add = append(add, clientfile.Added{Name: c.name, Comment: "from " + c.from(), Entry: c.server.Entry, Settings: c.server.Settings})
		}
	}
	after := before
	if len(add) > 0 {
		if after, err = a.merged(into, before, old, add); err != nil {
			return err
		}
	}
	written := len(add) > 0 && !o.dry
	secrets := literalSecrets(all)
	if written {
		change := clientfile.Change{Path: into, Before: before, After: after, Private: len(secrets) > 0}
		if _, err := change.Write(time.Now()); err != nil {
			return fmt.Errorf("write %s: %w", into, err)
		}
	}
	if o.js {
		return a.printImport(into, written, all, sources)
	}
	if err := a.showImport(all, sources); err != nil {
		return err
	}
	a.tellImport(into, before == nil, written, o.dry, all, secrets)
	return nil
}

// onlyNames reads the values of --only.
func onlyNames(only []string) (map[string]string, error) {
	out := map[string]string{}
	for _, w := range only {
		name, to, has := strings.Cut(w, "=")
		if !has {
			to = name
		}
		if name == "" || has && clientfile.Name(to) != to {
			return nil, usagef("use --only NAME or --only NAME=NEW; a name consists of letters, digits, dots, _ and -", "--only %q is not a name of a server", w)
		}
		out[name] = clientfile.Name(to)
	}
	return out, nil
}

// importTarget returns the path of Dragoman's file and its content. The content is nil if the
// file does not exist.
func (a *app) importTarget(given string) (path string, b []byte, err error) {
	path, found := given, given != ""
	if !found {
		path, found = config.Find(a.env)
	}
	if !found {
		places := config.Places(a.env)
		path = places[len(places)-1]
	}
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".yaml", ".yml", ".json", "":
	default:
		return "", nil, usagef("name a file that ends in .yaml", "--into %q: Dragoman's own file is YAML or JSON", path)
	}
	b, err = clientfile.Load(path)
	if err != nil {
		return "", nil, fmt.Errorf("read %s: %w", path, err)
	}
	return path, b, nil
}

// standIns replace variables that are not set, so that a file can be read without them.
var standIns = []string{"http://unset.invalid", "1", "unset"}

// parseOurs parses Dragoman's configuration. Environment variables that it uses may be unset.
func (a *app) parseOurs(path string, b []byte) (*config.Snapshot, error) {
	if b == nil {
		return config.Default(), nil
	}
	var first error
	for _, in := range standIns {
		s, problems := config.Parse(path, b, func(name string) (string, bool) {
			if v, ok := a.env(name); ok && v != "" {
				return v, true
			}
			return in, true
		})
		if s != nil {
			return s, nil
		}
		if first == nil {
			first = problems.Err()
		}
	}
	return nil, first
}

// candidates returns the servers of all sources with their status: new, same, different or
// skipped.
func (a *app) candidates(sources []*source, rename map[string]string, old *config.Snapshot) []candidate {
	var out []candidate
	taken := map[string]config.Server{}
	for _, s := range old.Servers {
		taken[s.Name] = s
	}
	for _, src := range sources {
		for _, s := range src.file.Servers {
			c := candidate{name: s.Name, server: s, source: src}
			if len(rename) > 0 {
				to, ok := rename[s.Original]
				if !ok {
					to, ok = rename[s.Name]
				}
				if !ok {
					continue
				}
				c.name = to
			}
			switch {
			case s.Dragoman:
				c.status, c.why = statusSkipped, "this is Dragoman"
			case s.Broken:
				c.status, c.why = statusSkipped, s.Notes[len(s.Notes)-1].String()
			default:
				a.compare(&c, taken)
			}
			out = append(out, c)
		}
	}
	return out
}

// compare sets the status of a candidate by comparing it with the servers of the same name.
func (a *app) compare(c *candidate, taken map[string]config.Server) {
	one, err := clientfile.AddServers("import.yaml", nil, []clientfile.Added{{Name: c.name, Entry: c.server.Entry, Settings: c.server.Settings}})
	var s *config.Snapshot
	if err == nil {
		s, err = a.parseOurs("import.yaml", one)
	}
	if err != nil || len(s.Servers) != 1 {
		c.status, c.why = statusSkipped, "it is not a valid server"
		var bad *config.Error
		if errors.As(err, &bad) {
			c.why = bad.Problems[0].Path + " " + bad.Problems[0].Text
		}
		return
	}
	c.parsed = s.Servers[0]
	switch old, ok := taken[c.name]; {
	case !ok:
		c.status = statusNew
		taken[c.name] = c.parsed
	case sameServer(old, c.parsed):
		c.status = statusSame
	default:
		c.status = statusDifferent
	}
}

// sameServer reports whether two entries reach the same server in the same way. Settings that
// only Dragoman has are ignored.
func sameServer(a, b config.Server) bool {
	kind := a.Kind == b.Kind || a.Kind == config.KindAuto || b.Kind == config.KindAuto
	env := maps.EqualFunc(a.Env, b.Env, func(x, y config.Secret) bool { return x.Reveal() == y.Reveal() })
	header := slices.EqualFunc(a.Header, b.Header, func(x, y config.Field) bool {
		return strings.EqualFold(x.Name, y.Name) && x.Value.Reveal() == y.Value.Reveal()
	})
	return kind && env && header && a.Command == b.Command && slices.Equal(a.Args, b.Args) && a.URL == b.URL && a.Dir == b.Dir
}

// merged returns Dragoman's file with servers added. It checks that nothing else has changed.
func (a *app) merged(path string, before []byte, old *config.Snapshot, add []clientfile.Added) ([]byte, error) {
	after, err := clientfile.AddServers(path, before, add)
	hint := "write the servers to another file with --into FILE, and copy them from there"
	if err != nil {
		return nil, withHint(fmt.Errorf("%s: %w", path, err), "%s", hint)
	}
	now, err := a.parseOurs(path, after)
	if err != nil {
		return nil, withHint(fmt.Errorf("%s would have problems afterwards: %w", path, err), "%s", hint)
	}
	for _, s := range old.Servers {
		if again, ok := now.Server(s.Name); !ok || again.Fingerprint != s.Fingerprint || !sameServer(again, s) {
			return nil, withHint(fmt.Errorf("the server %s of %s would change", s.Name, path), "%s", hint)
		}
	}
	if len(now.Servers) != len(old.Servers)+len(add) || now.Listen != old.Listen {
		return nil, withHint(fmt.Errorf("%s would change in other places too", path), "%s", hint)
	}
	return after, nil
}

// from returns the name of the client and the path of the file that the server comes from.
func (c candidate) from() string {
	title := c.source.place.Client.Title
	if c.server.Project != "" && c.source.place.Project == "" {
		return title + ", project " + c.server.Project
	}
	return title + ", " + c.source.place.Path
}

// what describes a server on one line, with secrets masked.
func (c candidate) what() string {
	e := c.server.Entry
	if e == nil {
		return ""
	}
	if u := e.Get("url"); u != nil {
		return excerpt.MaskSecrets(u.Text)
	}
	words := []string{e.Get("command").Text}
	if args := e.Get("args"); args != nil {
		for _, i := range args.Items {
			words = append(words, i.Text)
		}
	}
	return excerpt.MaskSecrets(strings.Join(excerpt.Arguments(words, excerpt.Mask), " "))
}

// showImport prints the table of servers, and below it the settings that are not imported.
func (a *app) showImport(all []candidate, sources []*source) error {
	if len(all) == 0 {
		if _, err := fmt.Fprintln(a.stdout, "no servers found"); err != nil {
			return err
		}
	}
	t := screen.Table{Columns: []screen.Column{{Title: "STATUS", Whole: true}, {Title: "SERVER", Whole: true, Most: widestName}, {Title: "CLIENT", Whole: true}, {Title: "WHAT"}}}
	for _, c := range all {
		t.Rows = append(t.Rows, screen.Cells(c.status, c.name, c.source.place.Client.Title, c.what()))
	}
	if len(all) > 0 {
		if err := a.print(t); err != nil {
			return err
		}
	}
	var lines []string
	for _, c := range all {
		switch c.status {
		case statusSkipped:
			lines = append(lines, c.name+": not imported: "+c.why)
			continue
		case statusSame:
			continue
		case statusDifferent:
			lines = append(lines, c.name+": the configuration has another server of this name; import it with --from "+c.source.word+" --only "+c.server.Name+"=NEW")
			continue
		}
		for _, n := range c.server.Notes {
			lines = append(lines, c.name+": "+n.String())
		}
	}
	for _, s := range sources {
		for _, n := range s.file.Notes {
			lines = append(lines, s.place.Path+": "+n.String())
		}
		if n := len(s.file.Elsewhere); n > 0 {
			lines = append(lines, fmt.Sprintf("%s: left out %s for other projects; --all-projects also imports these", s.place.Path, quantity(total(s.file.Elsewhere), "server")))
		}
	}
	for i, l := range lines {
		if i == 0 {
			l = "\n" + clean(excerpt.MaskSecrets(l))
		} else {
			l = clean(excerpt.MaskSecrets(l))
		}
		if _, err := fmt.Fprintln(a.stdout, l); err != nil {
			return err
		}
	}
	return nil
}

func total(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// tellImport prints what was written and what the user still has to do, to stderr.
func (a *app) tellImport(into string, created, written, dry bool, all []candidate, secrets []string) {
	n := 0
	var missing []string
	seen := map[string]bool{}
	for _, c := range all {
		if c.status != statusNew {
			continue
		}
		n++
		for _, v := range c.server.Variables {
			if _, ok := a.env(v.Name); ok || v.Optional || seen[v.Name] {
				continue
			}
			seen[v.Name] = true
			line := "set " + v.Name + " for the server " + c.name
			if v.About != "" {
				line += " (" + v.About + ")"
			}
			missing = append(missing, line)
		}
	}
	if len(secrets) > 0 && n > 0 {
		verb := "now holds"
		if !written {
			verb = "would hold"
		}
		a.status.label(yellow, "warning", clean(into+" "+verb+" literal values that look like credentials: "+strings.Join(secrets, ", ")+"; it has mode 0600"))
		a.status.label(yellow, "hint", "write ${NAME} in their place, and set the variables where dragoman starts")
	}
	if a.quiet {
		return
	}
	for _, l := range missing {
		a.status.label(yellow, "hint", clean(l))
	}
	switch {
	case n == 0:
		a.status.Printf("nothing to import into %s", into)
	case dry:
		a.status.Printf("would add %s to %s; nothing was written", quantity(n, "server"), into)
	case written && created:
		words := configWords(into)
		if usual, ok := a.configPath(""); ok && filepath.Clean(usual) == filepath.Clean(into) {
			words = ""
		}
		a.status.Printf("wrote %s to the new file %s; start with `dragoman serve%s`", quantity(n, "server"), into, words)
	case written:
		a.status.Printf("added %s to %s; a running serve reloads it", quantity(n, "server"), into)
	}
}

// literalSecrets returns the places where new servers have literal values that look like
// secrets.
func literalSecrets(all []candidate) []string {
	var out []string
	for _, c := range all {
		if c.status != statusNew {
			continue
		}
		looks := func(key, value string) bool {
			if strings.Contains(value, "${") && !strings.Contains(value, "$${") {
				return false
			}
			return value != "" && (excerpt.SecretName(key) || excerpt.MaskSecrets(value) != value)
		}
		for _, part := range []string{"env", "headers"} {
			if v := c.server.Entry.Get(part); v != nil {
				for _, m := range v.Members {
					if looks(m.Key, m.Value.Text) {
						out = append(out, c.name+"."+part+"."+m.Key)
					}
				}
			}
		}
		if v := c.server.Entry.Get("args"); v != nil {
			for i, item := range v.Items {
				if looks("", item.Text) || i > 0 && excerpt.SecretName(strings.TrimLeft(v.Items[i-1].Text, "-")) && strings.HasPrefix(v.Items[i-1].Text, "-") && looks("token", item.Text) {
					out = append(out, c.name+".args["+strconv.Itoa(i)+"]")
				}
			}
		}
		if v := c.server.Entry.Get("url"); v != nil && looks("", v.Text) {
			out = append(out, c.name+".url")
		}
	}
	return out
}

// printImport prints the result as JSON.
func (a *app) printImport(into string, written bool, all []candidate, sources []*source) error {
	type note struct {
		Key      string `json:"key,omitempty"`
		Text     string `json:"text"`
		Harmless bool   `json:"harmless"`
		Line     int    `json:"line,omitempty"`
	}
	type variable struct {
		Name  string `json:"name"`
		About string `json:"about,omitempty"`
		Set   bool   `json:"set"`
	}
	type server struct {
		Status    string     `json:"status"`
		Name      string     `json:"name"`
		Original  string     `json:"original"`
		Client    string     `json:"client"`
		File      string     `json:"file"`
		Project   string     `json:"project,omitempty"`
		What      string     `json:"what,omitempty"`
		Why       string     `json:"why,omitempty"`
		Notes     []note     `json:"notes"`
		Variables []variable `json:"variables"`
	}
	out := struct {
		Into    string   `json:"into"`
		Written bool     `json:"written"`
		Servers []server `json:"servers"`
		Other   int      `json:"inOtherProjects"`
	}{Into: into, Written: written, Servers: []server{}}
	for _, c := range all {
		s := server{
			Status: c.status, Name: c.name, Original: c.server.Original, Client: c.source.place.Client.ID, File: c.source.place.Path,
			Project: c.server.Project, What: c.what(), Why: c.why, Notes: []note{}, Variables: []variable{},
		}
		for _, n := range c.server.Notes {
			s.Notes = append(s.Notes, note{n.Key, n.Text, n.Harmless, n.Line})
		}
		for _, v := range c.server.Variables {
			_, set := a.env(v.Name)
			s.Variables = append(s.Variables, variable{v.Name, v.About, set || v.Optional})
		}
		out.Servers = append(out.Servers, s)
	}
	for _, s := range sources {
		out.Other += total(s.file.Elsewhere)
	}
	return a.printJSON(out, "")
}

// showClients prints which clients have servers, and where.
func (a *app) showClients(asJSON bool) error {
	type row struct {
		Client    string   `json:"client"`
		Title     string   `json:"title"`
		File      string   `json:"file"`
		Exists    bool     `json:"exists"`
		Servers   int      `json:"servers"`
		Connected []string `json:"connected"` // the entries that point to Dragoman
		Problem   string   `json:"problem,omitempty"`
	}
	m, addresses := a.machine(), a.addresses("")
	var rows []row
	for _, c := range clientfile.Clients() {
		found := false
		for _, p := range m.Places(c) {
			s, err := a.readPlace(m, p, false, addresses)
			if s == nil && err == nil {
				continue
			}
			found = true
			r := row{Client: c.ID, Title: c.Title, File: p.Path, Exists: true, Connected: []string{}}
			if err != nil {
				r.Problem = strings.TrimPrefix(err.Error(), p.Path+": ")
			} else {
				for _, srv := range s.file.Servers {
					if !srv.Dragoman {
						r.Servers++
					}
				}
				r.Servers += total(s.file.Elsewhere)
				r.Connected = append(r.Connected, clientfile.Connected(c, s.root, addresses)...)
			}
			rows = append(rows, r)
		}
		if !found {
			if p, ok := m.Target(c, false); ok {
				rows = append(rows, row{Client: c.ID, Title: c.Title, File: p.Path, Connected: []string{}})
			}
		}
	}
	if asJSON {
		return a.printJSON(rows, "")
	}
	t := screen.Table{Columns: []screen.Column{{Title: "CLIENT", Whole: true}, {Title: "SERVERS", Right: true}, {Title: "CONNECTED", Whole: true}, {Title: "FILE", Whole: true}}}
	have := ""
	for _, r := range rows {
		servers, connected, file := strconv.Itoa(r.Servers), "no", r.File
		switch {
		case !r.Exists:
			servers, connected, file = "-", "-", "no file "+r.File
		case r.Problem != "":
			servers, connected, file = "?", "?", r.File+": "+r.Problem
		case len(r.Connected) > 0:
			connected = "as " + strings.Join(r.Connected, ", ")
		}
		if r.Servers > 0 && have == "" {
			have = r.Client
		}
		t.Rows = append(t.Rows, screen.Cells(r.Client, servers, connected, file))
	}
	if err := a.print(t); err != nil {
		return err
	}
	if a.quiet {
		return nil
	}
	if have != "" {
		a.status.Printf("import servers with `dragoman import --from %s`, or all with `--from all`", have)
	}
	a.status.Printf("put Dragoman into a client with `dragoman connect CLIENT`")
	return nil
}
