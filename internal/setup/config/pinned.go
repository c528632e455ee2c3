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

// loosePackage is a package without a fixed version, and where the file has its command.
type loosePackage struct {
	runner, server string
	command        *node
	path           string
}

// warnOfLoose warns of all packages of a project without a fixed version, once for each runner.
func (c *compiler) warnOfLoose() {
	defer func() { c.loose = nil }()
	servers := map[string][]string{}
	for _, x := range c.loose {
		servers[x.runner] = append(servers[x.runner], printable(x.server))
	}
	for _, x := range c.loose {
		all := servers[x.runner]
		if all[0] != printable(x.server) {
			continue // the warning stands at the first server
		}
		text := x.runner + " always runs the newest version of the package"
		if len(all) > 1 {
			text += ", also for " + strings.Join(all[1:], ", ")
		}
		c.warning(x.command, x.path, text, "pin the version, for example package@1.2.3")
	}
}
