package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

func newKeysShowCommand(w *world) *cobra.Command {
	c := &keysCommand{world: w}
	cmd := &cobra.Command{
		Use:   "show (ID | NAME) [flags]",
		Short: "Show what an API key is for, and what it is used for now",
		Long: `Show whose a key is, what it's for, when it was last used, until when it's good,
and what would end if it were revoked. Nothing shows the key itself.`,
		Example: `  dragoman keys show ci

  # For a script.
  dragoman keys show ci --json`,
		Args:              c.oneArgument("the key's id or name", "dragoman keys show ci"),
		RunE:              c.details,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newKeysLookCommand(w *world) *cobra.Command {
	c := &keysCommand{world: w}
	cmd := &cobra.Command{
		Use:   "look (ID | NAME) [flags]",
		Short: "List what the clients of a key get, as the endpoint itself says",
		Long: `Look as a key: list the tools, prompts and resources that its clients get at an
endpoint of the running serve, or say how they're refused. It's a client of that
endpoint with the key's rights, so what it gets is what they get. Nothing is
called, and it uses nobody's sign-in: a server at which the key's owner has
signed in answers as before that. The audit says that you looked.

"dragoman rules for" says which rule decides about each item.

` + houseWho("keys", "admin"),
		Example: `  dragoman keys look ci

  # At the endpoint of one server, as a client of an older revision.
  dragoman keys look ci --server github --revision 2025-03-26

  # With the definitions, and with what the key doesn't get.
  dragoman keys look ci --json`,
		Args:              c.oneArgument("the key's id or name", "dragoman keys look ci"),
		RunE:              c.look,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := flagsInOrder(cmd)
	flags.StringVar(&c.server, "server", "", "look at the endpoint of the server `NAME` (default: that of all servers)")
	flags.BoolVar(&c.search, "search", false, "look at the endpoint at which clients search their tools")
	flags.StringVar(&c.revision, "revision", mcp.LatestLegacy.String(), "be a client of the revision `DATE`")
	c.addFlags(cmd)
	return cmd
}

func (c *keysCommand) details(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		named, err := c.named(ctx, s, args[0])
		if err != nil {
			return err
		}
		var k admin.APIKeyDetails
		if err := s.decode(ctx, "/api/v1/keys/"+url.PathEscape(named.ID), nil, &k); err != nil {
			return err
		}
		if c.asJSON {
			return c.printJSON(k, "  ")
		}
		day := func(t *time.Time, none string) string {
			if t == nil {
				return none
			}
			return t.In(time.Local).Format(time.DateTime)
		}
		expires := day(k.Expires, "never")
		if k.Expired {
			expires += ", expired"
		}
		return c.printRows([][2]string{
			{"key", k.Name}, {"id", k.ID}, {"secret", "ends in " + k.Hint}, {"project", k.Project}, {"acts for", k.Owner}, {"role", k.Role},
			{"servers", strings.Join(k.Servers, ", ")}, {"tools", strings.Join(k.Tools, ", ")}, {"last used", day(k.Used, "never")}, {"expires", expires},
			{"old secret", day(k.OverlapUntil, "")}, {"made", day(&k.Made, "") + " by " + k.By},
			{"in use", fmt.Sprintf("%s, %s, %s", quantity(k.Now.Sessions, "session"), quantity(k.Now.Streams, "stream"), quantity(k.Now.Calls, "running call"))},
		})
	})
}

func (c *keysCommand) look(cmd *cobra.Command, args []string) error {
	q := admin.KeyLookRequest{Server: c.server, Revision: c.revision}
	switch {
	case c.search && c.server != "":
		return usagef("leave one of them out", "--search is an endpoint of its own, so it doesn't go with --server")
	case c.search:
		q.Endpoint = admin.AtSearch
	}
	return c.serve(cmd, c.world, func(ctx context.Context, s *running) error {
		k, err := c.named(ctx, s, args[0])
		if err != nil {
			return err
		}
		var got admin.KeyLook
		if err := s.apply(ctx, http.MethodPost, "/keys/"+url.PathEscape(k.ID)+"/look", q, &got); err != nil {
			return err
		}
		if c.asJSON {
			return c.printJSON(&got, "  ")
		}
		return c.printLook(&got)
	})
}

// printLook prints what a key gets.
func (c *keysCommand) printLook(got *admin.KeyLook) error {
	if r := got.Refused; r != nil {
		how := fmt.Sprintf("with the error %d", r.Code)
		if r.Status != 0 {
			how = fmt.Sprintf("with HTTP %d", r.Status)
		}
		_, err := fmt.Fprintf(c.stdout, "refused %s: %s\n", how, clean(excerpt.Line(r.Message, 400)))
		return err
	}
	t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "LIST", Whole: true}, {Title: "NAME", Wrap: true}, {Title: "DESCRIPTION", Wrap: true}}}
	for _, l := range got.Lists {
		if l.Refused != nil {
			c.status.Printf("%s is refused with the error %d: %s", l.Method, l.Refused.Code, clean(excerpt.Line(l.Refused.Message, 400)))
		}
		if l.More {
			c.status.Printf("%s has more than was read", l.Method)
		}
		for _, x := range l.Items {
			t.Rows = append(t.Rows, screen.Cells(l.Method, x.Name, excerpt.Line(x.Description, 120)))
		}
	}
	if len(t.Rows) > 0 {
		if err := c.print(t); err != nil {
			return err
		}
	}
	c.status.Printf("the key %q gets %s, and not %d of those that are known; with --json you see which", got.Key.Name, quantity(len(t.Rows), "item"), len(got.Denied))
	if len(got.SignIns) > 0 {
		c.status.Printf("these servers know people by their sign-in, so the key itself may get another list: %s", clean(strings.Join(got.SignIns, ", ")))
	}
	return nil
}
