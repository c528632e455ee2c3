package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

func (a *app) healthcheckCommand() *cobra.Command {
	var file string
	var ready bool
	c := &cobra.Command{
		Use:   "healthcheck [--ready] [-c FILE] [URL]",
		Short: "Check that a running \"dragoman serve\" answers, for containers and monitors",
		Long: `Check that a running "dragoman serve" answers. The exit code is 0 if "dragoman
serve" answers, and 1 if not. The container image uses this command as its
health check, because the image contains no shell and no curl.

URL is the address of "dragoman serve". Without URL, the command finds it as
"dragoman status" does.`,
		Example: `  # Does "dragoman serve" run?
  dragoman healthcheck

  # Does at least one server of "dragoman serve" work?
  dragoman healthcheck --ready http://127.0.0.1:7400`,
		Args: atMostOneURL,
		RunE: func(c *cobra.Command, args []string) error {
			base, err := a.serveURL(c.Context(), strings.Join(args, ""), file) // args has at most one element
			if err != nil {
				return err
			}
			path := "/healthz"
			if ready {
				path = "/readyz"
			}
			s, err := a.runningAt(base)
			if err != nil {
				return err
			}
			defer s.close()
			status, body, err := s.page(c.Context(), path)
			if err != nil {
				return withHint(fmt.Errorf("nothing answers at %s: %w", base, err), "start `dragoman serve`, or name the URL of the `serve` that is running")
			}
			if status != http.StatusOK {
				return fmt.Errorf("%s is not healthy: HTTP %d, %s", base, status, reasonIn(body))
			}
			if !a.quiet {
				a.status.Printf("%s is healthy", base)
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(c)
	f.BoolVar(&ready, "ready", false, "also require that at least one server works")
	addConfigFlag(c, &file)
	return c
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
