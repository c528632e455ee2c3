package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// peopleCommand is `dragoman people` and its subcommands.
type peopleCommand struct {
	*world
	houseFlags

	roles   []string
	session string
}

func newPeopleCommand(w *world) *cobra.Command {
	c := &peopleCommand{world: w}
	cmd := &cobra.Command{
		Use:         "people [flags]",
		Annotations: map[string]string{alsoRuns: "true"},
		Short:       "List and invite people, and give them roles in \"dragoman serve\"",
		Long: `List the people who may use the console of "dragoman serve", or invite them,
give them roles, and remove them. A person opens a link once; that browser is
then signed in for 30 days. docs/access.md says what the roles are.

` + houseWho("people", "admin"),
		Example: `  # List the people of the project default, which are all.
  dragoman people

  # Invite somebody, and let them operate servers later.
  dragoman people invite ada
  dragoman people role ada caller operator`,
		Args:              noArguments,
		RunE:              c.list,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	cmd.AddCommand(newPeopleShowCommand(w), newPeopleInviteCommand(w), newPeopleLinkCommand(w), newPeopleRoleCommand(w), newPeopleSessionsCommand(w), newPeopleSignOutCommand(w), newPeopleRemoveCommand(w))
	return cmd
}

func newPeopleShowCommand(w *world) *cobra.Command {
	c := &peopleCommand{world: w}
	cmd := &cobra.Command{
		Use:   "show NAME [flags]",
		Short: "Show somebody's roles, sessions, keys and sign-ins",
		Long: `Show which roles somebody has, when they were last seen, in how many browsers
they're signed in, which keys act for them, and at which servers they're signed
in; neither tokens nor names of accounts.`,
		Example: `  dragoman people show ada

  # For a script.
  dragoman people show ada --json`,
		Args:              c.oneArgument("the person's name", "dragoman people show ada"),
		RunE:              c.details,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newPeopleInviteCommand(w *world) *cobra.Command {
	c := &peopleCommand{world: w}
	cmd := &cobra.Command{
		Use:   "invite NAME [flags]",
		Short: "Invite somebody and print their link",
		Long: `Invite somebody to a project and print the link that you send to them. Whoever
opens it first is this person, so send it in private. It works once, within
seven days, and this is the only time that you see it.

The link leads to dragoman.publicURL, or with dragoman.tls to the address in
dragoman.listen. Without these, it works on this machine alone.

Only the link goes to stdout.`,
		Example: `  # Invite somebody who calls tools and sees the console.
  dragoman people invite carol

  # Invite an operator, who has no use of MCP endpoints.
  dragoman people invite bob --role operator`,
		Args:              c.oneArgument("the person's name", "dragoman people invite ada"),
		RunE:              c.invite,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).StringArrayVar(&c.roles, "role", nil, "give the person this `ROLE`: caller, viewer, operator or admin; may be repeated (default: caller and viewer)")
	c.addFlags(cmd)
	return cmd
}

func newPeopleLinkCommand(w *world) *cobra.Command {
	c := &peopleCommand{world: w}
	cmd := &cobra.Command{
		Use:   "link NAME [flags]",
		Short: "Print another link for somebody",
		Long: `Print another link for somebody who was invited before: for another browser,
after 30 days, or if the first link was lost. It works once, within seven days,
and a link that was not used yet stops working. The person's roles stay.`,
		Example: `  dragoman people link ada

  # Print it for a script, with the time when it expires.
  dragoman people link ada --json`,
		Args:              c.oneArgument("the person's name", "dragoman people link ada"),
		RunE:              c.link,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newPeopleRoleCommand(w *world) *cobra.Command {
	c := &peopleCommand{world: w}
	cmd := &cobra.Command{
		Use:   "role NAME (ROLE... | none) [flags]",
		Short: "Replace somebody's roles in a project",
		Long: `Replace somebody's roles in a project. A caller uses the MCP endpoints, with a
key that acts for them. A viewer sees the console; an operator also starts and
stops servers and calls their tools there; an admin also changes the
configuration, keys and people. With none, the person is out of the project.

The change counts within a second, also in open pages and running sessions.`,
		Example: `  # Let somebody call tools and operate servers.
  dragoman people role ada caller operator

  # Take somebody out of the project.
  dragoman people role bob none`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || args[0] == "" {
				return usagef("write them behind the command, as in `dragoman people role ada caller viewer`", "the person's name and a role are missing")
			}
			return nil
		},
		RunE:              c.role,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newPeopleSessionsCommand(w *world) *cobra.Command {
	c := &peopleCommand{world: w}
	cmd := &cobra.Command{
		Use:   "sessions NAME [flags]",
		Short: "List the browsers in which somebody is signed in",
		Long: `List the browsers in which somebody is signed in to the console, the one that
was used last first. The id of a session opens nothing: it's for
"dragoman people sign-out", which ends the session.`,
		Example: `  dragoman people sessions ada

  # End one of them.
  dragoman people sign-out ada --session KJDTVLHC2UXQ`,
		Args:              c.oneArgument("the person's name", "dragoman people sessions ada"),
		RunE:              c.sessions,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newPeopleSignOutCommand(w *world) *cobra.Command {
	c := &peopleCommand{world: w}
	cmd := &cobra.Command{
		Use:   "sign-out NAME [flags]",
		Short: "End somebody's sessions in all browsers, or in one",
		Long: `End somebody's sessions in all browsers. A link that was not used yet stops
working, too. The person's roles stay, and so do API keys that act for them.

With --session, only this session ends, and a link stays as it is.`,
		Example: `  dragoman people sign-out ada

  # End one session, of those that "dragoman people sessions" lists.
  dragoman people sign-out ada --session KJDTVLHC2UXQ

  # Let the person come in again.
  dragoman people link ada`,
		Args:              c.oneArgument("the person's name", "dragoman people sign-out ada"),
		RunE:              c.signOut,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).StringVar(&c.session, "session", "", "end only the session with this `ID`")
	c.addFlags(cmd)
	return cmd
}

func newPeopleRemoveCommand(w *world) *cobra.Command {
	c := &peopleCommand{world: w}
	cmd := &cobra.Command{
		Use:   "remove NAME [flags]",
		Short: "Remove somebody from all projects",
		Long: `Remove somebody: their roles in all projects, their sessions, and the API keys
that act for them. To take somebody out of one project, use
"dragoman people role".`,
		Example: `  dragoman people remove carol

  # Only take somebody out of a project.
  dragoman people role bob none`,
		Args:              c.oneArgument("the person's name", "dragoman people remove ada"),
		RunE:              c.remove,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).BoolVar(&c.asJSON, "json", false, "print JSON")
	c.runningFlags.addFlags(cmd)
	return cmd
}

func (c *peopleCommand) list(cmd *cobra.Command, _ []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		people, err := pages(ctx, s, "/people", func(p *admin.People) ([]admin.Person, string) { return p.People, p.Next })
		return showAll(&c.houseFlags, c.world, people, err, "nobody was invited; `dragoman people invite NAME%s` makes a link", func(p []admin.Person) screen.Table { return peopleTable(p, time.Local) })
	})
}

// peopleTable returns the table of people, which fits 80 columns also where there is no terminal.
func peopleTable(people []admin.Person, zone *time.Location) screen.Table {
	t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "NAME", Most: 24}, {Title: "ROLES", Wrap: true}, {Title: "SIGNED IN", Whole: true}}}
	for i := range people {
		p := &people[i]
		state := screen.Cell{Text: "-"}
		switch {
		case p.Sessions > 0:
			state.Text = quantity(p.Sessions, "browser") + ", last on " + p.Seen
		case p.Invited != nil:
			state.Text = "invited until " + p.Invited.In(zone).Format(time.DateOnly)
		}
		t.Rows = append(t.Rows, []screen.Cell{{Text: p.Name}, {Text: cmp.Or(rolesText(p), "-")}, state})
	}
	return t
}

// rolesText returns the roles of a person; those in the default project come without its name.
func rolesText(p *admin.Person) string {
	var all []string
	for _, x := range p.Roles {
		text := strings.Join(x.Roles, ", ")
		if x.Project != event.DefaultProject {
			text = x.Project + ": " + text
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func (c *peopleCommand) details(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var p admin.PersonDetails
		if err := c.about(args[0], func(path string) error { return s.decode(ctx, "/api/v1"+path, nil, &p) }); err != nil {
			return err
		}
		if c.asJSON {
			return c.printJSON(&p, "  ")
		}
		invited := ""
		if p.Invited != nil {
			invited = "until " + p.Invited.In(time.Local).Format(time.DateTime)
		}
		var keys, servers []string
		for _, k := range p.Keys {
			keys = append(keys, k.Name+" ("+k.ID+")")
		}
		for _, x := range p.SignIns {
			if x.Server != "" {
				servers = append(servers, x.Server)
			}
		}
		return c.printRows([][2]string{
			{"person", p.Name}, {"id", p.ID}, {"roles", cmp.Or(rolesText(&p.Person), "none")}, {"open link", invited}, {"last seen", p.Seen}, {"signed in", quantity(p.Sessions, "browser")},
			{"keys", strings.Join(keys, ", ")}, {"sign-ins", strings.Join(servers, ", ")}, {"invited", p.Added.In(time.Local).Format(time.DateTime) + " by " + p.By},
		})
	})
}

func (c *peopleCommand) invite(cmd *cobra.Command, args []string) error {
	err := access.CheckName(args[0])
	if err == nil {
		_, err = access.RolesNamed(c.roles)
	}
	if err != nil {
		return usagef("run `dragoman people invite --help`", "%v", err)
	}
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var x admin.NewInvitation
		err := c.linking(func() error {
			return s.apply(ctx, http.MethodPost, "/people", admin.InvitationRequest{Name: args[0], Roles: c.roles}, &x)
		})
		var bad *problemError
		if errors.As(err, &bad) && bad.kind == "person-exists" {
			name, to := shellWord(args[0]), c.words()
			return usagef(fmt.Sprintf("`dragoman people role %s ROLE...%s` gives them roles, and `dragoman people link %s%s` makes another link", name, to, name, to), "somebody is named %q already", args[0])
		}
		if err != nil {
			return err
		}
		return c.show(s, &x, fmt.Sprintf("invited %s to the project %s as %s", clean(x.Name), cmp.Or(c.project, event.DefaultProject), rolesText(&x.Person)))
	})
}

func (c *peopleCommand) link(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var x admin.NewInvitation
		err := c.linking(func() error {
			return c.about(args[0], func(path string) error { return s.apply(ctx, http.MethodPost, path+"/invitation", nil, &x) })
		})
		if err != nil {
			return err
		}
		return c.show(s, &x, "made another link for "+clean(x.Name))
	})
}

