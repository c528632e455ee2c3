package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// consoleCommand is `dragoman console`.
type consoleCommand struct {
	*world
	runningFlags
	open, asJSON bool
}

func newConsoleCommand(w *world) *cobra.Command {
	c := &consoleCommand{world: w}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Make a link to the console of a running \"dragoman serve\"",
		Long: `Ask a running "dragoman serve" on this machine for a link to its console, and
print it. The link works once, within ten minutes, and the browser that opens it
gets a session of twelve hours. Don't give it to other people.

Only the user who started "dragoman serve" can make a link. If several run, the
command chooses as "dragoman status" does.`,
		Example: `  # Print a link.
  dragoman console

  # Open the console in the browser.
  dragoman console --open`,
		Args:              noArguments,
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := flagsInOrder(cmd)
	c.addLocalFlags(cmd)
	flags.BoolVar(&c.open, "open", false, "open the link in the browser instead of printing it")
	flags.BoolVar(&c.asJSON, "json", false, "print the link and its expiry time as JSON")
	return cmd
}

func (c *consoleCommand) run(cmd *cobra.Command, _ []string) error {
	c.startLog(0, nil)
	s, err := locator{c.env}.running(cmd.Context(), &c.runningFlags)
	if err != nil {
		return err
	}
	defer s.close()
	resp, err := s.ask(cmd.Context(), http.MethodPost, "/api/v1/console/link", nil)
	var bad *problemError
	if s.tls && errors.As(err, &bad) && bad.kind == "no-access" {
		return withHint(errors.New("where other machines can reach it, the console opens only for people with an invitation"), "run `dragoman people invite NAME`")
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var link admin.ConsoleLink
	if json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&link) != nil || checkLink(link.URL) != nil {
		return s.notServe()
	}
	if c.open {
		if err := c.env.seat().Open(cmd.Context(), link.URL); err != nil {
			c.status.Printf("no browser could be started (%v); open this link yourself", err)
		} else if !c.asJSON {
			c.status.Printf("opened the console in the browser")
			return nil
		}
	}
	if c.asJSON {
		return c.printJSON(link, "  ")
	}
	_, err = fmt.Fprintln(c.stdout, link.URL)
	return err
}

// checkLink returns an error if a link does not lead to the console on this machine, or contains a
// character that a shell or a terminal would interpret.
func checkLink(link string) error {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "http" || u.Path != "/console/" || u.User != nil || !transport.IsLoopback(u.Hostname()) || !isPlain(link) {
		return fmt.Errorf("%q is not a link to a console", link)
	}
	return nil
}

// isPlain reports whether a link has no character that a shell or a terminal would interpret.
func isPlain(link string) bool {
	return !strings.ContainsFunc(link, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"'`$&|;<>()\\%^", r) })
}
