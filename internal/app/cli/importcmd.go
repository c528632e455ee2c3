package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// importCommand is `dragoman import`.
type importCommand struct {
	*world

	from, only  []string
	into        string
	allProjects bool
	dry, asJSON bool
}

func newImportCommand(w *world) *cobra.Command {
	c := &importCommand{world: w}
	cmd := &cobra.Command{
		Use:   "import [--from CLIENT]... [--into FILE]",
		Short: "Import the servers of another MCP client",
		Long: `Read the servers of other MCP clients and add them to your configuration file.
CLIENT is claude (Claude Desktop), claude-code, cursor, vscode, codex, gemini,
opencode, all, or the path of a file. Without --from, you only see which clients
have servers, and in which files.

New servers are added, those that you already have stay as they are. If both
files have a server of the same name with different settings, it isn't imported;
--only NAME=NEW imports it as NEW. For each server you see which settings are
left behind. The file's comments and order stay, and the clients' files aren't
touched. If you have no configuration file, one is created in your configuration
directory.

References to environment variables stay references, and the output lists the
variables that you have to set. Literal values are copied, credentials included.
A configuration file with copied credentials gets the mode 0600, and a warning
lists them.`,
		Example: `  # Which clients have servers?
  dragoman import

  # Import the servers of Cursor and Codex, but first see what would be imported.
  dragoman import --from cursor --from codex --dry-run
  dragoman import --from cursor --from codex

  # Import one server of a file under another name.
  dragoman import --from ./mcp.json --only files=files-work --into dragoman.yaml`,
		Args:              c.check,
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(cmd)
	f.StringArrayVar(&c.from, "from", nil, "import from `CLIENT`: a name, all, or a file (repeatable)")
	f.StringVar(&c.into, "into", "", "add the servers to the configuration `FILE` (default: the file that serve uses)")
	f.StringArrayVar(&c.only, "only", nil, "import only the server `NAME`, or NAME=NEW to rename it (repeatable)")
	f.BoolVar(&c.allProjects, "all-projects", false, "also import the servers that Claude Code keeps for other projects")
	f.BoolVar(&c.dry, "dry-run", false, "show what would be imported, and write nothing")
	f.BoolVar(&c.asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("from", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return append(clientfile.IDs(), "all"), cobra.ShellCompDirectiveDefault
	})
	_ = cmd.MarkFlagFilename("into", "yaml", "yml", "json")
	return cmd
}

func (c *importCommand) check(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("use `dragoman import --from "+clean(args[0])+"`", "unexpected argument %q", args[0])
	}
	return nil
}

func (c *importCommand) run(cmd *cobra.Command, _ []string) error {
	if len(c.from) == 0 {
		if len(c.only) > 0 || c.into != "" || c.dry || c.allProjects {
			return usagef("add --from CLIENT, with one of "+strings.Join(clientfile.IDs(), ", "), "no client to import from")
		}
		return showClients(c.world, c.asJSON)
	}
	return c.importServers(cmd.Context())
}

// candidate is a server that the command could import.
type candidate struct {
	intake.Candidate
	source *source
}

// importResult is what an import has done, or would do without --dry-run.
type importResult struct {
	into    string // the configuration file
	created bool   // the file did not exist
	written bool
	all     []candidate
	sources []*source
	change  clientfile.Change
	secrets []string // the settings of new servers that look like credentials
	told    []told
}

func (c *importCommand) importServers(ctx context.Context) error {
	rename, err := onlyNames(c.only)
	if err != nil {
		return err
	}
	f, err := c.env.readOwn(c.into)
	if err != nil {
		return err
	}
	sources, err := c.sources([]string{config.Default().Listen, f.old.Listen})
	if err != nil {
		return err
	}
	r, err := c.plan(f, sources, rename)
	if err != nil {
		return withHint(err, "write the servers to another file with --into FILE, then copy them from FILE to %s", clean(f.path))
	}
	for name := range rename {
		if !slices.ContainsFunc(r.all, func(c candidate) bool { return c.Server.Name == name || c.Server.Original == name }) {
			return usagef("run `dragoman import --from "+clean(c.from[0])+" --dry-run` to see the names of the servers", "the source has no server named %q", name)
		}
	}
	if !c.dry {
		if err := c.make(ctx, r); err != nil {
			return err
		}
	}
	if c.asJSON {
		return errors.Join(refusedBy(r.told), c.printImport(r))
	}
	if err := c.showImport(r); err != nil {
		return err
	}
	c.tellImport(r)
	return c.sayTold(r.told)
}

