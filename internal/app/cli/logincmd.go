package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/signin"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// signInCommand is `dragoman login`, `logout` or `signins`.
type signInCommand struct {
	*world

	file, project, as string
	ways              signInWays
	timeout           time.Duration
	asJSON            bool

	house  *config.Snapshot
	desk   *daemon.Desk
	stored map[string]config.Project // of the store, for nameOf
}

func newLoginCommand(w *world) *cobra.Command {
	c := &signInCommand{world: w}
	cmd := &cobra.Command{
		Use:   "login (NAME | URL) [flags]",
		Short: "Sign in to a server that wants OAuth",
		Long: `Sign in to a server that wants OAuth: a configured one, or any at a URL. The
command prints a link, opens it in your browser, and waits until you have signed
in there. From then on "dragoman serve", "run", "call" and the others use the
sign-in, and renew it. They find it in the database of "dragoman serve".

Without a browser on this machine, open the link on another one. The page at
which it ends can't be reached there; paste its address into the terminal. Over
SSH, the command also prints how to forward the port instead. With --device, or
where there is no browser and the issuer supports it, you get a code to type on
any device.

In a container, run this once in it with a terminal (docker exec -it), with the
data folder on a volume.

The exit code is 0 if you're signed in, 1 if the sign-in was refused, and 3 if
the server or its issuer can't be reached.`,
		Example: `  # Sign in to a configured server, and to one that isn't.
  dragoman login github
  dragoman login https://mcp.example.com/mcp

  # Get a code to type on another device, and give up after two minutes.
  dragoman login github --device --timeout 2m`,
		Args:              c.oneServer("login"),
		RunE:              c.login,
		ValidArgsFunction: w.env.completeTarget(&c.file),
	}
	flags := flagsInOrder(cmd)
	flags.BoolVar(&c.ways.device, "device", false, "show a code to type on another device, and no link")
	flags.BoolVar(&c.ways.noBrowser, "no-browser", false, "print the link and open no browser")
	flags.DurationVar(&c.timeout, "timeout", 0, "give up after `TIME`, such as 2m (default: when the link ends, after 10 minutes)")
	c.addFlags(cmd)
	return cmd
}

func newLogoutCommand(w *world) *cobra.Command {
	c := &signInCommand{world: w}
	cmd := &cobra.Command{
		Use:   "logout (NAME | URL) [flags]",
		Short: "Sign out of a server",
		Long: `Sign out of a server: forget its tokens, and ask the issuer to revoke them. If
the issuer can't be asked, they're forgotten all the same, and the command says
so. "dragoman signins" lists who is signed in.

A server that is no longer in the configuration keeps its sign-ins. End them
with its URL.`,
		Example: `  dragoman logout github
  dragoman logout https://mcp.example.com/mcp

  # End a person's sign-in at a server that a project had.
  dragoman logout https://mcp.example.com/mcp --project shop --as ada`,
		Args:              c.oneServer("logout"),
		RunE:              c.logout,
		ValidArgsFunction: w.env.completeTarget(&c.file),
	}
	c.addFlags(cmd)
	return cmd
}

func newSignInsCommand(w *world) *cobra.Command {
	c := &signInCommand{world: w}
	cmd := &cobra.Command{
		Use:   "signins [flags]",
		Short: "List who is signed in to which server",
		Long: `List who is signed in to which server, and until when. A sign-in that is renewed
by itself lasts until the issuer ends it.`,
		Example: `  dragoman signins

  # Print the servers that need a new sign-in, for a script.
  dragoman signins --json | jq -r '.[] | select(.ended) | .url'`,
		Args:              noArguments,
		RunE:              c.list,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := flagsInOrder(cmd)
	flags.BoolVar(&c.asJSON, "json", false, "print JSON")
	addConfigFlag(cmd, &c.file)
	return cmd
}

func (c *signInCommand) addFlags(cmd *cobra.Command) {
	flags := flagsInOrder(cmd)
	flags.StringVar(&c.as, "as", "", "do it for the person `NAME` of \"dragoman people\" instead of for yourself")
	flags.StringVar(&c.project, "project", "", "name a server of the project `NAME` (default: default)")
	flags.BoolVar(&c.asJSON, "json", false, "print JSON")
	addConfigFlag(cmd, &c.file)
}

func (c *signInCommand) oneServer(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("write it behind the command, as in `dragoman "+command+" github`", "no server given")
		case len(args) > 1:
			return usagef("name one server at a time", "unexpected argument %q after %q", args[1], args[0])
		case c.timeout < 0:
			return usagef("use a duration such as 2m", "--timeout must not be negative")
		}
		return nil
	}
}

