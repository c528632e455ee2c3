package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// houseFile returns the path of the store's file, unless the configuration names a database. It returns
// "" if this user has no folder for data.
func houseFile() string {
	folder, err := dataFolder()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "dragoman.db")
}

// houseError adds the next step for the user to an error of the store, of the vault, or of a serve that
// nobody could come in to.
func houseError(err error) error {
	var s *store.Error
	var v *vault.Error
	var r *daemon.Refused
	switch {
	case errors.As(err, &s):
		return withHint(err, "%s", s.Next)
	case errors.As(err, &v):
		return withHint(err, "%s", v.Next)
	case errors.As(err, &r):
		return withHint(err, "%s", r.Next)
	}
	return err
}

// houseFlags are the flags of the commands that show or change what is stored of a project.
type houseFlags struct {
	runningFlags
	project string
	asJSON  bool

	alone *aloneServe // what with runs; nil if that is a running serve
}

// aloneServe is a serve that only a command can reach.
type aloneServe struct {
	base string // what links begin with that lead to the serve of the configuration; "" if it has no address for them
}

func (f *houseFlags) addFlags(c *cobra.Command) {
	flags := flagsInOrder(c)
	flags.StringVar(&f.project, "project", "", "use the project `NAME` (default: default)")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	f.runningFlags.addFlags(c)
}

// houseWho says who may use such a command, about things of a kind. The role is what a key needs.
func houseWho(things, role string) string {
	return `Only the user who started "dragoman serve" can do this. If several run, the
command chooses as "dragoman status" does; if none runs, it opens the database
itself, and the next one finds the ` + things + `.

On another machine, use --url, with an API key that has the role ` + role + ` in the
environment variable DRAGOMAN_KEY.`
}

// oneArgument returns a check for commands with one argument. what names it, and example is a command line
// that has it.
func (f *houseFlags) oneArgument(what, example string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || args[0] == "":
			return usagef("write it behind the command, as in `"+example+"`", "%s is missing", what)
		case len(args) > 1:
			return usagef("quote it if it has spaces", "unexpected argument %q after %q", args[1], args[0])
		}
		return nil
	}
}

// words returns the flags that name the same serve and the same project, for a command in a hint.
func (f *houseFlags) words() string {
	out := f.runningFlags.words()
	if f.project != "" {
		out += " --project " + shellWord(f.project)
	}
	return out
}

// with calls do with the running serve. If none runs on this machine, or if its API does not know us because
// other machines can reach it, do gets a serve of our own with the same database. A serve that runs follows the
// change. With --url, there is no other way.
func (f *houseFlags) with(cmd *cobra.Command, w *world, do func(ctx context.Context, s *running) error) error {
	ctx := cmd.Context()
	s, err := locator{w.env}.running(ctx, &f.runningFlags)
	if err != nil {
		return err
	}
	defer s.close()
	s.project = f.project
	err = do(ctx, s)
	var bad *problemError
	var absent *absentError
	here := f.url == "" && errors.As(err, &bad) && (bad.kind == "local-only" || s.tls && bad.kind == "no-access")
	if here || f.url == "" && f.listen == "" && errors.As(err, &absent) {
		err = f.serveAlone(ctx, w, do)
	}
	return signalOr(ctx, err)
}

// serve calls do with a running serve, for what only that has.
func (f *houseFlags) serve(cmd *cobra.Command, w *world, do func(context.Context, *running) error) error {
	ctx := cmd.Context()
	s, err := locator{w.env}.running(ctx, &f.runningFlags)
	if err != nil {
		return err
	}
	defer s.close()
	s.project = f.project
	return signalOr(ctx, do(ctx, s))
}

// serveAlone calls do with a serve that starts no servers, and that only this command can reach.
func (f *houseFlags) serveAlone(ctx context.Context, w *world, do func(ctx context.Context, s *running) error) error {
	c := config.Default()
	if err := f.useDatabase(ctx, w, c); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "dragoman-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	var serving sync.WaitGroup
	defer serving.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready, ended := make(chan string, 1), make(chan error, 1)
	serving.Go(func() {
		ended <- w.backend.Serve(ctx, daemon.ServeOptions{
			Config: c, Database: houseFile(), Listen: "127.0.0.1:0", KeyFolders: []string{folder}, NoConsole: true, Idle: true, Env: w.env, Version: version(),
			Ready: func(endpoint string) { ready <- endpoint },
		})
	})
	select {
	case err := <-ended:
		return houseError(err)
	case endpoint := <-ready:
		s, err := locator{w.env}.runningAt(strings.TrimSuffix(endpoint, "/mcp"))
		if err != nil {
			return err
		}
		defer s.close()
		s.folders, s.project = []string{folder}, f.project
		return do(ctx, s)
	}
}