func (c *peopleCommand) role(cmd *cobra.Command, args []string) error {
	names := args[1:]
	if len(names) == 1 && names[0] == "none" {
		names = []string{}
	}
	if _, err := access.RolesNamed(names); err != nil {
		return usagef("write none to take somebody out of the project", "%v", err)
	}
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var p admin.Person
		err := c.about(args[0], func(path string) error {
			return s.apply(ctx, http.MethodPut, path+"/roles", admin.RolesRequest{Roles: names}, &p)
		})
		if err != nil {
			return err
		}
		return c.done(c.world, p, "", "%s has the roles: %s", clean(p.Name), cmp.Or(rolesText(&p), "none"))
	})
}

func (c *peopleCommand) sessions(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var all admin.PersonSessions
		err := c.about(args[0], func(path string) error { return s.decode(ctx, "/api/v1"+path+"/sessions", nil, &all) })
		return showAll(&c.houseFlags, c.world, all.Sessions, err, "the person is signed in nowhere; `dragoman people link NAME%s` makes a link", func(list []admin.PersonSession) screen.Table {
			t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "SESSION", Whole: true}, {Title: "BROWSER", Most: 24}, {Title: "ADDRESS", Most: 24}, {Title: "LAST USED", Whole: true}}}
			for i := range list {
				x := &list[i]
				t.Rows = append(t.Rows, []screen.Cell{{Text: x.ID}, {Text: cmp.Or(x.Browser, "-")}, {Text: cmp.Or(x.Address, "-")}, {Text: usedText(&x.Seen, time.Now())}})
			}
			return t
		})
	})
}

