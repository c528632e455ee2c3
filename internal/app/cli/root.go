package cli

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Command returns the commands without anything that they need to run, for the program that makes
// manual pages from them.
func Command() *cobra.Command {
	none := func(string) (string, bool) { return "", false }
	a := &app{world: world{stdin: strings.NewReader(""), stdout: io.Discard, env: none, status: newStatus(io.Discard, false, none)}}
	return a.root()
}

// firstWords is what somebody sees who types only the program's name. It fits on one screen.
const firstWords = `Dragoman connects any MCP client to any MCP server.

Look at a server, and call one of its tools:
  dragoman list -- npx -y @modelcontextprotocol/server-everything@2025.9.25
  dragoman call https://mcp.example.com/mcp search query=bridges

Give a client a server that it can't use; write this as the server's command:
  dragoman run -- COMMAND
  dragoman run URL

Put all your servers behind one address, with a console in the browser:
  dragoman serve --demo       try it with two demo servers
  dragoman import             take over the servers of your clients
  dragoman serve              serve them
  dragoman connect CLIENT     tell a client

Find out why a server or a client doesn't work:
  dragoman doctor -- COMMAND
  dragoman doctor --client

"dragoman help" lists all commands, "dragoman help COMMAND" explains one.
`

func (a *app) root() *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "dragoman",
		Short: "Connect any MCP client to any MCP server",
		Long: `Dragoman connects any MCP client to any MCP server, and translates between the
protocol revisions that they speak.

Results go to stdout; errors, logs and progress to stderr.

Exit codes: 0 for success, 1 for a failure, 2 for a usage error, 130 after
SIGINT and 143 after SIGTERM. But run and serve shut down gracefully on the
first SIGINT or SIGTERM, and fake and record on the first SIGTERM; they then
exit with 0. A second signal stops the program at once, with 130 or 143.`,
		Example: `  # Run one server for a client that cannot use it directly.
  dragoman run -- npx -y @modelcontextprotocol/server-everything@2025.9.25

  # Serve all servers of dragoman.yaml at one endpoint.
  dragoman serve

  # Call one tool from a script.
  dragoman call https://mcp.example.com/mcp search --arg query=bridges`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cobra.ArbitraryArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.checkCommonFlags() },
		RunE: func(c *cobra.Command, args []string) error {
			if showVersion && len(args) == 0 {
				return printVersion(a.stdout, false)
			}
			if len(args) == 0 {
				if a.status.records.Load() != nil {
					return usagef("add a command, for example `dragoman run -- COMMAND`", "no command given")
				}
				_, _ = a.status.Write([]byte(firstWords))
				return exitError(exitUsage)
			}
			return unknownCommand(c, args)
		},
	}
	root.SetOut(a.stdout)
	root.SetErr(a.status)
	root.SetIn(a.stdin)
	root.SetFlagErrorFunc(flagError)
	usage := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error { return usageOf(c, usage) })
	root.Flags().BoolVar(&showVersion, "version", false, "print the version and exit")
	a.addCommonFlags(root)
	a.addCommands(root)
	root.InitDefaultHelpCmd()
	a.checkHelp(root)
	root.InitDefaultCompletionCmd()
	describeCompletion(root)
	root.InitDefaultHelpFlag()
	completeFlags(root, a.env)
	expandFlags(root, a.env)
	return root
}

// others is the group of the commands that need no group.
const others = "others"

// commandGroups are the commands that are not subcommands of another one, in the groups that the help
// shows.
var commandGroups = []struct {
	id, title string
	commands  []func(*world) *cobra.Command
}{
	{"connect", "Connect clients and servers:", []func(*world) *cobra.Command{newRunCommand, newServeCommand, newServerCommand}},
	{"setup", "Set up:", []func(*world) *cobra.Command{
		newImportCommand, newConnectCommand, newSearchCommand, newAddCommand, newRemoveCommand, newEnableCommand, newDisableCommand, newConfigCommand,
	}},
	{"use", "Use a server:", []func(*world) *cobra.Command{
		newListCommand, newShowCommand, newCallCommand, newReadCommand, newPromptCommand, newCompleteCommand,
		newLoginCommand, newLogoutCommand, newSignInsCommand,
	}},
	{"look", "Look after a running serve:", []func(*world) *cobra.Command{
		newStatusCommand, newLogsCommand, newCallsCommand, newToolsCommand, newConsoleCommand, newRestartCommand, newStopCommand, newReloadCommand, newBackupCommand, newHealthcheckCommand,
	}},
	{"team", "Share a running serve with a team:", []func(*world) *cobra.Command{newProjectsCommand, newKeysCommand, newPeopleCommand, newSecretsCommand, newRulesCommand, newPromptsCommand, newExamplesCommand, newQuestionsCommand, newAuditCommand}},
	{"test", "Test servers and clients:", []func(*world) *cobra.Command{
		newDoctorCommand, newFakeCommand, newRecordCommand, newReplayCommand, newMatrixCommand,
	}},
	{others, "Other commands:", []func(*world) *cobra.Command{newBugCommand, newVersionCommand}},
}

