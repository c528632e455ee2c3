package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// toolsCommand is `dragoman tools` and its subcommands.
type toolsCommand struct {
	*world
	houseFlags
}

func newToolsCommand(w *world) *cobra.Command {
	c := &toolsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "tools COMMAND",
		Short: "Review tools that have changed, and approve or reject them",
		Long: `"dragoman serve" remembers the definitions of all tools, prompts and resource
templates. One that has changed since is reported, or held until somebody has
approved it: see the setting "pins".

Only the user who started "dragoman serve" can approve and reject. On another
machine, use --url, with an API key in the environment variable DRAGOMAN_KEY: it
needs the role viewer to review, and operator to approve and reject.`,
		Example: `  # Look at what has changed.
  dragoman tools review

  # Approve it.
  dragoman tools approve notes/search 3f2a9c1b2d3e`,
		Args:              noArguments,
		RunE:              c.review,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	cmd.AddCommand(newToolsReviewCommand(w), newToolsDecideCommand(w, "approve"), newToolsDecideCommand(w, "reject"))
	return cmd
}

func newToolsReviewCommand(w *world) *cobra.Command {
	c := &toolsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "review [SERVER[/NAME]] [flags]",
		Short: "Show the tools, prompts and templates that have changed",
		Long: `Show what has changed in the definitions about which nobody has decided yet,
with a line for each value. Characters that nobody could see, or that would
reorder the text around them, are drawn as their code point, such as <U+200B>.

Lists that nobody has read since the start of serve are read first, which opens
their servers. If you name a server or a tool, what was rejected is shown, too.`,
		Example: `  dragoman tools review

  # Of one server, as JSON.
  dragoman tools review notes --json`,
		Args:              c.atMostOne,
		RunE:              c.review,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newToolsDecideCommand(w *world, verb string) *cobra.Command {
	c := &toolsCommand{world: w}
	about := `Approve the definition of a tool, a prompt (SERVER/prompt:NAME) or a template
(SERVER/resource:TEMPLATE) that you have looked at with "dragoman tools review".
Clients can use it from now on, and hear that their lists have changed. What was
approved before stays approved. If it was rejected, this takes that back.`
	if verb == "reject" {
		about = `Reject the definition of a tool, a prompt (SERVER/prompt:NAME) or a template
(SERVER/resource:TEMPLATE) that you have looked at with "dragoman tools review".
You aren't asked about it again. With "pins: hold", clients can't use it. As
long as the server has this definition, "dragoman tools approve" takes it back.`
	}
	cmd := &cobra.Command{
		Use:   verb + " SERVER/NAME HASH [flags]",
		Short: strings.ToUpper(verb[:1]) + verb[1:] + " a changed tool, prompt or template",
		Long: about + `

HASH is what "dragoman tools review" prints. If the definition has changed again
meanwhile, nothing is done.`,
		Example: `  dragoman tools ` + verb + ` notes/search 3f2a9c1b2d3e

  # A prompt, of the serve on another machine.
  dragoman tools ` + verb + ` notes/prompt:summarize 9d01e4c27ab5 --url https://mcp.example.com`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("write `dragoman tools "+verb+" SERVER/NAME HASH`, as `dragoman tools review` prints it", "expected two arguments, got %d", len(args))
			}
			return nil
		},
		RunE:              func(cmd *cobra.Command, args []string) error { return c.decide(cmd, verb, args[0], args[1]) },
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

// shownHash is how many digits of a hash people are shown, and leastHash how many they must write.
const (
	shownHash = 12
	leastHash = 8
)

// changes calls do with a running serve and what has changed there.
func (c *toolsCommand) changes(cmd *cobra.Command, do func(context.Context, *running, *admin.Pins) error) error {
	ctx := cmd.Context()
	s, err := locator{c.env}.running(ctx, &c.runningFlags)
	if err != nil {
		return err
	}
	defer s.close()
	s.project = c.project
	var all admin.Pins
	if err = s.decode(ctx, "/api/v1/pins", url.Values{"read": {"true"}}, &all); err == nil {
		err = do(ctx, s, &all)
	}
	return signalOr(ctx, err)
}

func (c *toolsCommand) atMostOne(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("write one server or one tool", "unexpected argument %q after %q", args[1], args[0])
	}
	return nil
}

