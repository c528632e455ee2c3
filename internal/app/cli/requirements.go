package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/server/requirements"
	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
)

// requirementsCommand is `dragoman server requirements`.
type requirementsCommand struct {
	*world

	db      string
	example bool
}

func newRequirementsCommand(w *world) *cobra.Command {
	c := &requirementsCommand{world: w}
	cmd := &cobra.Command{
		Use:         "requirements [flags]",
		Annotations: map[string]string{alsoRuns: "true"},
		Short:       "Serve requirements from a database",
		Long: `Run an MCP server on stdio that keeps epics, user stories, acceptance criteria
and requirements, with relations and comments. Each object has a reference id
that never changes, such as REQ-007, and clients can read it as a resource. Its
status can change only in certain ways.

The server also keeps prompts. The active one's description and content are the
server's instructions in new sessions.

The database is PostgreSQL or an SQLite file, which is created with mode 0600.
Several servers can use one database at the same time, and each tells its
clients what another has changed. The password for PostgreSQL can come from
PGPASSWORD or ~/.pgpass. docs/servers.md describes the tools and their limits.`,
		Example: `  # Try the server with an example.
  dragoman list -- dragoman server requirements --db example.db --example
  dragoman call search_items query=calendar -- dragoman server requirements --db example.db

  # Use the database of a team.
  dragoman server requirements --db postgres://me@localhost/team

  # Run this server over HTTP.
  dragoman run --listen 127.0.0.1:7303 -- dragoman server requirements`,
		Args:              noArguments,
		RunE:              c.run,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return nil, noFiles },
	}
	databaseFlag(cmd, &c.db)
	cmd.Flags().BoolVar(&c.example, "example", false, "fill an empty database with an example")
	cmd.AddCommand(newActivePromptCommand(c.world), newExportCommand(c.world))
	return cmd
}

func (c *requirementsCommand) run(cmd *cobra.Command, _ []string) error {
	s, err := openRequirements(cmd.Context(), c.db, false)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if c.example {
		filled, err := s.Fill(cmd.Context(), requirements.Example())
		if err != nil {
			return storeError(err)
		}
		if !filled {
			c.status.Printf("the database has items already, so the example is not added")
		}
	}
	var vouchers identity.VoucherKey
	if text, ok := c.env(identity.VoucherVariable); ok {
		vouchers = identity.ParseVoucherKey(text)
	}
	server, err := requirements.New(cmd.Context(), requirements.Options{Store: s, Version: version(), Vouchers: vouchers})
	if err != nil {
		return storeError(err)
	}
	defer server.Close()
	if c.keyboard && c.stdin == os.Stdin {
		c.status.Printf("waiting for an MCP client on stdin; to try the server, run `%s list -- %s server requirements`", c.program, c.program)
	}
	return withoutStop(cmd.Context(), server.Serve(cmd.Context(), c.stdin, c.stdout))
}

func databaseFlag(c *cobra.Command, db *string) {
	c.Flags().StringVar(db, "db", "", "the database: a `FILE`, or a URL that begins with postgres:// (default dragoman/requirements.db in $XDG_DATA_HOME)")
}

// activePromptCommand is `dragoman server requirements prompt`.
type activePromptCommand struct {
	*world

	db   string
	none bool
}

func newActivePromptCommand(w *world) *cobra.Command {
	c := &activePromptCommand{world: w}
	cmd := &cobra.Command{
		Use:   "prompt [flags] [NAME]",
		Short: "Print or choose the active prompt",
		Long: `Print the description and content of the active prompt, which are the server's
instructions. Without an active prompt, print nothing.

With NAME, make this prompt the active one. Running servers tell their clients
that the list of prompts has changed, and new sessions get the new instructions.`,
		Example: `  # Print the instructions.
  dragoman server requirements prompt

  # Choose another prompt.
  dragoman server requirements prompt reviewer`,
		Args:              c.check,
		RunE:              c.run,
		ValidArgsFunction: c.complete,
	}
	databaseFlag(cmd, &c.db)
	cmd.Flags().BoolVar(&c.none, "none", false, "make no prompt active")
	return cmd
}

func (c *activePromptCommand) check(_ *cobra.Command, args []string) error {
	if len(args) > 1 || len(args) == 1 && c.none {
		return usagef("name one prompt, or use --none", "too many arguments")
	}
	return nil
}

