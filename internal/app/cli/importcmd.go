package cli

import (
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

// importFlags are the flags of the command import.
type importFlags struct {
	from, only           []string
	into                 string
	allProjects, dry, js bool
}

func (a *app) importCommand() *cobra.Command {
	var o importFlags
	c := &cobra.Command{
		Use:   "import [--from CLIENT]... [--into FILE]",
		Short: "Import the servers of another MCP client",
		Long: `Read the servers of other MCP clients and add them to the configuration file.
CLIENT is claude (Claude Desktop), claude-code, cursor, vscode, codex, gemini,
opencode, all, or the path of a file. Without --from, the command only shows
which clients have servers, and in which files.

The command adds new servers, and does not change servers that are already in
the configuration file. If the client's file and the configuration file have a
server with the same name but different settings, the command does not import
the server. --only NAME=NEW imports the server NAME under the name NEW. For each
server, the output lists the settings that are not imported. The comments and
the order of the configuration file stay the same. The command does not change
the files of the clients. If no configuration file exists, the command creates
one in the user's configuration directory.

References to environment variables in a client's file stay references, and the
output lists the variables that you have to set. Literal values are copied,
including credentials. A configuration file with copied credentials gets the
mode 0600, and a warning lists the credentials.`,
		Example: `  # Which clients have servers?
  dragoman import

  # Import the servers of Cursor and Codex, but first see what would be imported.
  dragoman import --from cursor --from codex --dry-run
  dragoman import --from cursor --from codex

  # Import one server of a file under another name.
  dragoman import --from ./mcp.json --only files=files-work --into dragoman.yaml`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("use `dragoman import --from "+clean(args[0])+"`", "unexpected argument %q", args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			if len(o.from) == 0 {
				if len(o.only) > 0 || o.into != "" || o.dry || o.allProjects {
					return usagef("add --from CLIENT, with one of "+strings.Join(clientfile.IDs(), ", "), "no client to import from")
				}
				return a.showClients(o.js)
			}
			return a.runImport(o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(c)
	f.StringArrayVar(&o.from, "from", nil, "import from `CLIENT`: a name, all, or a file (repeatable)")
	f.StringVar(&o.into, "into", "", "add the servers to the configuration `FILE` (default: the file that serve uses)")
	f.StringArrayVar(&o.only, "only", nil, "import only the server `NAME`, or NAME=NEW to rename it (repeatable)")
	f.BoolVar(&o.allProjects, "all-projects", false, "also import the servers that Claude Code keeps for other projects")
	f.BoolVar(&o.dry, "dry-run", false, "show what would be imported, and write nothing")
	f.BoolVar(&o.js, "json", false, "print JSON")
	_ = c.RegisterFlagCompletionFunc("from", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return append(clientfile.IDs(), "all"), cobra.ShellCompDirectiveDefault
	})
	_ = c.MarkFlagFilename("into", "yaml", "yml", "json")
	return c
}

// candidate is a server that the command could import.
type candidate struct {
	intake.Candidate
	source *source
}

func (a *app) runImport(o importFlags) error {
	rename, err := onlyNames(o.only)
	if err != nil {
		return err
	}
	into, before, err := a.importTarget(o.into)
	if err != nil {
		return err
	}
	old, err := intake.ParseOurs(into, before, a.env)
	if err != nil {
		return err
	}
	sources, err := a.sources(o, []string{config.Default().Listen, old.Listen})
	if err != nil {
		return err
	}
	all := a.candidates(into, sources, rename, old)
	for name := range rename {
		if !slices.ContainsFunc(all, func(c candidate) bool { return c.Server.Name == name || c.Server.Original == name }) {
			return usagef("run `dragoman import --from "+clean(o.from[0])+" --dry-run` to see the names of the servers", "the source has no server named %q", name)
		}
	}
	var add []clientfile.Added
	for _, c := range all {
		if c.Status == intake.New {
			add = append(add, clientfile.Added{Name: c.Name, Comment: "from " + c.Source.Of(&c.Server), Entry: c.Server.Entry, Settings: c.Server.Settings})
		}
	}
	after := before
	if len(add) > 0 {
		if after, err = intake.Merge(into, before, old, add, a.env); err != nil {
			return withHint(err, "write the servers to another file with --into FILE, then copy them from FILE to %s", clean(into))
		}
	}
	written := len(add) > 0 && !o.dry
	secrets := literalSecrets(all)
	if written {
		change := clientfile.Change{Path: into, Before: before, After: after, Private: len(secrets) > 0}
		known := before == nil || isUsed(a.usedFile(into, before))
		if _, err := change.Write(time.Now()); err != nil {
			return fmt.Errorf("cannot write %s: %w", into, err)
		}
		if known {
			markUsed(into, a.usedFile(into, after))
		}
	}
	if o.js {
		return a.printImport(into, written, all, sources)
	}
	if err := a.showImport(all, sources); err != nil {
		return err
	}
	a.tellImport(into, before == nil, written, o.dry, all, secrets)
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

// importTarget returns the path and the content of the configuration file to which the command adds
// the servers. The content is nil if the file does not exist.
func (a *app) importTarget(given string) (path string, b []byte, err error) {
	path, found := given, given != ""
	if !found {
		path, found = config.Find(a.env)
	}
	if !found {
		places := config.Places(a.env)
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

// candidates returns the servers of all sources, each with its status: new, same, different or
// skipped. If rename is not empty, candidates returns only the servers whose names are keys in
// rename. into is the path of the configuration file. old is the parsed content of this file.
func (a *app) candidates(into string, sources []*source, rename map[string]string, old *config.Snapshot) []candidate {
	var out []candidate
	compare := intake.NewComparison(into, old, a.env)
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
