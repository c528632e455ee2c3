package cli

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/matrix"
)

// matrixCommand is `dragoman matrix`.
type matrixCommand struct {
	*world

	clients, servers, features []string
	asJSON, markdown           bool
	parallel                   int
}

func newMatrixCommand(w *world) *cobra.Command {
	c := &matrixCommand{world: w}
	cmd := &cobra.Command{
		Use:   "matrix [flags]",
		Short: "Test every client revision with every server revision",
		Long: `Test every feature of MCP with every client revision, every server revision and
every transport. Each pair of a client and a server is tested through Dragoman,
and if they have a common transport also without it.

Every client and server is strict: it speaks one revision, and reports whatever
this revision doesn't allow (see "dragoman fake"). A cell is the test of one
feature with one pair. It works, is a loss, or fails. For a loss, you see which
revision can't express the feature. The exit code is 1 if a cell fails.

The result is a grid with a symbol for each pair, after the cells that fail and
their reasons. The full matrix takes a minute or two. After Ctrl-C, the command
prints what it has and exits with 130. All traffic stays on this machine.`,
		Example: `  # Test everything.
  dragoman matrix

  # Test one client revision over one transport, with two server revisions.
  dragoman matrix --clients 2025-06-18/http --servers 2024-11-05,2026-07-28

  # Print the result for a document, or for a script.
  dragoman matrix --markdown
  dragoman matrix --json | jq -r '.cells[] | select(.outcome == "fails") | .reason'`,
		Args:              noArguments,
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(cmd)
	f.StringSliceVar(&c.clients, "clients", nil, "test only these clients: `DATE[/TRANSPORT]`, comma-separated")
	f.StringSliceVar(&c.servers, "servers", nil, "test only these servers: `DATE[/TRANSPORT]`, comma-separated")
	f.StringSliceVar(&c.features, "features", nil, "test only the features `NAME`, comma-separated")
	f.BoolVar(&c.asJSON, "json", false, "print every cell as JSON")
	f.BoolVar(&c.markdown, "markdown", false, "print Markdown tables")
	f.IntVar(&c.parallel, "parallel", 0, "run `N` conversations in parallel (default 3)")
	return cmd
}

func (c *matrixCommand) run(cmd *cobra.Command, _ []string) error {
	if c.asJSON && c.markdown {
		return usagef("remove one of them", "--json and --markdown cannot be used together")
	}
	f, err := matrixFilter(c.clients, c.servers, c.features)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find the dragoman executable: %w", err)
	}
	c.showProgress()
	r, err := matrix.Run(cmd.Context(), matrix.Options{
		Filter: f, Program: []string{self}, Parallel: c.parallel,
		Done: func(p matrix.Pair, direct bool, done, of int) {
			how := "through dragoman"
			if direct {
				how = "directly"
			}
			c.status.Step("matrix", fmt.Sprintf("%d of %d: %s, %s", done, of, p, how))
		},
	})
	c.status.End()
	if err != nil && (r == nil || cmd.Context().Err() == nil) {
		return err
	}
	stopped := signalOr(cmd.Context(), err)
	switch {
	case c.asJSON:
		err = r.JSON(c.stdout)
	case c.markdown && stopped != nil: // print no table, because users could not see that it is incomplete
		c.status.Printf("the matrix is not complete, so no Markdown is printed")
	case c.markdown:
		err = r.Markdown(c.stdout)
	default:
		err = r.Text(c.stdout)
	}
	if err := cmp.Or(err, stopped); err != nil {
		return err
	}
	if failed := r.Failed(); len(failed) > 0 {
		first := failed[0]
		return withHint(fmt.Errorf("%d of %d cells fail; the first is %s for %s", len(failed), len(r.Cells), first.Feature, first.Pair),
			"the first cell fails because: %s", first.Reason)
	}
	return nil
}

// matrixFilter parses the flags that select clients, servers and features.
func matrixFilter(clients, servers, features []string) (f matrix.Filter, err error) {
	if f.Clients, f.ClientTransports, err = matrixAxis("--clients", clients); err != nil {
		return f, err
	}
	if f.Servers, f.ServerTransports, err = matrixAxis("--servers", servers); err != nil {
		return f, err
	}
	for _, name := range features {
		if !slices.Contains(matrix.Features(), name) {
			return f, usagef("use one of "+strings.Join(matrix.Features(), ", "), "--features: unknown feature %q", name)
		}
	}
	f.Features = features
	return f, nil
}

func matrixAxis(flag string, values []string) (revs []mcp.Revision, ts []matrix.Transport, err error) {
	for _, v := range values {
		date, transport, given := strings.Cut(v, "/")
		if date != "" {
			r, ok := mcp.ParseRevision(date)
			if !ok {
				return nil, nil, usagef("use one of "+strings.Join(mcp.Dates(mcp.Revisions()), ", "), "%s: unknown revision %q", flag, date)
			}
			revs = append(revs, r)
		}
		if given {
			t := matrix.Transport(transport)
			if t != matrix.Stdio && t != matrix.HTTP && t != matrix.SSE {
				return nil, nil, usagef("use stdio, http or sse", "%s: unknown transport %q", flag, transport)
			}
			ts = append(ts, t)
		}
	}
	return revs, ts, nil
}
