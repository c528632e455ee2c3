package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/servername"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
	"github.com/dragoman-mcp/dragoman/internal/setup/registry"
)

// addCommand is `dragoman add`.
type addCommand struct {
	*world
	t targetFlags // also has the name of a server in a registry, as its address

	registry, use, into     string
	project                 string // of the file; "" is default
	set                     []string
	dry, yes, trust, asJSON bool
	agreed                  bool // the user has seen the change, and agreed to it
	dashed                  bool // -- stands before the command
}

func newAddCommand(w *world) *cobra.Command {
	c := &addCommand{world: w}
	cmd := &cobra.Command{
		Use:   "add (NAME[@VERSION] | URL | [[NAME] --] COMMAND ARG...)",
		Short: "Add a server to the configuration",
		Long: `Add one server to the configuration file. NAME is a server of the official
registry, such as io.github.owner/name; "dragoman search" finds these names. The
command shows what will run, asks for the values that the server wants, shows
the change of the file, and asks whether to make it. It keeps a copy of the file
as FILE.dragoman-backup-DATE in the same directory. A running "dragoman serve"
reloads the file, and the command says what it has done.

If a server of a registry offers several ways to run it, the command chooses a
package whose program (npx, uvx, docker or dnx) is installed, then a bundle
(.mcpb), then a URL. --use chooses another way. Versions are always exact, so
the same code runs tomorrow. The command downloads bundles, and checks their
checksum; all other packages are downloaded when the server starts.

Anybody can publish in a registry. The command asks separately before it uses
anything unusual, such as another package registry or an argument for docker
itself. Without a terminal, --yes adds the server without questions, and --trust
agrees to what is unusual.

Secrets never get into the file. The entry has the reference ${NAME} instead,
and the output lists the variables that you have to set.`,
		Example: `  # Add a server of the official registry.
  dragoman add io.github.owner/weather

  # Only show what would be added, with an answer to a question of the server.
  dragoman add io.github.owner/weather@1.2.3 --set units=metric --dry-run

  # Add a server by its URL, and one by its command.
  dragoman add https://mcp.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'
  dragoman add notes -- npx -y @modelcontextprotocol/server-filesystem@2025.8.21 /srv`,
		RunE: c.run,
	}
	c.addFlags(cmd)
	c.t.oneServer(w.env, cmd, "dragoman add")
	server := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.ArgsLenAtDash() < 0 && registry.IsName(nameOnly(args[0])) {
			c.t.command = nil
			return c.t.readURL(cmd, args)
		}
		// NAME -- COMMAND is the form of `claude mcp add`. The name counts even if there is a program of this
		// name: many are called like their server, and hardly any takes -- as its first argument.
		if len(args) > 2 && cmd.ArgsLenAtDash() < 0 && args[1] == "--" && c.t.name == "" && !isURL(args[0]) {
			c.t.name, c.t.command, c.t.address = args[0], args[2:], ""
			return nil
		}
		if err := server(cmd, args); err != nil {
			return err
		}
		c.dashed = cmd.ArgsLenAtDash() >= 0
		return c.checkWord(cmd, args)
	}
	return cmd
}

func (c *addCommand) addFlags(cmd *cobra.Command) {
	f := flagsInOrder(cmd)
	f.StringVar(&c.t.name, "name", "", "call the server `NAME` (default: from its package or host)")
	f.StringArrayVar(&c.set, "set", nil, "give the server of a registry a value that it wants, as `KEY=VALUE` (repeatable)")
	f.StringVar(&c.use, "use", "", "run the server of a registry as this `KIND` of package: npm, pypi, oci, nuget or mcpb; or remote for its URL")
	addRegistryFlag(f, &c.registry)
	f.StringArrayVar(&c.t.env, "env", nil, "set an environment variable for the command, as `K=V`, or K to refer to the variable K (repeatable)")
	f.StringArrayVar(&c.t.header, "header", nil, "send an HTTP header to the URL, as `'K: V'`, or K=NAME for the value of the variable NAME (repeatable)")
	f.StringVar(&c.t.dir, "cwd", "", "run the command in the directory `DIR`")
	f.StringVar(&c.project, "project", "", "add the server to the project `NAME` in the file (default: default)")
	f.StringVar(&c.into, "into", "", "add the server to the configuration `FILE` (default: the file that serve uses)")
	f.BoolVar(&c.dry, "dry-run", false, "show what would be added, and write nothing")
	f.BoolVar(&c.yes, "yes", false, "add the server without questions; values that are not set get their defaults")
	f.BoolVar(&c.trust, "trust", false, "agree to everything unusual that the command would ask about separately")
	f.BoolVar(&c.asJSON, "json", false, "print JSON")
	_ = cmd.MarkFlagFilename("into", "yaml", "yml", "json")
}

