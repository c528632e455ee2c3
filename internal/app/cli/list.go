package cli

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/app/tool"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/ranking"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

var listKinds = []string{"tools", "resources", "prompts", "templates"}

// listCommand is `dragoman list`.
type listCommand struct {
	desk *daemon.Desk // of listHealth

	client

	kind, query    string
	health, asJSON bool
}

func newListCommand(w *world) *cobra.Command {
	c := &listCommand{client: client{world: w}}
	cmd := &cobra.Command{
		Use:   "list [tools|resources|prompts|templates] [URL | NAME | -- COMMAND [ARG]...]",
		Short: "List the tools, resources or prompts of a server, or the health of all servers",
		Long: `List the tools, resources, prompts or resource templates of a server, with the
first line of each description. The server is a URL, the name of a configured
server, or a command after --.

With a kind, such as tools, but no server, you get the items of all servers of
the running "dragoman serve" on this machine.

With --query, you get the tools that fit a few words, the best first, ranked as
in search mode. Of a running serve, those are left out that no client sees:
because a rule denies them to everybody, "expose" hides them, or they are held.

With neither kind nor server, the command connects to all configured servers at
once and prints a table of their health: state, revision, transport, how many
tools, prompts and resources they have ("3 + 2" means three resources and two
resource templates), what the tools cost in tokens (an estimate), and the time
until the server was ready. A server that isn't ready within --timeout (default
30s) has "failed". If a list of a ready server can't be read, you see ! for the
number, and a line with the reason. The exit code is 1 if either happened.

A gateway, such as "dragoman serve", may still be starting some of its servers.
The command waits up to 30 s for them, then says on stderr which are missing.
The exit code is 1 if that leaves the list empty.

Configured servers are asked through the running "dragoman serve" that has the
same configuration, so they don't run twice. With --direct, the command starts
them itself. A server that your configuration file doesn't have, such as one of
"dragoman serve --demo", is found in a running serve; without a file, you get
the health of that one's servers.`,
		Example: `  # Do all configured servers work?
  dragoman list

  dragoman list https://mcp.example.com/mcp
  dragoman list resources -- npx -y @modelcontextprotocol/server-everything@2025.9.25

  # List all tools of the running "dragoman serve", with the names that clients see.
  dragoman list tools

  # Which of them take pictures of a web page?
  dragoman list tools --query "screenshot of a page"

  # Print the names of all tools of a configured server, for a script.
  dragoman list gh --json | jq -r '.[].name'`,
		Args: c.check,
		RunE: c.run,
	}
	cmd.ValidArgsFunction = c.env.completeTarget(&c.file, listKinds...)
	flags := flagsInOrder(cmd)
	flags.StringVar(&c.query, "query", "", "list only the tools that fit `TEXT`, the best first")
	flags.BoolVar(&c.asJSON, "json", false, "print a JSON array: the items byte for byte as the server sent them, or the servers")
	c.addFlags(cmd)
	return cmd
}

func (c *listCommand) check(cmd *cobra.Command, args []string) error {
	c.kind, c.where, c.health = "tools", where{}, false
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		args, c.where.command = args[:dash], args[dash:]
		if len(c.where.command) == 0 {
			return usagef("use `dragoman list -- COMMAND`", "no command after --")
		}
	}
	words := len(args)
	if words > 0 && slices.Contains(listKinds, args[0]) {
		c.kind, args = args[0], args[1:]
	} else if words == 2 || words == 1 && c.where.command != nil {
		if hint := meant(args[0]); hint != "" {
			return usagef(hint, "cannot list %q", args[0])
		}
		other := "use one of " + strings.Join(listKinds, ", ")
		if words == 2 {
			other = "list one server at a time, or write one of " + strings.Join(listKinds, ", ") + " before the server"
		}
		return usagef(didYouMean(args[0], listKinds, other), "cannot list %q", args[0])
	}
	if c.query != "" && c.kind != "tools" {
		return usagef("leave out "+c.kind+", or --query", "--query finds tools, not %s", c.kind)
	}
	switch {
	case len(args) > 1:
		return usagef("list one server at a time, or put -- before a command", "unexpected argument %q after %q", args[1], args[0])
	case len(args) == 1 && c.where.command != nil:
		return usagef("remove one of them", "got both %q and a command", args[0])
	case len(args) == 1:
		c.where.target = args[0]
	case c.where.command != nil:
	case words > 0, c.query != "": // list the items of all servers of a running serve process
	default:
		c.health = true
	}
	return nil
}

