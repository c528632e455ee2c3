package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/servername"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

// targetFlags are the flags for a server that is given as a URL or as a command.
type targetFlags struct {
	name, dialect, revision, dir string
	cacert                       string
	env, header                  []string

	command []string // set by oneServer
	address string   // set by oneServer, if command is empty
}

func (t *targetFlags) add(f *pflag.FlagSet) {
	t.addPlain(f)
	f.StringVar(&t.revision, "revision", "", "use only the protocol revision `DATE` with the server")
	f.StringVar(&t.dialect, "dialect", "", "use the dialect `NAME` with the server (default: detected)")
}

// addPlain adds all flags except --revision and --dialect. Those two make no sense for commands
// that do not translate messages.
func (t *targetFlags) addPlain(f *pflag.FlagSet) {
	f.StringArrayVar(&t.env, "env", nil, "set an environment variable for the command, as `K=V`, or K to pass on its current value (repeatable)")
	f.StringArrayVar(&t.header, "header", nil, "send an HTTP header to the URL, as `'K: V'`, or K=NAME for the value of the variable NAME (repeatable)")
	f.StringVar(&t.cacert, "cacert", "", "for the URL, trust the certificate authorities in the PEM `FILE`")
	f.StringVar(&t.dir, "cwd", "", "run the command in the directory `DIR`")
	f.StringVar(&t.name, "name", "", "call the server `NAME` in messages (default: its package or host)")
}

// given returns a flag that is set, or "".
func (t *targetFlags) given() string {
	if t.revision != "" {
		return cmp.Or(t.special(), "--revision")
	}
	return t.special()
}

// special returns a flag that is set and says how the server is reached, which the configuration says of a configured
// one, or "".
func (t *targetFlags) special() string {
	switch {
	case len(t.env) > 0:
		return "--env"
	case t.dir != "":
		return "--cwd"
	case len(t.header) > 0:
		return "--header"
	case t.cacert != "":
		return "--cacert"
	case t.name != "":
		return "--name"
	case t.dialect != "":
		return "--dialect"
	}
	return ""
}

// oneServer makes c read a server from the end of its command line into t. The server is a URL, or
// a command with or without -- before it. The first word of the command ends the flags of c, so a
// command with flags needs no --. The string usage is the part of the command line before the
// server. Hints for the user contain usage.
func (t *targetFlags) oneServer(e environment, c *cobra.Command, usage string) {
	c.Flags().SetInterspersed(false)
	c.Args = func(c *cobra.Command, args []string) error {
		t.command, t.address = nil, ""
		dash := c.ArgsLenAtDash()
		switch {
		case len(args) == 0:
			return usagef("use `"+usage+" URL` or `"+usage+" COMMAND`", "no server given")
		case isURL(args[0]) && dash < 0:
			return t.readURL(c, args)
		case isURL(args[0]):
			return usagef("use `"+usage+" "+clean(args[0])+"`", "%q is a URL, not a command; it must not follow --", args[0])
		}
		t.command = args
		if dash < 0 {
			return e.checkCommand(args, usage)
		}
		return nil
	}
}

// readURL reads a URL and the flags after it.
func (t *targetFlags) readURL(c *cobra.Command, args []string) error {
	t.address = args[0]
	f := c.Flags()
	f.SetInterspersed(true)
	if err := f.Parse(args[1:]); err != nil {
		return flagError(c, err)
	}
	if help, _ := f.GetBool("help"); help {
		return pflag.ErrHelp
	}
	switch more := f.Args(); {
	case c.ArgsLenAtDash() >= 0:
		return usagef("remove one of them", "got both %q and a command", t.address)
	case len(more) > 0:
		return usagef("remove it", "unexpected argument %q after %s", more[0], clean(t.address))
	}
	return nil
}

// checkCommand returns an error if a command without -- is probably a mistake, such as the
// name of a server. It accepts every program that exists.
func (e environment) checkCommand(command []string, usage string) error {
	word := command[0]
	if _, err := exec.LookPath(word); err == nil || errors.Is(err, exec.ErrDot) {
		return nil
	}
	if _, err := os.Stat(word); err == nil {
		return nil
	}
	switch {
	case intake.WithScheme(word) != "":
		return usagef("use `"+usage+" "+clean(intake.WithScheme(word))+"`", "%q is neither a program nor a URL", word)
	case len(command) == 1 && strings.Contains(word, " "):
		return usagef("remove the quotes around the command", "%q is not a program", word)
	case len(command) == 1:
		if s, path := e.configured(word); s != nil {
			return usagef("use `dragoman serve -c "+path+"`, or write the command or URL of the server instead of its name",
				"%q is a server of %s, but not a program or a URL", word, path)
		}
	}
	return nil
}