// open opens the desk. The caller closes it. word is the server that the command line names, or "". If its name is in a
// file of the working directory, the user must have agreed to use that: it says where to sign in, and where what comes
// of it is kept.
func (c *signInCommand) open(ctx context.Context, word string) error {
	c.startLog(slog.LevelError, nil)
	if path, ok := c.env.configPath(c.file); ok && word != "" && !isURL(word) {
		if x, _ := c.env.open(path); x != nil {
			if err := c.consent(ctx, c.file, x); err != nil {
				return err
			}
		}
	}
	c.house = c.houseConfig(c.file)
	c.desk = c.openDesk(c.house, false)
	return nil
}

// server returns the server that the command line names, and the project that has it.
func (c *signInCommand) server(ctx context.Context, word string) (config.Server, string, error) {
	if isURL(word) {
		var t targetFlags
		s, err := t.server(c.env, nil, word)
		return likeConfigured(s, c.house), cmp.Or(c.project, event.DefaultProject), err
	}
	path, ok := c.env.configPath(c.file)
	if !ok {
		return config.Server{}, "", usagef(cmp.Or(meant(word), "write the server's URL, or name a configuration file with -c FILE"), "%q is not a URL, and no configuration file was found", word)
	}
	x, problems := config.Load(path)
	if x != nil && x.ReadsSecrets() {
		secrets, err := c.desk.Secrets(ctx)
		if err != nil {
			return config.Server{}, "", houseError(err)
		}
		x, problems = config.LoadWith(path, secrets)
	}
	if x == nil {
		return config.Server{}, "", problems.Refusal(false)
	}
	project := cmp.Or(c.project, event.DefaultProject)
	from := x
	if project != event.DefaultProject {
		p, ok := x.Project(project)
		if !ok {
			var err error
			if p, ok, err = c.desk.Project(ctx, project, x); err != nil {
				return config.Server{}, "", houseError(err)
			}
		}
		switch {
		case !ok:
			return config.Server{}, "", usagef("`dragoman projects` lists them", "there is no project %q", project)
		case p.Config == nil:
			return config.Server{}, "", usagef("run `dragoman projects`, which says why", "project %q can't be used", project)
		}
		from = p.Config.Bind(x)
	}
	s, ok := from.Server(word)
	switch {
	case !ok:
		return s, "", unknownServer(word, path, serverNames(from))
	case s.Shared:
		project = event.DefaultProject // whose server it is
	}
	return s, project, usable(s)
}

// of returns what signs the requests to a server, and whose sign-in the command is about.
func (c *signInCommand) of(ctx context.Context, s config.Server, project string) (*signin.Server, store.SignIn, error) {
	at := c.desk.At(project, s)
	switch {
	case s.Command != "":
		return nil, store.SignIn{}, usagef("pass a token to the command in its env", "server %q is a program, and nobody signs in to one", s.Name)
	case s.SignIn.How.Program():
		return nil, store.SignIn{}, usagef("`dragoman list "+shellWord(s.Name)+"` tries them", "nobody signs in to %q, because it is configured with the credentials of a program", s.Name)
	case at == nil && s.SignIn.Anonymous && !s.SignIn.Shared:
		return nil, store.SignIn{}, usagef("write signIn: {per: shared}", "nobody can sign in to %q for themselves, because everybody comes in without a name", s.Name)
	case at == nil:
		return nil, store.SignIn{}, usagef("remove the header, or signIn.how", "nobody signs in to %q, because its configuration has the credentials", s.Name)
	case c.as == "":
		return at, at.Of(nil), nil
	case s.SignIn.Shared:
		return nil, store.SignIn{}, usagef("remove --as", "all use one credential at %q", s.Name)
	}
	safe, err := c.desk.Safe(ctx)
	if err != nil {
		return nil, store.SignIn{}, houseError(err)
	}
	if err := safe.Store().Refresh(ctx); err != nil {
		return nil, store.SignIn{}, houseError(err)
	}
	var names []string
	for _, p := range safe.Store().Snapshot().People() {
		if names = append(names, p.Name); strings.EqualFold(p.Name, c.as) {
			return at, at.Of(&identity.Principal{Subject: store.PersonSubject + p.ID}), nil
		}
	}
	return nil, store.SignIn{}, usagef(didYouMean(c.as, names, "`dragoman people` lists who was invited"), "nobody is called %q", c.as)
}

// signedIn is a sign-in as --json prints it.
type signedIn struct {
	URL     string     `json:"url"`
	Server  string     `json:"server,omitempty"` // its name in the configuration, if it has one
	Project string     `json:"project"`
	Subject string     `json:"subject"`
	Person  string     `json:"person,omitempty"`
	Removed bool       `json:"removed,omitempty"` // the configuration no longer has the server
	Issuer  string     `json:"issuer"`
	Until   *time.Time `json:"until,omitempty"` // of the token
	Renews  bool       `json:"renews"`          // by itself
	Ended   bool       `json:"ended"`           // a new sign-in is needed
	Since   time.Time  `json:"since"`
}

