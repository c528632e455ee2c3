package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// projectsCommand is `dragoman projects` and its subcommands.
type projectsCommand struct {
	*world
	houseFlags

	from  string // the value of --file
	check bool
	name  string // the value of --name
	yes   bool
}

func newProjectsCommand(w *world) *cobra.Command {
	c := &projectsCommand{world: w}
	cmd := &cobra.Command{
		Use:         "projects [flags]",
		Annotations: map[string]string{alsoRuns: "true"},
		Short:       "List, add, edit and remove the projects of \"dragoman serve\"",
		Long: `List the projects of "dragoman serve", or change those that live in its
store. A project has servers, endpoints, API keys and secrets of its own. It
lives either in the configuration file, where you edit it, or in the store,
where these commands do. docs/projects.md says what a project can have.

` + houseWho("projects", "admin"),
		Example: `  # List the projects, with their homes.
  dragoman projects

  # Add one, and change it.
  dragoman projects add shop --file shop.yaml
  dragoman projects edit shop`,
		Args:              noArguments,
		RunE:              c.list,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd, true)
	cmd.AddCommand(newProjectsShowCommand(w), newProjectsAddCommand(w), newProjectsEditCommand(w), newProjectsRemoveCommand(w), newProjectsExportCommand(w), newProjectsImportCommand(w))
	return cmd
}

func newProjectsShowCommand(w *world) *cobra.Command {
	c := &projectsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show where a project lives, and what it has",
		Long: `Show where the project NAME lives, who changed it when, what it has, and why it
isn't in use if it isn't. "dragoman projects export" prints its text.`,
		Example: `  dragoman projects show shop
  dragoman projects show shop --json`,
		Args:              c.oneArgument("the project's name", "dragoman projects show shop"),
		RunE:              c.show,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd, true)
	return cmd
}

func newProjectsAddCommand(w *world) *cobra.Command {
	c := &projectsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "add NAME [flags]",
		Short: "Add a project to the store",
		Long: `Add a project to the store, with the text that a configuration file would have
under dragoman.projects.NAME. Without --file, the project is empty. Its endpoint
is there at once, at /p/NAME/mcp. A secret that the text names can be set as
soon as there is the project.`,
		Example: `  # Add a project from a file, and set a secret that it names.
  dragoman projects add shop --file shop.yaml
  dragoman secrets set github --project shop

  # Add an empty one.
  dragoman projects add lab`,
		Args:              c.oneArgument("the project's name", "dragoman projects add shop"),
		RunE:              c.add,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).StringVar(&c.from, "file", "", "read the project's text from `FILE`, or from stdin with -")
	c.addFlags(cmd, true)
	return cmd
}

func newProjectsEditCommand(w *world) *cobra.Command {
	c := &projectsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "edit NAME [flags]",
		Short: "Edit a project of the store in your editor",
		Long: `Open the text of a project of the store in $VISUAL or $EDITOR, and change the
project when the editor ends. If the text can't be used, or somebody else has
changed the project meanwhile, nothing changes: the command says what is wrong,
or what they have changed, and where your text is. With --file, the command
takes the text from a file and opens no editor.`,
		Example: `  dragoman projects edit shop

  # Replace the text, after a look at what that changes.
  dragoman projects edit shop --file shop.yaml --check
  dragoman projects edit shop --file shop.yaml`,
		Args:              c.oneArgument("the project's name", "dragoman projects edit shop"),
		RunE:              c.edit,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).StringVar(&c.from, "file", "", "read the project's text from `FILE`, or from stdin with -")
	flagsInOrder(cmd).BoolVar(&c.check, "check", false, "with --file, change nothing and say what it would change")
	c.addFlags(cmd, true)
	return cmd
}

func newProjectsRemoveCommand(w *world) *cobra.Command {
	c := &projectsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "remove NAME [flags]",
		Short: "Remove a project from the store, with its keys and secrets",
		Long: `Remove a project from the store. Its endpoints are gone at once, its API keys
are revoked, and its secrets and everybody's roles in it are removed. The
command says how many there are, and asks. They can't be brought back;
"dragoman projects export" keeps the text.`,
		Example: `  dragoman projects remove shop

  # Without a question, in a script.
  dragoman projects remove shop --yes`,
		Args:              c.oneArgument("the project's name", "dragoman projects remove shop"),
		RunE:              c.remove,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).BoolVarP(&c.yes, "yes", "y", false, "do not ask")
	c.addFlags(cmd, true)
	return cmd
}

