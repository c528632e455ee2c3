package runtime

import (
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// mostFormer is the maximum number of secrets from earlier configurations that a Project keeps.
const mostFormer = 512

// retireSecretsLocked keeps the secrets of the current configuration before another configuration
// replaces it, because recorded messages and logs still contain these secrets.
func (p *Project) retireSecretsLocked() {
	if p.snapshot == nil {
		return
	}
	former := slices.Clone(p.former) // other goroutines may still read the old slice
	for _, text := range secretsOf(p.snapshot) {
		former = slices.DeleteFunc(former, func(x string) bool { return x == text })
		former = append(former, text)
	}
	p.former = slices.Clone(former[max(0, len(former)-mostFormer):])
}

// masks returns the current configuration, and the secrets of earlier configurations.
func (p *Project) masks() (current *config.Snapshot, former []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snapshot, p.former
}

// Clean returns the function that masks the secrets of a server in text from the server, its
// clients or the network. If server is "" or not configured, the function masks the secrets of
// all servers. It also masks the secrets of earlier configurations.
func (p *Project) Clean(server string) func(text string) string {
	p.mu.Lock()
	made := p.cleaners
	p.mu.Unlock()
	if made == nil {
		return redactor(config.Server{})
	}
	return made.of(server)
}

// cleaners makes the functions of Clean for one configuration, each when it's first needed: that takes far
// longer than to mask a line.
type cleaners struct {
	current *config.Snapshot
	former  []string
	mu      sync.Mutex
	made    map[string]func(text string) string // by server name; "" is for all servers
}

// of returns the function for a server.
func (c *cleaners) of(server string) func(text string) string {
	configured, ok := c.current.Server(server)
	if !ok {
		server = ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clean := c.made[server]
	switch {
	case clean != nil:
		return clean
	case ok:
		clean = redactor(configured, c.former...)
	default:
		clean = c.ofAll()
	}
	c.made[server] = clean
	return clean
}

// ofAll returns a function that masks the secrets of all servers.
func (c *cleaners) ofAll() func(text string) string {
	all := make([]func(string) string, len(c.current.Servers))
	for i, s := range c.current.Servers {
		all[i] = redactor(s)
	}
	all = append(all, redactor(config.Server{}, c.former...))
	return func(text string) string {
		for _, clean := range all {
			text = clean(text)
		}
		return text
	}
}

// Secrets returns the configured secrets of all servers, and the secrets of earlier configurations.
func (p *Project) Secrets() (all []string) {
	snapshot, former := p.masks()
	if snapshot == nil {
		return nil
	}
	return append(secretsOf(snapshot), former...)
}

// secretsOf returns the secrets of all servers of a configuration.
func secretsOf(s *config.Snapshot) (all []string) {
	for _, c := range s.Servers {
		all = append(all, c.Secrets()...)
	}
	return all
}
