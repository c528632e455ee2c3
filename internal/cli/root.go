package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) root() *cobra.Command {
	var showVersion bool
	root := &cobra.Command{
		Use:   "dragoman",
		Short: "Connect any MCP client to any MCP server",
		Long: `Dragoman connects any MCP client to any MCP server. It translates between the
protocol revisions that the two sides speak.

Results go to stdout. Errors, logs and progress go to stderr.

Exit codes: 0 for success, 1 for a failure, 2 for a usage error, 130 after
SIGINT and 143 after SIGTERM. After the first signal, run and serve shut down
gracefully and exit with 0, and so do fake and record after SIGTERM. A second
signal stops the program at once, with 130 or 143.`,
		Example: `  # Run one server for a client that cannot use it directly.
  dragoman run -- npx -y @modelcontextprotocol/server-everything@2025.9.25

  # Serve all servers of dragoman.yaml at one endpoint.
  dragoman serve

  # Call one tool from a script.
  dragoman call https://mcp.example.com/mcp search --arg query=bridges`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains([]string{"", "text", "json"}, a.logFormat) {
				return usagef("use text or json", "--log-format does not accept %q", a.logFormat)
			}
			if a.plain {
				a.status.terminal, a.status.colour = false, false
			}
			if a.verbose && a.quiet {
				return usagef("remove one of them", "--verbose and --quiet cannot be used together")
			}
			if a.logFormat != "json" {
				a.status.records.Store(nil) // --log-format belongs to the command of a server
			} else {
				a.status.recordsOnly()
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if showVersion && len(args) == 0 {
				return a.printVersion(false)
			}
			if len(args) == 0 {
				if a.status.records.Load() == nil {
					c.SetOut(a.status)
					_ = c.Help()
				}
				return usagef("add a command, for example `dragoman run -- COMMAND`", "no command given")
			}
			return a.unknownCommand(c, args)
		},
	}
	root.SetOut(a.stdout)
	root.SetErr(a.status)
	root.SetIn(a.stdin)
	root.SetFlagErrorFunc(flagError)
	usage := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error { return usageOf(c, usage) })
	root.Flags().BoolVar(&showVersion, "version", false, "print the version and exit")
	f := root.PersistentFlags()
	f.SortFlags = false
	f.BoolVarP(&a.verbose, "verbose", "v", false, "print debug logs and a trace of each handshake")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print only errors")
	f.BoolVar(&a.plain, "plain", false, "use no colours and no animation, for screen readers (also with ACCESSIBLE=1)")
	f.StringVar(&a.logFormat, "log-format", "", "log `FORMAT` on stderr: text or json")
	root.AddCommand(a.runCommand(), a.serveCommand(), a.listCommand(), a.showCommand(), a.callCommand(), a.readCommand(), a.promptCommand(), a.completeCommand(), a.recordCommand(), a.replayCommand(), a.fakeCommand(), a.matrixCommand(), a.doctorCommand(), a.configCommand(), a.statusCommand(), a.logsCommand(), a.bugCommand(), a.healthcheckCommand(), a.manCommand(), a.versionCommand(), a.importCommand(), a.connectCommand(), a.demoServerCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	a.describeCompletion(root)
	root.InitDefaultHelpFlag()
	a.completeFlags(root)
	return root
}

// usageOf prints the usage of a command. A command with subcommands runs only to report
// that a subcommand is missing, so its usage does not show it alone.
func usageOf(c *cobra.Command, usual func(*cobra.Command) error) error {
	if c.HasAvailableSubCommands() {
		run := c.RunE
		c.RunE = nil
		defer func() { c.RunE = run }()
	}
	return usual(c)
}

// unknownCommand returns the error for a first argument that is not a command.
func (a *app) unknownCommand(c *cobra.Command, args []string) error {
	word := args[0]
	switch {
	case c.ArgsLenAtDash() == 0:
		return usagef("run `dragoman run -- "+clean(strings.Join(args, " "))+"`", "no dragoman command before --")
	case isURL(word):
		return usagef("run `dragoman run "+clean(word)+"`", "%q is a URL, not a command", word)
	}
	hint := "run `dragoman --help` for the list of commands"
	if s := c.SuggestionsFor(word); len(s) > 0 {
		hint = "did you mean " + strings.Join(s, " or ") + "?"
	}
	return usagef(hint, "%q is not a command", word)
}

// group adds subcommands to a command that only reports an error by itself.
func group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		var names []string
		for _, s := range c.Commands() {
			names = append(names, c.CommandPath()+" "+s.Name())
		}
		hint := "use `" + strings.Join(names, "` or `") + "`"
		if len(args) > 0 {
			return usagef(hint, "%s has no command %q", c.CommandPath(), args[0])
		}
		return usagef(hint, "%s needs a command", c.CommandPath())
	}
	c.AddCommand(subs...)
	return c
}

// noArguments refuses arguments.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("run `"+c.CommandPath()+" --help`", "%s takes no arguments, but got %q", c.CommandPath(), args[0])
	}
	return nil
}

// flagsInOrder returns the flags of a command and keeps them in the order of their
// declaration. The most important flags come first.
func flagsInOrder(c *cobra.Command) *pflag.FlagSet {
	c.Flags().SortFlags = false
	return c.Flags()
}

func (a *app) describeCompletion(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Short = "Print a shell completion script"
		c.Long = `Print a shell completion script. It completes commands, flags and the names of
configured servers when you press Tab. Run "dragoman completion SHELL --help" to
see how to load the script.`
		c.Example = `  # For the current bash session.
  source <(dragoman completion bash)

  # Permanently, in fish.
  dragoman completion fish > ~/.config/fish/completions/dragoman.fish`
		group(c)
	}
}