func newProjectsExportCommand(w *world) *cobra.Command {
	c := &projectsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "export NAME",
		Short: "Print a project of the store as a configuration file",
		Long: `Print a project of the store as the YAML that a configuration file accepts, with
its comments. "dragoman projects import" takes it. It has no keys or secrets.`,
		Example: `  # Keep a copy.
  dragoman projects export shop > shop.yaml

  # Copy the project to another serve.
  dragoman projects export shop | dragoman projects import - -c other.yaml`,
		Args:              c.oneArgument("the project's name", "dragoman projects export shop"),
		RunE:              c.export,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd, false)
	return cmd
}

func newProjectsImportCommand(w *world) *cobra.Command {
	c := &projectsCommand{world: w}
	cmd := &cobra.Command{
		Use:   "import FILE [flags]",
		Short: "Add the projects of a configuration file to the store",
		Long: `Add the projects that a configuration file declares under dragoman.projects to
the store. FILE is the output of "dragoman projects export", whose text stays
as it is, or any other configuration file, whose comments are left out. It isn't
changed. With - it's stdin. A project that is there already is not changed.`,
		Example: `  dragoman projects import shop.yaml

  # Under another name.
  dragoman projects import shop.yaml --name lab`,
		Args: c.oneArgument("the file", "dragoman projects import shop.yaml"),
		RunE: c.importFile,
	}
	flagsInOrder(cmd).StringVar(&c.name, "name", "", "call the project `NAME`; the file must have one alone")
	c.addFlags(cmd, true)
	return cmd
}

// addFlags adds the flags that choose the serve, and --json if the command has it.
func (c *projectsCommand) addFlags(cmd *cobra.Command, json bool) {
	flags := flagsInOrder(cmd)
	if json {
		flags.BoolVar(&c.asJSON, "json", false, "print JSON")
	}
	c.runningFlags.addFlags(cmd)
}

func (c *projectsCommand) all(ctx context.Context, s *running) ([]admin.ProjectEntry, error) {
	return pages(ctx, s, "/projects", func(p *admin.Projects) ([]admin.ProjectEntry, string) { return p.Projects, p.Next })
}

func (c *projectsCommand) list(cmd *cobra.Command, _ []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		all, err := c.all(ctx, s)
		return showAll(&c.houseFlags, c.world, all, err, "there are no projects", projectTable)
	})
}

func projectTable(all []admin.ProjectEntry) screen.Table {
	t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "NAME", Most: 24}, {Title: "HOME", Whole: true}, {Title: "SERVERS", Whole: true}, {Title: "TOKENS", Whole: true}, {Title: "KEYS", Whole: true}, {Title: "STATE", Wrap: true}}}
	for _, x := range all {
		state := screen.Cell{Text: "in use"}
		if x.Problem != "" {
			state = screen.Cell{Text: x.Problem, Style: screen.Red}
		}
		t.Rows = append(t.Rows, []screen.Cell{{Text: x.Name}, {Text: x.Home}, {Text: fmt.Sprint(x.Servers)}, {Text: tokensText(x.Tools)}, {Text: fmt.Sprint(x.Keys)}, state})
	}
	return t
}

// tokensText says what a client lists in a model's context, and of how much that's left in search mode.
func tokensText(x *admin.ToolsCost) string {
	switch {
	case x == nil:
		return "-"
	case x.Mode == config.SearchTools.String():
		return fmt.Sprintf("%d of %d", x.SearchTokens, x.Tokens)
	}
	return fmt.Sprint(x.Tokens)
}

// toolsText says what the tools of a project cost, or "" if nobody knows.
func toolsText(x *admin.ToolsCost) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%d, about %d tokens; a client that searches lists %d (tools.mode: %s)", x.Tools, x.Tokens, x.SearchTokens, x.Mode)
}