func (c *listCommand) run(cmd *cobra.Command, _ []string) error {
	if c.health && c.project != "" {
		return usagef("use `dragoman status --project "+shellWord(c.project)+"`, or write tools, prompts or resources after list", "the servers of a project are not opened anew")
	}
	if c.health {
		return c.listHealth(cmd.Context())
	}
	if c.where.target == "" && c.where.command == nil {
		usage := "use `dragoman list " + c.kind + " URL`, `dragoman list " + c.kind + " NAME` or `dragoman list " + c.kind + " -- COMMAND`"
		if err := c.useJoined(cmd.Context(), usage, "no server given, and a running serve was not found"); err != nil {
			return err
		}
		if c.query != "" {
			return c.findAt(cmd.Context(), c.foundAt)
		}
	}
	var l runtime.List
	name := ""
	err := c.onServer(mcp.WithPurpose(cmd.Context(), runtime.ListMethod(c.kind)), nil, func(ctx context.Context, s Session, server config.Server) (err error) {
		name = server.Name
		c.status.Step(name, "listing "+c.kind)
		l, err = c.listWhole(ctx, s, name, c.kind, nil)
		c.remember(c.kind, l.Items)
		var late timeoutError
		if err != nil && errors.As(context.Cause(ctx), &late) {
			return unansweredError{name, c.kind, late}
		}
		return err
	})
	var wrong *usageError
	if near := config.Suggest(c.where.target, listKinds); near != "" && errors.As(err, &wrong) {
		return usagef("did you mean `dragoman list "+near+"`?", "%s", wrong.text)
	}
	if err != nil {
		return err
	}
	if c.query == "" {
		return c.printList(name, l)
	}
	if l.Items = fitting(c.query, l.Items); len(l.Items) == 0 && !c.asJSON {
		c.status.Printf("no tool of %s fits %s", name, excerpt.Quote(c.query, 100))
		return nil
	}
	return c.printList(name, l)
}

// fitting returns the tools that fit a query, the best first.
func fitting(query string, items [][]byte) (found [][]byte) {
	tools := make([]ranking.Tool, len(items))
	for i, raw := range items {
		tools[i] = ranking.Tool{Name: textOf(raw, jsonrpc.Whole(raw), "name"), Definition: raw}
	}
	for _, h := range ranking.Search(query, []*ranking.Index{ranking.New(tools)}, nil, max(len(items), 1)) {
		found = append(found, h.Tool.Definition)
	}
	return found
}

// findAt prints the tools of a running serve that fit the query. In search mode, its endpoint would list only a few.
func (c *listCommand) findAt(ctx context.Context, base string) error {
	s, err := locator{c.env}.runningAt(base)
	if err != nil {
		return err
	}
	defer s.close()
	s.project = c.project
	var found admin.Tools
	if err := s.decode(ctx, "/api/v1/tools", url.Values{"q": {c.query}, "state": {"shown"}}, &found); err != nil {
		return signalOr(ctx, err)
	}
	switch {
	case c.asJSON:
		return c.printJSON(found.Tools, "  ")
	case len(found.Tools) == 0:
		c.status.Printf("no tool fits %s", excerpt.Quote(c.query, 100))
		return nil
	}
	rows := make([][2]string, len(found.Tools))
	for i, t := range found.Tools {
		about, _, _ := strings.Cut(strings.TrimSpace(cmp.Or(t.Description, t.Title)), "\n")
		rows[i] = [2]string{t.Offered, about}
	}
	return c.printTable(rows)
}

// appOnly marks a tool that hosts do not show to the model; see tool.Tool.AppOnly.
const appOnly = "for the app only"

// rowsOf returns two texts for each item: its name, and the first line of its description. If there
// is no description, the second text is the title or the name. The mark appOnly comes first.
func rowsOf(kind string, items [][]byte) [][2]string {
	name := map[string]string{"resources": "uri", "templates": "uriTemplate"}[kind]
	if name == "" {
		name = "name"
	}
	rows := make([][2]string, len(items))
	for i, raw := range items {
		whole := jsonrpc.Whole(raw)
		rows[i][0] = textOf(raw, whole, name)
		for _, key := range []string{"description", "title", "name"} {
			text := textOf(raw, whole, key)
			if text, _, _ = strings.Cut(strings.TrimSpace(text), "\n"); text != "" && text != rows[i][0] {
				rows[i][1] = strings.TrimSpace(text)
				break
			}
		}
		if kind == "tools" && tool.Of(raw).AppOnly() {
			rows[i][1] = strings.TrimSpace("(" + appOnly + ") " + rows[i][1])
		}
	}
	return rows
}