func (c *activePromptCommand) run(cmd *cobra.Command, args []string) error {
	s, err := openRequirements(cmd.Context(), c.db, true)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	switch {
	case c.none:
		return storeError(requirements.Activate(cmd.Context(), s, ""))
	case len(args) == 1:
		err := requirements.Activate(cmd.Context(), s, args[0])
		if store.IsCode(err, store.NotFound) {
			return noPrompt(cmd.Context(), s, err)
		}
		return storeError(err)
	}
	p, err := s.Active(cmd.Context())
	if err != nil {
		return storeError(err)
	}
	if text := p.Instructions(); text != "" {
		_, err = fmt.Fprintln(c.stdout, text)
		return err
	}
	return nil
}

func (c *activePromptCommand) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, noFiles
	}
	s, err := openRequirements(cmd.Context(), c.db, true)
	if err != nil {
		return nil, noFiles
	}
	defer func() { _ = s.Close() }()
	return promptNames(cmd.Context(), s), noFiles
}

func promptNames(ctx context.Context, s *store.Store) []string {
	all, err := s.Prompts(ctx)
	if err != nil {
		return nil
	}
	names := []string{}
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

// noPrompt returns the error for an unknown prompt. The hint of the error lists the prompts that
// exist.
func noPrompt(ctx context.Context, s *store.Store, err error) error {
	names := promptNames(ctx, s)
	if len(names) == 0 {
		return withHint(err, "the database has no prompts yet; create one with the tool save_prompt")
	}
	list := clean(names[0])
	for _, n := range names[1:min(len(names), 10)] {
		list += ", " + clean(n)
	}
	return withHint(err, "use one of the prompts %s", list)
}

// exportCommand is `dragoman server requirements export`.
type exportCommand struct {
	*world

	db, format, root string
}

func newExportCommand(w *world) *cobra.Command {
	c := &exportCommand{world: w}
	cmd := &cobra.Command{
		Use:   "export [flags]",
		Short: "Print all items as Markdown or ReqIF",
		Long: `Print all items with their relations and comments, or with --root one item and
those below it. ReqIF is the XML format in which requirements tools exchange
requirements.`,
		Example: `  # Write a file that people can read.
  dragoman server requirements export > requirements.md

  # Write one epic for another tool.
  dragoman server requirements export --format reqif --root EP-001 > epic.reqif`,
		Args: noArguments,
		RunE: c.run,
	}
	databaseFlag(cmd, &c.db)
	cmd.Flags().StringVar(&c.format, "format", requirements.Markdown, "`markdown` or reqif")
	cmd.Flags().StringVar(&c.root, "root", "", "print only the item with this `ID` and the items below it")
	_ = cmd.RegisterFlagCompletionFunc("format", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return []string{requirements.Markdown, requirements.ReqIF}, noFiles
	})
	return cmd
}

func (c *exportCommand) run(cmd *cobra.Command, _ []string) error {
	if c.format != requirements.Markdown && c.format != requirements.ReqIF {
		return usagef("use markdown or reqif", "--format does not accept %q", c.format)
	}
	s, err := openRequirements(cmd.Context(), c.db, true)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return storeError(requirements.Export(cmd.Context(), s, c.stdout, requirements.ExportOptions{Format: c.format, Root: c.root, Version: version()}))
}

// openRequirements opens a database. If db is "", it opens the database file in the user's data
// folder. If existing is true, it does not create the database or the folder.
func openRequirements(ctx context.Context, db string, existing bool) (*store.Store, error) {
	if db == "" {
		folder, err := dataFolder()
		if err != nil {
			return nil, withHint(err, "name a file with --db")
		}
		if !existing {
			if err := os.MkdirAll(folder, 0o700); err != nil {
				return nil, withHint(err, "name a file in another folder with --db")
			}
		}
		db = filepath.Join(folder, "requirements.db")
	}
	s, err := store.Open(ctx, store.Options{Database: db, Existing: existing})
	return s, storeError(err)
}

// dataFolder returns the folder for the data that Dragoman stores for the user.
func dataFolder() (string, error) {
	if base := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "dragoman"), nil
	}
	if base := os.Getenv("LocalAppData"); runtime.GOOS == "windows" && base != "" {
		return filepath.Join(base, "dragoman"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "share", "dragoman"), nil
}

// storeError adds the next step for the user to an error of the store.
func storeError(err error) error {
	var e *store.Error
	if errors.As(err, &e) {
		return withHint(err, "%s", e.Next)
	}
	return err
}
