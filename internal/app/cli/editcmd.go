package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// editCommand is `dragoman remove`, `enable` or `disable`: a change of one server in the configuration
// file.
type editCommand struct {
	*world

	config      string
	project     string
	dry, asJSON bool
	shown       bool // the user has seen the change

	done   string // what the command has done then: "removed"
	change func(f intake.File, server string) ([]byte, error)
}

func newRemoveCommand(w *world) *cobra.Command {
	c := &editCommand{world: w, done: "removed", change: intake.File.Remove}
	return c.command(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a server from the configuration",
		Long: `Remove a server from the configuration file, with its settings below
dragoman.servers and the comment right above it. The command shows the change,
and keeps a copy of the file as FILE.dragoman-backup-DATE in the same directory.
All other bytes of the file stay the same. A running "dragoman serve" reloads
the file, and the command says what it has done.`,
		Example: `  # Show the change.
  dragoman remove weather --dry-run

  # Make it.
  dragoman remove weather`,
	})
}

func newDisableCommand(w *world) *cobra.Command {
	c := &editCommand{world: w, done: "disabled", change: disabling(true)}
	return c.command(&cobra.Command{
		Use:   "disable NAME[/TOOL]",
		Short: "Disable a server or a tool in the configuration",
		Long: `Write "disabled: true" into a server's entry in the configuration file. The
server stays in the file, but "dragoman serve" does not start it and no client
sees its tools. With the name of a tool behind a slash, the server keeps running
and "expose" hides this tool from all clients.

The command shows the change, and keeps a copy of the file as
FILE.dragoman-backup-DATE in the same directory. A running "dragoman serve"
reloads the file, and the command says what it has done. To stop a server only
until the next restart, use "dragoman stop".`,
		Example: `  # Show the change.
  dragoman disable weather --dry-run

  # Make it, and undo it.
  dragoman disable weather
  dragoman enable weather

  # Hide one tool.
  dragoman disable github/delete_repository`,
	})
}

func newEnableCommand(w *world) *cobra.Command {
	c := &editCommand{world: w, done: "enabled", change: disabling(false)}
	return c.command(&cobra.Command{
		Use:   "enable NAME[/TOOL]",
		Short: "Enable a server or a tool that is disabled in the configuration",
		Long: `Remove "disabled: true" or "enabled: false" from a server's entry in the
configuration file, or with the name of a tool behind a slash what "expose" has
against this tool.

The command shows the change, and keeps a copy of the file as
FILE.dragoman-backup-DATE in the same directory. A running "dragoman serve"
reloads the file, and the command says what it has done.`,
		Example: `  # Show the change.
  dragoman enable weather --dry-run

  # Make it.
  dragoman enable weather`,
	})
}

// disabling returns the change that disables a server or a tool, or enables it.
func disabling(off bool) func(intake.File, string) ([]byte, error) {
	return func(f intake.File, name string) ([]byte, error) {
		server, tool, one := strings.Cut(name, "/")
		if one {
			return f.Expose(server, map[string]bool{tool: !off})
		}
		return f.Disable(server, off)
	}
}

// command completes a command with what the three have in common.
func (c *editCommand) command(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("use `"+cmd.CommandPath()+" NAME`", "no server given")
		case len(args) > 1:
			return usagef("name one server at a time", "unexpected argument %q", args[1])
		}
		return nil
	}
	cmd.RunE = c.run
	f := flagsInOrder(cmd)
	f.BoolVar(&c.dry, "dry-run", false, "show the change, and write nothing")
	f.StringVar(&c.project, "project", "", "change a server of the project `NAME` in the file (default: default)")
	f.BoolVar(&c.asJSON, "json", false, "print JSON")
	addConfigFlag(cmd, &c.config)
	cmd.ValidArgsFunction = c.env.completeIn(&c.config, &c.project)
	return cmd
}

func (c *editCommand) run(cmd *cobra.Command, args []string) error {
	return untilUnchanged(func() error { return c.edit(cmd.Context(), args[0]) })
}

