package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

const (
	// operatedWait is the maximum time that restart and stop wait for the end of the operation. A
	// server has 30 seconds to open by default, after up to five seconds for its running calls.
	operatedWait = 40 * time.Second
	// operatedPause is the time between two looks at the servers' states.
	operatedPause = 100 * time.Millisecond
)

// operateCommand is `dragoman restart` or `dragoman stop`.
type operateCommand struct {
	*world
	runningFlags
	asJSON bool

	operation string
	done      string                    // what the command has done then: "restarted"
	ended     func(*admin.Server) bool  // whether the operation has ended
	failed    func(*admin.Server) error // why it did not succeed, or nil
}

func newRestartCommand(w *world) *cobra.Command {
	c := &operateCommand{
		world: w, operation: "restart", done: "restarted",
		ended: func(s *admin.Server) bool { return s.State != "starting" },
		failed: func(s *admin.Server) error {
			switch {
			case s.State == "ready":
				return nil
			case s.Failure != nil:
				return s.Failure
			}
			return fmt.Errorf("server %q is %s: %s", s.Name, s.State, cmp.Or(s.Reason, "it did not become ready"))
		},
	}
	return c.command(&cobra.Command{
		Use:   "restart NAME...",
		Short: "Restart servers of a running \"dragoman serve\"",
		Long: `Restart one or more servers of a running "dragoman serve", or start those that
"dragoman stop" has stopped. Running calls have five seconds to end; calls that
arrive in the meantime wait. The command waits until each server is ready, and
its exit code is 1 if one of them isn't.`,
		Example: `  dragoman restart github
  dragoman restart github files`,
	})
}

func newStopCommand(w *world) *cobra.Command {
	c := &operateCommand{
		world: w, operation: "stop", done: "stopped",
		ended:  func(s *admin.Server) bool { return s.State != "stopped" || len(s.Sessions) == 0 },
		failed: func(s *admin.Server) error { return nil },
	}
	return c.command(&cobra.Command{
		Use:   "stop NAME...",
		Short: "Stop servers of a running \"dragoman serve\"",
		Long: `Stop one or more servers of a running "dragoman serve". Running calls have five
seconds to end; later ones fail at once. "dragoman restart NAME" starts a server
again, and so does a restart of "dragoman serve". To keep it off, use "dragoman
disable".`,
		Example: `  dragoman stop github

  # Start it again.
  dragoman restart github`,
	})
}

// command completes a command with what both have in common.
func (c *operateCommand) command(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("use `"+cmd.CommandPath()+" NAME`; `dragoman status` lists the names", "no server given")
		}
		return nil
	}
	cmd.RunE = c.run
	flagsInOrder(cmd).BoolVar(&c.asJSON, "json", false, "print the servers' states as a JSON array")
	c.addFlags(cmd)
	names := c.env.completeTarget(&c.file)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		all, directive := names(cmd, nil, word)
		return slices.DeleteFunc(all, func(x string) bool {
			name, _, _ := strings.Cut(x, "\t") // a description may follow
			return slices.Contains(args, name)
		}), directive
	}
	return cmd
}

