package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

func newConfigCommand(w *world) *cobra.Command {
	return group(&cobra.Command{
		Use:   "config",
		Short: "Check or print the configuration",
		Long: `Check a configuration without starting servers, or print it with all defaults
filled in. docs/configuration.md describes every key.`,
		Example: `  dragoman config check
  dragoman config print -c ~/.cursor/mcp.json`,
	}, newConfigCheckCommand(w), newConfigPrintCommand(w))
}

// addServer is the hint for a configuration without servers. It explains how to add a server.
const addServer = "write one under mcpServers as `NAME: {command: …}` or `NAME: {url: …}`, or run `dragoman import` to take over the servers of your clients"

// configCheckCommand is `dragoman config check`.
type configCheckCommand struct {
	*world

	file   string
	asJSON bool
}

func newConfigCheckCommand(w *world) *cobra.Command {
	c := &configCheckCommand{world: w}
	cmd := &cobra.Command{
		Use:   "check [-c FILE]",
		Short: "Report every problem in a configuration",
		Long: `Report every problem in a configuration at once, each on a line of the form
FILE:LINE:COLUMN: KEY: problem; fix. No server is started.

Below each problem you see the line of the file, with a ^ under the column.
Comments, the values of "env" and "headers", and other text that may be secret
are hidden. If a "dragoman serve" uses the file, it also says which rules name
nobody or match nothing.

If the file can be used, even with warnings, the last line is "ok" and the exit
code 0.`,
		Example: `  dragoman config check
  dragoman config check -c /etc/dragoman.yaml && systemctl reload dragoman`,
		Args:              noArguments,
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).BoolVar(&c.asJSON, "json", false, "print JSON")
	addConfigFlag(cmd, &c.file)
	return cmd
}