// meant returns a hint for a word that is not the name of a server. It returns "" if it has no
// suggestion.
func meant(word string) string {
	if u := intake.WithScheme(word); u != "" {
		return "write the URL with its scheme: " + clean(u)
	}
	if _, err := exec.LookPath(word); err == nil {
		return "put -- before a command, and everything for Dragoman before the --"
	}
	return ""
}

// configured returns the server called name from the default configuration file, and the path of
// this file. It returns nil if there is no such server.
func (e environment) configured(name string) (*config.Server, string) {
	path, ok := e.configPath("")
	if !ok {
		return nil, ""
	}
	snapshot, _ := config.Load(path)
	if snapshot == nil {
		return nil, ""
	}
	s, ok := snapshot.Server(name)
	if !ok {
		return nil, ""
	}
	return &s, path
}

// oneTarget returns the command after --, or the URL. The string usage is the part of the command
// line before the server. Hints for the user contain usage.
func oneTarget(c *cobra.Command, args []string, usage string) (command []string, address string, err error) {
	dash := c.ArgsLenAtDash()
	switch {
	case dash == 0 && len(args) > 0:
		return args, "", nil
	case dash < 0 && len(args) == 1 && isURL(args[0]):
		return nil, args[0], nil
	case len(args) == 0:
		return nil, "", usagef("use `"+usage+" URL` or `"+usage+" -- COMMAND`", "no server given")
	case dash > 0:
		return nil, "", usagef("remove one of them", "got both %q and a command", args[0])
	case isURL(args[0]):
		return nil, "", usagef("remove it", "unexpected argument %q after the URL", args[1])
	}
	return nil, "", usagef("put -- before a command: `"+usage+" -- "+clean(args[0])+"`", "%q is not a URL", args[0])
}

func isURL(s string) bool {
	return strings.Contains(s, "://")
}

// server returns a server for a command, or for a URL if command is empty.
func (t *targetFlags) server(env environment, command []string, address string) (config.Server, error) {
	s := config.Server{Name: "server", Given: true, Dir: t.dir, Dialect: t.dialect}
	var err error
	if len(command) > 0 {
		err = t.setCommand(&s, command)
	} else {
		err = t.setURL(&s, env, address)
	}
	if err != nil {
		return s, err
	}
	if t.name != "" {
		if p := config.CheckName(t.name); p != nil {
			return s, usagef(p.Hint, "--name: %s", p.Text)
		}
		s.Name = t.name
	}
	if err := t.setEnv(&s, env); err != nil {
		return s, err
	}
	for _, flag := range t.header {
		name, text, err := headerFlag(flag)
		if err != nil {
			return s, err
		}
		value, err := env.secret(text)
		if err != nil {
			return s, err
		}
		s.Header = append(s.Header, config.Field{Name: name, Value: value})
	}
	if s.Revision, err = t.pin(); err != nil {
		return s, err
	}
	s, p := config.Complete(s)
	if p != nil {
		text := p.Text
		switch header, ok := strings.CutPrefix(p.Path, "headers"); {
		case ok:
			text = "--header " + strings.Trim(header, `.["]`) + ": " + text
		case p.Path == "url":
			text = "the address " + text
		case p.Path != "":
			text = p.Path + " " + text
		}
		return s, usagef(p.Hint, "%s", text)
	}
	return s, nil
}

// pin returns the revision in --revision, or mcp.Unknown without one.
func (t *targetFlags) pin() (r mcp.Revision, err error) {
	if t.revision == "" {
		return mcp.Unknown, nil
	}
	r, ok := mcp.ParseRevision(t.revision)
	if !ok {
		return r, usagef("use one of "+strings.Join(mcp.Dates(mcp.Revisions()), ", "), "--revision: unknown revision %q", t.revision)
	}
	return r, nil
}

// headerFlag returns the name and the value of a header. flag is 'NAME: VALUE', or NAME=VARIABLE for the
// value of an environment variable. The second form has no ${ }, which some clients replace themselves.
func headerFlag(flag string) (name, value string, err error) {
	if name, value, ok := strings.Cut(flag, ":"); ok && name != "" {
		return strings.TrimSpace(name), strings.TrimSpace(value), nil
	}
	if name, variable, ok := strings.Cut(flag, "="); ok && name != "" && clientfile.IsVariable(variable) {
		return name, "${" + variable + "}", nil
	}
	return "", "", usagef("use --header 'Name: value', or --header Name=VARIABLE", "--header has no name or no value")
}

