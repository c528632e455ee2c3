package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/demo"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

var demoEras = []string{demo.Legacy, demo.Modern}

const demoCommand = "demo-server"

// withDemo returns a configuration to which the demonstration's servers, which
// are children of this very program, have been added.
func withDemo(s *config.Snapshot) (*config.Snapshot, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the dragoman executable: %w", err)
	}
	out := *s
	out.Servers = slices.Clone(s.Servers)
	for _, era := range demoEras {
		if _, taken := s.Server(era); taken {
			return nil, withHint(fmt.Errorf("the configured server %s has the name of a demo server", era), "rename it in the configuration file")
		}
		server, p := config.Complete(config.Server{
			Name: era, Command: self, Args: []string{demoCommand, era},
			CallTimeout: s.Limits.Call, CallMax: s.Limits.CallMax, StartTimeout: s.Limits.Start,
			Message: s.Limits.Message,
		})
		if p != nil {
			return nil, fmt.Errorf("add the demo servers: %s", p)
		}
		out.Servers = append(out.Servers, server)
	}
	return &out, nil
}

// showTrial says what to do with the demonstration that is served at an endpoint:
// what to write into a client, and what to type. The lines to copy stand alone.
func (a *app) showTrial(endpoint string) {
	entry := jsonrpc.AppendQuote([]byte(`{"mcpServers":{"dragoman":{"type":"http","url":`), endpoint)
	a.status.Printf("add this to the configuration of a client:")
	a.status.line("  " + string(entry) + "}}}")
	a.status.Printf("or call a tool of each demo server from a second terminal:")
	for _, call := range demoCalls {
		a.status.line("  " + a.program + " call " + endpoint + " " + call)
	}
}

// demoCalls are what is shown of the demonstration: a tool and its arguments.
var demoCalls = []string{
	demo.Legacy + "__greet --arg name=World",
	demo.Modern + "__add --arg a=1 --arg b=41",
}

// programName returns how to start this program again from the same shell, which
// started it as word; self is the file that runs.
func programName(word, self string) string {
	const usual = "dragoman"
	if strings.Contains(filepath.ToSlash(self), "/go-build") {
		return "go run ./cmd/" + usual // the file is gone when this run ends
	}
	if word == "" || strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(`_.-+/\:~`, r)
	}) {
		return usual // a shell would read something else than what stands there
	}
	return word
}

// demoServerCommand is what serve --demo starts. People have no use for it.
func (a *app) demoServerCommand() *cobra.Command {
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
			return ended(c.Context(), demo.Serve(c.Context(), args[0], a.stdin, a.stdout, version()))
		},
	}
}
