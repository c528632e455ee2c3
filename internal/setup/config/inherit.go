package config

import (
	"net/url"
	"runtime"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// Inherits reports whether InheritEnv selects the environment variable with the given name. No pattern
// selects the variable with the vault's key. Names are case-insensitive on Windows.
func (s Server) Inherits(name string) bool {
	if s.vaultKey != "" && strings.EqualFold(name, s.vaultKey) {
		return false
	}
	return inherits(s.InheritEnv, name, runtime.GOOS == "windows")
}

func inherits(patterns []string, name string, windows bool) bool {
	if !windows {
		return matchesAny(patterns, name)
	}
	name = strings.ToUpper(name)
	return slices.ContainsFunc(patterns, func(p string) bool { return pattern.Glob(strings.ToUpper(p), name) })
}

// inheritedSecrets returns the secret values that a command gets from env, the environment of
// Dragoman. These are the values of inherited variables that have a name such as GITHUB_TOKEN, and
// the passwords in variables such as HTTPS_PROXY. Every command gets the proxy variables.
func (s Server) inheritedSecrets(env []string) []string {
	if s.Command == "" {
		return nil
	}
	var all []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasSuffix(strings.ToUpper(name), "_PROXY"):
			if u, err := url.Parse(value); err == nil {
				if password, ok := u.User.Password(); ok {
					all = append(all, password)
				}
			}
		case excerpt.SecretName(name) && s.Inherits(name):
			all = append(all, value)
		}
	}
	return all
}

// readInheritEnv reads a list of patterns into dst. An empty list in the file clears dst.
func (c *compiler) readInheritEnv(o *object, dst *[]string) {
	n := o.get("inheritEnv")
	if n == nil {
		return
	}
	var patterns []string
	o.list("inheritEnv", false, func(n *node, path string, e expansion) {
		if e.text == "" || strings.ContainsAny(e.text, "=$ \t\r\n") {
			c.problem(n, path, n.shown()+" is not a valid name of an environment variable", `write names of variables, for example AWS_REGION or AWS_*; put values into env`)
			return
		}
		patterns = append(patterns, e.text)
	})
	*dst = patterns
}
