package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// connectCommand is `dragoman connect`.
type connectCommand struct {
	*world

	server, name, file, address, config, keyEnv string
	wrap                                        string
	write, remove, http, stdio, move            bool
	project, asJSON                             bool
}

func newConnectCommand(w *world) *cobra.Command {
	c := &connectCommand{world: w}

	cmd := &cobra.Command{
		Use:   "connect [CLIENT] [--move] [--server NAME] [--wrap NAME] [--write]",
		Short: "Put Dragoman into the configuration of an MCP client",
		Long: `Show the change that puts Dragoman into an MCP client's configuration; with
--write, make it. CLIENT is claude (Claude Desktop), claude-code, cursor,
vscode, codex, gemini or opencode. Without CLIENT, you see the state of each.

The change is one new entry with the URL of "dragoman serve", or with --server
the URL at which it offers only the server NAME. Claude Desktop doesn't support
URLs, so it gets an entry that starts "dragoman serve --stdio", or with --server
"dragoman run URL". With --stdio, every client starts Dragoman.

A client shows a server twice if it's in its own file and, after "dragoman
import", in Dragoman's configuration too. With --move, the command imports the
servers that Dragoman doesn't have yet, takes the entries of all that it has out
of the client's file, and keeps them in FILE.dragoman-moved.

--wrap NAME changes only the entry NAME of the client's file: it puts "dragoman
run" in front of its command or URL, so a client can use a server that it can't
use directly. Environment variables and references stay as they are. Headers
become environment variables of the entry, because other users of the machine
can read a command line.

With --write, the command shows the change, keeps a copy of the file beside it
as FILE.dragoman-backup-DATE, writes the file, and says what to restart. Every
other byte stays as it is. Ten copies are kept, the oldest and the nine newest.

--remove takes all of this back: it removes Dragoman's entry, puts the moved
entries back and unwraps the wrapped ones. If nothing else changed the file, it
becomes the same as before, byte for byte. With --wrap NAME, it only unwraps
NAME. Entries of other servers are never replaced or removed otherwise.`,
		Example: `  # Show the change.
  dragoman connect cursor

  # Make the change, and undo it.
  dragoman connect cursor --write
  dragoman connect cursor --remove --write

  # Put Dragoman in front of one server in the client's file.
  dragoman connect cursor --wrap github --write

  # Move all servers of a client to Dragoman.
  dragoman connect cursor --move --write

  # Connect to a serve that needs an API key. The file names the variable alone.
  dragoman connect cursor --url https://mcp.example.com --key-env DRAGOMAN_KEY

  # Connect only one server, for the project in this directory. Tool names get no prefix.
  dragoman connect claude-code --server github --project --write`,
		Args:              c.check,
		RunE:              c.run,
		ValidArgsFunction: c.complete,
	}
	c.addFlags(cmd)
	return cmd
}

func (c *connectCommand) addFlags(cmd *cobra.Command) {
	f := flagsInOrder(cmd)
	f.BoolVar(&c.write, "write", false, "write the change to the client's file")
	f.BoolVar(&c.move, "move", false, "also import the client's servers, and take them out of its file")
	f.StringVar(&c.wrap, "wrap", "", "put \"dragoman run\" in front of the entry `NAME` of the client's file")
	f.BoolVar(&c.remove, "remove", false, "take back what this command has changed in the file")
	f.StringVar(&c.server, "server", "", "connect only the configured server `NAME`")
	f.BoolVar(&c.http, "http", false, "connect over HTTP, to a running serve (default, except for claude)")
	f.BoolVar(&c.stdio, "stdio", false, "let the client start Dragoman (default for claude)")
	f.BoolVar(&c.project, "project", false, "change the client's file for the project in the working directory")
	f.StringVar(&c.file, "file", "", "change `FILE` instead of the client's usual file")
	f.StringVar(&c.name, "name", "", "call the entry `NAME` (default: dragoman, or the server's name)")
	f.StringVar(&c.address, "url", "", "the base `URL` of \"dragoman serve\" (default: from the configuration)")
	f.StringVar(&c.keyEnv, "key-env", "", "send the API key in the environment variable `NAME`")
	f.BoolVar(&c.asJSON, "json", false, "print JSON")
	addConfigFlag(cmd, &c.config)
	_ = cmd.RegisterFlagCompletionFunc("server", func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return c.env.completeTarget(&c.config)(cmd, nil, word)
	})
}