func (c *peopleCommand) signOut(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		if cmd.Flags().Changed("session") {
			return c.endSession(ctx, s, args[0])
		}
		var p admin.SignedOut
		err := c.about(args[0], func(path string) error { return s.apply(ctx, http.MethodPost, path+"/sign-out", nil, &p) })
		if err != nil {
			return err
		}
		return c.done(c.world, p, "", "signed %s out of %s", clean(p.Name), quantity(p.Ended, "browser"))
	})
}

// endSession ends one of somebody's sessions.
func (c *peopleCommand) endSession(ctx context.Context, s *running, name string) error {
	var x admin.PersonSession
	err := c.about(name, func(path string) error {
		return s.apply(ctx, http.MethodDelete, path+"/sessions/"+url.PathEscape(cmp.Or(c.session, "-")), nil, &x)
	})
	var bad *problemError
	if errors.As(err, &bad) && bad.kind == "no-such-session" {
		return usagef("`dragoman people sessions "+shellWord(name)+c.words()+"` lists the sessions", "%s has no session %q", clean(name), c.session)
	}
	if err != nil {
		return err
	}
	return c.done(c.world, x, "", "signed %s out of %s", clean(name), cmp.Or(clean(x.Browser), "a browser"))
}

func (c *peopleCommand) remove(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var p admin.RemovedPerson
		err := c.about(args[0], func(path string) error { return s.apply(ctx, http.MethodDelete, path, nil, &p) })
		if err != nil {
			return err
		}
		return c.done(c.world, p, "", "removed %s, %s and %s that acted for them", clean(p.Name), quantity(p.Sessions, "session"), quantity(p.Keys, "API key"))
	})
}