// plan returns what an import of the servers in the sources would do.
func (c *importCommand) plan(f *ownFile, sources []*source, rename map[string]string) (*importResult, error) {
	all := c.candidates(f.path, sources, rename, f.old)
	r := &importResult{into: f.path, created: f.before == nil, all: all, sources: sources, secrets: literalSecrets(all)}
	r.change = clientfile.Change{Path: f.path, Before: f.before, After: f.before, Private: len(r.secrets) > 0}
	var add []clientfile.Added
	for _, x := range r.new() {
		add = append(add, clientfile.Added{Name: x.Name, Comment: "from " + x.Source.Of(&x.Server), Entry: x.Server.Entry, Settings: x.Server.Settings})
	}
	if len(add) == 0 {
		return r, nil
	}
	var err error
	file := intake.File{Path: f.path, Before: f.before, Old: f.old, Env: intake.Env(c.env)}
	r.change.After, err = file.Merge(add)
	return r, err
}

// new returns the servers that are added to the configuration.
func (r *importResult) new() (out []candidate) {
	for _, x := range r.all {
		if x.Status == intake.New {
			out = append(out, x)
		}
	}
	return out
}

// make adds the servers to the configuration, if there are any, and tells a running serve process.
func (c *importCommand) make(ctx context.Context, r *importResult) error {
	if len(r.new()) == 0 {
		return nil
	}
	if _, err := c.env.writeOwn(r.change); err != nil {
		return err
	}
	r.written = true
	r.told = c.tellServe(ctx, r.into)
	return nil
}

// onlyNames parses the values of --only. The keys of the result are the names in the source, and
// the values are the names for the import.
func onlyNames(only []string) (map[string]string, error) {
	out := map[string]string{}
	for _, w := range only {
		name, to, has := strings.Cut(w, "=")
		if !has {
			to = name
		}
		if name == "" || has && clientfile.Name(to) != to {
			return nil, usagef("use --only NAME or --only NAME=NEW; a name consists of letters, digits, dots, _ and -", "--only does not accept %q", w)
		}
		out[name] = clientfile.Name(to)
	}
	return out, nil
}

// ownFile returns the path and the content of the configuration file to which a command adds servers.
// given is the value of --into. The content is nil if the file does not exist.
func (e environment) ownFile(given string) (path string, b []byte, err error) {
	path, found := given, given != ""
	if !found {
		path, found = config.Find(e)
	}
	if !found {
		places := config.Places(e)
		path = places[len(places)-1]
	}
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".yaml", ".yml", ".json", "":
	default:
		return "", nil, usagef("name a file that ends in .yaml", "--into %q is neither a YAML file nor a JSON file", path)
	}
	b, err = clientfile.Load(path)
	if err != nil {
		return "", nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return path, b, nil
}

// writeOwn changes the configuration file. If the user had agreed to use the file before, it remembers
// the new content too.
func (e environment) writeOwn(change clientfile.Change) (backup string, err error) {
	known := change.Before == nil || e.usedMark(change.Path, change.Before).used()
	backup, err = change.Write(time.Now())
	if err != nil {
		return backup, fmt.Errorf("cannot write %s: %w", change.Path, err)
	}
	if known {
		e.usedMark(change.Path, change.After).markUsed()
	}
	return backup, nil
}

// untilUnchanged plans and makes a change of the configuration file, once more each time that somebody
// else changed the file meanwhile, perhaps another of our commands. It gives up after 20 times.
func untilUnchanged(change func() error) (err error) {
	for range 20 {
		if err = change(); !errors.Is(err, clientfile.ErrChanged) {
			break
		}
	}
	return err
}

// candidates returns the servers of all sources, each with its status: new, same, different or
// skipped. If rename is not empty, candidates returns only the servers whose names are keys in
// rename. into is the path of the configuration file. old is the parsed content of this file.
func (c *importCommand) candidates(into string, sources []*source, rename map[string]string, old *config.Snapshot) []candidate {
	var out []candidate
	compare := intake.NewComparison(into, old, intake.Env(c.env))
	for _, src := range sources {
		for _, s := range src.File.Servers {
			name := s.Name
			if len(rename) > 0 {
				to, ok := rename[s.Original]
				if !ok {
					to, ok = rename[s.Name]
				}
				if !ok {
					continue
				}
				name = to
			}
			out = append(out, candidate{compare.Compare(s, name, src.Source), src})
		}
	}
	return out
}
