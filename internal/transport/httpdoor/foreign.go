package httpdoor

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
)

// These constants bound how many values of refused Host and Origin headers are kept and logged, and
// how much of each value.
const (
	maxForeign = 64  // the number of values that are logged
	maxShown   = 128 // bytes of one value
)

// foreign remembers which refused hosts and origins were logged. Any client can send new values, so
// their number is bounded. The zero value is ready.
type foreign struct {
	mu   sync.Mutex
	told map[string]struct{}
}

// first reports whether a value must be logged, because it is new and fewer than maxForeign values
// have been logged. The second result says that no further value will be logged.
func (f *foreign) first(value string) (first, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, told := f.told[value]; told || len(f.told) >= maxForeign {
		return false, false
	}
	if f.told == nil {
		f.told = make(map[string]struct{})
	}
	f.told[value] = struct{}{}
	return true, len(f.told) == maxForeign
}

// LogTo makes the guard log each host and each origin that it refuses. The guard logs each value
// only once, with advice. LogTo must be called before the guard is used.
func (g *Guard) LogTo(log *slog.Logger) { g.log = log }

// tell logs a refused header unless it has been logged before.
func (g *Guard) tell(header, value, advice string) {
	if g == nil || g.log == nil {
		return
	}
	first, last := g.told.first(header + " " + excerpt.Cut(value, maxShown))
	if !first {
		return
	}
	g.log.LogAttrs(context.Background(), slog.LevelWarn, "refused a request: its "+header+" header is not allowed",
		slog.String("value", excerpt.Line(value, maxShown)), slog.String("fix", advice), slog.String("code", "host_refused"))
	if last {
		g.log.LogAttrs(context.Background(), slog.LevelWarn, "too many refused hosts and origins; further ones are not logged", slog.Int("logged", maxForeign))
	}
}

// foreignHost returns the problem with a Host header and how to fix it. It also logs each host
// once.
func (g *Guard) foreignHost(host string) string {
	if host == "" {
		return "the Host header is missing"
	}
	name, _ := splitHost(host)
	if !plainHost(name) {
		name = "HOST" // a user may copy the command, so it must not contain text of an unknown client
	}
	advice := "if this host name is yours, add it to allowedHosts in the configuration, or start Dragoman with --allow-host " + name
	g.tell("Host", host, advice)
	return "the Host header " + excerpt.Quote(host, maxShown) + " is not an allowed host: " + advice
}

// foreignOrigin does the same as foreignHost for an Origin header.
func (g *Guard) foreignOrigin(origin string) string {
	advice := "if you trust pages of this origin, add it to allowedOrigins in the configuration"
	g.tell("Origin", origin, advice)
	return "the Origin header " + excerpt.Quote(origin, maxShown) + " is not an allowed origin: " + advice
}

// plainHost reports whether a name is a host name or an address without special characters of a
// shell.
func plainHost(name string) bool {
	return len(name) <= maxShown && name != "" && !strings.HasPrefix(name, "-") && strings.IndexFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(".-_:[]", r)
	}) < 0
}