// about calls send with the path of a person.
func (c *peopleCommand) about(name string, send func(path string) error) error {
	err := send("/people/" + admin.PathName(name))
	var bad *problemError
	if errors.As(err, &bad) && bad.kind == "no-such-person" {
		return usagef("`dragoman people"+c.words()+"` lists the people", "nobody is named %q", name)
	}
	return err
}

// linking makes a link with ask, unless there is no address to which it could lead.
func (c *peopleCommand) linking(ask func() error) error {
	if c.alone != nil && c.alone.base == "" {
		return withHint(errors.New("there is no address for the link"), "set dragoman.publicURL to the URL at which people open the console; it begins with https:// and has no path")
	}
	return ask()
}

// show prints a link on stdout alone, and on stderr what to do with it.
func (c *peopleCommand) show(s *running, x *admin.NewInvitation, done string) error {
	at, err := url.Parse(x.Link)
	if err != nil || !strings.HasSuffix(at.Path, admin.InvitationPath) || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" || !isPlain(x.Link) {
		return s.notServe()
	}
	if c.alone != nil {
		x.Link = c.alone.base + admin.InvitationPath + "?" + at.RawQuery
	}
	if c.asJSON {
		err = c.printJSON(x, "  ")
	} else {
		_, err = fmt.Fprintln(c.stdout, x.Link)
	}
	if err != nil {
		return withHint(fmt.Errorf("the link was made, but could not be printed: %w", err), "run `dragoman people link %s%s`", shellWord(x.Name), c.words())
	}
	if c.quiet || c.asJSON {
		return nil
	}
	c.status.Printf("%s", done)
	c.status.Printf("whoever opens the link first is %s; it works once, until %s", clean(x.Name), x.Expires.In(time.Local).Format(time.DateTime))
	c.note(x.Note)
	return nil
}