// entry returns the project with a name. If there are two, it's that of the store.
func (c *projectsCommand) entry(ctx context.Context, s *running, name string) (*admin.ProjectEntry, error) {
	all, err := c.all(ctx, s)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, x := range slices.Backward(all) {
		if x.Name == name {
			return &x, nil
		}
		names = append(names, x.Name)
	}
	return nil, usagef(didYouMean(name, names, "`dragoman projects"+c.words()+"` lists the projects"), "no project has the name %q", name)
}

func (c *projectsCommand) show(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		x, err := c.entry(ctx, s, args[0])
		if err != nil {
			return err
		}
		if c.asJSON {
			return c.printJSON(x, "  ")
		}
		home := "the store"
		if x.Home == "file" {
			home = cmp.Or(x.File, "the configuration file")
		}
		rows := [][2]string{{"project", x.Name}, {"title", x.Title}, {"home", home}, {"endpoint", x.Path}, {"servers", fmt.Sprint(x.Servers)}, {"tools", toolsText(x.Tools)}, {"keys", fmt.Sprint(x.Keys)}, {"secrets", fmt.Sprint(x.Secrets)}, {"people", fmt.Sprint(x.People)}}
		if x.Changed != nil {
			rows = append(rows, [2]string{"changed", x.Changed.In(time.Local).Format(time.DateTime) + " by " + x.By})
		}
		rows = append(rows, [2]string{"problem", x.Problem})
		return c.printRows(rows)
	})
}

// text returns the text of a project of the store, and its ETag.
func (c *projectsCommand) text(ctx context.Context, s *running, name string) (text []byte, tag string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	resp, err := s.askAs(ctx, asked{method: http.MethodGet, path: projectPath(name)})
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, config.MaxFile+1))
	if tag = resp.Header.Get("ETag"); err == nil && (tag == "" || len(text) > config.MaxFile) {
		err = s.notServe()
	}
	return text, tag, err
}

func projectPath(name string) string { return "/api/v1/projects/" + url.PathEscape(name) }

// put adds a project, or changes the one with an ETag.
func (c *projectsCommand) put(ctx context.Context, s *running, name, tag string, text []byte) error {
	var kept admin.KeptProject
	header := []string{"Content-Type", "application/yaml"}
	done := "added"
	if tag == "" {
		if bad := config.CheckProject(name); bad != nil {
			return usagef(bad.Hint, "there can be no project %q: %s", name, bad.Text)
		}
		header = append(header, "If-None-Match", "*")
	} else {
		header, done = append(header, "If-Match", tag), "changed"
	}
	err := s.change(ctx, changeWait, asked{method: http.MethodPut, path: projectPath(name), body: text}, &kept, header...)
	var bad *problemError
	switch {
	case tag == "" && errors.As(err, &bad) && bad.kind == "outdated":
		return usagef("change it with `dragoman projects edit "+shellWord(name)+c.words()+"`, or choose another name", "there is a project %q already", name)
	case err != nil:
		return err
	}
	if err := c.done(c.world, kept, "", "%s the project %q; its endpoint is %s", done, kept.Name, kept.Path); err != nil || c.asJSON || c.quiet {
		return err
	}
	for _, w := range kept.Warnings {
		c.status.Printf("warning: %s", lowerFirst(strings.TrimSuffix(w, ".")))
	}
	c.note(kept.Problem)
	c.note(kept.Note)
	return nil
}

func (c *projectsCommand) add(cmd *cobra.Command, args []string) (err error) {
	text := []byte{}
	if c.from != "" {
		if text, err = c.readText(c.from); err != nil {
			return err
		}
	}
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error { return c.put(ctx, s, args[0], "", text) })
}

// preview prints what a text would change.
func (c *projectsCommand) preview(ctx context.Context, s *running, name string, text []byte) error {
	var x admin.ProjectPreview
	if err := s.change(ctx, changeWait, asked{method: http.MethodPost, path: projectPath(name) + "/preview", body: text}, &x, "Content-Type", "application/yaml"); err != nil {
		return err
	}
	if c.asJSON {
		return c.printJSON(&x, "  ")
	}
	t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "SETTING", Wrap: true}, {Title: "NOW", Wrap: true}, {Title: "THEN", Wrap: true}}}
	for _, l := range x.Changes {
		t.Rows = append(t.Rows, screen.Cells(l.Path, cmp.Or(l.Was, "-"), cmp.Or(l.Became, "-")))
	}
	if len(t.Rows) > 0 {
		if err := c.print(t); err != nil {
			return err
		}
	}
	for _, w := range x.Warnings {
		c.status.Printf("warning: %s", lowerFirst(strings.TrimSuffix(w, ".")))
	}
	c.status.Printf("this text can be used; nothing was changed (it would change %s)", quantity(len(x.Changes), "setting"))
	return nil
}

