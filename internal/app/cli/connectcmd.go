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

// connectFlags are the flags of the command connect.
type connectFlags struct {
	server, name, file, address, config string
	write, remove, http, stdio          bool
	project, js                         bool
}

func (a *app) connectCommand() *cobra.Command {
	var o connectFlags
	c := &cobra.Command{
		Use:   "connect [CLIENT] [--server NAME] [--write]",
		Short: "Put Dragoman into the configuration of an MCP client",
		Long: `Show the change that puts Dragoman into the configuration of an MCP client. With
--write, make this change. CLIENT is claude (Claude Desktop), claude-code,
cursor, vscode, codex, gemini or opencode. Without CLIENT, the command shows the
state of all these clients.

The change is one new entry with the URL of "dragoman serve". With --server, the
entry has the URL at which "dragoman serve" offers only the server NAME. Claude
Desktop does not support URLs, so the entry for Claude Desktop starts "dragoman
serve --stdio", or "dragoman run URL" if you use --server. With --stdio, the
entries for all other clients also start Dragoman.

With --write, the command shows the change, keeps a copy of the file as
FILE.dragoman-backup-DATE in the same directory, and writes the file. All other
bytes of the file stay the same. --remove removes the entry for Dragoman. The
command never replaces or removes the entry of another server.`,
		Example: `  # Show the change.
  dragoman connect cursor

  # Make the change, and undo it.
  dragoman connect cursor --write
  dragoman connect cursor --remove --write

  # Connect only one server, for the project in this directory. Tool names get no prefix.
  dragoman connect claude-code --server github --project --write`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usagef("connect one client at a time", "unexpected argument %q", args[1])
			case len(args) == 0 && (o.write || o.remove || o.server != "" || o.file != ""):
				return usagef("name one of "+strings.Join(clientfile.IDs(), ", "), "no client given")
			case o.http && o.stdio:
				return usagef("remove one of them", "--http and --stdio cannot be used together")
			case o.project && o.file != "":
				return usagef("remove one of them", "--project and --file cannot be used together")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.showClients(o.js)
			}
			client, ok := clientfile.ByID(args[0])
			if !ok {
				hint := "use one of " + strings.Join(clientfile.IDs(), ", ")
				if s := config.Suggest(args[0], clientfile.IDs()); s != "" {
					hint = "did you mean " + s + "?"
				}
				return usagef(hint, "%q is not a client that Dragoman knows", args[0])
			}
			return a.runConnect(c.Context(), client, o)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var out []string
			if len(args) == 0 {
				for _, c := range clientfile.Clients() {
					out = append(out, cobra.CompletionWithDesc(c.ID, c.Title))
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := flagsInOrder(c)
	f.BoolVar(&o.write, "write", false, "write the change to the client's file")
	f.BoolVar(&o.remove, "remove", false, "remove the entry for Dragoman")
	f.StringVar(&o.server, "server", "", "connect only the configured server `NAME`")
	f.BoolVar(&o.http, "http", false, "connect over HTTP, to a running serve (default, except for claude)")
	f.BoolVar(&o.stdio, "stdio", false, "let the client start Dragoman (default for claude)")
	f.BoolVar(&o.project, "project", false, "change the client's file for the project in the working directory")
	f.StringVar(&o.file, "file", "", "change `FILE` instead of the client's usual file")
	f.StringVar(&o.name, "name", "", "call the entry `NAME` (default: dragoman, or the name of the server)")
	f.StringVar(&o.address, "url", "", "the base `URL` of \"dragoman serve\" (default: from the configuration)")
	f.BoolVar(&o.js, "json", false, "print JSON")
	addConfigFlag(c, &o.config)
	_ = c.RegisterFlagCompletionFunc("server", func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return a.completeTarget(&o.config)(c, nil, word)
	})
	return c
}

func (a *app) runConnect(ctx context.Context, client *clientfile.Client, o connectFlags) error {
	place := clientfile.Place{Client: client, Path: o.file}
	if o.file == "" {
		var ok bool
		if place, ok = intake.Machine(a.env).Target(client, o.project); !ok {
			return usagef("remove --project", "%s does not have configuration files for single projects", client.Title)
		}
	}
	before, err := clientfile.Load(place.Path)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", place.Path, err)
	}
	base, err := a.serveAddress(o.address, o.config)
	if err != nil {
		return err
	}
	addresses := a.addresses(o.config)
	if u, err := url.Parse(base); err == nil {
		addresses = append(addresses, hostPort(u))
	}
	var after []byte
	var entry clientfile.Entry
	if o.remove {
		if entry.Name, err = nameToRemove(client, place.Path, before, addresses, o); err != nil {
			return err
		}
		after = before
		if before != nil {
			after, err = clientfile.Disconnect(client, place.Path, before, entry.Name, addresses, clientfile.Backups(place.Path))
		}
	} else {
		if entry, err = a.entryFor(client, base, o); err != nil {
			return err
		}
		after, err = clientfile.Connect(client, place.Path, before, entry, addresses)
	}
	var taken *clientfile.Taken
	switch {
	case errors.As(err, &taken) && o.remove:
		return withHint(fmt.Errorf("%s: the server %q is not Dragoman, so it was not removed", place.Path, taken.Name), "run `dragoman connect` to see which entries lead to Dragoman")
	case errors.As(err, &taken):
		return withHint(fmt.Errorf("%s: %w", place.Path, err), "choose another name with --name, or remove that server first")
	case err != nil:
		return withHint(err, "correct the file, or name another with --file")
	}
	if o.remove && before != nil && !bytes.Equal(before, after) && a.madeByUs(client, place.Path, before, entry.Name) {
		after = nil
	}
	return a.applyConnect(ctx, client, place.Path, before, after, entry, base, o)
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
func (a *app) entryFor(client *clientfile.Client, base string, o connectFlags) (clientfile.Entry, error) {
	e := clientfile.Entry{Name: o.name}
	path, found := a.configPath(o.config)
	endpoint := base + "/mcp"
	if o.server != "" {
		if err := a.checkServer(path, found, o); err != nil {
			return e, err
		}
		endpoint = base + "/s/" + url.PathEscape(o.server) + "/mcp"
	}
	if e.Name == "" {
		e.Name = "dragoman"
		if o.server != "" {
			e.Name = o.server
		}
	}
	if o.http && !client.HTTP {
		return e, usagef("remove --http", "%s does not accept the URL of a server in its configuration file", client.Title)
	}
	freePort := false
	if u, err := url.Parse(base); err == nil && u.Port() == "0" {
		freePort = true
	}
	usesServe := client.HTTP && !o.stdio || o.server != "" || o.address != ""
	if usesServe && freePort {
		return e, withHint(errors.New("serve picks a free port at each start, so a client cannot know its address"), "set dragoman.listen to a fixed port, for example 127.0.0.1:7300")
	}
	if client.HTTP && !o.stdio {
		e.URL = endpoint
		return e, nil
	}
	self, err := a.self()
	if err != nil {
		return e, err
	}
	if usesServe {
		e.Command = []string{self, "run", endpoint}
		return e, nil
	}
	if !found {
		return e, withHint(a.noConfig(), "import servers first: run `dragoman import`")
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
func (a *app) checkServer(path string, found bool, o connectFlags) error {
	switch {
	case o.address != "":
		return nil
	case !found:
		return a.noConfig()
	}
	b, err := clientfile.Load(path)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	s, err := intake.ParseOurs(path, b, a.env)
	if err != nil {
		return err
	}
	if _, ok := s.Server(o.server); ok {
		return nil
	}
	return unknownServer(o.server, path, serverNames(s))
}

// self returns the absolute path of this program. It prints a warning if the path is in a temporary
// directory.
func (a *app) self() (string, error) {
	self, err := programPath()
	if err != nil {
		return "", err
	}
	if slashed := filepath.ToSlash(self); strings.Contains(slashed, "/_npx/") || strings.Contains(slashed, "/go-build") {
		a.status.label(yellow, "warning", "this program is in a temporary place, "+clean(self)+"; install it before you connect a client")
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
func nameToRemove(client *clientfile.Client, path string, b []byte, addresses []string, o connectFlags) (string, error) {
	for _, given := range []string{o.name, o.server} {
		if given != "" {
			return given, nil
		}
	}
	const usual = "dragoman"
	if b == nil {
		return usual, nil
	}
	root, err := clientfile.Parse(path, b)
	if err != nil {
		return "", withHint(err, "correct the file, or name another with --file")
	}
	names := clientfile.Connected(client, root, addresses)
	switch {
	case len(names) == 0, slices.Contains(names, usual):
		return usual, nil
	case len(names) == 1:
		return names[0], nil
	}
	return "", usagef("add --name with one of "+strings.Join(names, ", "), "%s has several entries that lead to Dragoman", path)
}

// madeByUs reports whether connect created the file. It returns true if no backup differs from the
// file, and the file contains only the entry.
func (a *app) madeByUs(client *clientfile.Client, path string, b []byte, name string) bool {
	for _, was := range clientfile.Backups(path) {
		if !bytes.Equal(was, b) {
			return false
		}
	}
	root, err := clientfile.Parse(path, b)
	if err != nil {
		return false
	}
	made, ok := clientfile.Remake(client, path, root, name)
	return ok && bytes.Equal(made, b)
}

// applyConnect shows a change of a client's configuration. With --write, it also makes the change.
func (a *app) applyConnect(ctx context.Context, client *clientfile.Client, path string, before, after []byte, entry clientfile.Entry, base string, o connectFlags) error {
	action := "add"
	switch {
	case before == nil && o.remove, before != nil && after != nil && bytes.Equal(before, after):
		action = "none"
	case o.remove:
		action = "remove"
	case before != nil:
		if root, err := clientfile.Parse(path, before); err == nil && client.Has(root, entry.Name) {
			action = "replace"
		}
	}
	diff := ""
	if action != "none" {
		// The lines around the entry may contain credentials of other servers.
		secrets := append(clientfile.Secrets(path, before), clientfile.Secrets(path, after)...)
		slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
		diff = clientfile.Diff(path, before, after, func(l string) string {
			return cleanLines(excerpt.MaskSecrets(clientfile.Mask(l, secrets, excerpt.Mask)))
		})
	}
	backup := ""
	written := action != "none" && o.write
	if written {
		if !o.js && !a.status.record(slog.LevelInfo, "this change is made", slog.String("code", "change"), slog.String("diff", diff)) {
			_, _ = io.WriteString(a.status, diff)
		}
		var err error
		change := clientfile.Change{Path: path, Before: before, After: after, Backup: after != nil}
		if backup, err = change.Write(time.Now()); err != nil {
			if errors.Is(err, clientfile.ErrChanged) {
				err = withHint(err, "close %s and run the command again", client.Title)
			} else if errors.Is(err, fs.ErrPermission) {
				err = withHint(err, "if another program manages this file, make the change in that program")
			}
			return fmt.Errorf("cannot write %s: %w", path, err)
		}
	}
	if o.js {
		return a.printJSON(struct {
			Client  string   `json:"client"`
			File    string   `json:"file"`
			Entry   string   `json:"entry"`
			Action  string   `json:"action"`
			URL     string   `json:"url,omitempty"`
			Command []string `json:"command,omitempty"`
			Written bool     `json:"written"`
			Backup  string   `json:"backup,omitempty"`
			Diff    string   `json:"diff,omitempty"`
		}{client.ID, path, entry.Name, action, entry.URL, entry.Command, written, backup, diff}, "")
	}
	if !written && diff != "" {
		if _, err := fmt.Fprint(a.stdout, diff); err != nil {
			return err
		}
	}
	if !a.quiet {
		a.tellConnect(ctx, client, path, action, backup, entry, base, o)
	}
	return nil
}

// tellConnect prints what the command did and what the user has to do next.
func (a *app) tellConnect(ctx context.Context, client *clientfile.Client, path, action, backup string, entry clientfile.Entry, base string, o connectFlags) {
	switch {
	case action == "none" && o.remove:
		a.status.Printf("%s has no entry %q in %s", client.Title, entry.Name, path)
		return
	case action == "none":
		a.status.Printf("%s is connected already, as %q in %s", client.Title, entry.Name, path)
	case !o.write:
		a.status.Printf("nothing was written; add --write to make this change")
		return
	default:
		a.status.Printf("changed %s", path)
		if backup != "" {
			a.status.Printf("the old file is %s", backup)
		}
		reload := client.Reload
		if o.remove { // after ", or enable", the text explains how to enable the server, but the server is removed
			reload, _, _ = strings.Cut(reload, ", or enable")
		}
		a.status.Printf("now %s", reload)
	}
	usesServe := entry.URL != "" || len(entry.Command) > 2 && entry.Command[1] == "run"
	if o.remove || !usesServe {
		return
	}
	s, err := a.runningAt(base)
	if err == nil {
		defer s.close()
		_, _, err = s.page(ctx, "/healthz")
	}
	if err == nil {
		return
	}
	hint := "nothing answers at " + clean(base) + " yet; start `dragoman serve`, and keep it running"
	if at, err := a.locate(ctx, o.config, "", false); err == nil && at != nil {
		hint = "nothing answers at " + clean(base) + ", but a `dragoman serve` runs at http://" + at.address + "; to use this one, add --url http://" + at.address
	}
	a.status.label(yellow, "hint", hint)
}
