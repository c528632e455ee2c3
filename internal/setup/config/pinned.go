package config

import (
	"path/filepath"
	"strings"
)

// unpinned returns the name of the package runner, for example "npx", if the command runs a package
// without a fixed version. It returns "" for any other command.
func unpinned(command string, args []string) string {
	runner := strings.TrimSuffix(filepath.Base(command), ".cmd")
	var valued []string // flags that take a value
	switch runner {
	case "npx", "bunx", "pnpx":
		valued = []string{"-p", "--package", "-c", "--call"}
	case "uvx":
		valued = []string{"--from", "--with", "-p", "--python", "--index-url"}
	default:
		return ""
	}
	for i := 0; i < len(args); i++ {
		flag := args[i]
		if !strings.HasPrefix(flag, "-") {
			return verdict(runner, flag)
		}
		for _, v := range valued {
			if flag == v && i+1 < len(args) {
				if v == "--package" || v == "--from" || v == "-p" && runner != "uvx" {
					return verdict(runner, args[i+1])
				}
				i++
				break
			}
		}
	}
	return ""
}

func verdict(runner, pkg string) string {
	local := strings.HasPrefix(pkg, ".") || strings.HasPrefix(pkg, "/") || strings.Contains(pkg, "://")
	at := strings.LastIndexByte(pkg, '@')
	version := ""
	if at > 0 {
		version = pkg[at+1:]
	}
	if local || strings.Contains(pkg, "==") || version != "" && version != "latest" {
		return ""
	}
	return runner
}
