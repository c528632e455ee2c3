package config

import (
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/servername"
)

// RunnerStart is the default of Server.StartTimeout for a package runner, which may have to download the
// package before the server starts.
const RunnerStart = 5 * time.Minute

// Runner returns the name of the package runner that the server's command uses, such as "npx" or "docker
// run". It returns "" for any other command.
func (s *Server) Runner() string {
	if s.Command == "" {
		return ""
	}
	name, _ := servername.RunnerOf(append([]string{s.Command}, s.Args...))
	return name
}

// unpinned returns the name of the package runner, for example "npx", if the command runs a package
// without a fixed version. It returns "" for any other command.
func unpinned(command string, args []string) string {
	runner, pkg := servername.RunnerOf(append([]string{command}, args...))
	switch runner {
	case "npx", "bunx", "pnpx", "uvx":
	default:
		return ""
	}
	local := strings.HasPrefix(pkg, ".") || strings.HasPrefix(pkg, "/") || strings.Contains(pkg, "://")
	at := strings.LastIndexByte(pkg, '@')
	version := ""
	if at > 0 {
		version = pkg[at+1:]
	}
	if pkg == "" || local || strings.Contains(pkg, "==") || version != "" && version != "latest" {
		return ""
	}
	return runner
}
