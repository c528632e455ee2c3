// Command dragoman lets any MCP client talk to any MCP server. The commands and
// their flags are in internal/cli, what they do in internal/daemon; this file
// joins the two.
//
// See docs/cli.md for the reference of the command line and docs/configuration.md
// for that of the configuration.
package main

import (
	"os"
	"runtime/debug"

	"github.com/dragoman-mcp/dragoman/internal/cli"
)

func main() {
	if os.Getenv("GOGC") == "" {
		// Little is alive at any time and much passes through: collecting at twice
		// the live heap would happen every few large messages.
		debug.SetGCPercent(400)
		if os.Getenv("GOMEMLIMIT") == "" {
			// But not where many large messages are under way at once: 64 of 3 MiB each
			// took 1.2 GiB, and take 0.4 with a limit, from which on it is collected
			// as often as it has to be.
			debug.SetMemoryLimit(384 << 20)
		}
	}
	os.Exit(cli.Main(cli.Daemon()))
}