func (c *toolsCommand) review(cmd *cobra.Command, args []string) error {
	return c.changes(cmd, func(ctx context.Context, s *running, all *admin.Pins) error {
		list, rejected := all.Changes[:0], 0
		for _, x := range all.Changes {
			switch {
			case len(args) > 0 && x.Server != args[0] && x.Server+"/"+x.Item != args[0]:
			case len(args) == 0 && x.Rejected:
				rejected++
			default:
				list = append(list, x)
			}
		}
		all.Changes = list
		c.sayUnseen(all, args, rejected)
		if len(args) > 0 && len(list) == 0 {
			var r admin.Report
			server, _, _ := strings.Cut(args[0], "/")
			if err := s.decode(ctx, "/api/v1/status", nil, &r); err != nil || serverNamed(&r, server) == nil {
				return cmp.Or(err, noServer(server, &r, c.file))
			}
		}
		if c.asJSON {
			return c.printJSON(all, "  ")
		}
		if len(list) == 0 {
			switch all.Mode {
			case "off":
				c.status.Printf("nobody looks for changes, because of pins: off")
			default:
				c.status.Printf("nothing has changed that nobody has decided about")
			}
			return nil
		}
		var b strings.Builder
		for i, x := range list {
			if i > 0 {
				b.WriteByte('\n')
			}
			what := x.Server + "/" + x.Item
			state := "has changed"
			if x.Rejected {
				state = "was rejected"
			}
			if x.Held {
				state += ", and is held"
			} else {
				state += "; clients can use it, because of pins: warn"
			}
			fmt.Fprintf(&b, "%s %s\n%s", clean(what), state, cleanLines(x.Diff))
			fmt.Fprintf(&b, "dragoman tools approve %s %s%s\n", clean(shellWord(what)), clean(x.SHA256[:min(shownHash, len(x.SHA256))]), c.words())
		}
		_, err := io.WriteString(c.stdout, b.String())
		return err
	})
}

// sayUnseen says what isn't shown: what was rejected, and what the servers have whose lists nobody knows.
func (c *toolsCommand) sayUnseen(all *admin.Pins, args []string, rejected int) {
	if rejected > 0 {
		c.status.Printf("also rejected: %d; `dragoman tools review SERVER%s` shows them", rejected, c.words())
	}
	for _, x := range all.Unread {
		if server := x.Server; len(args) == 0 || server == args[0] || strings.HasPrefix(args[0], server+"/") {
			c.status.Printf("nobody knows what has changed at %s: %s", clean(server), clean(cmp.Or(x.Cause, "it has not answered yet")))
		}
	}
}

func (c *toolsCommand) decide(cmd *cobra.Command, verb, what, hash string) error {
	server, item, ok := strings.Cut(what, "/")
	if !ok || server == "" || item == "" {
		return usagef("write SERVER/TOOL, SERVER/prompt:NAME or SERVER/resource:TEMPLATE", "%q names no tool of a server", what)
	}
	if len(hash) < leastHash || strings.Trim(hash, "0123456789abcdef") != "" {
		return usagef("copy it from `dragoman tools review`", "%q is not a hash of at least %d hexadecimal digits", hash, leastHash)
	}
	review := "look at it with `dragoman tools review " + shellWord(server) + c.words() + "`"
	return c.changes(cmd, func(ctx context.Context, s *running, all *admin.Pins) error {
		found := admin.PinDecision{Server: server, Item: item}
		waits := false
		for _, x := range all.Changes {
			if x.Server != server || x.Item != item {
				continue
			}
			waits = true
			if strings.HasPrefix(x.SHA256, hash) {
				found.SHA256 = x.SHA256
			}
		}
		switch {
		case !waits:
			return withHint(fmt.Errorf("%s does not wait for a decision", what), "`dragoman tools review%s` shows what does", c.words())
		case found.SHA256 == "":
			return withHint(fmt.Errorf("%s has changed again, so another definition than %s waits for a decision", what, hash), "%s", review)
		}
		var done admin.PinDecided
		err := s.apply(ctx, http.MethodPost, "/pins/"+verb, found, &done)
		var bad *problemError
		if errors.As(err, &bad) && bad.kind == "changed-again" {
			return withHint(fmt.Errorf("%s has changed again, or somebody has decided about it", what), "%s", review)
		}
		if err != nil {
			return err
		}
		return c.done(c.world, done, done.Note, "%s %s", done.State, what)
	})
}
