package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/runtime"
)

var listKinds = []string{"tools", "resources", "prompts", "templates"}

func (a *app) listCommand() *cobra.Command {
	var t targetFlags
	var file, kind, target string
	var command []string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [tools|resources|prompts|templates] (URL | NAME | -- COMMAND [ARG]...)",
		Short: "List the tools, resources or prompts of a server",
		Long: `List the tools of a server, or its resources, prompts or resource templates,
with the first line of each description. The server is a URL, the name of a
configured server, or a command after --.

A gateway may have servers that are still starting. The command waits for them
for up to 30 s, then names the missing servers on stderr. The exit code is 1 if
the list is empty because of them.`,
		Example: `  dragoman list https://mcp.example.com/mcp
  dragoman list resources -- npx -y @modelcontextprotocol/server-everything@2025.9.25

  # Print the names of all tools of a configured server, for a script.
  dragoman list gh --json | jq -r '.[].name'`,
		Args: func(c *cobra.Command, args []string) error {
			kind, target, command = "tools", "", nil
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				args, command = args[:dash], args[dash:]
				if len(command) == 0 {
					return usagef("use `dragoman list -- COMMAND`", "no command after --")
				}
			}
			words := len(args)
			if words > 0 && slices.Contains(listKinds, args[0]) {
				kind, args = args[0], args[1:]
			} else if words == 2 || words == 1 && command != nil {
				return usagef("use one of "+strings.Join(listKinds, ", "), "cannot list %q", args[0])
			}
			switch {
			case len(args) > 1:
				return usagef("put -- before a command", "unexpected argument %q after %q", args[1], args[0])
			case len(args) == 1 && command != nil:
				return usagef("remove one of them", "got both %q and a command", args[0])
			case len(args) == 1:
				target = args[0]
			case command == nil:
				return usagef("use `dragoman list URL`, `dragoman list NAME` or `dragoman list -- COMMAND`", "no server given")
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			server, err := a.target(&t, target, command, file)
			if err != nil {
				return err
			}
			var l runtime.List
			err = a.withSession(c.Context(), server, nil, func(s Session) error {
				a.status.Step(server.Name, "listing "+kind)
				l, err = a.listWhole(c.Context(), s, server.Name, kind, nil)
				return err
			})
			if err != nil {
				return err
			}
			return a.printList(server.Name, kind, l, asJSON)
		},
		ValidArgsFunction: a.completeTarget(&file, listKinds...),
	}
	f := flagsInOrder(c)
	f.BoolVar(&asJSON, "json", false, "print a JSON array of the items, byte for byte as the server sent them")
	addConfigFlag(c, &file)
	t.add(f)
	return c
}

// rowsOf returns the name and the first line of the description of each item.
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
	}
	return rows
}