func (c *connectCommand) check(_ *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return usagef("connect one client at a time", "unexpected argument %q", args[1])
	case len(args) == 0 && (c.write || c.remove || c.move || c.wrap != "" || c.server != "" || c.file != ""):
		return usagef("name one of "+strings.Join(clientfile.IDs(), ", "), "no client given")
	case c.http && c.stdio:
		return usagef("remove one of them", "--http and --stdio cannot be used together")
	case c.keyEnv != "" && !clientfile.IsVariable(c.keyEnv):
		return usagef("use a name such as DRAGOMAN_KEY, and set the variable to the key", "%q is not the name of an environment variable", c.keyEnv)
	case c.project && c.file != "":
		return usagef("remove one of them", "--project and --file cannot be used together")
	case c.wrap != "" && (c.move || c.server != "" || c.name != "" || c.address != "" || c.keyEnv != "" || c.http || c.stdio):
		return usagef("use it with --write, --remove, --project, --file or --json", "--wrap changes only the entry %q, so it does not work with flags for Dragoman's own entry", c.wrap)
	}
	return nil
}

func (c *connectCommand) run(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return showClients(c.world, c.asJSON)
	}
	client, ok := clientfile.ByName(args[0])
	if !ok {
		hint := "use one of " + strings.Join(clientfile.IDs(), ", ") + "; for another client, write the URL of `dragoman serve` into its configuration"
		if s := config.Suggest(args[0], clientfile.IDs()); s != "" {
			hint = "did you mean " + s + "?"
		}
		return usagef(hint, "%q is not a client that Dragoman knows", args[0])
	}
	if folder := filepath.Dir(c.file); c.file != "" { // usual files get their folder, but this path may have a typing error
		if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
			return usagef("correct --file, or make the folder first", "there is no folder %q", folder)
		}
	}
	return c.connect(cmd.Context(), client)
}

