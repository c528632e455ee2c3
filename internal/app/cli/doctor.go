package cli

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/doctor"
)

// exitUnreachable is the exit code of doctor if it cannot reach the server or the client.
const exitUnreachable = 3

// doctorCommand is `dragoman doctor`.
type doctorCommand struct {
	*world

	t              targetFlags
	allow          []string // the setting egress.allow
	file           string
	asJSON, deep   bool
	signIn         bool
	all            bool
	call, code     string
	patience, wait time.Duration

	client, stdio, open bool
	listen, output      string
}

// The help of the command.
const (
	doctorLong = `Connect to a server in every way that clients do, each time over a new
connection, and report its problems. Doctor checks:

- which revisions the server speaks, and how it refuses all others
- how it handles ids, unknown methods, malformed input and long messages
- whether lists and schemas are valid and match the capabilities
- over HTTP: headers, sessions and status codes
- how people sign in: metadata, registration; with --sign-in, also the tokens

The report begins with a verdict: the server's name, what it offers, what its
tools cost in tokens (an estimate), and which revisions work, directly and
through Dragoman. Then come the findings, those that affect the most clients
first. Each has a stable code, and says what the problem means for users, how to
fix it, and what Dragoman does until then. Errors come with the messages that
prove them, with -v all findings do.

Doctor starts a server's command several times, with at most four processes at
once. It calls no tool that could change data; with --call NAME, it also calls
the tool NAME, without arguments. That a server requires sign-in isn't reported
as a problem.

With --client, doctor plays a server for clients of every revision, and checks
what the client sends. It prints a URL or a command. Write it into the client's
configuration, and use the client for a while. To get the report, quit the
client or press Ctrl-C. A table at its top shows what the client does right and
wrong; with --all, also the checks that no message triggered, as "not seen".

The exit code is 0 if no finding has the level error, else 1; 2 after a usage
error, and 3 if the server can't be reached. With --client, the findings about
the client count. With --client --stdio, it's always 0, like that of a server
that ends normally.`

	doctorExample = `  # Diagnose a server that Dragoman starts.
  dragoman doctor -- npx -y @modelcontextprotocol/server-memory

  # Diagnose a server on the network, and a configured server.
  dragoman doctor https://mcp.example.com/mcp
  dragoman doctor github

  # Print the codes of all errors, in CI.
  dragoman doctor --json -- ./server | jq -r '.findings[] | select(.level == "error") | .code'

  # Diagnose a server that wants a sign-in, and sign in.
  dragoman doctor --sign-in https://mcp.example.com/mcp

  # Print everything: infos, passed checks, and all messages.
  dragoman doctor --all -v -- ./server

  # Diagnose a client.
  dragoman doctor --client

  # Explain the code of a finding.
  dragoman doctor --explain DRG-STDOUT-NOISE`
)

func newDoctorCommand(w *world) *cobra.Command {
	c := &doctorCommand{world: w}
	cmd := &cobra.Command{
		Use:               "doctor [flags] (--client | URL | NAME | -- COMMAND [ARG]...)",
		Short:             "Diagnose a server or a client",
		Long:              doctorLong,
		Example:           doctorExample,
		RunE:              c.run,
		ValidArgsFunction: c.env.completeTarget(&c.file),
	}
	c.addFlags(cmd)
	return cmd
}

func (c *doctorCommand) addFlags(cmd *cobra.Command) {
	fl := flagsInOrder(cmd)
	fl.BoolVar(&c.asJSON, "json", false, "print the findings and the verdict as one JSON object")
	fl.BoolVar(&c.all, "all", false, "also print infos, passed checks, and why a revision does not work")
	fl.BoolVar(&c.deep, "deep", false, "also run the slow tests: very long messages and lists, many requests at once")
	fl.BoolVar(&c.signIn, "sign-in", false, "if the server wants it, also sign in with a browser, and test the tokens")
	fl.StringVar(&c.call, "call", "", "call the tool `NAME` without arguments, then call it again and cancel it")
	fl.StringVar(&c.code, "explain", "", "explain the finding `CODE` and exit")
	fl.DurationVar(&c.patience, "timeout", 5*time.Second, "wait at most `TIME` for each response")
	fl.DurationVar(&c.wait, "start", 30*time.Second, "wait at most this `TIME` for the first response")
	fl.BoolVar(&c.client, "client", false, "diagnose a client: act as a server for it")
	fl.BoolVar(&c.stdio, "stdio", false, "with --client: act as the stdio server that the client starts")
	fl.StringVar(&c.listen, "listen", "127.0.0.1:0", "with --client: listen for the client on `ADDR` (host:port; port 0 picks a free port)")
	fl.StringVarP(&c.output, "output", "o", "", "with --client --stdio: also write the report to `FILE` as JSON, and to FILE.txt as text")
	c.t.addPlain(fl)
	addOpenFlag(cmd, &c.open)
	addConfigFlag(cmd, &c.file)
	_ = cmd.RegisterFlagCompletionFunc("explain", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, c := range doctor.Conditions() {
			out = append(out, cobra.CompletionWithDesc(c.Code, c.Title))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	})
}