func (c *projectsCommand) edit(cmd *cobra.Command, args []string) error {
	name := args[0]
	if c.check && c.from == "" {
		return usagef("add --file", "--check needs the text in a file")
	}
	return c.editText(cmd, c.world, textEdit{
		file: name + ".yaml", from: c.from, again: "dragoman projects edit " + shellWord(name),
		get: func(ctx context.Context, s *running) ([]byte, string, error) { return c.text(ctx, s, name) },
		put: func(ctx context.Context, s *running, tag string, text []byte) error {
			if c.check {
				return c.preview(ctx, s, name, text)
			}
			return c.put(ctx, s, name, tag, text)
		},
	})
}

func (c *projectsCommand) remove(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		x, err := c.entry(ctx, s, args[0])
		if err != nil {
			return err
		}
		if x.Home == "store" && !c.yes {
			if err := c.confirm(ctx, x); err != nil {
				return err
			}
		}
		var gone admin.RemovedProject
		if err := s.change(ctx, changeWait, asked{method: http.MethodDelete, path: projectPath(x.Name)}, &gone, "If-Match", cmp.Or(x.ETag, "*")); err != nil {
			return err
		}
		return c.done(c.world, gone, "", "removed the project %q; keys revoked: %d, secrets removed: %d, people without their roles: %d", gone.Name, gone.EndedKeys, gone.EndedSecrets, gone.EndedPeople)
	})
}

// confirm asks whether a project may be removed.
func (c *projectsCommand) confirm(ctx context.Context, x *admin.ProjectEntry) error {
	what := fmt.Sprintf("its API keys (%d), its secrets (%d) and the roles of people (%d)", x.Keys, x.Secrets, x.People)
	if !c.interactive {
		return usagef("add --yes to remove it without a question", "the project %q would be removed with %s", x.Name, what)
	}
	agreed := false
	k := &asker{world: c.world}
	k.converse(ctx, func(t *terminal) string {
		t.say("This removes the project " + t.bold(clean(x.Name)) + " with " + what + ", which can't be brought back.")
		line, _ := t.prompt("Remove it? [y/N]")
		agreed = slices.Contains([]string{"y", "yes"}, strings.ToLower(line))
		return ""
	})
	if !agreed {
		return signalOr(ctx, errors.New("nothing was removed, because you did not agree"))
	}
	return nil
}

func (c *projectsCommand) export(cmd *cobra.Command, args []string) error {
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		text, _, err := c.text(ctx, s, args[0])
		if err != nil {
			return err
		}
		file, problems := config.ProjectFile(args[0], text)
		if err := problems.Err(); err != nil {
			return err
		}
		_, err = c.stdout.Write(file)
		return err
	})
}

func (c *projectsCommand) importFile(cmd *cobra.Command, args []string) error {
	b, err := c.readText(args[0])
	if err != nil {
		return err
	}
	file := args[0]
	if file == "-" {
		file = "stdin.yaml"
	}
	all, problems := config.ProjectTexts(file, b)
	switch err := problems.Err(); {
	case err != nil:
		return err
	case len(all) == 0:
		return usagef("name a file that `dragoman projects export` has written, or one with projects under dragoman.projects", "%s has no projects", file)
	case c.name != "" && len(all) > 1:
		return usagef("leave --name out, or remove the others", "%s has %d projects, which can't have one name", file, len(all))
	case c.name != "":
		all[0].Name = c.name
	}
	return c.with(cmd, c.world, func(ctx context.Context, s *running) error {
		for _, p := range all {
			if err := c.put(ctx, s, p.Name, "", p.Text); err != nil {
				return err
			}
		}
		return nil
	})
}
