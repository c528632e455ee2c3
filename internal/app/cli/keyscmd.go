package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
)

// keysCommand is `dragoman keys` and its subcommands.
type keysCommand struct {
	*world
	houseFlags

	servers, tools         []string
	role, expires, overlap string
	owner                  string

	server, revision string // of a look
	search           bool
}

func newKeysCommand(w *world) *cobra.Command {
	c := &keysCommand{world: w}
	cmd := &cobra.Command{
		Use:         "keys [flags]",
		Annotations: map[string]string{alsoRuns: "true"},
		Short:       "List, make, rotate and revoke the API keys of \"dragoman serve\"",
		Long: `List the API keys with which clients come in to "dragoman serve", or
make, rotate and revoke them. Clients on this machine need a key only if the
configuration has "access: {loopback: keys}"; those of other machines always do.
docs/access.md shows how clients send one.

` + houseWho("keys", "admin"),
		Example: `  # List the keys.
  dragoman keys

  # Make one, and revoke it.
  dragoman keys add ci
  dragoman keys revoke ci

  # Do it from another machine, with the key in DRAGOMAN_KEY.
  dragoman keys --url https://mcp.example.com`,
		Args:              noArguments,
		RunE:              c.list,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	cmd.AddCommand(newKeysShowCommand(w), newKeysLookCommand(w), newKeysAddCommand(w), newKeysRotateCommand(w), newKeysRevokeCommand(w))
	return cmd
}

func newKeysAddCommand(w *world) *cobra.Command {
	c := &keysCommand{world: w}
	cmd := &cobra.Command{
		Use:   "add NAME [flags]",
		Short: "Make an API key and print it",
		Long: `Make an API key and print it. This is the only time: "dragoman serve"
keeps nothing from which the key could be made again. NAME is what you call it;
use one for each person or program, so that you can revoke it alone.

The key may use all servers of its project unless --server or --tool names some.
In both, * stands for any text. With --tool, the key sees no prompts and no
resources.

Only the key goes to stdout, so that KEY=$(dragoman keys add ci) works.`,
		Example: `  # Make a key that is good for 90 days.
  dragoman keys add ci

  # Make one that acts for you; the name of a person makes one that acts for them.
  dragoman keys add laptop --owner me

  # Make one that may only read issues, for a year.
  dragoman keys add triage --tool 'github/get_*' --tool 'github/list_*' --expires 365d`,
		Args:              c.oneArgument("the key's name", "dragoman keys add ci"),
		RunE:              c.add,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := flagsInOrder(cmd)
	flags.StringArrayVar(&c.servers, "server", nil, "let the key use the servers that match `GLOB`; may be repeated")
	flags.StringArrayVar(&c.tools, "tool", nil, "let the key use the tools that match `SERVER/TOOL`; may be repeated")
	flags.StringVar(&c.role, "role", identity.Caller.String(), "give the key this `ROLE`: caller uses the MCP endpoints; viewer, operator and admin the API")
	c.expiresFlag(cmd, "let the key expire after `TIME`, such as 90d or 12h, or never")
	flags.StringVar(&c.owner, "owner", "", "let the key act for the person `NAME` instead of for itself; me is you")
	c.addFlags(cmd)
	return cmd
}

func newKeysRotateCommand(w *world) *cobra.Command {
	c := &keysCommand{world: w}
	cmd := &cobra.Command{
		Use:   "rotate (ID | NAME) [flags]",
		Short: "Give an API key another secret and print it",
		Long: `Give an API key another secret and print the key, which you see only this once.
Its id, its name and what it may do stay. The key before works until the overlap
ends, so that you have time to replace it everywhere.`,
		Example: `  # Print a new key; the old one works for a week.
  dragoman keys rotate triage --overlap 7d

  # Somebody has seen the key: the old one ends at once.
  dragoman keys rotate triage --overlap 0s`,
		Args:              c.oneArgument("the key's id or name", "dragoman keys rotate ci"),
		RunE:              c.rotate,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).StringVar(&c.overlap, "overlap", "24h", "let the old key work for this `TIME`, such as 24h or 7d")
	c.expiresFlag(cmd, "let the key expire this `TIME` from now, such as 90d or 12h, or never")
	c.addFlags(cmd)
	return cmd
}

func newKeysRevokeCommand(w *world) *cobra.Command {
	c := &keysCommand{world: w}
	cmd := &cobra.Command{
		Use:   "revoke (ID | NAME) [flags]",
		Short: "Revoke an API key",
		Long: `Revoke an API key. No new call gets in with it, and its sessions and streams end
within seconds. A revoked key can't be brought back.`,
		Example: `  dragoman keys revoke ci
  dragoman keys revoke INQgQEROjTpy`,
		Args:              c.oneArgument("the key's id or name", "dragoman keys revoke ci"),
		RunE:              c.revoke,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func (c *keysCommand) expiresFlag(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&c.expires, "expires", "90d", usage)
}

func (c *keysCommand) all(ctx context.Context, s *running) ([]admin.APIKey, error) {
	return pages(ctx, s, "/keys", func(p *admin.APIKeys) ([]admin.APIKey, string) { return p.Keys, p.Next })
}

func (c *keysCommand) list(cmd *cobra.Command, _ []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		keys, err := c.all(ctx, s)
		return showAll(&c.houseFlags, c.world, keys, err, "there are no keys; `dragoman keys add NAME%s` makes one", func(k []admin.APIKey) screen.Table { return keyTable(k, time.Now().In(time.Local)) })
	})
}

// keyTable returns the table of keys, which fits 80 columns also where there is no terminal.
func keyTable(keys []admin.APIKey, now time.Time) screen.Table {
	t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "ID", Whole: true}, {Title: "NAME", Most: 24}, {Title: "ROLE", Whole: true}, {Title: "EXPIRES", Whole: true}, {Title: "USED", Whole: true}, {Title: "MAY USE", Wrap: true}}}
	refused := slices.ContainsFunc(keys, func(k admin.APIKey) bool { return k.Refused > 0 })
	if refused {
		t.Columns = slices.Insert(t.Columns, 5, screen.Column{Title: "REFUSED", Whole: true, Right: true})
	}
	owned := slices.ContainsFunc(keys, func(k admin.APIKey) bool { return k.Owner != "" })
	if owned {
		t.Columns = slices.Insert(t.Columns, 2, screen.Column{Title: "OWNER", Most: 16})
	}
	for _, k := range keys {
		expires := screen.Cell{Text: "never"}
		switch {
		case k.Expired:
			expires = screen.Cell{Text: "expired", Style: screen.Red}
		case k.Expires != nil:
			expires.Text = k.Expires.In(now.Location()).Format(time.DateOnly)
		}
		use := strings.Join(append(k.Servers, k.Tools...), ", ")
		if use == "" && k.Role == identity.Caller.String() {
			use = "all servers"
		}
		row := []screen.Cell{{Text: k.ID}, {Text: k.Name}, {Text: k.Role}, expires, {Text: usedText(k.Used, now)}, {Text: cmp.Or(use, "-")}}
		if refused { // by a limit per key
			row = slices.Insert(row, 5, screen.Cell{Text: strconv.FormatUint(k.Refused, 10)})
		}
		if owned {
			row = slices.Insert(row, 2, screen.Cell{Text: cmp.Or(k.Owner, "-")})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// usedText says how long ago a key was last used.
func usedText(at *time.Time, now time.Time) string {
	if at == nil {
		return "never"
	}
	switch ago := now.Sub(*at); {
	case ago < 2*time.Minute:
		return "now"
	case ago < time.Hour:
		return fmt.Sprintf("%dm ago", int(ago.Minutes()))
	case ago < 24*time.Hour:
		return fmt.Sprintf("%dh ago", int(ago.Hours()))
	default:
		return fmt.Sprintf("%dd ago", int(ago.Hours())/24)
	}
}

func (c *keysCommand) add(cmd *cobra.Command, args []string) error {
	role, ok := identity.RoleOf(c.role)
	if !ok {
		return usagef("the roles are caller, viewer, operator and admin", "there is no role %q", c.role)
	}
	life, err := access.Life(c.expires)
	if err == nil {
		w := access.Wish{Name: args[0], Project: cmp.Or(c.project, event.DefaultProject), Servers: c.servers, Tools: c.tools, Role: role, Life: life}
		err = w.Check()
	}
	if err != nil {
		return usagef("run `dragoman keys add --help`", "%v", err)
	}
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		var k admin.NewAPIKey
		q := admin.APIKeyRequest{Name: args[0], Owner: c.owner, Role: c.role, Servers: c.servers, Tools: c.tools, Life: c.expires}
		if strings.EqualFold(c.owner, access.Me) {
			q.Mine, q.Owner = true, ""
		}
		err := s.apply(ctx, http.MethodPost, "/keys", q, &k)
		var bad *problemError
		if errors.As(err, &bad) && bad.kind == "no-such-person" {
			return usagef("`dragoman people"+c.words()+"` lists the people", "nobody in the project is named %q", c.owner)
		}
		if err != nil {
			return err
		}
		return c.show(s, &k, "made")
	})
}

