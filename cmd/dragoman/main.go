// Command dragoman connects any MCP client to any MCP server. Package internal/app/cli defines the
// commands and their flags, and internal/app/daemon implements the commands.
//
// docs/cli.md documents the command line. docs/configuration.md documents the configuration.
package main

import (
	"os"
	"runtime/debug"

	"github.com/dragoman-mcp/dragoman/internal/app/cli"
)

func main() {
	if os.Getenv("GOGC") == "" {
		// The live heap is small. With the default of 100, the garbage collector would run after
		// every few large messages.
		debug.SetGCPercent(400)
		if os.Getenv("GOMEMLIMIT") == "" {
			// The memory limit matters when many large messages are in flight: 64 messages
			// of 3 MiB each took 1.2 GiB without the limit, and take 0.4 GiB with it. Near
			// the limit, the garbage collector runs more often.
			debug.SetMemoryLimit(384 << 20)
		}
	}
	os.Exit(cli.Main(cli.Daemon()))
}