func (c *operateCommand) run(cmd *cobra.Command, args []string) error {
	c.showProgress()
	ctx := cmd.Context()
	s, err := locator{c.env}.running(ctx, &c.runningFlags)
	if err != nil {
		return err
	}
	defer s.close()
	var names []string
	for _, name := range args {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return signalOr(ctx, c.operate(ctx, s, names))
}

// operate runs the operation for all servers at the same time. If one of the names is unknown, it does
// nothing.
func (c *operateCommand) operate(ctx context.Context, s *running, names []string) error {
	r, err := s.report(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if serverNamed(r, name) == nil {
			return noServer(name, r, c.file)
		}
	}
	for _, name := range names {
		if err := s.exchange(ctx, http.MethodPost, "/api/v1/servers/"+url.PathEscape(name)+"/"+c.operation, nil, &admin.Operated{}); err != nil {
			return err
		}
	}
	c.status.Step("", c.operation+" of "+strings.Join(names, ", "))
	last, err := c.await(ctx, s, names)
	c.status.Step("", "")
	if err != nil {
		return err
	}
	return c.report(names, last)
}

// await waits until the operation has ended for all servers, and returns the last report.
func (c *operateCommand) await(ctx context.Context, s *running, names []string) (*admin.Report, error) {
	late := time.Now().Add(operatedWait)
	for {
		r, err := s.report(ctx)
		if err != nil {
			return nil, err
		}
		open := slices.ContainsFunc(names, func(name string) bool {
			x := serverNamed(r, name)
			return x != nil && !c.ended(x)
		})
		if !open || time.Now().After(late) {
			return r, nil
		}
		if err := work.Sleep(ctx, operatedPause); err != nil {
			return nil, err
		}
	}
}

// operated is the result for one server, for scripts.
type operated struct {
	Name  string    `json:"name"`
	State string    `json:"state"`
	Since time.Time `json:"since"`
	Why   string    `json:"reason,omitempty"`
}

// report prints what has become of the servers.
func (c *operateCommand) report(names []string, r *admin.Report) error {
	all, failed := []operated{}, []error{}
	for _, name := range names {
		x := serverNamed(r, name)
		if x == nil { // a reload has removed it in the meantime
			failed = append(failed, noServer(name, r, c.file))
			continue
		}
		all = append(all, operated{x.Name, x.State, x.Since, x.Reason})
		err := c.failed(x)
		switch {
		case !c.ended(x):
			err = withHint(fmt.Errorf("server %q is still %s after %s", name, x.State, operatedWait), "follow it with `dragoman status %s`", shellWord(name))
		case err != nil || c.asJSON || c.quiet:
		case c.operation == "stop":
			c.status.Printf("stopped %s; `dragoman restart %s` starts it again", name, shellWord(name))
		default:
			c.status.Printf("%s %s: %s, %s over %s", c.done, name, x.State, x.Revision, x.Transport)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if c.asJSON {
		if err := c.printJSON(all, ""); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// reloadCommand is `dragoman reload`.
type reloadCommand struct {
	*world
	runningFlags
	asJSON bool
}

func newReloadCommand(w *world) *cobra.Command {
	c := &reloadCommand{world: w}
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make a running \"dragoman serve\" read its configuration file now",
		Long: `Make a running "dragoman serve" read its configuration file now, and print what
has changed. It does so by itself when the file changes; this command is for
folders that can't be watched, and for scripts that want to know the result. The
exit code is 1 if the file was refused; the old configuration then stays in use.`,
		Example: `  dragoman reload

  # Print the result for a script.
  dragoman reload --json`,
		Args: noArguments,
		RunE: c.run,
	}
	flagsInOrder(cmd).BoolVar(&c.asJSON, "json", false, "print JSON")
	c.addFlags(cmd)
	return cmd
}

func (c *reloadCommand) run(cmd *cobra.Command, _ []string) error {
	s, err := locator{c.env}.running(cmd.Context(), &c.runningFlags)
	if err != nil {
		return err
	}
	defer s.close()
	r, err := s.reload(cmd.Context())
	switch {
	case err != nil:
		return signalOr(cmd.Context(), err)
	case c.asJSON:
		return c.printJSON(r, "")
	case !c.quiet:
		c.status.Printf("%s: %s", r.File, r.What)
	}
	return nil
}

// reload makes serve read its configuration file now.
func (s *running) reload(ctx context.Context) (*admin.Reloaded, error) {
	r := &admin.Reloaded{}
	err := s.exchange(ctx, http.MethodPost, "/api/v1/reload", nil, r)
	var bad *problemError
	if errors.As(err, &bad) && bad.kind == "refused" {
		if report, _ := s.report(ctx); report != nil && report.Config != "" {
			err = withHint(err, "fix the file; `dragoman config check -c %s` checks it", shellWord(report.Config))
		}
	}
	return r, err
}
