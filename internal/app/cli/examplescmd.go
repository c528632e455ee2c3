package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// examplesCommand is `dragoman examples` and its subcommands.
type examplesCommand struct {
	*world
	houseFlags
	name string
}

const whoExamples = `On this machine, the user who started "dragoman serve" can do this. On another
one, use --url, with an API key in the environment variable DRAGOMAN_KEY: with
the role viewer to look, and with the role operator otherwise.`

func newExamplesCommand(w *world) *cobra.Command {
	c := &examplesCommand{world: w}
	cmd := &cobra.Command{
		Use:         "examples [flags]",
		Annotations: map[string]string{alsoRuns: "true"},
		Short:       "Run kept examples again",
		Long: `List the runs that were kept as examples, in the playground of the console or
with "dragoman examples keep": the call of a client of some revision, with its
arguments and its result. docs/console.md explains it.

` + whoExamples,
		Example: `  # Which are there?
  dragoman examples

  # Run one again, as the same client.
  dragoman examples run 7QK2`,
		Args:              noArguments,
		RunE:              c.list,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	cmd.AddCommand(newExamplesListCommand(w), newExamplesShowCommand(w), newExamplesRunCommand(w), newExamplesKeepCommand(w), newExamplesRemoveCommand(w))
	return cmd
}

func newExamplesListCommand(w *world) *cobra.Command {
	c := &examplesCommand{world: w}
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List the kept examples",
		Long:  "List the runs that were kept as examples, sorted by name.\n\n" + whoExamples,
		Example: `  dragoman examples list

  # For a script.
  dragoman examples list --json`,
		Args:              noArguments,
		RunE:              c.list,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newExamplesShowCommand(w *world) *cobra.Command {
	c := &examplesCommand{world: w}
	cmd := &cobra.Command{
		Use:   "show ID [flags]",
		Short: "Show a kept example with its arguments and its result",
		Long: `Show the call of a kept example, as which client it was made, and its result.
The beginning of the ID suffices. Secrets of the configuration aren't kept.`,
		Example: `  dragoman examples show 7QK2

  # With the whole result, as JSON.
  dragoman examples show 7QK2 --json`,
		Args:              c.oneArgument("the example's ID", "dragoman examples show 7QK2"),
		RunE:              c.show,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newExamplesRunCommand(w *world) *cobra.Command {
	c := &examplesCommand{world: w}
	cmd := &cobra.Command{
		Use:   "run ID [flags]",
		Short: "Run a kept example again",
		Long: `Run a kept example again, as a client of the same revision and with the same
arguments, and wait for the result. The beginning of the ID suffices. If the
server asks something meanwhile, answer it on the page of the run.`,
		Example: `  dragoman examples run 7QK2

  # Compare the result with the one that was kept.
  dragoman examples run 7QK2 --json`,
		Args:              c.oneArgument("the example's ID", "dragoman examples run 7QK2"),
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func newExamplesKeepCommand(w *world) *cobra.Command {
	c := &examplesCommand{world: w}
	cmd := &cobra.Command{
		Use:   "keep RUN [flags]",
		Short: "Keep a run as an example",
		Long: `Keep a run of the console or the API that has ended, with its arguments and its
result. A secret of the configuration is never kept. RUN is its ID, which is at
the end of the address of its page.`,
		Example: `  dragoman examples keep 5f3a9c01-12

  # With a name that says what it shows.
  dragoman examples keep 5f3a9c01-12 --name "An empty queue"`,
		Args:              c.oneArgument("the run's ID", "dragoman examples keep 5f3a9c01-12"),
		RunE:              c.keep,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flagsInOrder(cmd).StringVar(&c.name, "name", "", "call the example `NAME` (default: the name of the tool)")
	c.addFlags(cmd)
	return cmd
}

func newExamplesRemoveCommand(w *world) *cobra.Command {
	c := &examplesCommand{world: w}
	cmd := &cobra.Command{
		Use:   "remove ID [flags]",
		Short: "Remove a kept example",
		Long:  "Remove a kept example. The beginning of the ID suffices.",
		Example: `  dragoman examples remove 7QK2

  # In another project.
  dragoman examples remove 7QK2 --project shop`,
		Args:              c.oneArgument("the example's ID", "dragoman examples remove 7QK2"),
		RunE:              c.remove,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	c.addFlags(cmd)
	return cmd
}

func (c *examplesCommand) list(cmd *cobra.Command, _ []string) error {
	return c.serve(cmd, c.world, func(ctx context.Context, s *running) error {
		var all admin.Examples
		if err := s.decode(ctx, "/api/v1/examples", nil, &all); err != nil {
			return err
		}
		switch {
		case c.asJSON:
			return c.printJSON(all, "  ")
		case len(all.Examples) == 0:
			c.status.Printf("no run was kept as an example; keep one on its page of the console, or with `dragoman examples keep RUN`")
			return nil
		}
		t := screen.Table{Width: 80, Columns: []screen.Column{{Title: "ID", Whole: true}, {Title: "NAME", Wrap: true}, {Title: "ITEM", Most: 30}, {Title: "CLIENT", Whole: true}, {Title: "RESULT", Whole: true}}}
		for _, x := range all.Examples {
			t.Rows = append(t.Rows, screen.Cells(x.ID[:min(shownID, len(x.ID))], x.Name, strings.TrimPrefix(x.Server+"/"+x.Item, "/"), x.Revision, x.State))
		}
		return c.print(t)
	})
}

func (c *examplesCommand) show(cmd *cobra.Command, args []string) error {
	return c.serve(cmd, c.world, func(ctx context.Context, s *running) error {
		var x admin.ExampleDetails
		if err := s.decode(ctx, "/api/v1/examples/"+url.PathEscape(args[0]), nil, &x); err != nil {
			return err
		}
		if c.asJSON {
			return c.printJSON(&x, "  ")
		}
		missing := ""
		if x.Secret {
			missing = "write the secret into the arguments before you run it"
		}
		if err := c.printRows([][2]string{
			{"example", x.Name}, {"id", x.ID}, {"endpoint", x.Endpoint}, {"server", x.Server}, {"request", x.Method}, {"item", x.Item}, {"revision", x.Revision},
			{"client can", strings.Join(x.Capabilities, ", ")}, {"arguments", string(x.Arguments)}, {"missing", missing}, {"ended", x.State}, {"kept", x.Made.In(time.Local).Format(time.DateTime) + " by " + x.By},
		}); err != nil || len(x.Result) == 0 {
			return err
		}
		_, err := fmt.Fprintf(c.stdout, "\n%s\n", clean(string(x.Result)))
		return err
	})
}

// runPace is how often the command looks whether a run has ended.
const runPace = 200 * time.Millisecond

func (c *examplesCommand) run(cmd *cobra.Command, args []string) error {
	return c.serve(cmd, c.world, func(ctx context.Context, s *running) error {
		var run admin.Run
		if err := s.apply(ctx, http.MethodPost, "/examples/"+url.PathEscape(args[0])+"/runs", nil, &run); err != nil {
			return err
		}
		told := false
		for run.Ended == nil {
			if run.State == "waiting" && !told {
				told = true
				c.status.Printf("the server asks something: answer it in the console, at /console/runs/%s", run.ID)
			}
			if err := work.Sleep(ctx, runPace); err != nil {
				return err
			}
			if err := s.decode(ctx, "/api/v1/runs/"+url.PathEscape(run.ID), nil, &run); err != nil {
				return err
			}
		}
		if c.asJSON {
			return c.printJSON(run, "  ")
		}
		if run.Error != nil {
			return fmt.Errorf("the run has failed: %s", clean(run.Error.Message))
		}
		c.status.Printf("%s as a client of %s: %s", clean(run.Name), run.Revision, run.State)
		_, err := fmt.Fprintln(c.stdout, clean(string(run.Result)))
		return err
	})
}

func (c *examplesCommand) keep(cmd *cobra.Command, args []string) error {
	return c.serve(cmd, c.world, func(ctx context.Context, s *running) error {
		var kept admin.Example
		if err := s.apply(ctx, http.MethodPost, "/examples", admin.ExampleRequest{Run: args[0], Name: c.name}, &kept); err != nil {
			return err
		}
		return c.done(c.world, kept, "", "the run is kept as %s, with the ID %s", clean(kept.Name), kept.ID)
	})
}

func (c *examplesCommand) remove(cmd *cobra.Command, args []string) error {
	return c.serve(cmd, c.world, func(ctx context.Context, s *running) error {
		var gone admin.Example
		if err := s.apply(ctx, http.MethodDelete, "/examples/"+url.PathEscape(args[0]), nil, &gone); err != nil {
			return err
		}
		return c.done(c.world, gone, "", "%s was removed", clean(gone.Name))
	})
}
