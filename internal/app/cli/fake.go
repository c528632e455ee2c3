package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// fakeCommand is `dragoman fake`.
type fakeCommand struct {
	*world

	list, asJSON, open bool
	listen, client     string
	set                []string
	capture            bool
	report             string // the file to which the fake server appends the violations when it ends
}

func newFakeCommand(w *world) *cobra.Command {
	c := &fakeCommand{world: w}
	cmd := &cobra.Command{
		Use:   "fake [flags] (PROFILE | --client PROFILE (URL | -- COMMAND [ARG]...))",
		Short: "Run a fake MCP server or client for tests",
		Long: `Run a fake MCP server or client for tests. PROFILE is a strict server of one
revision, one that deviates from MCP as some real servers do, or one with a
fault; it behaves the same way every time. A strict server implements its whole
revision and refuses everything else. --list shows all profiles.

A strict server has a tool "violations", which lists how the client has broken
the rules of the revision.

With --client, a strict client tries every feature of a server and prints how
each step went. It calls only tools that are marked as read-only and need no
arguments. Other client profiles deviate from MCP as some real clients do, or
run a short script.

The client gives each step ten seconds and all steps together a minute. Change
that with --set step=MS and --set whole=MS.

The servers that want a sign-in have a command of their own, oauth.`,
		Example: `  # Run a strict server of one revision on stdio.
  dragoman fake strict-2025-06-18

  # Run the server over HTTP, on a free port. The port is printed on stderr.
  dragoman fake --listen 127.0.0.1:0 strict-2025-06-18

  # Print every message on stderr.
  dragoman fake --capture strict-2026-07-28

  # Test how a client handles a server that crashes during initialize.
  dragoman run -- dragoman fake crash-at=initialize

  # Test a server with a strict client of one revision.
  dragoman fake --client strict-2025-06-18 -- ./server

  # Test how a server handles clients that deviate from the specification.
  dragoman fake --client probe-then-initialize -- ./server
  dragoman fake --client bare-http-client --set tool=search http://127.0.0.1:8000/mcp

  # List the profiles, for a script.
  dragoman fake --list --json | jq -r '.[].name'`,
		Args:              c.check,
		RunE:              c.run,
		ValidArgsFunction: c.complete,
	}
	fl := flagsInOrder(cmd)
	fl.BoolVar(&c.list, "list", false, "list all profiles")
	fl.BoolVar(&c.asJSON, "json", false, "with --list or --client: print JSON")
	fl.StringVar(&c.client, "client", "", "run the client `PROFILE` against a server and print the result of each step")
	fl.StringVar(&c.listen, "listen", "", "listen for HTTP on `ADDR` (host:port; port 0 picks a free port) instead of using stdio")
	fl.BoolVar(&c.capture, "capture", false, "print each message to stderr as a line of JSON")
	fl.StringArrayVar(&c.set, "set", nil, "change a setting of the profile, as `NAME=VALUE` (repeatable)")
	fl.StringVar(&c.report, "report", "", "append the violations to `FILE` on exit")
	_ = fl.MarkHidden("report") // only the matrix uses this flag, to collect the violations of several server processes in one file
	addOpenFlag(cmd, &c.open)
	cmd.AddCommand(newFakeOAuthCommand(w))
	return cmd
}

func (c *fakeCommand) check(cmd *cobra.Command, args []string) error {
	switch {
	case c.client != "" && c.list:
		return usagef("remove one of them", "--client and --list cannot be used together")
	case c.client != "" && c.listen != "":
		return usagef("remove --listen", "--listen cannot be used with --client")
	case c.client != "":
		return fakeClientArgs(cmd, c.client, args)
	case c.list && len(args) > 0:
		return usagef("remove --list or the profile", "--list does not take a profile, but %q was given", args[0])
	case c.list:
		return nil
	case c.asJSON:
		return usagef("use `dragoman fake --list --json`", "--json works only with --list or --client")
	case len(args) == 0:
		return usagef("run `dragoman fake --list` to list the profiles", "no profile given")
	case len(args) > 1:
		return usagef("remove it", "unexpected argument %q after the profile %q", args[1], args[0])
	}
	if _, ok := fake.Lookup(fake.ServerSide, args[0]); !ok {
		return usagef(nearProfile(fake.ServerSide, args[0]), "unknown server profile %q", args[0])
	}
	return nil
}

