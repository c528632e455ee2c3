package cli

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

const openFlag = "allow-unauthenticated-network-access"

func addOpenFlag(c *cobra.Command, open *bool) {
	c.Flags().BoolVar(open, openFlag, false, "allow a --listen address that other machines can reach without authentication")
}

// addHostFlag adds the flag --allow-host. When Dragoman refuses a request because of its Host
// header, the error message mentions this flag.
func addHostFlag(c *cobra.Command, hosts *[]string) {
	c.Flags().StringArrayVar(hosts, "allow-host", nil, "also accept `NAME` in the Host header, for example behind a proxy (repeatable)")
}

func checkHosts(hosts []string) error {
	for _, h := range hosts {
		if p := config.CheckHost(h); p != nil {
			return usagef(p.Hint, "--allow-host: %s", p.Text)
		}
	}
	return nil
}

func addCallsFlag(c *cobra.Command, calls *bool) {
	c.Flags().BoolVar(calls, "log-calls", false, "log one line for each call, with server, tool, time, outcome, client and revisions")
}

func checkListen(address string, open bool) error {
	if p := config.CheckListen(address, open, "--"+openFlag); p != nil {
		return usagef(p.Hint, "%s", p.Text)
	}
	return nil
}

// warnOpen logs a warning if other machines can reach the address. That they may has been checked
// before.
func (w *world) warnOpen(ctx context.Context, address string) {
	if config.CheckListen(address, false, "") != nil {
		w.log.LogAttrs(ctx, slog.LevelWarn, "other machines can use every tool without credentials", slog.String("listen", address))
	}
}

// reachable returns a URL that a client on this machine can use for an endpoint. In this URL,
// localhost replaces an unspecified address such as 0.0.0.0.
func reachable(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return endpoint
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && a.Unmap().IsUnspecified() {
		u.Host = net.JoinHostPort("localhost", u.Port())
	}
	return u.String()
}

// runCommand is `dragoman run`.
type runCommand struct {
	*world

	t        targetFlags
	listen   string
	hosts    []string
	open     bool
	logCalls bool
}

func newRunCommand(w *world) *cobra.Command {
	c := &runCommand{world: w}
	cmd := &cobra.Command{
		Use:   "run [flags] (URL | [--] COMMAND [ARG]...)",
		Short: "Run one server for any client, without changing tool names",
		Long: `Run one server for a client that can't use it directly. In the client's
configuration, put "dragoman run" in front of the server's own command. The
client sees the server's name, tool names and instructions unchanged.

The client connects over stdio, or with --listen over HTTP. COMMAND inherits all
environment variables, so "env" in the client's configuration works as without
Dragoman.

The flags of Dragoman end at the first word that is neither a flag nor a URL.
This word and everything after it belong to the command. Write -- before a
command that begins with a dash.

In --env, --header and the URL, ${NAME} becomes the value of the environment
variable NAME. Use this for credentials, because every user of the machine can
read the command line. In a shell, put it in single quotes, or the shell
replaces it itself.`,
		Example: `  # In a client's configuration, write this in front of the server's command.
  dragoman run npx -y @modelcontextprotocol/server-filesystem@2025.8.21 /srv

  # Run a server on the network for a client that supports only stdio.
  dragoman run --header 'Authorization: Bearer ${TOKEN}' https://mcp.example.com/mcp

  # Run a local program for clients that support only HTTP.
  dragoman run --listen 127.0.0.1:7301 --env DEBUG=1 ./server --its-own-flag`,
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(cmd)
	f.StringVar(&c.listen, "listen", "", "listen for HTTP on `ADDR` (host:port) instead of using stdio")
	addHostFlag(cmd, &c.hosts)
	c.t.add(f)
	addCallsFlag(cmd, &c.logCalls)
	addOpenFlag(cmd, &c.open)
	c.t.oneServer(c.env, cmd, "dragoman run")
	return cmd
}

func (c *runCommand) run(cmd *cobra.Command, _ []string) error {
	c.startLog(slog.LevelInfo, nil)
	if c.listen != "" {
		if err := checkListen(c.listen, c.open); err != nil {
			return err
		}
	} else if len(c.hosts) > 0 {
		return usagef("add --listen ADDR, or remove --allow-host", "--allow-host works only with --listen")
	}
	if err := checkHosts(c.hosts); err != nil {
		return err
	}
	server, err := c.t.server(c.env, c.t.command, c.t.address)
	if err != nil {
		return err
	}
	// Show progress only over HTTP. Over stdio, the client starts Dragoman, so no user sees
	// the progress.
	if c.listen != "" {
		c.warnOpen(cmd.Context(), c.listen)
		c.showProgress()
	}
	var desk *daemon.Desk
	if server.URL != "" && (c.listen == "" || !isAway(c.listen)) {
		house := c.houseConfig("")
		server = likeConfigured(server, house)
		desk = c.openDesk(house, true)
		defer desk.Close()
	}
	err = c.backend.Run(cmd.Context(), daemon.RunOptions{
		Server: server, Desk: desk, Listen: c.listen, Hosts: c.hosts, Terminal: c.keyboard, Log: c.log, LogCalls: c.logCalls, Progress: c.status.Step,
		Version: version(), KeyFolders: admin.KeyFolders(c.env), Env: c.env,
		Ready: func(endpoint string) {
			c.status.End()
			switch {
			case c.quiet:
			case endpoint == "" && c.interactive:
				c.status.Printf("waiting for an MCP client on stdin; to try the server by hand, use `%s`", where{target: c.t.address, command: c.t.command}.line("list"))
			case endpoint != "":
				c.status.Printf("%s is at %s", server.Name, reachable(endpoint))
			}
		},
	})
	return withoutStop(cmd.Context(), err)
}
