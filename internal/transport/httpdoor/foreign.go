package httpdoor

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
)

// Limits on the values of refused Host and Origin headers that are kept and logged.
const (
	maxForeign = 64  // the number of values that are logged
	maxShown   = 128 // bytes of one value
)

// foreign remembers which refused hosts and origins were logged. Any client can send new values, so
// foreign remembers at most maxForeign of them. The zero value is ready to use.
type foreign struct {
	mu   sync.Mutex
	told map[string]struct{}
}

// first reports whether value must be logged, because it is new and fewer than maxForeign values
// have been logged. last reports whether it is the last value that is logged.
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

// LogTo makes the guard log each host and each origin that it refuses, with advice. The guard logs
// each value only once, and at most maxForeign values. LogTo must be called before the guard is
// used.
func (g *Guard) LogTo(log *slog.Logger) { g.log = log }

// logOnce logs the value of a refused header, unless this value was logged before or too many values
// were logged. Neither the value nor the advice in the log has the first label of Own's name: every
// program on this machine may read the log, and the name is a secret.
func (g *Guard) logOnce(header, value, advice string) {
	if g == nil || g.log == nil {
		return
	}
	value, advice = g.own.hide(value), g.own.hide(advice)
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

// foreignHost returns a message that says why a Host header was refused, and how to allow the host.
// It also logs each host once, except the name of Own.
func (g *Guard) foreignHost(host string) string {
	if host == "" {
		return "the Host header is missing"
	}
	name, _ := splitHost(host)
	if g.isOwn(name) {
		return "this host name does not have this path"
	}
	if !plainHost(name) {
		name = "HOST" // a user may copy the command into a shell, so it must not contain arbitrary text from a client
	}
	advice := "if this host name is yours, add it to allowedHosts in the configuration, or start Dragoman with --allow-host " + name
	g.logOnce("Host", host, advice)
	return "the Host header " + excerpt.Quote(host, maxShown) + " is not an allowed host: " + advice
}

// foreignOrigin does the same as foreignHost for an Origin header.
func (g *Guard) foreignOrigin(origin string) string {
	if name, _ := splitHost(strings.TrimPrefix(origin, "http://")); g.isOwn(name) {
		return "pages of this host name may not send requests to other hosts"
	}
	advice := "if you trust pages of this origin, add it to allowedOrigins in the configuration"
	g.logOnce("Origin", origin, advice)
	return "the Origin header " + excerpt.Quote(origin, maxShown) + " is not an allowed origin: " + advice
}

// plainHost reports whether name contains only characters of host names and addresses, and does not
// begin with a hyphen.
func plainHost(name string) bool {
	return len(name) <= maxShown && name != "" && !strings.HasPrefix(name, "-") && strings.IndexFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(".-_:[]", r)
	}) < 0
}