func (c *fakeCommand) run(cmd *cobra.Command, args []string) error {
	if c.list {
		return c.listFakes()
	}
	if c.listen != "" {
		if err := checkListen(c.listen, c.open); err != nil {
			return err
		}
	}
	o, err := c.options()
	switch {
	case err != nil:
		return err
	case c.client != "" && cmd.ArgsLenAtDash() < 0:
		return c.fakeClient(cmd.Context(), fake.Where{URL: args[0]}, o)
	case c.client != "":
		return c.fakeClient(cmd.Context(), fake.Where{Command: args}, o)
	}
	c.codexVariables(args[0], &o)
	s, err := fake.NewServer(args[0], o)
	if err != nil {
		return usagef("run `dragoman fake --list --json` to list the settings of each profile", "%s", err)
	}
	defer func() { _ = s.Close() }()
	if c.listen != "" {
		return interrupted(cmd.Context(), c.fakeOnHTTP(cmd.Context(), s, c.listen, args[0]))
	}
	err = c.fakeOnStdio(cmd.Context(), s)
	return interrupted(cmd.Context(), errors.Join(err, c.reportOn(s)))
}

func (c *fakeCommand) complete(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, p := range fake.Profiles() {
		names = append(names, cobra.CompletionWithDesc(p.Name, p.About))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// reportOn appends the client's violations to the file of --report, one on each line.
func (c *fakeCommand) reportOn(s *fake.Server) error {
	all := s.Violations()
	if c.report == "" || len(all) == 0 {
		return nil
	}
	to, err := os.OpenFile(c.report, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write the violations: %w", err)
	}
	_, err = to.WriteString(strings.Join(all, "\n") + "\n")
	return errors.Join(err, to.Close())
}

// options converts the flags to the options of package fake.
func (c *fakeCommand) options() (fake.Options, error) {
	o, err := fakeOptions(c.set)
	if c.capture {
		o.Capture = statusLines{c.status}
	}
	return o, err
}

// fakeOptions returns options with the settings of --set.
func fakeOptions(set []string) (fake.Options, error) {
	o := fake.Options{Set: map[string]string{}, Version: version()}
	for _, s := range set {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return o, usagef("use --set NAME=VALUE", "--set %q is not of the form NAME=VALUE", s)
		}
		o.Set[name] = value
	}
	return o, nil
}

// codexVariables applies the environment variables that test scripts for Codex proxies set. Flags
// take precedence over these variables.
func (c *fakeCommand) codexVariables(profile string, o *fake.Options) {
	if !strings.HasPrefix(profile, "codex-") {
		return
	}
	on := func(name string) bool {
		v, _ := c.env(name)
		v = strings.ToLower(v)
		return v == "1" || v == "true" || v == "yes"
	}
	if on("FAKE_CODEX_CAPTURE_RPCS") {
		o.Capture = statusLines{c.status}
	}
	if on("FAKE_CODEX_REJECT_PROTOCOL_V2") && o.Set["v2"] == "" {
		o.Set["v2"] = "-32602"
	}
}

// statusLines writes whole lines to stderr. Lines from several goroutines do not mix.
type statusLines struct{ to *status }

func (s statusLines) Write(b []byte) (int, error) {
	s.to.line(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

// fakeOnStdio serves one client on stdin and stdout.
func (c *fakeCommand) fakeOnStdio(ctx context.Context, s *fake.Server) error {
	in, out, err := c.streams()
	if err != nil {
		return err
	}
	err = s.ServePipe(ctx, in, out)
	if errors.Is(err, fake.ErrDied) {
		return errReported // the profile simulates a crash, and a server that crashes prints no error
	}
	return err
}

// fakeServer is a server that fakeOnHTTP serves.
type fakeServer interface {
	Handler() http.Handler
	Path() string
	Dead() <-chan struct{}
	Close() error
}

// fakeOnHTTP serves clients over HTTP until ctx ends or the profile simulates a crash.
func (w *world) fakeOnHTTP(ctx context.Context, s fakeServer, listen, name string) error {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return withHint(fmt.Errorf("listen: %w", err), "choose another address with --listen, such as 127.0.0.1:0")
	}
	h := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	if !w.quiet {
		w.status.Printf("%s is at %s", name, reachable("http://"+l.Addr().String()+s.Path()))
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	stop := make(chan struct{})
	defer close(stop)
	wg.Go(func() {
		select {
		case <-ctx.Done():
			_ = s.Close() // end the subscriptions
		case <-s.Dead():
		case <-stop:
		}
		_ = h.Close()
	})
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	if ctx.Err() == nil {
		return errReported // the profile simulated a crash
	}
	return context.Cause(ctx)
}

// nearProfile returns the hint for an unknown profile name.
func nearProfile(side fake.Side, name string) string {
	var names []string
	for _, p := range fake.Profiles() {
		if p.Side == side {
			names = append(names, p.Name)
		}
	}
	return didYouMean(name, names, "run `dragoman fake --list` to list the profiles")
}

// listFakes prints all profiles.
func (c *fakeCommand) listFakes() error {
	all := fake.Profiles()
	if c.asJSON {
		var items [][]byte
		for _, p := range all {
			items = append(items, fakeItem([][2]string{{"name", p.Name}, {"kind", string(p.Kind)}, {"side", string(p.Side)}, {"about", p.About}}, p.Settings))
		}
		return c.printItems(items)
	}
	for i, g := range fakeGroups {
		var rows [][2]string
		for _, p := range all {
			if p.Side == g.side && p.Kind == g.kind {
				rows = append(rows, [2]string{"  " + p.Name, p.About})
			}
		}
		title := g.title + "\n"
		if i > 0 {
			title = "\n" + title
		}
		if _, err := io.WriteString(c.stdout, title); err != nil {
			return err
		}
		if err := c.printTable(rows); err != nil {
			return err
		}
	}
	return nil
}

// fakeGroups are the groups of profiles that --list prints, in this order.
var fakeGroups = []struct {
	title string
	side  fake.Side
	kind  fake.Kind
}{
	{"Servers that do exactly what a revision says:", fake.ServerSide, fake.Strict},
	{"Servers that speak a dialect of MCP:", fake.ServerSide, fake.Dialect},
	{"Servers with a fault:", fake.ServerSide, fake.Fault},
	{"Clients that do exactly what a revision says (run one with --client PROFILE):", fake.ClientSide, fake.Strict},
	{"Clients that deviate as real ones do:", fake.ClientSide, fake.Dialect},
	{"Clients with a fault:", fake.ClientSide, fake.Fault},
}

// fakeItem returns a profile as a JSON object.
func fakeItem(members [][2]string, settings []fake.Setting) []byte {
	out := []byte("{")
	for i, f := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonrpc.AppendQuote(out, f[0])
		out = jsonrpc.AppendQuote(append(out, ':'), f[1])
	}
	out = append(out, `,"settings":[`...)
	for i, s := range settings {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonrpc.AppendQuote(append(out, `{"name":`...), s.Name)
		out = jsonrpc.AppendQuote(append(out, `,"default":`...), s.Default)
		out = append(jsonrpc.AppendQuote(append(out, `,"about":`...), s.About), '}')
	}
	return append(out, "]}"...)
}
