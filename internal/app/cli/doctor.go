package cli

import (
	"bufio"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/workbench/doctor"
)

// exitUnreachable is the exit code of doctor if it cannot reach the server or the client.
const exitUnreachable = 3

// doctorFlags are the flags of the command doctor.
type doctorFlags struct {
	t              targetFlags
	file           string
	asJSON, deep   bool
	all            bool
	call, code     string
	patience, wait time.Duration

	client, stdio, open bool
	listen, output      string
}

func (a *app) doctorCommand() *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use:   "doctor [flags] (--client | URL | NAME | -- COMMAND [ARG]...)",
		Short: "Diagnose a server or a client",
		Long: `Connect to a server in every way that clients do, each time with a new
connection, and report the problems of the server. Doctor checks:

- which revisions the server speaks, and how it refuses all other revisions
- how the server handles ids, unknown methods, malformed input and long messages
- whether lists and schemas are valid and match the capabilities
- over HTTP: headers, sessions and status codes

The report begins with a verdict: the name of the server, what it offers, and an
estimate of how many tokens its tools cost. The verdict also says which
revisions work, directly and through Dragoman. The findings come after the
verdict, and findings that affect the most clients come first. Each finding has
a stable code. A finding says what the problem means for users, how to fix the
server, and what Dragoman does until the server is fixed. For errors, the report
shows the messages that prove the problem. With -v, the report shows such
messages for all findings.

Doctor starts the command of a server several times, with at most four processes
at once. Doctor does not call tools that could change data. With --call NAME,
doctor also calls the tool NAME, without arguments. If a server requires
sign-in, doctor does not report this as a problem.

With --client, Dragoman acts as a server for clients of every revision, and
checks what the client sends. Doctor prints a URL or a command. Write this text
into the client's configuration, and use the client for a while. Then quit the
client or press Ctrl-C to get the report. The report begins with a table of what
the client does right and what the client does wrong. With --all, the table also
has the checks that no message of the client triggered, as "not seen".

The exit code is 0 if no finding has the level error, and 1 if a finding has
this level. The exit code is 2 after a usage error, and 3 if the server cannot
be reached. With --client, the exit code depends on the findings about the
client. With --client --stdio, the exit code is always 0, like that of a server
that ends normally.`,
		Example: `  # Diagnose a server that Dragoman starts.
  dragoman doctor -- npx -y @modelcontextprotocol/server-memory

  # Diagnose a server on the network, and a configured server.
  dragoman doctor https://mcp.example.com/mcp
  dragoman doctor github

  # Print the codes of all errors, in CI.
  dragoman doctor --json -- ./server | jq -r '.findings[] | select(.level == "error") | .code'

  # Print everything: infos, passed checks, and all messages.
  dragoman doctor --all -v -- ./server

  # Diagnose a client.
  dragoman doctor --client

  # Explain the code of a finding.
  dragoman doctor --explain DRG-STDOUT-NOISE`,
		RunE: func(c *cobra.Command, args []string) error {
			if f.code != "" {
				return a.explainCode(f.code, args)
			}
			if f.client {
				return a.examineClient(c, &f, args)
			}
			for _, name := range []string{"stdio", "listen", "output"} {
				if c.Flags().Changed(name) {
					return usagef("use `dragoman doctor --client`", "--%s works only with --client", name)
				}
			}
			return a.examine(c, &f, args)
		},
		ValidArgsFunction: a.completeTarget(&f.file),
	}
	fl := flagsInOrder(c)
	fl.BoolVar(&f.asJSON, "json", false, "print the findings and the verdict as one JSON object")
	fl.BoolVar(&f.all, "all", false, "also print infos, passed checks, and why a revision does not work")
	fl.BoolVar(&f.deep, "deep", false, "also run the slow tests: very long messages and lists, many requests at once")
	fl.StringVar(&f.call, "call", "", "call the tool `NAME` without arguments, then call it again and cancel it")
	fl.StringVar(&f.code, "explain", "", "explain the finding `CODE` and exit")
	fl.DurationVar(&f.patience, "timeout", 5*time.Second, "wait at most `TIME` for each response")
	fl.DurationVar(&f.wait, "start", 30*time.Second, "wait at most this `TIME` for the first response")
	fl.BoolVar(&f.client, "client", false, "diagnose a client: act as a server for the client")
	fl.BoolVar(&f.stdio, "stdio", false, "with --client: act as the stdio server that the client starts")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:0", "with --client: listen for the client on `ADDR` (host:port; port 0 picks a free port)")
	fl.StringVarP(&f.output, "output", "o", "", "with --client --stdio: also write the report to `FILE` as JSON, and to FILE.txt as text")
	f.t.addPlain(fl)
	addOpenFlag(c, &f.open)
	addConfigFlag(c, &f.file)
	_ = c.RegisterFlagCompletionFunc("explain", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, c := range doctor.Conditions() {
			out = append(out, cobra.CompletionWithDesc(c.Code, c.Title))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

// explainCode prints the explanation of a finding code. args are the other arguments of the
// command, which must be empty.
func (a *app) explainCode(code string, args []string) error {
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
	w := bufio.NewWriter(a.stdout)
	fmt.Fprintf(w, "%s (%s): %s\n", cond.Code, cond.Level, cond.Title)
	for _, p := range [][2]string{{"meaning", cond.Meaning}, {"affects", cond.HurtsText()}, {"fix", cond.Fix}, {"what Dragoman does", cond.Bridged}} {
		if p[1] != "" {
			fmt.Fprintf(w, "\n%s:\n%s", p[0], wrap(p[1], "  ", a.columns()))
		}
	}
	return w.Flush()
}

// columns returns the width in characters to which text is wrapped.
func (a *app) columns() int {
	if a.screen && a.width > 0 {
		return min(a.width, 100)
	}
	return 80
}

// wrap breaks text into lines of at most width cells. Each line begins with indent and ends
// with a newline.
func wrap(text, indent string, width int) string {
	var b strings.Builder
	for _, line := range screen.Wrap(text, width-len(indent)) {
		b.WriteString(indent + line + "\n")
	}
	return b.String()
}

// examine examines a server and prints the report.
func (a *app) examine(c *cobra.Command, f *doctorFlags, args []string) error {
	a.startLog(slog.LevelError, nil)
	if f.patience <= 0 || f.wait <= 0 {
		return usagef("use a duration such as 5s", "--timeout and --start must be positive")
	}
	server, err := a.doctorTarget(c, f, args)
	if err != nil {
		return err
	}
	target, err := targetOf(server)
	if err != nil {
		return err
	}
	a.showProgress()
	r, err := doctor.Examine(c.Context(), target, doctor.Options{
		Deep: f.deep, Call: f.call, Patience: f.patience, Start: f.wait,
		Progress: func(step string) { a.status.Step(server.Name, step) },
	})
	a.status.End()
	if err != nil {
		return signalOr(c.Context(), err)
	}
	return a.printReport(server, r, f)
}

// doctorTarget returns the server that the command examines.
func (a *app) doctorTarget(c *cobra.Command, f *doctorFlags, args []string) (config.Server, error) {
	dash := c.ArgsLenAtDash()
	switch {
	case dash == 0 && len(args) > 0:
		s, _, err := a.target(&f.t, "", args, f.file)
		return s, err
	case len(args) == 0:
		return config.Server{}, usagef("use `dragoman doctor URL` or `dragoman doctor -- COMMAND`", "no server given")
	case dash > 0:
		return config.Server{}, usagef("remove one of them", "got both %q and a command", args[0])
	case len(args) > 1:
		return config.Server{}, usagef("put -- before a command: `dragoman doctor -- "+clean(strings.Join(args, " "))+"`", "unexpected argument %q after the server", args[1])
	}
	s, file, err := a.target(&f.t, args[0], nil, f.file)
	if err == nil && file != nil {
		err = a.consent(c.Context(), f.file, file)
	}
	if err == nil {
		err = usable(s)
	}
	return s, err
}

// targetOf converts the configuration of a server to a target of package doctor.
func targetOf(s config.Server) (doctor.Target, error) {
	if _, err := url.Parse(s.URL); err != nil {
		return doctor.Target{}, usagef("use a URL such as https://mcp.example.com/mcp", "the URL is not valid")
	}
	return runtime.DoctorTarget(s)
}
