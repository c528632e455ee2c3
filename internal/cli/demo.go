package cli

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/demo"
)

var demoEras = []string{demo.Legacy, demo.Modern}

const demoCommand = "demo-server"

// withDemo returns a configuration to which the demonstration's servers, which
// are children of this very program, have been added.
func withDemo(s *config.Snapshot) (*config.Snapshot, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	out := *s
	out.Servers = slices.Clone(s.Servers)
	for _, era := range demoEras {
		if _, taken := s.Server(era); taken {
			return nil, fmt.Errorf("the configuration has a server named %s, and so has the demonstration", era)
		}
		server, p := config.Complete(config.Server{
			Name: era, Command: self, Args: []string{demoCommand, era},
			CallTimeout: s.Limits.Call, CallMax: s.Limits.CallMax, StartTimeout: s.Limits.Start,
		})
		if p != nil {
			return nil, fmt.Errorf("add the demonstration: %s", p)
		}
		out.Servers = append(out.Servers, server)
	}
	return &out, nil
}

// demoServerCommand is what serve --demo starts. People have no use for it.
func (a *app) demoServerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    demoCommand + " ERA",
		Short:  "Be a server of the demonstration",
		Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef("write legacy or modern", "no era is given")
			case len(args) > 1 || !slices.Contains(demoEras, args[0]):
				return usagef("write legacy or modern", "%q is no era", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return ended(c.Context(), demo.Serve(c.Context(), args[0], a.stdin, a.stdout, version()))
		},
	}
}