func (c *connectCommand) complete(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var out []string
	if len(args) == 0 {
		for _, c := range clientfile.Clients() {
			out = append(out, cobra.CompletionWithDesc(c.ID, c.Title))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// connection is a change of a client's file that connects or disconnects it.
type connection struct {
	client        *clientfile.Client
	place         clientfile.Place
	path          string
	before, after []byte // nil if there is no file
	addresses     []string
	entry         clientfile.Entry
	base          string // the base URL of serve
	action        string // "add", "replace", "move", "wrap", "unwrap", "remove" or "none"
	diff          string // "" for no change
	written       bool
	backup        string // the path of the old file; "" for none

	// --move imports servers first. These are nil and "" if there are none to import.
	importer   *importCommand
	imported   *importResult
	importDiff string

	kept    clientfile.Change // the change of the file with moved entries; Path is "" for none
	moved   []string          // the entries that leave the file, or come back to it
	overlap overlap
	openURL bool // --wrap writes a URL with a credential into a command line
}

// connect shows the change of a client's configuration. With --write, it also makes the change.
func (c *connectCommand) connect(ctx context.Context, client *clientfile.Client) error {
	x, err := c.plan(client)
	if err != nil {
		return err
	}
	if x.imported != nil && c.write {
		if err := c.writeImport(ctx, x); err != nil {
			return err
		}
	}
	if x.action != "none" && c.write {
		if err := c.writeChange(x); err != nil {
			return err
		}
	}
	if c.asJSON {
		return c.printChange(x)
	}
	if !c.write {
		if _, err := fmt.Fprint(c.stdout, x.importDiff+x.diff); err != nil {
			return err
		}
	}
	c.reportImport(x)
	if !c.quiet {
		c.report(ctx, x)
	}
	return nil
}

// printChange prints the change as JSON.
func (c *connectCommand) printChange(x *connection) error {
	var imported []string
	if x.imported != nil {
		for _, s := range x.imported.new() {
			imported = append(imported, s.Name)
		}
	}
	return c.printJSON(struct {
		Client   string   `json:"client"`
		File     string   `json:"file"`
		Entry    string   `json:"entry"`
		Action   string   `json:"action"`
		URL      string   `json:"url,omitempty"`
		Command  []string `json:"command,omitempty"`
		Imported []string `json:"imported,omitempty"`
		Moved    []string `json:"moved,omitempty"`
		Twice    []string `json:"twice,omitempty"`
		Written  bool     `json:"written"`
		Backup   string   `json:"backup,omitempty"`
		Diff     string   `json:"diff,omitempty"`
	}{x.client.ID, x.path, x.entry.Name, x.action, x.entry.URL, x.entry.Command, imported, x.moved, x.overlap.twice, x.written, x.backup, x.importDiff + x.diff}, "")
}

// plan returns the change that the flags ask for.
func (c *connectCommand) plan(client *clientfile.Client) (*connection, error) {
	x, err := c.open(client)
	if err != nil {
		return nil, err
	}
	switch {
	case c.wrap != "":
		err = c.planWrap(x)
	case c.remove:
		err = c.planRemove(x)
	default:
		err = c.planConnect(x)
	}
	var taken *clientfile.Taken
	var syntax *clientfile.SyntaxError
	switch {
	case errors.As(err, &taken) && c.remove:
		return nil, withHint(fmt.Errorf("%s: the server %q is not Dragoman, so it was not removed", x.path, taken.Name), "run `dragoman connect` to see which entries lead to Dragoman")
	case errors.As(err, &taken):
		return nil, withHint(fmt.Errorf("%s: %w", x.path, err), "choose another name with --name, or remove that server first")
	case errors.As(err, &syntax):
		return nil, withHint(err, "correct the file, or name another with --file")
	case err != nil:
		return nil, err
	}
	x.compare(c.remove)
	return x, nil
}

// open reads the client's file.
func (c *connectCommand) open(client *clientfile.Client) (*connection, error) {
	place := clientfile.Place{Client: client, Path: c.file, Project: intake.ProjectOfFile(c.file)}
	if c.file == "" {
		var ok bool
		m := intake.Machine(c.env)
		if place, ok = m.Target(client, c.project); !ok {
			return nil, usagef("remove --project", "%s does not have configuration files for single projects", client.Title)
		}
		if m.Home == "" && !filepath.IsAbs(place.Path) { // it would be a file in the working directory
			return nil, withHint(errors.New("HOME is not set, so the file of "+client.Title+" is not known"), "set it, or use --file")
		}
	}
	x := &connection{client: client, place: place, path: place.Path}
	var err error
	if x.before, err = clientfile.Load(x.path); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", x.path, err)
	}
	if x.base, err = c.env.serveAddress(c.address, c.config); err != nil {
		return nil, err
	}
	x.addresses = c.env.addresses(c.config)
	if u, err := url.Parse(x.base); err == nil {
		x.addresses = append(x.addresses, hostPort(u))
	}
	return x, nil
}

// planConnect plans to add Dragoman's entry, and with --move to import the client's servers and to take out
// the entries of those that Dragoman then has too.
func (c *connectCommand) planConnect(x *connection) (err error) {
	if c.move && c.server == "" {
		if err = c.importFirst(x); err != nil {
			return err
		}
	}
	if x.entry, err = c.entryFor(x); err != nil {
		return err
	}
	x.overlap, err = c.overlapWith(x)
	x.after = x.before
	if c.move {
		if err == nil {
			err = x.moveOut()
		}
		if err != nil {
			return err
		}
	}
	x.after, err = clientfile.Connect(x.client, x.path, x.after, x.entry, x.addresses)
	return err
}

// hostPort returns the host and the port of a URL. If the URL has no port, it returns the default
// port of the scheme.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	if u.Scheme == "https" {
		return u.Host + ":443"
	}
	return u.Host + ":80"
}