// checkWord refuses a command without -- whose program does not exist. The word is probably the name of
// some server, without the part that a registry needs. It also refuses a folder.
func (c *addCommand) checkWord(cmd *cobra.Command, args []string) error {
	if len(c.t.command) == 0 {
		return nil
	}
	if err := c.t.checkFolder(c.t.command[0]); err != nil || cmd.ArgsLenAtDash() >= 0 {
		return err
	}
	if _, err := exec.LookPath(args[0]); err == nil || errors.Is(err, exec.ErrDot) {
		return nil
	}
	return usagef("run `dragoman search "+shellWord(args[0])+"` to find servers, or put -- before a command", "%q is neither a program nor the name of a server in a registry", args[0])
}

// nameOnly returns the name in NAME@VERSION.
func nameOnly(word string) string {
	name, _, _ := strings.Cut(word, "@")
	return name
}

// addition is what the command adds, or would add.
type addition struct {
	server  clientfile.Server
	comment string // the line of comment above the entry
	// registered means that the server comes from a registry, whose entries have no literal secrets.
	registered bool
}

func (c *addCommand) run(cmd *cobra.Command, _ []string) error {
	ctx := cmd.Context()
	named := len(c.t.command) == 0 && !isURL(c.t.address)
	if err := c.checkFlags(named); err != nil {
		return err
	}
	f, err := c.env.readOwn(c.into)
	if err != nil {
		return err
	}
	own, err := ownProject(f.old, c.project, f.path)
	if err != nil {
		return err
	}
	var a addition
	switch {
	case named:
		a, err = c.fromRegistry(ctx, f.path, own)
	case len(c.t.command) > 0:
		a, err = c.fromCommand()
	default:
		a, err = c.fromURL()
	}
	if err != nil {
		return signalOr(ctx, err)
	}
	if a.server.Entry == nil {
		return nil // the rest can be known only after a download
	}
	return untilUnchanged(func() error {
		if f, err = c.env.readOwn(c.into); err != nil { // again, as the questions may have taken minutes
			return err
		}
		return c.add(ctx, f, a)
	})
}

// checkFlags returns an error for flags that do not fit the kind of server, or each other.
func (c *addCommand) checkFlags(named bool) error {
	if c.t.name != "" {
		if p := config.CheckName(c.t.name); p != nil {
			return usagef(p.Hint, "--name: %s", p.Text)
		}
	}
	url := len(c.t.command) == 0 && !named
	switch {
	case c.dry && c.yes:
		return usagef("remove one of them", "--dry-run and --yes cannot be used together")
	case !named && (len(c.set) > 0 || c.use != "" || c.trust):
		return usagef("remove --set, --use and --trust", "only a server of a registry has values and ways to choose")
	case len(c.t.header) > 0 && !url:
		return usagef("remove --header", "--header works only with a URL")
	case (len(c.t.env) > 0 || c.t.dir != "") && len(c.t.command) == 0:
		return usagef("remove --env and --cwd", "--env and --cwd work only with a command")
	}
	return nil
}

