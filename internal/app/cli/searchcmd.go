package cli

import (
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dragoman-mcp/dragoman/internal/base/screen"
	"github.com/dragoman-mcp/dragoman/internal/setup/registry"
)

// searchCommand is `dragoman search`.
type searchCommand struct {
	*world

	registry string
	asJSON   bool
}

func newSearchCommand(w *world) *cobra.Command {
	c := &searchCommand{world: w}
	cmd := &cobra.Command{
		Use:   "search WORD... [--registry URL]",
		Short: "Search a registry of MCP servers",
		Long: `Search the official registry of MCP servers, or another one that speaks its API
v0.1. The output lists the servers whose name, title or description has all
words. The registry itself searches only names, so begin with a word that the
name is likely to have.

Anybody can publish a server there. The registry checks who owns a name, but not
what a server does. "dragoman add NAME" adds a server to the configuration.`,
		Example: `  # Which servers are there for GitHub?
  dragoman search github

  # Search another registry, and print JSON.
  dragoman search weather maps --registry https://registry.example.com --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(strings.Fields(strings.Join(args, " "))) == 0 {
				return usagef("use `dragoman search WORD`", "no word to search for")
			}
			return nil
		},
		RunE:              c.run,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := flagsInOrder(cmd)
	addRegistryFlag(f, &c.registry)
	f.BoolVar(&c.asJSON, "json", false, "print JSON")
	return cmd
}

func addRegistryFlag(f *pflag.FlagSet, value *string) {
	f.StringVar(value, "registry", registry.Official, "use the registry at `URL`")
}

// openRegistry returns the registry at a URL, and the HTTP client for it and for its bundles. The
// caller closes the idle connections of the client.
func openRegistry(base string) (*registry.Registry, *http.Client, error) {
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, ResponseHeaderTimeout: 30 * time.Second,
	}}
	r, err := registry.New(base, client)
	if err != nil {
		return nil, nil, usagef("use an https URL without a query, such as "+registry.Official, "%s", err)
	}
	return r, client, nil
}

func (c *searchCommand) run(cmd *cobra.Command, args []string) error {
	reg, client, err := openRegistry(c.registry)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	c.showProgress()
	c.status.Step("", "asking the registry")
	found, err := reg.Search(cmd.Context(), strings.Fields(strings.Join(args, " ")))
	c.status.Step("", "")
	if err != nil {
		return signalOr(cmd.Context(), err)
	}
	if c.asJSON {
		return c.printFound(found)
	}
	t := screen.Table{Columns: []screen.Column{{Title: "NAME", Whole: true, Most: widestName}, {Title: "VERSION", Most: 16}, {Title: "WHAT"}}}
	for _, s := range found.Servers {
		what := s.Description
		if s.Status == registry.Deprecated {
			what = "(deprecated) " + what
		}
		t.Rows = append(t.Rows, screen.Cells(s.Name, s.Version, what))
	}
	if len(found.Servers) > 0 {
		if err := c.print(t); err != nil {
			return err
		}
	}
	if c.quiet {
		return nil
	}
	if found.Unread > 0 {
		c.status.Printf("left out %s that the registry describes in an invalid way", quantity(found.Unread, "server"))
	}
	switch {
	case found.More:
		c.status.Printf("the registry has more; add a word to narrow the search")
	case len(found.Servers) == 0:
		c.status.Printf("nothing found; the registry searches only the names of servers, so try another word")
	}
	return nil
}

// printFound prints the result of a search as JSON.
func (c *searchCommand) printFound(found registry.Found) error {
	type server struct {
		Name        string `json:"name"`
		Title       string `json:"title,omitempty"`
		Version     string `json:"version"`
		Description string `json:"description"`
		Repository  string `json:"repository,omitempty"`
		Status      string `json:"status"`
	}
	out := struct {
		Servers []server `json:"servers"`
		More    bool     `json:"more"`
		Unread  int      `json:"unread"`
	}{Servers: []server{}, More: found.More, Unread: found.Unread}
	for _, s := range found.Servers {
		out.Servers = append(out.Servers, server{s.Name, s.Title, s.Version, s.Description, s.Repository, string(s.Status)})
	}
	return c.printJSON(out, "")
}
