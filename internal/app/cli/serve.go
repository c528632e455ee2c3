package cli

import (
	"cmp"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

func (a *app) serveCommand() *cobra.Command {
	var file, listen string
	var hosts []string
	var stdio, demo, quietDemo, strict, open, logCalls, noConsole bool
	c := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve many servers at one endpoint",
		Long: `Serve all configured servers at one endpoint, to clients of every revision.
Clients see each tool under the name SERVER__TOOL. Adding a server does not
change the names of existing tools.

When the configuration file changes, Dragoman validates the whole file and
applies the changes without interrupting calls. If the file has errors, Dragoman
reports the errors and keeps the old configuration. docs/configuration.md
describes the format of the file. The configuration files of MCP clients also
work unchanged.

Without a configuration file, serve starts without servers. You can add servers
in the console, which writes ~/.config/dragoman/config.yaml.

If the settings of a server refer to an environment variable that is not set,
only this server fails. With --strict, Dragoman refuses the whole file. Dragoman
reads the file again when the file changes, and on SIGHUP. A change of an
environment variable takes effect only after a restart of Dragoman.

The console at /console/ shows clients, servers and calls in a browser. On a
terminal, serve prints a link that opens the console. "dragoman console" makes
another link. The console is off if other machines can reach the address of
serve.

/api/v1/status returns the status of every server and session as JSON, but only
to clients on this machine. On SIGUSR1, Dragoman writes the status to stderr as
text.

With --demo, Dragoman runs two demo servers, and two demo clients that call the
servers, so that the console shows traffic. The demo clients make about 30 calls
a minute, and some of these calls fail on purpose. With --quiet-demo, the demo
clients do not run.`,
		Example: `  # Use ./dragoman.yaml or ~/.config/dragoman/config.yaml.
  dragoman serve

  # Serve the servers in the configuration of Cursor, on another port.
  dragoman serve -c ~/.cursor/mcp.json --listen 127.0.0.1:7400

  # Try Dragoman without a configuration.
  dragoman serve --demo`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkHosts(hosts); err != nil {
				return err
			}
			if listen != "" {
				if err := checkListen(listen, open); err != nil {
					return err
				}
			}
			if quietDemo && !demo {
				return usagef("add --demo", "--quiet-demo works only with --demo")
			}
			path, found := a.configPath(file)
			if demo {
				path, found = file, file != ""
			}
			snapshot := config.Default()
			var used *opened
			var problems config.Problems
			switch {
			case found:
				if used, problems = a.open(path); used == nil || strict && problems.Err() != nil {
					return problems.Err()
				}
				snapshot = used.Snapshot
			case !demo:
				// Without a configuration file, the user adds the servers in the console. So the
				// console must be available.
				if !noConsole && !stdio && config.CheckListen(cmp.Or(listen, snapshot.Listen), false, "") == nil {
					path = a.newConfig()
				}
				if path == "" {
					err := a.noConfig()
					return withHint(err, "%s, or try `dragoman serve --demo`", hintsOf(err)[0])
				}
			}
			if demo {
				var err error
				if snapshot, err = withDemo(snapshot); err != nil {
					return err
				}
				path = "" // no reload, because it would remove the demo servers
			}
			a.startLog(slog.LevelInfo, &snapshot.Log)
			if found {
				if err := a.consentToServe(file, used); err != nil {
					return err
				}
			}
			for _, p := range problems.Warnings() {
				a.log.LogAttrs(c.Context(), slog.LevelWarn, "problem in the configuration", slog.String("at", p.String()))
			}
			for _, p := range problems.OfServers() {
				a.log.Warn("a server is not started", append([]any{"server", p.Server, "at", p.String()}, runtime.UnusableFailure(p).Attrs()...)...)
			}
			address := snapshot.Listen
			if listen != "" {
				address = listen
			}
			a.warnOpen(c.Context(), address)
			a.showProgress()
			start := startOptions{program: a.program, console: !noConsole && snapshot.Console && config.CheckListen(cmp.Or(listen, snapshot.Listen), false, "") == nil}
			switch {
			case listen != "":
				start.flags = " --listen " + listen
			case file != "":
				start.flags = configWords(file)
			}
			var console *daemon.Console
			self, _ := programPath() // if the path is unknown, the console shows only the name of the program
			err := a.backend.Serve(c.Context(), daemon.ServeOptions{
				ConfigPath: path, Config: snapshot, Listen: listen, Hosts: hosts, Strict: strict, Stdio: stdio,
				Log: a.log, LogCalls: logCalls || snapshot.Log.Calls, Progress: a.status.Step, Version: version(), Dump: a.showStatus,
				KeyFolders: admin.KeyFolders(a.env), NoConsole: noConsole, DemoClients: demo && !quietDemo,
				Program: a.program, Path: self, Env: a.env,
				Console: func(c daemon.Console) {
					if !noConsole && snapshot.Console {
						console = &c
					}
				},
				Ready: func(endpoint string) {
					start.endpoint = reachable(endpoint)
					start.flags = flagsOf(start, address)
					a.status.End()
					if a.quiet {
						return
					}
					a.status.Printf("MCP clients connect to %s", reachable(endpoint))
					if snapshot.PublicURL != "" {
						a.status.Printf("Through the proxy they connect to %s/mcp", snapshot.PublicURL)
					}
					if console != nil {
						a.showConsole(*console, start.flags)
					}
					if demo {
						a.showTrial(reachable(endpoint), !quietDemo)
					}
				},
				Started: func(s daemon.Start) {
					if !a.quiet {
						a.showStart(start, s)
					}
				},
			})
			return withoutStop(c.Context(), err)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(c)
	addConfigFlag(c, &file)
	f.StringVar(&listen, "listen", "", "listen for HTTP on `ADDR` (host:port) instead of the configured address")
	addHostFlag(c, &hosts)
	f.BoolVar(&strict, "strict", false, "refuse a configuration in which a server refers to an unset environment variable")
	f.BoolVar(&noConsole, "no-console", false, "do not serve the console (the pages at /console/)")
	f.BoolVar(&stdio, "stdio", false, "also serve a client on stdin and stdout")
	f.BoolVar(&demo, "demo", false, "serve two demo servers, and the servers of FILE if you use -c FILE")
	f.BoolVar(&quietDemo, "quiet-demo", false, "with --demo, do not run the two demo clients")
	addCallsFlag(c, &logCalls)
	addOpenFlag(c, &open)
	return c
}