// addCommands adds the commands, each to its group.
func (a *app) addCommands(root *cobra.Command) {
	for _, g := range commandGroups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, command := range g.commands {
			c := command(&a.world)
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(newDemoServerCommand(&a.world)) // hidden
	root.SetHelpCommandGroupID(others)
	root.SetCompletionCommandGroupID(others)
}

// addCommonFlags adds the flags that all commands have.
func (a *app) addCommonFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.SortFlags = false
	f.BoolVarP(&a.verbose, "verbose", "v", false, "print debug logs, the steps of each handshake, and the servers' stderr")
	f.BoolVar(&a.traceBytes, "trace-bytes", false, "print the steps of each handshake with their messages; implies --verbose")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print only errors")
	f.BoolVar(&a.plain, "plain", false, "use no colours and no animation, for screen readers (the same as ACCESSIBLE=1)")
	f.StringVar(&a.logFormat, "log-format", "", "write logs to stderr in this `FORMAT`: text (key=value) or json; a terminal gets sentences otherwise")
}

// checkCommonFlags checks and applies the flags that all commands have.
func (a *app) checkCommonFlags() error {
	if !slices.Contains([]string{"", "text", "json"}, a.logFormat) {
		return usagef("use text or json", "--log-format does not accept %q", a.logFormat)
	}
	if a.plain {
		a.status.terminal, a.status.colour = false, false
	}
	a.verbose = a.verbose || a.traceBytes
	if a.verbose && a.quiet {
		return usagef("remove one of them", "--verbose and --quiet cannot be used together")
	}
	if a.logFormat != "json" {
		a.status.records.Store(nil) // if the arguments contain --log-format json, it is a flag of the server's command
	} else {
		a.status.recordsOnly()
	}
	return nil
}

// alsoRuns is the annotation of a command that has subcommands and can also run without a
// subcommand. Such a command must accept no arguments.
const alsoRuns = "also-runs"

// isGroup reports whether a command has subcommands and returns an error if it runs without a
// subcommand.
func isGroup(c *cobra.Command) bool {
	return c.HasAvailableSubCommands() && c.Annotations[alsoRuns] == ""
}

// refuseWord returns the error for an argument that is not a subcommand of c.
func refuseWord(c *cobra.Command, words []string) error {
	if isGroup(c) {
		return c.RunE(c, words) // only returns an error
	}
	return c.Args(c, words)
}

// usageOf prints the usage of a command. For a group, it omits the line without a subcommand,
// because a group returns an error if it runs without a subcommand.
func usageOf(c *cobra.Command, usual func(*cobra.Command) error) error {
	if isGroup(c) {
		run := c.RunE
		c.RunE = nil
		defer func() { c.RunE = run }()
	}
	return usual(c)
}

// otherWords are what people may call some commands.
var otherWords = map[string]string{"sign-in": "login", "signin": "login", "sign-out": "logout", "signout": "logout"}

// unknownCommand returns the error for a first argument that is not the name of a command.
func unknownCommand(c *cobra.Command, args []string) error {
	word := args[0]
	switch {
	case c.ArgsLenAtDash() == 0:
		return usagef("run `dragoman run -- "+clean(strings.Join(args, " "))+"`", "no dragoman command before --")
	case isURL(word):
		return usagef("run `dragoman run "+clean(word)+"`", "%q is a URL, not a command", word)
	}
	hint := "run `dragoman --help` for the list of commands"
	if other := otherWords[word]; other != "" {
		return usagef("write `dragoman "+other+"`", "%q is not a command", word)
	}
	if near := nearCommand(c, word); near != "" {
		hint = near
	}
	return usagef(hint, "%q is not a command", word)
}