// entryFor returns the entry for Dragoman in the configuration of a client.
func (c *connectCommand) entryFor(x *connection) (clientfile.Entry, error) {
	client, base := x.client, x.base
	e := clientfile.Entry{Name: c.name}
	path, found := c.env.configPath(c.config)
	if x.imported != nil {
		path, found = x.imported.into, true
	}
	endpoint := base + "/mcp"
	if c.server != "" {
		if err := c.checkServer(path, found); err != nil {
			return e, err
		}
		endpoint = base + "/s/" + url.PathEscape(c.server) + "/mcp"
	}
	if e.Name == "" {
		e.Name = "dragoman"
		if c.server != "" {
			e.Name = c.server
		}
	}
	if c.http && !client.HTTP {
		return e, usagef("remove --http", "%s does not accept the URL of a server in its configuration file", client.Title)
	}
	freePort := false
	if u, err := url.Parse(base); err == nil && u.Port() == "0" {
		freePort = true
	}
	usesServe := client.HTTP && !c.stdio || c.server != "" || c.address != ""
	if usesServe && freePort {
		return e, withHint(errors.New("serve picks a free port at each start, so a client cannot know its address"), "set dragoman.listen to a fixed port, for example 127.0.0.1:7300")
	}
	if client.HTTP && !c.stdio {
		e.URL, e.Key = endpoint, c.keyEnv
		return e, nil
	}
	self, err := c.self()
	if err != nil {
		return e, err
	}
	if usesServe {
		e.Command = clientfile.RunWords(self, endpoint, c.keyEnv)
		return e, nil
	}
	if !found {
		return e, withHint(c.env.noConfig(), "import servers first: run `dragoman import`")
	}
	if path, err = filepath.Abs(path); err != nil {
		return e, err
	}
	// Let the system choose a free port, because another Dragoman process may use the default port.
	e.Command = []string{self, "serve", "--config", path, "--stdio", "--listen", "127.0.0.1:0"}
	return e, nil
}

// checkServer returns an error if the configuration does not have the server of --server. With
// --url, it accepts any name, because serve on another machine may have other servers.
func (c *connectCommand) checkServer(path string, found bool) error {
	switch {
	case c.address != "":
		return nil
	case !found:
		return c.env.noConfig()
	}
	b, err := clientfile.Load(path)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	s, err := intake.ParseOurs(path, b, intake.Env(c.env))
	if err != nil {
		return err
	}
	if _, ok := s.Server(c.server); ok {
		return nil
	}
	return unknownServer(c.server, path, serverNames(s))
}

// self returns the absolute path of this program. It prints a warning if the path is in a temporary
// directory.
func (c *connectCommand) self() (string, error) {
	self, err := programPath()
	if err != nil {
		return "", err
	}
	if slashed := filepath.ToSlash(self); strings.Contains(slashed, "/_npx/") || strings.Contains(slashed, "/go-build") {
		c.status.label(yellow, "warning", "this program is in a temporary place, "+clean(self)+"; install it before you connect a client")
	}
	return self, nil
}

