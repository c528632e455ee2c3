package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/server/demo"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

var demoEras = []string{demo.Legacy, demo.Modern}

const demoCommand = "demo-server"

// withDemo returns a copy of s with the demo servers added. The demo servers are child processes
// that run this program.
func withDemo(s *config.Snapshot) (*config.Snapshot, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find the dragoman executable: %w", err)
	}
	out := *s
	out.Servers = slices.Clone(s.Servers)
	for _, era := range demoEras {
		if _, taken := s.Server(era); taken {
			return nil, withHint(fmt.Errorf("the configured server %s has the name of a demo server", era), "rename the server in the configuration file")
		}
		server, p := config.Complete(config.Server{
			Name: era, Command: self, Args: []string{demoCommand, era},
			CallTimeout: s.Limits.Call, CallMax: s.Limits.CallMax, StartTimeout: s.Limits.Start,
			Message: s.Limits.Message,
		})
		if p != nil {
			return nil, fmt.Errorf("cannot add the demo servers: %s", p)
		}
		out.Servers = append(out.Servers, server)
	}
	return &out, nil
}

// showTrial prints how to try the demo servers: an entry for the configuration of a client, and
// commands that call tools. Each text to copy is on its own line. endpoint is the URL of serve.
// busy is true if the demo clients run.
func (c *serveCommand) showTrial(endpoint string, busy bool) {
	if busy {
		c.status.Printf("two demo clients call the demo servers, and some of their calls fail on purpose; --quiet-demo starts no demo clients")
	}
	entry := jsonrpc.AppendQuote([]byte(`{"mcpServers":{"dragoman":{"type":"http","url":`), endpoint)
	c.status.Printf("add this to the configuration of a client:")
	c.status.line("  " + string(entry) + "}}}")
	c.status.Printf("or call a tool of each demo server from a second terminal:")
	for _, call := range demoCalls {
		c.status.line("  " + c.program + " call " + endpoint + " " + call)
	}
}

// demoCalls are the calls that showTrial prints, each with the name of the tool and the arguments.
var demoCalls = []string{
	demo.Legacy + "__greet name=World",
	demo.Modern + "__add a=1 b=41",
}

// programName returns the command with which the user can start this program again from the same
// shell. word is the command with which the shell started the program. self is the path of the
// executable.
func programName(word, self string) string {
	const usual = "dragoman"
	if strings.Contains(filepath.ToSlash(self), "/go-build") {
		return "go run ./cmd/" + usual // the program was started with "go run", which deletes the executable at the end
	}
	if word == "" || strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(`_.-+/\:~`, r)
	}) {
		return usual // word is empty, or a shell would interpret some of its characters
	}
	return word
}

// newDemoServerCommand returns the hidden command that runs a demo server. serve --demo starts it.
func newDemoServerCommand(w *world) *cobra.Command {
	return &cobra.Command{
		Use:    demoCommand + " ERA",
		Short:  "Run a demo server",
		Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("use legacy or modern", "no era given")
			case len(args) > 1 || !slices.Contains(demoEras, args[0]):
				return usagef("use legacy or modern", "unknown era %q", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return withoutStop(c.Context(), demo.Serve(c.Context(), args[0], w.stdin, w.stdout, version()))
		},
	}
}