func (c *doctorCommand) run(cmd *cobra.Command, args []string) error {
	if c.code != "" {
		return c.explainCode(c.code, args)
	}
	if c.client {
		return c.examineClient(cmd, args)
	}
	for _, name := range []string{"stdio", "listen", "output"} {
		if cmd.Flags().Changed(name) {
			return usagef("use `dragoman doctor --client`", "--%s works only with --client", name)
		}
	}
	return c.examine(cmd, args)
}

// explainCode prints the explanation of a finding code. args are the other arguments of the
// command, which must be empty.
func (c *doctorCommand) explainCode(code string, args []string) error {
	if len(args) > 0 {
		return usagef("remove --explain or the server", "--explain does not take a server, but %q was given", args[0])
	}
	cond, ok := doctor.Lookup(code)
	if !ok {
		var codes []string
		for _, c := range doctor.Conditions() {
			codes = append(codes, c.Code)
		}
		return usagef(didYouMean(code, codes, "see docs/findings.md for all codes"), "unknown finding code %q", clean(code))
	}
	w := bufio.NewWriter(c.stdout)
	fmt.Fprintf(w, "%s (%s): %s\n", cond.Code, cond.Level, cond.Title)
	for _, p := range [][2]string{{"meaning", cond.Meaning}, {"affects", cond.HurtsText()}, {"fix", cond.Fix}, {"what Dragoman does", cond.Bridged}} {
		if p[1] != "" {
			fmt.Fprintf(w, "\n%s:\n%s", p[0], wrap(p[1], "  ", c.columns()))
		}
	}
	return w.Flush()
}

// widestText is the most cells of a line of text; longer ones are hard to read.
const widestText = 100

// columns returns the width in characters to which text is wrapped.
func (w *world) columns() int {
	if w.screen && w.width > 0 {
		return min(w.width, widestText)
	}
	return 80
}

// wrap breaks text into lines of at most width cells. Each line begins with indent and ends
// with a newline. See wrapped for what is kept on one line.
func wrap(text, indent string, width int) string {
	var b strings.Builder
	for _, line := range wrapped(text, width-len(indent)) {
		b.WriteString(indent + line + "\n")
	}
	return b.String()
}

// examine examines a server and prints the report.
func (c *doctorCommand) examine(cmd *cobra.Command, args []string) error {
	c.startLog(slog.LevelError, nil)
	if c.patience <= 0 || c.wait <= 0 {
		return usagef("use a duration such as 5s", "--timeout and --start must be positive")
	}
	server, err := c.doctorTarget(cmd, args)
	if err != nil {
		return err
	}
	target, err := c.targetOf(server)
	if err != nil {
		return err
	}
	c.showProgress()
	o := doctor.Options{
		Deep: c.deep, Call: c.call, Patience: c.patience, Start: c.wait,
		Progress: func(step string) { c.status.Step(server.Name, step) },
	}
	if c.signIn {
		o.SignIn = c.openPage
	}
	r, err := doctor.Examine(cmd.Context(), target, o)
	c.status.End()
	if err != nil {
		return signalOr(cmd.Context(), err)
	}
	return c.printReport(server, r)
}

// openPage shows the page at which the user signs in, and opens a browser for it if there is one.
func (c *doctorCommand) openPage(ctx context.Context, page string) error {
	resume := c.status.Pause()
	defer resume()
	t := &terminal{status: c.status}
	t.say("Sign in, so that doctor can test the tokens:", "  "+clean(page))
	if seat := c.env.seat(); seat.HasBrowser() {
		_ = seat.Open(ctx, page) // without it the user opens the page
	}
	return nil
}

// doctorTarget returns the server that the command examines.
func (c *doctorCommand) doctorTarget(cmd *cobra.Command, args []string) (config.Server, error) {
	dash := cmd.ArgsLenAtDash()
	switch {
	case dash == 0 && len(args) > 0:
		s, _, err := c.t.target(c.env, "", args, c.file)
		return s, err
	case len(args) == 0:
		return config.Server{}, usagef("use `dragoman doctor URL` or `dragoman doctor -- COMMAND`", "no server given")
	case dash > 0:
		return config.Server{}, usagef("remove one of them", "got both %q and a command", args[0])
	case len(args) > 1:
		return config.Server{}, usagef("put -- before a command: `dragoman doctor -- "+clean(strings.Join(args, " "))+"`", "unexpected argument %q after the server", args[1])
	}
	s, file, err := c.t.target(c.env, args[0], nil, c.file)
	if err == nil && file != nil {
		c.allow = file.Egress.Allow
		err = c.consent(cmd.Context(), c.file, file)
	}
	if err == nil {
		err = usable(s)
	}
	return s, err
}

// targetOf converts the configuration of a server to a target of package doctor.
func (c *doctorCommand) targetOf(s config.Server) (doctor.Target, error) {
	if _, err := url.Parse(s.URL); err != nil {
		return doctor.Target{}, usagef("use a URL such as https://mcp.example.com/mcp", "the URL is not valid")
	}
	return runtime.DoctorTarget(s, c.allow)
}