// secret replaces the references to environment variables in the value of a flag.
func (e environment) secret(text string) (config.Secret, error) {
	v, p := config.Expand(text, e)
	if p != nil {
		return config.Secret{}, usagef(p.Hint, "%s", p.Text)
	}
	return config.NewSecret(v), nil
}

func (t *targetFlags) setCommand(s *config.Server, command []string) error {
	s.Name = servername.OfCommand(command, t.workingDir())
	s.Command, s.Args = command[0], command[1:]
	// A user who types a command expects it to run in the environment of the shell. A client that
	// starts Dragoman often passes tokens for the server in the environment.
	s.InheritEnv = []string{"*"}
	if err := t.checkFolder(command[0]); err != nil {
		return err
	}
	if len(t.header) > 0 {
		return usagef("use --env", "--header works only with a URL, not with a command")
	}
	if t.cacert != "" {
		return usagef("use --env NODE_EXTRA_CA_CERTS=FILE or SSL_CERT_FILE=FILE", "--cacert works only with a URL, not with a command")
	}
	return nil
}

// checkFolder returns an error if the first word of a command is a folder, and no program has this name.
func (t *targetFlags) checkFolder(word string) error {
	path := word
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.dir, path)
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return nil
	}
	if _, err := exec.LookPath(word); err == nil || errors.Is(err, exec.ErrDot) {
		return nil
	}
	return usagef("write the program that starts the server; with --cwd "+shellWord(path)+" it runs in this folder", "%q is a folder, not a program", word)
}

func (t *targetFlags) setURL(s *config.Server, env environment, address string) error {
	whole, err := env.secret(address)
	if err != nil {
		return err
	}
	s.URL = whole.Reveal()
	if s.CAFile = t.cacert; s.CAFile != "" {
		if _, err := httplink.LoadCAs(s.CAFile); err != nil {
			return usagef("use a file with certificates in PEM format", "--cacert: %v", err)
		}
	}
	if u, err := url.Parse(address); err == nil {
		s.Name = servername.OfHost(u.Host)
	}
	if len(t.env) > 0 || t.dir != "" {
		return usagef("remove the option", "%s works only with a command, not with a URL", t.given())
	}
	return nil
}

