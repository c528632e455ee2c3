package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/daemon"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

func (a *app) consoleCommand() *cobra.Command {
	var f runningFlags
	var open, asJSON bool
	c := &cobra.Command{
		Use:   "console",
		Short: "Make a link to the console of a running \"dragoman serve\"",
		Long: `Ask a running "dragoman serve" on this machine for a link to its console, and
print the link. The link works once, within ten minutes. The browser that opens
the link gets a session of twelve hours. Do not give the link to other people.

Only the user who started "dragoman serve" can make a link. If several run, the
command chooses between them as "dragoman status" does.`,
		Example: `  # Print a link.
  dragoman console

  # Open the console in the browser.
  dragoman console --open`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			a.startLog(0, nil)
			s, err := a.running(c.Context(), &f)
			if err != nil {
				return err
			}
			defer s.close()
			resp, err := s.ask(c.Context(), http.MethodPost, "/api/v1/console/link", nil, nil)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			var link admin.ConsoleLink
			if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&link); err != nil {
				return s.absent("the program at " + s.address + " is not `dragoman serve`")
			}
			if err := checkLink(link.URL); err != nil {
				return s.absent("the program at " + s.address + " is not `dragoman serve`")
			}
			if open {
				if err := openBrowser(c.Context(), link.URL); err != nil {
					a.status.Printf("no browser could be started (%v); open this link yourself", err)
				} else if !asJSON {
					a.status.Printf("opened the console in the browser")
					return nil
				}
			}
			if asJSON {
				return a.printJSON(link, "  ")
			}
			_, err = fmt.Fprintln(a.stdout, link.URL)
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := flagsInOrder(c)
	f.add(c)
	flags.BoolVar(&open, "open", false, "open the link in the browser, and do not print it")
	flags.BoolVar(&asJSON, "json", false, "print the link and its expiry time as JSON")
	return c
}

// checkLink returns an error if a link does not lead to the console on this machine, or contains a
// character that a shell or a terminal would interpret.
func checkLink(link string) error {
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "http" || u.Path != "/console/" || u.User != nil || !config.IsLoopback(u.Hostname()) ||
		strings.ContainsFunc(link, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"'`$&|;<>()\\%^", r) }) {
		return fmt.Errorf("%q is not a link to a console", link)
	}
	return nil
}

// openBrowser opens a link in the user's browser.
func openBrowser(ctx context.Context, link string) error {
	name, args := "xdg-open", []string{link}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", link}
	}
	return exec.CommandContext(ctx, name, args...).Run()
}

// showConsole prints how to open the console. serve calls it after the start. A link is a secret,
// and output that does not go to a terminal may be stored. Therefore, showConsole prints a link
// only on a terminal.
func (a *app) showConsole(c daemon.Console, flags string) {
	switch {
	case a.quiet:
	case c.Off != "":
		a.status.Printf("%s", lowerFirst(strings.TrimSuffix(c.Off, ".")))
	case a.status.terminal && a.status.records.Load() == nil:
		a.status.Printf("the console is at %s (works once, within 10 minutes)", c.Link())
	default:
		a.status.Printf("the console is at %s; run `%s console%s` for a link that opens it", c.URL, a.program, clean(flags))
	}
}