func (c *signInCommand) login(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	if c.project != "" && isURL(args[0]) {
		return usagef("remove it, or name a server of the project", "--project works only with the name of a server")
	}
	if err := c.open(ctx, args[0]); err != nil {
		return err
	}
	defer c.desk.Close()
	if c.timeout > 0 {
		limited, stop := context.WithTimeoutCause(ctx, c.timeout, timeoutError{c.timeout})
		defer stop()
		ctx = limited
	}
	s, project, err := c.server(ctx, args[0])
	if err != nil {
		return err
	}
	at, of, err := c.of(ctx, s, project)
	if err != nil {
		return err
	}
	c.showProgress()
	needed, err := c.needed(ctx, s, project)
	if needed && err == nil {
		if err = c.signIn(ctx, at, s.Name, of, c.ways); err == nil && c.as == "" {
			_, err = c.needed(ctx, s, project) // the server has the last word
		}
	}
	c.status.End()
	var late timeoutError
	switch {
	case err != nil && errors.As(context.Cause(ctx), &late) && failureIn(err) == nil:
		return late
	case unreachable(err):
		return withCode{err, exitUnreachable}
	case err != nil:
		return err
	}
	return c.told(ctx, s, of, needed)
}

// needed reports whether the user has to sign in, which the server says. For somebody else, only a sign-in can show it.
func (c *signInCommand) needed(ctx context.Context, s config.Server, project string) (bool, error) {
	if c.as != "" {
		return true, nil
	}
	session, err := c.backend.Connect(ctx, daemon.ConnectOptions{Server: s, Log: c.log, Progress: c.status.Step, Version: version(), Desk: c.desk, Project: project})
	var needed *signin.Needed
	switch {
	case errors.As(err, &needed):
		return true, nil
	case err != nil:
		return false, signalOr(ctx, err)
	}
	return false, session.Close()
}

// told tells how a login has ended.
func (c *signInCommand) told(ctx context.Context, s config.Server, of store.SignIn, signed bool) error {
	all, err := c.signedIn(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(x signedIn) bool { return x.URL == of.Server && x.Project == of.Project && x.Subject == of.Subject })
	if i < 0 || all[i].Ended {
		if signed {
			return fmt.Errorf("server %q still wants a sign-in", s.Name)
		}
		if c.asJSON {
			return c.printJSON(map[string]any{"url": of.Server, "server": s.Name, "open": true}, "  ")
		}
		c.status.Printf("server %q wants no sign-in", s.Name)
		return nil
	}
	x := all[i]
	x.Server = s.Name
	if c.asJSON {
		return c.printJSON(x, "  ")
	}
	who := "you are"
	switch {
	case x.Person != "":
		who = x.Person + " is"
	case x.Subject == store.Shared:
		who = "everybody is"
	}
	word := "signed in"
	if !signed {
		word = "already signed in"
	}
	c.status.Printf("%s %s to %s at %s%s", who, word, s.Name, hostOfURL(x.Issuer), lasts(x, time.Now()))
	if c.desk.Forgets() {
		c.status.label(yellow, "warning", "this user's data folder can't be written to, so the sign-in is gone when this command ends")
	}
	return nil
}

// lasts says until when a sign-in that isn't renewed is good.
func lasts(x signedIn, now time.Time) string {
	if x.Renews || x.Until == nil {
		return ""
	}
	return ", for " + spanOf(x.Until.Sub(now))
}

func hostOfURL(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		return u.Host
	}
	return text
}

func (c *signInCommand) logout(cmd *cobra.Command, args []string) error {
	ctx := cmd.Context()
	if err := c.open(ctx, args[0]); err != nil {
		return err
	}
	defer c.desk.Close()
	s, project, err := c.server(ctx, args[0])
	if err != nil && s.Name == "" {
		return err // a server that can't be used can be left
	}
	id, err := oauth.Canonical(s.URL)
	if err != nil || s.URL == "" {
		return usagef("`dragoman signins` lists the servers", "nobody signs in to %q", args[0])
	}
	of := store.SignIn{Project: project, Server: id, Subject: identity.Local.Subject}
	if at, found, err := c.of(ctx, s, project); err == nil && at != nil {
		of = found
	} else if c.as != "" {
		return err
	}
	there, revoked, err := c.desk.SignOut(ctx, identity.Local.Subject, of)
	if err == nil && !there && c.as == "" && of.Subject != store.Shared {
		of.Subject = store.Shared // of a server that was removed from the configuration, which said so
		there, revoked, err = c.desk.SignOut(ctx, identity.Local.Subject, of)
	}
	switch {
	case err != nil:
		return signalOr(ctx, houseError(err))
	case !there:
		return withHint(fmt.Errorf("nobody is signed in to %s", s.Name), "run `dragoman signins`, which lists who is signed in")
	case c.asJSON:
		return c.printJSON(map[string]any{"url": of.Server, "server": s.Name, "revoked": revoked}, "  ")
	}
	c.status.Printf("signed out of %s", s.Name)
	if !revoked {
		c.status.label(yellow, "warning", "the issuer couldn't be asked to revoke the tokens, so they stay good until they expire; end the access on the issuer's page if somebody else may have them")
	}
	return nil
}