// fromCommand returns the entry for a command.
func (c *addCommand) fromCommand() (addition, error) {
	words := c.t.command
	entry := clientfile.Mapping("command", clientfile.Text(words[0]), "args", clientfile.Texts(words[1:]))
	env := clientfile.Mapping()
	for _, kv := range c.t.env {
		k, v, ok := strings.Cut(kv, "=")
		if k == "" {
			return addition{}, usagef("use --env K=V", "--env has no name")
		}
		if !ok {
			v = "${" + k + "}"
		}
		env.Members = append(env.Members, clientfile.Member{Key: k, Value: clientfile.Text(v)})
	}
	if len(env.Members) > 0 {
		entry.Members = append(entry.Members, clientfile.Member{Key: "env", Value: env})
	}
	if c.t.dir != "" {
		entry.Members = append(entry.Members, clientfile.Member{Key: "cwd", Value: clientfile.Text(c.t.dir)})
	}
	return addition{server: clientfile.Server{Name: clientfile.Name(servername.OfCommand(words, c.t.workingDir())), Entry: entry}}, nil
}

// fromURL returns the entry for a URL.
func (c *addCommand) fromURL() (addition, error) {
	pasted, err := intake.Paste(c.t.address, clientfile.Options{})
	if err != nil {
		return addition{}, usagef("use a URL such as https://mcp.example.com/mcp", "%s", err)
	}
	s := pasted.Servers[0]
	if s.Broken {
		return addition{}, usagef("use a URL such as https://mcp.example.com/mcp", "%s", s.Notes[len(s.Notes)-1].String())
	}
	if s.Entry == nil {
		return addition{}, usagef("name the URL of another server", "%s leads to Dragoman itself", clean(c.t.address))
	}
	headers := clientfile.Mapping()
	for _, flag := range c.t.header {
		name, value, err := headerFlag(flag)
		if err != nil {
			return addition{}, err
		}
		headers.Members = append(headers.Members, clientfile.Member{Key: name, Value: clientfile.Text(value)})
	}
	if len(headers.Members) > 0 {
		s.Entry.Members = append(s.Entry.Members, clientfile.Member{Key: "headers", Value: headers})
	}
	return addition{server: clientfile.Server{Name: s.Name, Entry: s.Entry}}, nil
}

// ownFile is the configuration file before the change.
type ownFile struct {
	path   string
	before []byte // nil if the file does not exist
	old    *config.Snapshot
}

// readOwn reads the configuration file to which a command adds servers. given is the value of --into.
func (e environment) readOwn(given string) (*ownFile, error) {
	path, before, err := e.ownFile(given)
	if err != nil {
		return nil, err
	}
	old, err := intake.ParseOurs(path, before, intake.Env(e))
	return &ownFile{path, before, old}, err
}

// added is the result of the command.
type added struct {
	candidate
	file, diff, backup string
	written            bool
	told               []told
}

// add shows the change, asks for consent, and makes the change.
func (c *addCommand) add(ctx context.Context, f *ownFile, a addition) error {
	name := cmp.Or(c.t.name, a.server.Name)
	if !a.registered {
		a.server, _ = intake.Take(a.server, name, func(suggestion, _ string) string { return suggestion })
		for _, v := range intake.References(&a.server) {
			a.server.Variables = append(a.server.Variables, clientfile.Variable{Name: v})
		}
	}
	r := &added{file: f.path}
	own, err := ownProject(f.old, c.project, f.path)
	if err != nil {
		return err
	}
	r.Candidate = intake.NewComparison(f.path, own, intake.Env(c.env)).Compare(a.server, name, nil)
	switch r.Status {
	case intake.Skipped:
		return withHint(errors.New(r.Why), "check the URL or the command")
	case intake.Different:
		return nameTaken(name, inProject(f.path, c.project))
	case intake.Same:
		return c.report(r)
	}
	file := intake.File{Path: f.path, Before: f.before, Old: f.old, Env: intake.Env(c.env), Project: fileProject(c.project)}
	after, err := file.Merge([]clientfile.Added{{Name: name, Comment: a.comment, Entry: a.server.Entry}})
	if err != nil {
		return withHint(err, "write the server to another file with --into FILE, then copy it from FILE to %s", clean(f.path))
	}
	r.diff = maskedDiff(f.path, f.before, after)
	if !c.agreed {
		c.noteFlags()
	}
	if !c.dry {
		if !c.agreed {
			if err := c.agree(ctx, r); err != nil {
				return err
			}
			c.agreed = true
		}
		if r.backup, err = c.env.writeOwn(clientfile.Change{Path: f.path, Before: f.before, After: after, Backup: true}); err != nil {
			return err
		}
		r.written = true
		r.told = c.tellServe(ctx, f.path)
	}
	return c.report(r)
}

