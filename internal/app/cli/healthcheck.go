package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// healthcheckCommand is `dragoman healthcheck`.
type healthcheckCommand struct {
	*world

	file  string
	ready bool
}

func newHealthcheckCommand(w *world) *cobra.Command {
	c := &healthcheckCommand{world: w}
	cmd := &cobra.Command{
		Use:   "healthcheck [--ready] [-c FILE] [URL]",
		Short: "Check that a running \"dragoman serve\" answers, for containers and monitors",
		Long: `Check that a running "dragoman serve" answers: the exit code is 0 if it does,
and 1 if not. This is the health check of the container image, which has no
shell and no curl.

URL is the address of "dragoman serve". Without it, the command looks for one as
"dragoman status" does.`,
		Example: `  # Does "dragoman serve" run?
  dragoman healthcheck

  # Does at least one server of "dragoman serve" work?
  dragoman healthcheck --ready http://127.0.0.1:7400`,
		Args:              atMostOneURL,
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(cmd)
	f.BoolVar(&c.ready, "ready", false, "also require that at least one server works")
	addConfigFlag(cmd, &c.file)
	return cmd
}

func (c *healthcheckCommand) run(cmd *cobra.Command, args []string) error {
	base, err := locator{c.env}.serveURL(cmd.Context(), strings.Join(args, ""), c.file) // args has at most one element
	if err != nil {
		return err
	}
	path := "/healthz"
	if c.ready {
		path = "/readyz"
	}
	s, err := locator{c.env}.runningAt(base)
	if err != nil {
		return err
	}
	defer s.close()
	status, body, err := s.page(cmd.Context(), path)
	if err != nil {
		return withHint(fmt.Errorf("nothing answers at %s: %s", base, failure.Reason(err)), "start `dragoman serve`, or name the URL of the `serve` that is running")
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s is not healthy: HTTP %d, %s", base, status, reasonIn(body))
	}
	if !c.quiet {
		c.status.Printf("%s is healthy", base)
	}
	return nil
}

// reasonIn returns the reason in a response of /readyz. If the response contains no reason,
// reasonIn returns its first line.
func reasonIn(body []byte) string {
	var answer struct{ Reason string }
	if json.Unmarshal(body, &answer) == nil && answer.Reason != "" {
		return excerpt.Quote(answer.Reason, 200)
	}
	return firstLine(body)
}