// programPath returns the absolute path of this program. If the program dragoman on PATH is the
// same file, programPath returns its path on PATH, which stays valid after an update.
func programPath() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cannot find the path of this program: %w", err)
	}
	if found, err := exec.LookPath("dragoman"); err == nil {
		if found, err = filepath.Abs(found); err == nil && sameFile(found, self) {
			self = found
		}
	}
	return self, nil
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// nameToRemove returns the name of the entry that --remove deletes.
func (c *connectCommand) nameToRemove(x *connection) (string, error) {
	for _, given := range []string{c.name, c.server} {
		if given != "" {
			return given, nil
		}
	}
	const usual = "dragoman"
	if x.before == nil {
		return usual, nil
	}
	root, err := clientfile.Parse(x.path, x.before)
	if err != nil {
		return "", err
	}
	names := clientfile.Connected(x.client, root, x.addresses)
	switch {
	case len(names) == 0, slices.Contains(names, usual):
		return usual, nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", usagef("add --name with one of "+strings.Join(names, ", "), "%s has several entries that lead to Dragoman", x.path)
}

// madeByUs reports whether connect created the file. It returns true if no backup differs from the
// file, and the file contains only the entry.
func (x *connection) madeByUs() bool {
	for _, was := range clientfile.Backups(x.path) {
		if !bytes.Equal(was, x.before) {
			return false
		}
	}
	root, err := clientfile.Parse(x.path, x.before)
	if err != nil {
		return false
	}
	made, ok := clientfile.Remake(x.client, x.path, root, x.entry.Name)
	return ok && bytes.Equal(made, x.before)
}

// compare sets action and diff.
func (x *connection) compare(remove bool) {
	if x.action == "" {
		x.action = "add"
	}
	switch {
	case x.before == nil && remove, x.before != nil && x.after != nil && bytes.Equal(x.before, x.after):
		x.action = "none"
		return
	case x.action != "add":
	case remove:
		x.action = "remove"
	case x.before != nil:
		if root, err := clientfile.Parse(x.path, x.before); err == nil && x.client.Has(root, x.entry.Name) {
			x.action = "replace"
		}
	}
	x.diff = maskedDiff(x.path, x.before, x.after)
}

// maskedDiff returns the difference between two versions of a file for people. It masks secrets,
// because the lines around a change may contain credentials of other servers.
func maskedDiff(path string, before, after []byte) string {
	secrets := append(clientfile.Secrets(path, before), clientfile.Secrets(path, after)...)
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return clientfile.Diff(path, before, after, func(l string) string {
		return cleanLines(excerpt.MaskSecrets(clientfile.Mask(l, secrets, excerpt.Mask)))
	})
}

// announce shows a change on stderr that is about to be made.
func (w *world) announce(diff string) {
	if !w.status.record(slog.LevelInfo, "this change is made", slog.String("code", "change"), slog.String("diff", diff)) {
		_, _ = io.WriteString(w.status, diff)
	}
}

// writeChange shows the change on stderr and makes it.
func (c *connectCommand) writeChange(x *connection) error {
	if !c.asJSON {
		c.announce(x.diff)
	}
	change := clientfile.Change{Path: x.path, Before: x.before, After: x.after, Backup: x.after != nil}
	now := time.Now()
	var err error
	if x.kept.After != nil {
		if _, err = x.kept.Write(now); err != nil {
			return fmt.Errorf("cannot write %s: %w", x.kept.Path, err)
		}
	}
	if x.backup, err = change.Write(now); err != nil {
		if x.kept.After != nil {
			_, _ = clientfile.Change{Path: x.kept.Path, Before: x.kept.After, After: x.kept.Before, Private: true}.Write(now)
		}
		if errors.Is(err, clientfile.ErrChanged) {
			err = withHint(err, "close %s and run the command again", x.client.Title)
		} else if errors.Is(err, fs.ErrPermission) {
			err = withHint(err, "if another program manages this file, make the change in that program")
		}
		return fmt.Errorf("cannot write %s: %w", x.path, err)
	}
	x.written = true
	if x.kept.Path != "" && x.kept.After == nil {
		if _, err = x.kept.Write(now); err != nil {
			return fmt.Errorf("cannot remove %s: %w", x.kept.Path, err)
		}
	}
	return nil
}

// report prints what the command did and what the user has to do next.
func (c *connectCommand) report(ctx context.Context, x *connection) {
	switch {
	case x.action == "none":
		c.status.Printf("%s", c.nothing(x))
	case !c.write:
		c.status.Printf("nothing was written; add --write to make this change")
	default:
		c.status.Printf("changed %s", x.path)
		if x.backup != "" {
			c.status.Printf("the old file is %s", x.backup)
		}
		c.reportMoved(x)
		c.status.Printf("now %s", x.client.Reload)
	}
	c.reportOverlap(x)
	usesServe := x.entry.URL != "" || len(x.entry.Command) > 2 && x.entry.Command[1] == "run"
	if c.remove || c.wrap != "" || !usesServe {
		return
	}
	s, err := locator{c.env}.runningAt(x.base)
	if err == nil {
		defer s.close()
		_, _, err = s.page(ctx, "/healthz")
	}
	if err == nil {
		return
	}
	hint := "nothing answers at " + clean(x.base) + " yet; start `dragoman serve`, and keep it running"
	if at, err := (locator{c.env}).locate(ctx, c.config, "", false); err == nil && at != nil {
		hint = "nothing answers at " + clean(x.base) + ", but a `dragoman serve` runs at " + at.base() + "; to use this one, add --url " + at.base()
	}
	c.status.label(yellow, "hint", hint)
}
