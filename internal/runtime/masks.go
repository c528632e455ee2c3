package runtime

import "github.com/dragoman-mcp/dragoman/internal/config"

// Clean returns the function that masks the secrets of a server in text from the server, its
// clients or the network. If server is "" or not configured, the function masks the secrets of
// all servers.
func (r *Runtime) Clean(server string) func(text string) string {
	r.mu.Lock()
	snapshot := r.snapshot
	r.mu.Unlock()
	if snapshot == nil {
		return redactor(config.Server{})
	}
	if c, ok := snapshot.Server(server); ok {
		return redactor(c)
	}
	all := make([]func(string) string, len(snapshot.Servers))
	for i, c := range snapshot.Servers {
		all[i] = redactor(c)
	}
	return func(text string) string {
		for _, clean := range all {
			text = clean(text)
		}
		return text
	}
}

// Secrets returns the configured secrets of all servers.
func (r *Runtime) Secrets() (all []string) {
	r.mu.Lock()
	snapshot := r.snapshot
	r.mu.Unlock()
	if snapshot == nil {
		return nil
	}
	for _, c := range snapshot.Servers {
		all = append(all, c.Secrets()...)
	}
	return all
}