func (c *keysCommand) rotate(cmd *cobra.Command, args []string) error {
	_, err := access.Life(c.expires)
	if err == nil {
		_, err = access.Duration(c.overlap)
	}
	if err != nil {
		return usagef("run `dragoman keys rotate --help`", "%v", err)
	}
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		old, err := c.named(ctx, s, args[0])
		if err != nil {
			return err
		}
		var k admin.NewAPIKey
		if err := s.apply(ctx, http.MethodPost, "/keys/"+url.PathEscape(old.ID)+"/rotate", admin.APIKeyRotation{Overlap: c.overlap, Life: c.expires}, &k); err != nil {
			return err
		}
		return c.show(s, &k, "rotated")
	})
}

func (c *keysCommand) revoke(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		k, err := c.named(ctx, s, args[0])
		if err != nil {
			return err
		}
		var gone admin.RevokedKey
		if err := s.apply(ctx, http.MethodDelete, "/keys/"+url.PathEscape(k.ID), nil, &gone); err != nil {
			return err
		}
		ends := ""
		if n := gone.Ends; n != (admin.KeyUse{}) {
			ends = fmt.Sprintf("; %s, %s and %s end within 5 s", quantity(n.Sessions, "session"), quantity(n.Streams, "stream"), quantity(n.Calls, "running call"))
		}
		return c.done(c.world, gone, "", "revoked the key %q with the id %s%s", gone.Name, gone.ID, ends)
	})
}

