package cli

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/daemon"
)

func (a *app) serveCommand() *cobra.Command {
	var file, listen string
	var stdio, demo, open bool
	c := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Offer many servers at one address",
		Long: `Offer all servers of a configuration at one address, to clients of every
revision. Their tools are named SERVER__TOOL, and these names do not change when
servers are added.

A configuration that changes is checked whole and then taken over while calls go
on; a faulty one is reported and changes nothing. docs/configuration.md
describes it. Existing files with mcpServers work as they are.

How everything is, each session of each server included, can be read at
/api/v1/status by this machine alone, as JSON; on SIGUSR1 it is written to
standard error for people.`,
		Example: `  # Serve what ./dragoman.yaml or ~/.config/dragoman/config.yaml says.
  dragoman serve

  # Serve the servers that another client has configured, on another port.
  dragoman serve -c ~/.cursor/mcp.json --listen 127.0.0.1:7400

  # Look around without configuring anything.
  dragoman serve --demo`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if listen != "" {
				if err := checkListen(listen, open); err != nil {
					return err
				}
			}
			path, found := a.configPath(file)
			if demo {
				path, found = file, file != ""
			}
			snapshot := config.Default()
			var problems config.Problems
			switch {
			case found:
				if snapshot, problems = config.Load(path); snapshot == nil {
					return problems.Err()
				}
			case !demo:
				err := a.noConfig()
				return withHint(err, "%s; or look around with `dragoman serve --demo`", hintsOf(err)[0])
			}
			if demo {
				var err error
				if snapshot, err = withDemo(snapshot); err != nil {
					return err
				}
				path = "" // a changed file would take the demonstration away again
			}
			a.startLog(slog.LevelInfo, &snapshot.Log)
			for _, p := range problems.Warnings() {
				a.log.LogAttrs(c.Context(), slog.LevelWarn, "the configuration can be improved", slog.String("at", p.String()))
			}
			address := snapshot.Listen
			if listen != "" {
				address = listen
			}
			a.warnOpen(c.Context(), address)
			a.begin()
			err := a.backend.Serve(c.Context(), daemon.ServeOptions{
				ConfigPath: path, Config: snapshot, Listen: listen, Stdio: stdio,
				Log: a.log, Progress: a.status.Step, Trace: a.tracer(), Version: version(), Dump: a.status,
				Ready: func(endpoint string) {
					a.status.End()
					if a.quiet {
						return
					}
					a.status.Printf("MCP clients connect to %s", reachable(endpoint))
					if demo {
						a.showTrial(reachable(endpoint))
					}
				},
			})
			return ended(c.Context(), err)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := inOrder(c)
	addConfigFlag(c, &file)
	f.StringVar(&listen, "listen", "", "serve HTTP at this `ADDR` (host:port) in place of the configured one")
	f.BoolVar(&stdio, "stdio", false, "serve a client on standard input and output as well")
	f.BoolVar(&demo, "demo", false, "serve two servers to try things out with, and what -c FILE says")
	addOpenFlag(c, &open)
	return c
}