// edit plans the change of a server or of one of its tools, and makes it.
func (c *editCommand) edit(ctx context.Context, name string) error {
	server, _, one := strings.Cut(name, "/")
	if one && c.done == "removed" {
		server = name // only a whole server can be removed
	}
	path, found := c.env.configPath(c.config)
	if !found {
		return c.env.noConfig()
	}
	before, err := clientfile.Load(path)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	if before == nil {
		return withHint(fmt.Errorf("%s does not exist", path), "name another file with -c FILE")
	}
	old, err := intake.ParseOurs(path, before, intake.Env(c.env))
	if err != nil {
		return err
	}
	own, err := ownProject(old, c.project, path)
	if err != nil {
		return err
	}
	if _, ok := own.Server(server); !ok {
		return unknownServer(server, inProject(path, c.project), serverNames(own))
	}
	after, err := c.change(intake.File{Path: path, Before: before, Old: old, Env: intake.Env(c.env), Project: fileProject(c.project)}, name)
	if err != nil {
		return withHint(err, "change the file by hand; `dragoman config check` checks it")
	}
	if !bytes.Equal(before, after) {
		return c.write(ctx, name, clientfile.Change{Path: path, Before: before, After: after, Backup: true})
	}
	if c.asJSON {
		return c.printEdit(name, path, "", "")
	}
	if !c.quiet {
		c.status.Printf("%s is %s already in %s", name, c.done, inProject(path, c.project))
	}
	return nil
}

// ownProject returns the configuration of a project in that of a file, with the servers that the file has for it.
func ownProject(old *config.Snapshot, project, path string) (*config.Snapshot, error) {
	if own := intake.ServersOf(old, project); own != nil {
		return own, nil
	}
	var names []string
	for _, p := range old.Projects {
		if names = append(names, p.Name); p.Name == project {
			return nil, withHint(fmt.Errorf("the project %s in %s has errors", project, path), "run `dragoman config check`")
		}
	}
	return nil, usagef(didYouMean(project, names, "the servers of a project in the store are in its text: `dragoman projects edit "+shellWord(project)+"`"), "%s has no project named %q", path, project)
}

// fileProject returns the project as intake.File has it.
func fileProject(project string) string {
	if project == event.DefaultProject {
		return ""
	}
	return project
}

// inProject says where in a file the servers of a project are.
func inProject(path, project string) string {
	if project = fileProject(project); project == "" {
		return path
	}
	return "the project " + project + " in " + path
}

// write shows the change, and makes it unless the user only wants to see it.
func (c *editCommand) write(ctx context.Context, server string, change clientfile.Change) error {
	diff := maskedDiff(change.Path, change.Before, change.After)
	if c.dry {
		if c.asJSON {
			return c.printEdit(server, change.Path, diff, "")
		}
		if _, err := fmt.Fprint(c.stdout, diff); err != nil {
			return err
		}
		if !c.quiet {
			c.status.Printf("nothing was written")
		}
		return nil
	}
	if !c.asJSON && !c.shown {
		c.announce(diff)
		c.shown = true
	}
	backup, err := c.env.writeOwn(change)
	if err != nil {
		return err
	}
	all := c.tellServe(ctx, change.Path)
	if c.asJSON {
		return errors.Join(c.printEdit(server, change.Path, diff, backup, all...), refusedBy(all))
	}
	if !c.quiet {
		c.status.Printf("%s %s in %s", c.done, server, inProject(change.Path, c.project))
		c.status.Printf("the old file is %s", backup)
	}
	return c.sayTold(all)
}

// printEdit prints the result as JSON. backup is "" if nothing was written.
func (c *editCommand) printEdit(server, file, diff, backup string, all ...told) error {
	return c.printJSON(struct {
		Name    string `json:"name"`
		File    string `json:"file"`
		Written bool   `json:"written"`
		Backup  string `json:"backup,omitempty"`
		Diff    string `json:"diff,omitempty"`
		Serve   []told `json:"serve,omitempty"`
	}{server, file, backup != "", backup, diff, all}, "")
}