// signedIn returns all sign-ins.
func (c *signInCommand) signedIn(ctx context.Context) ([]signedIn, error) {
	entries, err := c.desk.SignedIn(ctx)
	if err != nil {
		return nil, houseError(err)
	}
	safe, err := c.desk.Safe(ctx)
	if err != nil {
		return nil, houseError(err)
	}
	people := safe.Store().Snapshot()
	out := []signedIn{}
	for _, e := range entries {
		x := signedIn{URL: e.Server, Project: e.Project, Subject: e.Subject, Issuer: e.Issuer, Renews: e.Renews, Ended: e.Spent, Since: e.Since, Server: c.nameOf(ctx, e.SignIn)}
		// The local user also signs in with a URL.
		x.Removed = x.Server == "" && c.house.File != "" && (e.Project != event.DefaultProject || e.Subject != identity.Local.Subject)
		if id, ok := strings.CutPrefix(e.Subject, store.PersonSubject); ok {
			p, _ := people.Person(id)
			x.Person = p.Name
		}
		if !e.Until.IsZero() {
			until := e.Until
			x.Until = &until
			x.Ended = x.Ended || !e.Renews && !until.After(time.Now())
		}
		out = append(out, x)
	}
	return out, nil
}

// nameOf returns the name of a server in the configuration, or "".
func (c *signInCommand) nameOf(ctx context.Context, of store.SignIn) string {
	from := c.house
	if of.Project != event.DefaultProject {
		p, ok := c.house.Project(of.Project)
		if !ok {
			p = c.storedProject(ctx, of.Project)
		}
		if from = p.Config; from == nil {
			return ""
		}
	}
	for _, s := range from.Servers {
		if id, err := oauth.Canonical(s.URL); s.URL != "" && err == nil && id == of.Server {
			return s.Name
		}
	}
	return ""
}

// storedProject returns a project of the store, without a configuration if there is none that can be used.
func (c *signInCommand) storedProject(ctx context.Context, name string) config.Project {
	p, ok := c.stored[name]
	if !ok {
		p, _, _ = c.desk.Project(ctx, name, c.house) // what can't be read has no names for us
		if c.stored == nil {
			c.stored = map[string]config.Project{}
		}
		c.stored[name] = p
	}
	return p
}

func (c *signInCommand) list(cmd *cobra.Command, _ []string) error {
	if err := c.open(cmd.Context(), ""); err != nil {
		return err
	}
	defer c.desk.Close()
	all, err := c.signedIn(cmd.Context())
	switch {
	case err != nil:
		return signalOr(cmd.Context(), err)
	case c.asJSON:
		return c.printJSON(all, "  ")
	case len(all) == 0:
		c.status.Printf("nobody is signed in; `dragoman login NAME` signs you in to a server")
		return nil
	}
	return c.print(signInTable(all, time.Now()))
}

// signInTable returns the table of sign-ins.
func signInTable(all []signedIn, now time.Time) screen.Table {
	t := screen.Table{Columns: []screen.Column{{Title: "SERVER", Whole: true}, {Title: "PROJECT", Spare: 1}, {Title: "WHO"}, {Title: "ISSUER", Spare: 2}, {Title: "UNTIL"}}}
	for _, x := range all {
		until := screen.Cell{Text: "renewed by itself"}
		switch {
		case x.Ended:
			until = screen.Cell{Text: "ended: sign in again", Style: screen.Red}
		case !x.Renews && x.Until != nil:
			until.Text = "in " + spanOf(x.Until.Sub(now))
		case !x.Renews:
			until.Text = "unknown"
		}
		name := cmp.Or(x.Server, x.URL)
		if x.Removed {
			name += " (not in the configuration)"
		}
		t.Rows = append(t.Rows, append(screen.Cells(name, x.Project, cmp.Or(x.Person, x.Subject), hostOfURL(x.Issuer)), until))
	}
	return t
}