// named returns the key with an id or a name.
func (c *keysCommand) named(ctx context.Context, s *running, name string) (*admin.APIKey, error) {
	keys, err := c.all(ctx, s)
	if err != nil {
		return nil, err
	}
	var found []*admin.APIKey
	var ids, names []string
	for i := range keys {
		k := &keys[i]
		if k.ID == name {
			return k, nil
		}
		if names = append(names, k.Name); k.Name == name {
			found, ids = append(found, k), append(ids, k.ID)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, usagef(didYouMean(name, names, "`dragoman keys"+c.words()+"` lists the keys"), "no key has the name or the id %q", name)
	}
	return nil, usagef("use an id instead of the name", "%d keys have the name %q: %s", len(ids), name, strings.Join(ids, ", "))
}

// show prints a key on stdout alone, and on stderr what to do with it.
func (c *keysCommand) show(s *running, k *admin.NewAPIKey, done string) error {
	if !access.IsKey(k.Text) {
		return s.notServe()
	}
	revoke := "dragoman keys revoke " + shellWord(k.ID) + c.words()
	err := error(nil)
	if c.asJSON {
		err = c.printJSON(k, "  ")
	} else {
		_, err = fmt.Fprintln(c.stdout, k.Text)
	}
	if err != nil {
		return withHint(fmt.Errorf("the key was %s, but could not be printed: %w", done, err), "run `%s`", revoke)
	}
	if c.quiet || c.asJSON {
		return nil
	}
	expires := "does not expire"
	if k.Expires != nil {
		expires = "expires on " + k.Expires.In(time.Local).Format(time.DateOnly)
	}
	c.status.Printf("%s the key %q of the project %s; it %s", done, k.Name, k.Project, expires)
	if k.OverlapUntil != nil {
		c.status.Printf("the key before works until %s", k.OverlapUntil.In(time.Local).Format(time.DateTime))
	}
	c.status.Printf("it is shown only now; clients send it in the header `Authorization: Bearer KEY` or `X-API-Key: KEY`")
	c.status.Printf("`%s` revokes it", revoke)
	c.note(k.Note)
	return nil
}