// useDatabase sets the database, the vault's key, the projects, the servers that these may use, and what rules need, to
// those that serve has.
func (f *houseFlags) useDatabase(ctx context.Context, w *world, c *config.Snapshot) error {
	file, listen := f.file, f.listen
	if at, _ := (locator{w.env}).locate(ctx, f.file, "--listen ADDR", false); at != nil {
		file, listen = cmp.Or(file, at.Config), cmp.Or(listen, at.Address)
	}
	if path, found := w.env.configPath(file); found {
		x, problems := w.env.open(path)
		if x == nil {
			return problems.Refusal(false)
		}
		c.Database, c.VaultKey, c.Projects, c.Servers, c.Dialects = x.Database, x.VaultKey, x.Projects, x.Servers, x.Dialects
		c.Policy, c.Access.LoopbackKeys = x.Policy, x.Access.LoopbackKeys || isAway(cmp.Or(listen, x.Listen))
		listen = cmp.Or(listen, x.Listen)
		f.alone = &aloneServe{linkBase(x.Snapshot, listen)}
	} else {
		f.alone = &aloneServe{linkBase(c, cmp.Or(listen, c.Listen))}
	}
	if c.Database = cmp.Or(c.Database, houseFile()); c.Database == "" { // named, so that it must be usable
		return withHint(errors.New("this user has no folder for data"), "set HOME, or dragoman.database in the configuration")
	}
	return nil
}

// linkBase returns what the links of people begin with, as admin does for a request to the address, or "" if other
// machines can reach it and people can't open the console there.
func linkBase(x *config.Snapshot, listen string) string {
	host, port, err := net.SplitHostPort(listen)
	switch public := admin.PublicConsole(x.PublicURL); {
	case public != "":
		return public
	case err != nil:
		return ""
	case transport.IsLoopback(host):
		return "http://" + listen
	case x.TLS == (config.TLS{}):
		return ""
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.Unmap().IsUnspecified() {
		if len(x.Hosts) == 0 {
			return ""
		}
		listen = x.Hosts[0]
		if _, _, err := net.SplitHostPort(listen); err != nil {
			listen = net.JoinHostPort(strings.Trim(listen, "[]"), port)
		}
	}
	return "https://" + strings.TrimSuffix(listen, ":443")
}

// isAway reports whether other machines can reach an address.
func isAway(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err != nil || !transport.IsLoopback(host)
}

// done prints what a change has returned: as JSON, or as a sentence, and behind it a note of the API.
func (f *houseFlags) done(w *world, value any, note, format string, args ...any) error {
	switch {
	case f.asJSON:
		return w.printJSON(value, "  ")
	case w.quiet:
		return nil
	}
	w.status.Printf(format, args...)
	w.note(note)
	return nil
}

// note prints a sentence of the API as a line, unless it's empty.
func (w *world) note(sentence string) {
	if sentence != "" {
		w.status.Printf("%s", lowerFirst(strings.TrimSuffix(sentence, ".")))
	}
}

// showAll prints a list of the API: as JSON, or as a table. none is the line for an empty one; its %s gets the
// flags for a command in it.
func showAll[I any](f *houseFlags, w *world, all []I, err error, none string, table func([]I) screen.Table) error {
	switch {
	case err != nil:
		return err
	case f.asJSON:
		return w.printJSON(all, "  ")
	case len(all) == 0:
		w.status.Printf(none, f.words())
		return nil
	}
	return w.print(table(all))
}

// apply sends a change to the API, and decodes the answer. body is nil if there is none.
func (s *running) apply(ctx context.Context, method, path string, body, into any) error {
	q := asked{method: method, path: "/api/v1" + path}
	if body != nil {
		var err error
		if q.body, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return s.change(ctx, changeWait, q, into)
}

// pages reads a list of the API. items returns what is on a page, and the cursor of the next one.
func pages[P, I any](ctx context.Context, s *running, path string, items func(*P) ([]I, string)) (all []I, err error) {
	const page, most = 500, 200 // items and pages, so that a program that always has another page can't fill the memory
	query := url.Values{"limit": {strconv.Itoa(page)}}
	all = []I{}
	for range most {
		var answer P
		if err := s.decode(ctx, "/api/v1"+path, query, &answer); err != nil {
			return nil, err
		}
		list, next := items(&answer)
		if len(list) > page {
			return nil, s.notServe()
		}
		all = append(all, list...)
		if next == "" || len(list) == 0 {
			return all, nil
		}
		query.Set("cursor", next)
	}
	return nil, s.tooLarge()
}
