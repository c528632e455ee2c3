// Command dragoman lets any MCP client talk to any MCP server. The commands and
// their flags are in internal/cli, what they do in internal/daemon; this file
// joins the two.
//
// See docs/cli.md for the reference of the command line and docs/configuration.md
// for that of the configuration.
package main

import (
	"os"

	"github.com/dragoman-mcp/dragoman/internal/cli"
)

func main() { os.Exit(cli.Main(cli.Daemon())) }