// nameTaken is the error for a name that the configuration has already.
func nameTaken(name, file string) error {
	return usagef("choose another name with --name NAME", "%s already has another server named %q", clean(file), name)
}

// agree shows the change and asks whether to make it.
func (c *addCommand) agree(ctx context.Context, r *added) error {
	if !c.asJSON {
		c.announce(r.diff)
	}
	if c.yes {
		return nil
	}
	if !c.interactive {
		return usagef("read the change, then add --yes", "nothing was written, because nobody can be asked here")
	}
	if !c.confirm(ctx, "Add "+r.Name+" to "+clean(inProject(r.file, c.project))+"? [y/N]") {
		return signalOr(ctx, fmt.Errorf("nothing was written, because you did not agree"))
	}
	return nil
}

// noteFlags says so if a command without -- has arguments that look like flags of add, which come before the
// command. They may well be flags of the server.
func (c *addCommand) noteFlags() {
	if c.dashed || c.quiet {
		return
	}
	var ours []string
	for _, word := range c.t.command {
		name, _, _ := strings.Cut(word, "=")
		if slices.Contains([]string{"--name", "--into", "--yes", "--dry-run", "--trust", "--use", "--set", "--project"}, name) {
			ours = append(ours, name)
		}
	}
	if len(ours) > 0 {
		c.status.label(yellow, "note", strings.Join(ours, ", ")+" after the command goes to the server; flags of `dragoman add` come before the command")
	}
}

// confirm asks a question, and reports whether the answer is yes.
func (w *world) confirm(ctx context.Context, question string, before ...string) (yes bool) {
	k := &asker{world: w}
	k.converse(ctx, func(t *terminal) string {
		t.say(before...)
		line, _ := t.prompt(question)
		yes = slices.Contains([]string{"y", "yes"}, strings.ToLower(line))
		return ""
	})
	return yes
}

// report prints what the command did.
func (c *addCommand) report(r *added) error {
	if c.asJSON {
		type variable struct {
			Name  string `json:"name"`
			About string `json:"about,omitempty"`
			Set   bool   `json:"set"`
		}
		all := []variable{}
		for _, v := range r.Server.Variables {
			_, set := c.env(v.Name)
			all = append(all, variable{v.Name, v.About, set})
		}
		return errors.Join(refusedBy(r.told), c.printJSON(struct {
			Status    intake.Status `json:"status"`
			Name      string        `json:"name"`
			File      string        `json:"file"`
			What      string        `json:"what"`
			Variables []variable    `json:"variables"`
			Written   bool          `json:"written"`
			Backup    string        `json:"backup,omitempty"`
			Diff      string        `json:"diff,omitempty"`
			Serve     []told        `json:"serve,omitempty"`
		}{r.Status, r.Name, r.file, r.What(), all, r.written, r.backup, r.diff, r.told}, ""))
	}
	if r.diff != "" && !r.written {
		if _, err := fmt.Fprint(c.stdout, r.diff); err != nil {
			return err
		}
	}
	if c.quiet {
		return refusedBy(r.told)
	}
	if r.Status == intake.New {
		for _, l := range c.missingVariables([]candidate{r.candidate}) {
			c.status.label(yellow, "hint", clean(l))
		}
	}
	switch {
	case r.Status == intake.Same:
		c.status.Printf("%s has this server already, as %q", inProject(r.file, c.project), r.Name)
	case !r.written:
		c.status.Printf("nothing was written")
	default:
		c.status.Printf("added %s to %s", r.Name, inProject(r.file, c.project))
		if r.backup != "" {
			c.status.Printf("the old file is %s", r.backup)
		}
	}
	return c.sayTold(r.told)
}
