package cli

import (
	"bufio"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/doctor"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
)

// exitUnreachable is the exit code of doctor beside the usual ones (0 healthy, 1
// errors, 2 usage).
const exitUnreachable = 3

// doctorFlags are what an examination is made with.
type doctorFlags struct {
	t              targetFlags
	file           string
	asJSON, deep   bool
	call, code     string
	patience, wait time.Duration

	client, stdio, open bool
	listen, output      string
}

func (a *app) doctorCommand() *cobra.Command {
	var f doctorFlags
	c := &cobra.Command{
		Use:   "doctor [flags] (--client | URL | NAME | -- COMMAND [ARG]...)",
		Short: "Find out what is wrong with a server or a client",
		Long: `Open a server in every way that clients do, each time anew, and say what is
wrong with it: which revisions it speaks and how it refuses the others, what it
makes of ids, unknown methods, odd input and long messages, whether its lists,
schemas and capabilities hold what they promise, and over HTTP whether headers,
sessions and statuses are right.

Each finding has a code that never changes its meaning, the bytes that prove it,
what it means to a user, what to change in the server, and what Dragoman does
about it meanwhile. Nothing is called that could change anything; with --call
one tool is, without arguments.

With --client a server is played, of both eras, and what the client sends is
looked at: give the client the URL or the command that is printed, use it for a
while, and end it or interrupt. The report comes then.

The exit code is 0 for a server without a finding of level error, 1 when there
is one, 2 for a wrong command line and 3 when the server cannot be reached. With
--client the same is said of the client; with --stdio the code is that of a
server that has ended well.`,
		Example: `  # A server that is started.
  dragoman doctor -- npx -y @modelcontextprotocol/server-memory

  # A server on the network, and one of the configuration.
  dragoman doctor https://mcp.example.com/mcp
  dragoman doctor github

  # In a build: the codes of all errors.
  dragoman doctor --json -- ./server | jq -r '.findings[] | select(.level == "error") | .code'

  # A client.
  dragoman doctor --client

  # What a code means.
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
					return usagef("write `dragoman doctor --client`", "--%s belongs to --client", name)
				}
			}
			return a.examine(c, &f, args)
		},
		ValidArgsFunction: a.completeTarget(&f.file),
	}
	fl := inOrder(c)
	fl.BoolVar(&f.asJSON, "json", false, "print the findings and the verdict as one JSON object")
	fl.BoolVar(&f.deep, "deep", false, "make the slower probes too: very long messages and lists, many requests at once")
	fl.StringVar(&f.call, "call", "", "run the tool of this `NAME`, without arguments, and once more to cancel it")
	fl.StringVar(&f.code, "explain", "", "explain the finding of this `CODE` and do nothing else")
	fl.DurationVar(&f.patience, "timeout", 5*time.Second, "wait so long for an answer")
	fl.DurationVar(&f.wait, "start", 30*time.Second, "wait so long for the first answer of all")
	fl.BoolVar(&f.client, "client", false, "look at a client: play a server to it")
	fl.BoolVar(&f.stdio, "stdio", false, "with --client: be the server that the client starts")
	fl.StringVar(&f.listen, "listen", "127.0.0.1:0", "with --client: serve the client at this `ADDR` (host:port; port 0 takes a free one)")
	fl.StringVarP(&f.output, "output", "o", "", "with --client --stdio: write the report to this `FILE` too, as JSON, and as text beside it with .txt at the end of its name")
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

// explainCode prints what a code means.
func (a *app) explainCode(code string, args []string) error {
	if len(args) > 0 {
		return usagef("leave one of them out", "--explain looks at no server, but %q is given", args[0])
	}
	cond, ok := doctor.Lookup(code)
	if !ok {
		return usagef("docs/findings.md lists them all", "there is no finding with the code %q", clean(code))
	}
	w := bufio.NewWriter(a.stdout)
	fmt.Fprintf(w, "%s (%s): %s\n", cond.Code, cond.Level, cond.Title)
	for _, p := range [][2]string{{"what it means", cond.Meaning}, {"what to change", cond.Fix}, {"meanwhile", cond.Bridged}} {
		fmt.Fprintf(w, "\n%s:\n%s", p[0], wrap(p[1], "  ", a.columns()))
	}
	return w.Flush()
}

// columns is how wide text for people may be.
func (a *app) columns() int {
	if a.screen && a.width > 0 {
		return min(a.width, 100)
	}
	return 80
}

// wrap breaks text into lines of at most width characters that begin with indent.
func wrap(text, indent string, width int) string {
	var b strings.Builder
	at := 0
	for word := range strings.FieldsSeq(text) {
		n := len([]rune(word))
		switch {
		case at == 0:
			b.WriteString(indent)
			at = len(indent)
		case at+1+n > width:
			b.WriteString("\n" + indent)
			at = len(indent)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	if at > 0 {
		b.WriteByte('\n')
	}
	return b.String()
}

// examine looks at a server and prints what is found.
func (a *app) examine(c *cobra.Command, f *doctorFlags, args []string) error {
	a.startLog(slog.LevelError, nil)
	if f.patience <= 0 || f.wait <= 0 {
		return usagef("write for example --timeout 5s", "a time of nothing is not possible")
	}
	server, err := a.doctorTarget(c, f, args)
	if err != nil {
		return err
	}
	target, err := examined(server)
	if err != nil {
		return err
	}
	a.begin()
	r, err := doctor.Examine(c.Context(), target, doctor.Options{
		Deep: f.deep, Call: f.call, Patience: f.patience, Start: f.wait,
		Progress: func(step string) { a.status.Step(server.Name, step) },
	})
	a.status.End()
	if err != nil {
		return interrupted(c.Context(), err)
	}
	return a.printReport(r, f.asJSON)
}

func (a *app) printReport(r *doctor.Report, asJSON bool) error {
	w := bufio.NewWriter(a.stdout)
	if asJSON {
		_, _ = w.Write(append(r.JSON(), '\n'))
	} else {
		for _, f := range r.Findings {
			a.printFinding(w, f)
		}
		fmt.Fprintln(w, countOf(r.Findings))
		fmt.Fprintln(w, r.Verdict.String())
		if r.Verdict.Reached && !r.Verdict.Through && r.Verdict.Why != "" {
			_, _ = w.WriteString(wrap("Dragoman fails too: "+clean(r.Verdict.Why), "", a.columns()))
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case !r.Verdict.Reached:
		return exitError(exitUnreachable)
	case !r.Verdict.Healthy:
		return errReported
	}
	return nil
}

func (a *app) printFinding(w *bufio.Writer, f doctor.Finding) {
	level := string(f.Level)
	if a.screen && a.status.colour {
		if colour, ok := map[doctor.Level]string{doctor.Error: red, doctor.Warning: yellow}[f.Level]; ok {
			level = colour + level + plain
		}
	}
	fmt.Fprintf(w, "%s %s: %s\n", level, f.Code, f.Title)
	for l := range strings.Lines(f.Evidence) {
		l = "    " + clean(strings.TrimRight(l, "\n"))
		if a.screen {
			l = fit(l, a.width)
		}
		fmt.Fprintln(w, l)
	}
	_, _ = w.WriteString(wrap(f.Meaning, "  ", a.columns()))
	_, _ = w.WriteString(wrap("fix: "+f.Fix, "  ", a.columns()))
	_, _ = w.WriteString(wrap("meanwhile: "+f.Bridged, "  ", a.columns()))
	fmt.Fprintln(w)
}

// countOf says how many findings of each level there are.
func countOf(all []doctor.Finding) string {
	n := map[doctor.Level]int{}
	for _, f := range all {
		n[f.Level]++
	}
	if len(all) == 0 {
		return "nothing was found"
	}
	var out []string
	for _, l := range []struct {
		level doctor.Level
		one   string
		many  string
	}{{doctor.Error, "error", "errors"}, {doctor.Warning, "warning", "warnings"}, {doctor.Info, "info", "infos"}} {
		switch n[l.level] {
		case 0:
		case 1:
			out = append(out, "1 "+l.one)
		default:
			out = append(out, fmt.Sprintf("%d %s", n[l.level], l.many))
		}
	}
	return strings.Join(out, ", ")
}

// doctorTarget returns the server that is to be looked at.
func (a *app) doctorTarget(c *cobra.Command, f *doctorFlags, args []string) (config.Server, error) {
	dash := c.ArgsLenAtDash()
	switch {
	case dash == 0 && len(args) > 0:
		return a.target(&f.t, "", args, f.file)
	case len(args) == 0:
		return config.Server{}, usagef("write `dragoman doctor URL` or `dragoman doctor -- COMMAND`", "no server is given")
	case dash > 0:
		return config.Server{}, usagef("keep what stands before -- or what stands after it", "both %q and a command are given", args[0])
	case len(args) > 1:
		return config.Server{}, usagef("put -- before a command: `dragoman doctor -- "+clean(strings.Join(args, " "))+"`", "%q stands after the server", args[1])
	}
	return a.target(&f.t, args[0], nil, f.file)
}

// examined makes of a server what the doctor looks at.
func examined(s config.Server) (doctor.Target, error) {
	t := doctor.Target{Secrets: s.Secrets(), Dialect: s.Profile}
	env := map[string]string{}
	for k, v := range s.Env {
		env[k] = v.Reveal()
	}
	if s.URL == "" {
		t.Start = doctor.Command(stdio.Spec{Command: s.Command, Args: s.Args, Env: stdio.Environ(env), Dir: s.Dir})
		return t, nil
	}
	var err error
	if t.URL, err = url.Parse(s.URL); err != nil {
		return t, usagef("write for example https://mcp.example.com/mcp", "the URL cannot be read")
	}
	t.Header = http.Header{}
	for _, h := range s.Header {
		t.Header.Add(h.Name, h.Value.Reveal())
	}
	return t, nil
}