// didYouMean returns a hint that suggests the known word that is most similar to word. If no known
// word is similar, it returns other.
func didYouMean(word string, known []string, other string) string {
	if near := config.Suggest(word, known); near != "" {
		return "did you mean " + near + "?"
	}
	return other
}

// nearCommand returns a hint that suggests a subcommand of c with a name similar to word. It
// returns "" if no name is similar.
func nearCommand(c *cobra.Command, word string) string {
	var names []string
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			names = append(names, s.Name())
		}
	}
	other := ""
	if s := c.SuggestionsFor(word); len(s) > 0 {
		other = "did you mean " + strings.Join(s, " or ") + "?"
	}
	return didYouMean(word, names, other)
}

// checkHelp makes the program return an error if the user requests help for an unknown command. By
// default, cobra prints the help of the parent command.
func (a *app) checkHelp(root *cobra.Command) {
	usual := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if words := c.Flags().Args(); c.HasAvailableSubCommands() && len(words) > 0 {
			a.noHelp = refuseWord(c, words)
			return
		}
		a.fitHelp(c)
		usual(c, args)
	})
	for _, help := range root.Commands() {
		if help.Name() != "help" {
			continue
		}
		help.Run = nil
		help.RunE = func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			switch {
			case err != nil || c == nil:
				return unknownCommand(root, args)
			case len(rest) > 0 && c == root:
				return unknownCommand(root, rest)
			case len(rest) > 0 && c.HasAvailableSubCommands():
				return refuseWord(c, rest)
			case len(rest) > 0:
				return usagef("run `dragoman help "+strings.TrimPrefix(c.CommandPath(), "dragoman ")+"`", "%s has no command %q", c.CommandPath(), rest[0])
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		}
	}
}

// fitHelp breaks the help of a command at the width of the terminal.
func (a *app) fitHelp(c *cobra.Command) {
	if !a.screen || a.width <= 0 {
		return
	}
	width := max(a.width, 40)
	c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped "+strconv.Itoa(width)+" "))
	if width >= 80 {
		return // the texts have this width
	}
	var parts []string
	for part := range strings.SplitSeq(c.Long, "\n\n") {
		if !strings.HasPrefix(part, " ") && !strings.Contains(part, "\n ") { // no list or example
			part = strings.TrimSuffix(wrap(part, "", width), "\n")
		}
		parts = append(parts, part)
	}
	c.Long = strings.Join(parts, "\n\n")
}

// group adds subcommands to a command. Without a subcommand, the command returns an error.
func group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		var names []string
		for _, s := range c.Commands() {
			names = append(names, c.CommandPath()+" "+s.Name())
		}
		hint := "use `" + strings.Join(names, "` or `") + "`"
		if len(args) > 0 {
			if near := nearCommand(c, args[0]); near != "" {
				hint = near
			}
			return usagef(hint, "%s has no command %q", c.CommandPath(), args[0])
		}
		return usagef(hint, "%s needs a command", c.CommandPath())
	}
	c.AddCommand(subs...)
	return c
}

// noArguments returns an error if the command line has arguments. An argument of a command that has
// subcommands is meant to be one of these.
func noArguments(c *cobra.Command, args []string) error {
	hint := "run `" + c.CommandPath() + " --help`"
	switch {
	case len(args) == 0:
		return nil
	case !c.HasAvailableSubCommands():
		return usagef(hint, "%s does not accept arguments, but %q was given", c.CommandPath(), args[0])
	case args[0] == "list" || args[0] == "ls":
		hint = "run `" + c.CommandPath() + "`, which prints the list"
	default:
		hint = cmp.Or(nearCommand(c, args[0]), hint)
	}
	return usagef(hint, "%s has no command %q", c.CommandPath(), args[0])
}

// flagsInOrder returns the flags of a command and keeps their order of declaration. Each command
// declares its most important flags first.
func flagsInOrder(c *cobra.Command) *pflag.FlagSet {
	c.Flags().SortFlags = false
	return c.Flags()
}

func describeCompletion(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Short = "Print a shell completion script"
		c.Long = `Print a shell completion script. When you press Tab, it completes commands,
flags and the names of configured servers. "dragoman completion SHELL --help"
says how to load it.`
		c.Example = `  # Load the script in the current bash session.
  source <(dragoman completion bash)

  # Install the script permanently for fish.
  dragoman completion fish > ~/.config/fish/completions/dragoman.fish`
		group(c)
	}
}