func (c *configCheckCommand) run(cmd *cobra.Command, _ []string) error {
	path, ok := c.env.configPath(c.file)
	if !ok {
		return c.env.noConfig()
	}
	snapshot, problems := config.Load(path)
	for i := range problems { // only serve can tell whether there is such a secret
		problems[i].Warning = problems[i].Warning || problems[i].Secret != ""
	}
	if snapshot != nil {
		problems = append(problems, missingCAs(path, snapshot)...)
		problems = append(problems, certificateProblems(path, snapshot.TLS)...)
		problems = append(problems, sealKeyProblems(path, snapshot.SealKeys)...)
		problems = append(problems, c.ruleProblems(cmd.Context(), path, snapshot)...)
	}
	err := problems.Err()
	if snapshot != nil && !snapshot.HasServers() && !slices.ContainsFunc(problems, func(p config.Problem) bool { return strings.HasPrefix(p.Text, "has no servers") }) {
		problems = append(problems, config.Problem{File: path, Warning: true, Text: "has no servers", Hint: addServer})
	}
	if c.asJSON {
		if e := c.printProblems(path, err == nil, problems); e != nil {
			return e
		}
	} else {
		for _, p := range problems {
			text := p.String()
			if c.screen { // the further lines are indented, so that each problem is seen to begin
				text = strings.Join(wrapped(clean(text), c.columns()-2), "\n  ")
			}
			if _, e := io.WriteString(c.stdout, text+"\n"+sourceOf(p, c.columns())); e != nil {
				return e
			}
		}
	}
	switch {
	case err != nil:
		return errReported
	case c.asJSON:
		return nil
	}
	for _, note := range signInNotes(snapshot) {
		if _, err := fmt.Fprintln(c.stdout, strings.Join(wrapped("note: "+note, c.columns()-2), "\n  ")); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(c.stdout, "ok")
	return err
}

// signInNotes says what else has to be so that clients can sign in: what the proxy of a public URL with a path has
// to forward to us, and which clients can't.
func signInNotes(s *config.Snapshot) (notes []string) {
	if !slices.ContainsFunc(s.Access.Issuers, func(x config.Issuer) bool { return x.Header == "" }) {
		return nil
	}
	if path := s.PublicPath(); path != "" {
		origin := strings.TrimSuffix(s.PublicURL, path) + "/.well-known/"
		notes = append(notes, "so that all clients find out where to sign in, let the proxy also forward "+origin+"oauth-protected-resource"+path+" with all that is below it, and "+origin+"oauth-authorization-server"+path+".")
	}
	var without []string
	for _, r := range mcp.Revisions() {
		if !r.Can(mcp.ResourceMetadata) {
			without = append(without, r.String())
		}
	}
	return append(notes, "clients that speak only "+strings.Join(without, " or ")+" can't sign in with an issuer in dragoman.access.issuers; give them an API key.")
}

// ruleProblems returns what a running serve, which knows the names of keys, people and tools, finds wrong with the rules
// of the file. It returns nothing if none runs, or if it uses other rules.
func (c *configCheckCommand) ruleProblems(ctx context.Context, path string, s *config.Snapshot) (out config.Problems) {
	lists := map[string]policy.Rules{"": s.Policy}
	for _, p := range s.Projects {
		if p.Config != nil {
			lists[p.Name] = p.Config.Policy
		}
	}
	maps.DeleteFunc(lists, func(_ string, list policy.Rules) bool { return len(list) == 0 })
	if len(lists) == 0 {
		return nil
	}
	l := locator{c.env}
	base, _, why := l.servingSame(ctx, path)
	if why != "" {
		return nil
	}
	run, err := l.runningAt(base)
	if err != nil {
		return nil
	}
	defer run.close()
	for _, project := range slices.Sorted(maps.Keys(lists)) {
		var all admin.Rules
		run.project = project
		if run.decode(ctx, "/api/v1/rules", nil, &all) != nil {
			continue
		}
		for _, r := range all.Rules {
			if r.Project != all.Project || r.Line == 0 || r.Number > len(lists[project]) {
				continue
			}
			for _, w := range r.Warnings {
				text, hint, _ := strings.Cut(strings.TrimSuffix(w, "."), ". ")
				out = append(out, config.Problem{File: path, Line: r.Line, Col: 1, Path: r.Path, Text: lowerFirst(text), Hint: lowerFirst(hint), Warning: true, Project: project})
			}
		}
	}
	return out
}

// missingCAs returns a problem for each certificate file that a server of any project needs and that cannot be
// used. serve reads these files for each new connection, so a file that it loads may lack them.
func missingCAs(path string, s *config.Snapshot) (out config.Problems) {
	where := sync.OnceValue(s.Where)
	look := func(project string, servers []config.Server) {
		for _, x := range servers {
			if x.CAFile == "" || x.Disabled || x.Command != "" || x.Shared {
				continue
			}
			if _, err := httplink.LoadCAs(x.CAFile); err != nil {
				_, own := config.PathsOf(project, x.Name)
				out = append(out, config.Problem{File: path, Line: config.LineOf(where(), project, x.Name, "caFile"), Col: 1, Path: own + ".caFile", Text: err.Error(), Server: x.Name})
			}
		}
	}
	look("", s.Servers)
	for _, p := range s.Projects {
		if p.Config != nil {
			look(p.Name, p.Config.Servers)
		}
	}
	return out
}

// sealKeyProblems returns what is wrong with the file of sealing keys.
func sealKeyProblems(file, keys string) config.Problems {
	if keys == "" {
		return nil
	}
	_, err := vault.ReadSealing(keys)
	var bad *vault.Error
	if errors.As(err, &bad) {
		return config.Problems{{File: file, Path: "dragoman.sealKeys", Text: bad.Text, Hint: bad.Next}}
	}
	return nil
}

// certificateProblems returns what is wrong with the files of a certificate.
func certificateProblems(file string, t config.TLS) config.Problems {
	if t == (config.TLS{}) {
		return nil
	}
	c, err := httpdoor.LoadCertificate(t.Cert, t.Key)
	var bad *httpdoor.CertificateError
	if errors.As(err, &bad) {
		at := "dragoman.tls.cert"
		if bad.Key {
			at = "dragoman.tls.key"
		}
		return config.Problems{{File: file, Path: at, Text: bad.Text, Hint: bad.Next}}
	}
	if text, next := c.Exposed(); text != "" {
		return config.Problems{{File: file, Path: "dragoman.tls.key", Text: text, Hint: next, Warning: true}}
	}
	return nil
}

// sourceOf returns the line of the file that has the problem, and below it a line with a ^ under
// the column of the problem. If the line is wider than width cells, sourceOf returns only the part
// of the line around the column. It returns "" if the problem concerns no single line.
func sourceOf(p config.Problem, width int) string {
	if p.Source == "" {
		return ""
	}
	margin := "  " + strconv.Itoa(p.Line) + " | "
	runes := []rune(p.Source)
	at := min(max(p.Caret, 0), len(runes))
	const least = 20 // if the terminal is narrower, let the terminal wrap the line
	before, after := around(runes, at, max(width-len(margin)-1, least))
	return margin + before + after + "\n" +
		strings.Repeat(" ", len(margin)-2) + "| " + strings.Repeat(" ", screen.Width(before)) + "^\n"
}

// around splits a text at the index at. before is the part before this index, and after is the part
// from this index on. If both parts together are wider than width cells, around cuts the start of
// before and the end of after. before keeps up to two thirds of the width, or more if after needs
// less than one third.
func around(runes []rune, at, width int) (before, after string) {
	before, after = string(runes[:at]), string(runes[at:])
	if screen.Width(before)+screen.Width(after) <= width {
		return before, after
	}
	room := max(2*width/3, width-screen.Width(after))
	if screen.Width(before) > room {
		from := 0
		for from < at && screen.Width(string(runes[from:at]))+1 > room {
			from++
		}
		before = "…" + string(runes[from:at])
	}
	return before, screen.Fit(after, width-screen.Width(before))
}

// printProblems prints the result of a check as JSON.
func (c *configCheckCommand) printProblems(path string, ok bool, problems config.Problems) error {
	type problem struct {
		Line    int    `json:"line,omitempty"`
		Column  int    `json:"column,omitempty"`
		Path    string `json:"path,omitempty"`
		Text    string `json:"text"`
		Hint    string `json:"hint,omitempty"`
		Source  string `json:"source,omitempty"`
		Warning bool   `json:"warning"`
		Project string `json:"project,omitempty"` // the project of dragoman.projects with the problem; "" if it is elsewhere
		Server  string `json:"server,omitempty"`  // the server with the problem; "" if the problem does not concern exactly one server
	}
	out := struct {
		File     string    `json:"file"`
		OK       bool      `json:"ok"`
		Problems []problem `json:"problems"`
	}{File: path, OK: ok, Problems: []problem{}}
	for _, p := range problems {
		out.Problems = append(out.Problems, problem{p.Line, p.Col, p.Path, p.Text, p.Hint, p.Source, p.Warning, p.Project, p.Server})
	}
	return c.printJSON(out, "")
}

// configPrintCommand is `dragoman config print`.
type configPrintCommand struct {
	*world

	file string
}

func newConfigPrintCommand(w *world) *cobra.Command {
	c := &configPrintCommand{world: w}
	cmd := &cobra.Command{
		Use:   "print [-c FILE]",
		Short: "Print a configuration with all defaults filled in",
		Long: `Print a configuration with all defaults filled in, or only the defaults if you
have no configuration file. Credentials, the servers' environment variables and
values from the environment are shown as ***, so you can share the output.`,
		Example: `  dragoman config print
  dragoman config print -c ~/.cursor/mcp.json`,
		Args:              noArguments,
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd)
	addConfigFlag(cmd, &c.file)
	return cmd
}

func (c *configPrintCommand) run(*cobra.Command, []string) error {
	snapshot := config.Default()
	path, ok := c.env.configPath(c.file)
	if ok {
		var problems config.Problems
		if snapshot, problems = config.Load(path); snapshot == nil {
			return problems.Refusal(false)
		}
	} else if !c.quiet {
		err := c.env.noConfig()
		if !errors.Is(err, errNoConfig) {
			return err
		}
		c.status.Printf("no configuration file found; printing the defaults")
	}
	_, err := c.stdout.Write(snapshot.AppendYAML(nil))
	return err
}