// setEnv sets the variables of --env.
func (t *targetFlags) setEnv(s *config.Server, env environment) error {
	for _, kv := range t.env {
		if s.Env == nil {
			s.Env = map[string]config.Secret{}
		}
		k, v, ok := strings.Cut(kv, "=")
		switch {
		case k == "":
			return usagef("use --env NAME=VALUE or --env NAME", "--env %q has no name", fit(kv, 40))
		case k[0] >= '0' && k[0] <= '9': // the system would accept it
			return usagef("use --env NAME=VALUE or --env NAME", "--env %s: the name of an environment variable does not begin with a digit", excerpt.Word(k, 40))
		case !ok:
			current, set := env(k)
			if !set {
				return usagef("set the variable, or use --env NAME=VALUE", "--env %s: this environment variable is not set", excerpt.Word(k, 40))
			}
			s.Env[k] = config.NewSecret(current)
		default:
			var err error
			if s.Env[k], err = env.secret(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// workingDir returns the absolute path of the directory in which the command runs. If it cannot
// determine this path, it returns t.dir.
func (t *targetFlags) workingDir() string {
	dir, err := filepath.Abs(t.dir)
	if err != nil {
		return t.dir
	}
	return dir
}

// target returns the server for a command, a URL, or the name of a configured server.
func (t *targetFlags) target(e environment, word string, command []string, file string) (config.Server, *opened, error) {
	if len(command) > 0 || isURL(word) {
		s, err := t.server(e, command, word)
		return s, nil, err
	}
	if given := t.given(); given != "" {
		return config.Server{}, nil, usagef("set the option in the configuration file", "%s cannot be used with a configured server", given)
	}
	path, ok := e.configPath(file)
	if !ok {
		return config.Server{}, nil, usagef(
			cmp.Or(meant(word), "use a URL, put -- before a command, or name a configuration file with -c FILE"),
			"%q is not a URL, and no configuration file was found", word)
	}
	snapshot, problems := e.open(path)
	if snapshot == nil {
		return config.Server{}, nil, problems.Refusal(false)
	}
	s, ok := snapshot.Server(word)
	switch hint := meant(word); {
	case ok:
	case hint != "" && config.Suggest(word, serverNames(snapshot.Snapshot)) == "":
		return s, nil, usagef(hint, "%s has no server named %q", path, word)
	default:
		return s, nil, unknownServer(word, path, serverNames(snapshot.Snapshot))
	}
	return s, snapshot, nil
}

// usable returns an error if a server cannot be used, because its configuration needs a
// variable or a secret that is not set.
func usable(s config.Server) error {
	if s.Unusable == nil {
		return nil
	}
	p := s.Unusable
	action, cause := p.Hint, "missing_secret"
	if p.Variable != "" {
		set := "set " + p.Variable
		if p.EnvFile != "" {
			set = "write " + p.Variable + "=VALUE into " + p.EnvFile
		}
		action = fmt.Sprintf("%s and run the command again, or write ${%s:-default} in line %d of %s", set, p.Variable, p.Line, filepath.Base(p.File))
		cause = "unset_variable"
	}
	return &failure.Failure{
		Class: failure.MissingVariable, Server: s.Name, Cause: cause,
		Sentence: fmt.Sprintf("%s, so server %q cannot be used", p.Text, s.Name),
		Action:   action,
	}
}

// serverNames returns the names of the configured servers.
func serverNames(s *config.Snapshot) (names []string) {
	for _, srv := range s.Servers {
		names = append(names, srv.Name)
	}
	return names
}

// unknownServer returns the error for a name that is not in names. The string where describes the
// source of these names.
func unknownServer(name, where string, names []string) error {
	hint := "add the server under mcpServers in the configuration file"
	if len(names) > 0 {
		hint = didYouMean(name, names, "use one of "+joinNames(names))
	}
	if server, tool, ok := strings.Cut(name, config.Default().Separator); ok && tool != "" && slices.Contains(names, server) {
		hint = "write the server and the tool as two words: " + shellWord(server) + " " + shellWord(tool)
	}
	return usagef(hint, "%s has no server named %q", where, name)
}

// configPath returns file if file is not "". Otherwise, it returns the path that config.Find finds.
func (e environment) configPath(file string) (string, bool) {
	if file != "" {
		return file, true
	}
	return config.Find(e)
}

var errNoConfig = errors.New("no configuration file found")

// noConfig returns an error that lists the paths at which Dragoman looks for a configuration file.
func (e environment) noConfig() error {
	return withHint(errNoConfig, "run `dragoman import` to take over the servers of your clients, or create one of %s, or name a file with -c FILE", strings.Join(config.Places(e), ", "))
}

// newConfig returns the path for a new configuration file. It creates the folder of this file, so
// that Dragoman can watch the folder. It returns "" if the path is not absolute or if the folder
// cannot be created.
func (e environment) newConfig() string {
	places := config.Places(e)
	path := places[len(places)-1]
	if !filepath.IsAbs(path) || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return ""
	}
	return path
}

// completeTarget completes the names of configured servers as the first argument. If first has
// words, completeTarget also offers these words as the first argument, and also completes the names
// as the second argument.
func (e environment) completeTarget(file *string, first ...string) cobra.CompletionFunc {
	return e.completeIn(file, new(string), first...)
}

// completeIn does the same as completeTarget for the servers that the file has for a project.
func (e environment) completeIn(file, project *string, first ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		out := []string{}
		switch {
		case len(args) == 0:
			out = append(out, first...)
		case len(args) > 1 || len(first) == 0:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if path, ok := e.configPath(*file); ok {
			if s, _ := config.Load(path); s != nil && intake.ServersOf(s, *project) != nil {
				for _, srv := range intake.ServersOf(s, *project).Servers {
					out = append(out, cobra.CompletionWithDesc(srv.Name, clean(srv.Describe())))
				}
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// addConfigFlag adds -c, which names the configuration file.
func addConfigFlag(c *cobra.Command, file *string) {
	c.Flags().StringVarP(file, "config", "c", "", "configuration `FILE` (default: ./dragoman.yaml, .yml or .json, else ~/.config/dragoman/config.yaml, or %AppData%\\dragoman\\config.yaml on Windows)")
	_ = c.MarkFlagFilename("config", "yaml", "yml", "json")
}
