package cli

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// serveCommand is `dragoman serve`.
type serveCommand struct {
	*world

	file, listen                                              string
	hosts                                                     []string
	stdio, demo, quietDemo, strict, open, logCalls, noConsole bool
}

func newServeCommand(w *world) *cobra.Command {
	c := &serveCommand{world: w}
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve many servers at one endpoint",
		Long: `Serve all configured servers at one endpoint, to clients of every revision.
Clients see each tool as SERVER__TOOL, so adding a server doesn't change the
names of existing tools.

When the configuration file changes, the whole file is checked, and the changes
are applied without interrupting calls. If it has errors, you see them, and the
old configuration stays. docs/configuration.md describes the format; the
configuration files of MCP clients work too, unchanged.

Without a configuration file, serve starts without servers. Add them in the
console, which writes ~/.config/dragoman/config.yaml.

If a server's settings refer to an environment variable that isn't set, only
this server fails; with --strict, the whole file is refused. The file is read
again when it changes, on "dragoman reload", and on SIGHUP. A changed
environment variable needs a restart.

The console at /console/ shows clients, servers and calls in a browser. On a
terminal, serve prints a link that opens it; "dragoman console" makes another.
The console is off if other machines can reach serve's address without https.

/api/v1/status has the status of every server and session as JSON, for programs
on this machine, and for API keys with the role viewer. On SIGUSR1, serve writes
it to stderr as text.

With --demo, two demo servers run, and two demo clients call them, so that the
console has something to show: about 30 calls a minute, of which some fail on
purpose. --quiet-demo leaves out the clients.`,
		Example: `  # Use ./dragoman.yaml or ~/.config/dragoman/config.yaml.
  dragoman serve

  # Serve the servers in the configuration of Cursor, on another port.
  dragoman serve -c ~/.cursor/mcp.json --listen 127.0.0.1:7400

  # Try Dragoman without a configuration.
  dragoman serve --demo`,
		Args:              noArguments,
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func (c *serveCommand) addFlags(cmd *cobra.Command) {
	f := flagsInOrder(cmd)
	addConfigFlag(cmd, &c.file)
	f.StringVar(&c.listen, "listen", "", "listen for HTTP on `ADDR` (host:port) instead of the configured address")
	addHostFlag(cmd, &c.hosts)
	f.BoolVar(&c.strict, "strict", false, "refuse a configuration in which a server refers to an unset environment variable")
	f.BoolVar(&c.noConsole, "no-console", false, "do not serve the console (the pages at /console/)")
	f.BoolVar(&c.stdio, "stdio", false, "also serve a client on stdin and stdout")
	f.BoolVar(&c.demo, "demo", false, "serve two demo servers, and with -c FILE also those of FILE")
	f.BoolVar(&c.quietDemo, "quiet-demo", false, "with --demo, leave out the two demo clients")
	addCallsFlag(cmd, &c.logCalls)
	addOpenFlag(cmd, &c.open)
}

func (c *serveCommand) run(cmd *cobra.Command, _ []string) error {
	if err := checkHosts(c.hosts); err != nil {
		return err
	}
	if c.listen != "" {
		if p := config.CheckAddress(c.listen); p != nil {
			return usagef(p.Hint, "%s", p.Text)
		}
	}
	if c.quietDemo && !c.demo {
		return usagef("add --demo", "--quiet-demo works only with --demo")
	}
	x, err := c.load()
	if err != nil {
		return err
	}
	c.startLog(slog.LevelInfo, &x.Log)
	if x.file != nil {
		if err := c.consentToServe(c.file, x.file); err != nil {
			return err
		}
	}
	if c.people != nil {
		c.people.Hold() // until the table of the servers, which says why some have failed
	}
	for _, p := range x.problems.Warnings() {
		c.log.LogAttrs(cmd.Context(), slog.LevelWarn, "problem in the configuration", slog.Any("at", p))
	}
	for _, p := range x.problems.OfServers() {
		c.log.Warn("a server is not started", daemon.UnusableAttrs(p)...)
	}
	for _, p := range x.problems.OfProjects() {
		c.log.Error("a project of the file cannot be used", "project", p.Project, "at", p)
	}
	if c.isOpen(x) {
		c.warnOpen(cmd.Context(), cmp.Or(c.listen, x.Listen))
	}
	c.showProgress()
	err = withoutStop(cmd.Context(), houseError(c.backend.Serve(cmd.Context(), c.options(x))))
	return c.portHint(cmd, cmp.Or(c.listen, x.Listen), err)
}

// loaded is the configuration with which serve starts.
type loaded struct {
	*config.Snapshot
	path     string          // the file whose changes serve applies; "" for none
	file     *opened         // the file that was read; nil if there is none
	problems config.Problems // those with which the file can be used
}

// load reads the configuration file, and adds the demo servers.
func (c *serveCommand) load() (*loaded, error) {
	x := &loaded{Snapshot: config.Default()}
	var found bool
	if x.path, found = c.env.configPath(c.file); c.demo {
		x.path, found = c.file, c.file != ""
	}
	switch {
	case found:
		x.file, x.problems = c.env.open(x.path)
		// Only with its store can serve tell what is wrong with a secret. It reads the file again.
		x.problems = slices.DeleteFunc(x.problems, func(p config.Problem) bool { return p.Secret != "" })
		if x.file == nil || c.strict && x.problems.Err() != nil {
			return nil, x.problems.Refusal(c.strict)
		}
		x.Snapshot = x.file.Snapshot
	case !c.demo:
		// Without a configuration file, the user adds the servers in the console. So the console must
		// be available.
		if !c.noConsole && !c.stdio && config.CheckListen(cmp.Or(c.listen, x.Listen), false, "") == nil {
			x.path = c.env.newConfig()
		}
		if x.path == "" {
			err := c.env.noConfig()
			return nil, withHint(err, "%s, or try `dragoman serve --demo`", hintsOf(err)[0])
		}
	}
	if c.demo {
		var err error
		if x.Snapshot, err = withDemo(x.Snapshot); err != nil {
			return nil, err
		}
		x.path = "" // no reload, because it would remove the demo servers
	}
	return x, nil
}

// isOpen reports whether everybody may come in at an address that other machines can reach. Each address
// needs its own permission: a flag that of the flag.
func (c *serveCommand) isOpen(x *loaded) bool {
	return c.open || c.listen == "" && x.AllowUnauthenticatedNetworkAccess
}

// options returns what the backend needs to serve x, with functions that print what it reports.
func (c *serveCommand) options(x *loaded) daemon.ServeOptions {
	start := startOptions{program: c.program, away: isAway(cmp.Or(c.listen, x.Listen)), public: x.PublicURL, console: !c.noConsole && x.Console && config.CheckListen(cmp.Or(c.listen, x.Listen), false, "") == nil}
	switch {
	case c.listen != "":
		start.flags = " --listen " + c.listen
	case c.file != "":
		start.flags = configWords(c.file)
	}
	var extend func(*config.Snapshot) (*config.Snapshot, error)
	if c.demo {
		extend = withDemo
	}
	var demoClients []string
	var playDemo func(context.Context, string)
	if c.demo && !c.quietDemo {
		demoClients, playDemo = demo.Clients(), func(ctx context.Context, endpoint string) { demo.Play(ctx, endpoint, version()) }
	}
	var console *daemon.Console
	self, _ := programPath() // if the path is unknown, the console shows only the name of the program
	return daemon.ServeOptions{
		ConfigPath: x.path, Config: x.Snapshot, Problems: x.problems, Extend: extend, Listen: c.listen, Hosts: c.hosts, Strict: c.strict, Stdio: c.stdio,
		Log: c.log, LogCalls: c.logCalls || x.Log.Calls, Progress: c.status.Step, Version: version(), Dump: c.showStatus,
		KeyFolders: admin.KeyFolders(c.env), Database: houseFile(), Open: c.isOpen(x), NoConsole: c.noConsole, DemoClients: demoClients, Demo: playDemo,
		Program: c.program, Path: self, Env: c.env,
		Console: func(page daemon.Console) {
			if !c.noConsole && x.Console {
				console = &page
			}
		},
		Ready: func(endpoint string) {
			start.endpoint = reachable(endpoint)
			start.flags = flagsOf(start, cmp.Or(c.listen, x.Listen))
			if c.people == nil {
				c.status.End() // else the bottom line shows how the servers start
			}
			if c.quiet {
				return
			}
			c.status.Printf("MCP clients connect to %s", reachable(endpoint))
			if x.PublicURL != "" {
				c.status.Printf("Those of other machines connect to %s/mcp", x.PublicURL)
			}
			if console != nil {
				c.showConsole(*console, start.flags)
			}
			if c.demo {
				c.showTrial(reachable(endpoint), !c.quietDemo)
			}
		},
		Started: func(s daemon.Start) {
			c.status.End()
			if !c.quiet {
				c.showStart(start, s)
			}
			if c.people != nil {
				c.people.Release(s.At)
			}
		},
	}
}
