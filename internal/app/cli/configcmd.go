package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

func (a *app) configCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "config",
		Short: "Check or print the configuration",
		Long: `Check a configuration without starting servers, or print a configuration with
all defaults filled in. docs/configuration.md describes every key.`,
		Example: `  dragoman config check
  dragoman config print -c ~/.cursor/mcp.json`,
	}, a.configCheckCommand(), a.configPrintCommand())
}

// addServer is the hint for a configuration without servers. It explains how to add a server.
const addServer = "write one under mcpServers as `NAME: {command: …}` or `NAME: {url: …}`, or run `dragoman import` to take over the servers of your clients"

func (a *app) configCheckCommand() *cobra.Command {
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [-c FILE]",
		Short: "Report every problem in a configuration",
		Long: `Report every problem in a configuration at once, each on a line of the form
FILE:LINE:COLUMN: KEY: problem; fix. The command does not start any server.

Below each problem, the command prints the line of the file, with a ^ under the
column. The command hides comments, the values of "env" and "headers", and other
text that may be secret.

If Dragoman can use the file, even if there are warnings, the last line of the
output is "ok" and the exit code is 0.`,
		Example: `  dragoman config check
  dragoman config check -c /etc/dragoman.yaml && systemctl reload dragoman`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			path, ok := a.configPath(file)
			if !ok {
				return a.noConfig()
			}
			snapshot, problems := config.Load(path)
			err := problems.Err()
			if snapshot != nil && len(snapshot.Servers) == 0 && !slices.ContainsFunc(problems, func(p config.Problem) bool { return strings.HasPrefix(p.Text, "has no servers") }) {
				problems = append(problems, config.Problem{File: path, Warning: true, Text: "has no servers", Hint: addServer})
			}
			if asJSON {
				if e := a.printProblems(path, err == nil, problems); e != nil {
					return e
				}
			} else {
				for _, p := range problems {
					if _, e := io.WriteString(a.stdout, p.String()+"\n"+sourceOf(p, a.columns())); e != nil {
						return e
					}
				}
			}
			switch {
			case err != nil:
				return errReported
			case asJSON:
				return nil
			}
			_, err = fmt.Fprintln(a.stdout, "ok")
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(c).BoolVar(&asJSON, "json", false, "print JSON")
	addConfigFlag(c, &file)
	return c
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
func (a *app) printProblems(path string, ok bool, problems config.Problems) error {
	type problem struct {
		Line    int    `json:"line,omitempty"`
		Column  int    `json:"column,omitempty"`
		Path    string `json:"path,omitempty"`
		Text    string `json:"text"`
		Hint    string `json:"hint,omitempty"`
		Source  string `json:"source,omitempty"`
		Warning bool   `json:"warning"`
		Server  string `json:"server,omitempty"` // the server with the problem; "" if the problem does not concern exactly one server
	}
	out := struct {
		File     string    `json:"file"`
		OK       bool      `json:"ok"`
		Problems []problem `json:"problems"`
	}{File: path, OK: ok, Problems: []problem{}}
	for _, p := range problems {
		out.Problems = append(out.Problems, problem{p.Line, p.Col, p.Path, p.Text, p.Hint, p.Source, p.Warning, p.Server})
	}
	return a.printJSON(out, "")
}

func (a *app) configPrintCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "print [-c FILE]",
		Short: "Print a configuration with all defaults filled in",
		Long: `Print a configuration with all defaults filled in. Credentials, the environment
variables of servers and values taken from the environment are shown as ***, so
the output is safe to share. Without a configuration file, the command prints
the defaults.`,
		Example: `  dragoman config print
  dragoman config print -c ~/.cursor/mcp.json`,
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			snapshot := config.Default()
			path, ok := a.configPath(file)
			if ok {
				var problems config.Problems
				if snapshot, problems = config.Load(path); snapshot == nil {
					return problems.Err()
				}
			} else if !a.quiet {
				err := a.noConfig()
				if !errors.Is(err, errNoConfig) {
					return err
				}
				a.status.Printf("no configuration file found; printing the defaults")
			}
			_, err := a.stdout.Write(snapshot.AppendYAML(nil))
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(c)
	addConfigFlag(c, &file)
	return c
}
