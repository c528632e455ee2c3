package cli

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// fakeOAuthCommand is `dragoman fake oauth`.
type fakeOAuthCommand struct {
	*world
	list, asJSON bool
	listen       string
	set          []string
}

func newFakeOAuthCommand(w *world) *cobra.Command {
	c := &fakeOAuthCommand{world: w}
	cmd := &cobra.Command{
		Use:   "oauth [flags] PROFILE",
		Short: "Run a fake MCP server that wants a sign-in",
		Long: `Run a fake MCP server that wants a sign-in, together with its authorization
server, for tests of clients. PROFILE is ok for one that does everything right,
or one with a fault; --list shows all.

The server is strict. When it ends, it prints what the client did wrong. Its
tool "whoami" says who signed in, and /counts has the number of registrations,
sign-ins, refreshes and refusals.

Its codes and tokens are numbered, so anybody can guess them. It therefore
listens on this machine only.`,
		Example: `  # Run a server that does everything right. Its URL is printed on stderr.
  dragoman fake oauth ok

  # Run a server whose access tokens end after ten seconds, and whose refresh
  # tokens work once.
  dragoman fake oauth --set life=10 no-grace

  # Sign in without pressing a button, on a port that stays the same.
  dragoman fake oauth --set consent=none --listen 127.0.0.1:9460 ok

  # List the profiles, for a script.
  dragoman fake oauth --list --json | jq -r '.[].name'`,
		Args:              c.check,
		RunE:              c.run,
		ValidArgsFunction: c.complete,
	}
	fl := flagsInOrder(cmd)
	fl.BoolVar(&c.list, "list", false, "list all profiles")
	fl.BoolVar(&c.asJSON, "json", false, "with --list: print JSON, with the settings")
	fl.StringVar(&c.listen, "listen", "127.0.0.1:0", "listen on the loopback address `ADDR` (host:port; port 0 picks a free port)")
	fl.StringArrayVar(&c.set, "set", nil, "change a setting of the profile, as `NAME=VALUE` (repeatable)")
	return cmd
}

func (c *fakeOAuthCommand) check(_ *cobra.Command, args []string) error {
	switch {
	case c.list && len(args) > 0:
		return usagef("remove --list or the profile", "--list does not take a profile, but %q was given", args[0])
	case c.list:
		return nil
	case c.asJSON:
		return usagef("use `dragoman fake oauth --list --json`", "--json works only with --list")
	case len(args) == 0:
		return usagef("run `dragoman fake oauth --list` to list the profiles", "no profile given")
	case len(args) > 1:
		return usagef("remove it", "unexpected argument %q after the profile %q", args[1], args[0])
	}
	var names []string
	for _, p := range fake.OAuthProfiles() {
		if p.Name == args[0] {
			return nil
		}
		names = append(names, p.Name)
	}
	return usagef(didYouMean(args[0], names, "run `dragoman fake oauth --list` to list the profiles"), "unknown profile %q", args[0])
}

func (c *fakeOAuthCommand) run(cmd *cobra.Command, args []string) error {
	if c.list {
		return c.listProfiles()
	}
	if err := checkListen(c.listen, false); err != nil {
		return usagef("choose an address of this machine, such as 127.0.0.1:0", "--listen %s: other machines could guess the tokens", c.listen)
	}
	o, err := fakeOptions(c.set)
	if err != nil {
		return err
	}
	s, err := fake.NewOAuth(args[0], o)
	if err != nil {
		return usagef("run `dragoman fake oauth --list --json` to list the settings", "%s", err)
	}
	defer func() { _ = s.Close() }()
	err = c.fakeOnHTTP(cmd.Context(), s, c.listen, args[0])
	for _, v := range s.Violations() {
		c.status.Printf("the client broke a rule: %s", v)
	}
	return interrupted(cmd.Context(), err)
}

func (c *fakeOAuthCommand) listProfiles() error {
	if c.asJSON {
		var items [][]byte
		for _, p := range fake.OAuthProfiles() {
			items = append(items, fakeItem([][2]string{{"name", p.Name}, {"about", p.About}}, fake.OAuthSettings()))
		}
		return c.printItems(items)
	}
	var rows [][2]string
	for _, p := range fake.OAuthProfiles() {
		rows = append(rows, [2]string{"  " + p.Name, p.About})
	}
	_, err := io.WriteString(c.stdout, "Servers that want a sign-in:\n")
	return errors.Join(err, c.printTable(rows))
}

func (c *fakeOAuthCommand) complete(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, p := range fake.OAuthProfiles() {
		names = append(names, cobra.CompletionWithDesc(p.Name, p.About))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
