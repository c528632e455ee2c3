package daemon

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/config"
)

// secondLook is how long Dragoman waits before it removes all running servers because a changed
// file has no servers.
const secondLook = 10 * time.Second

// emptiness decides whether a changed configuration without servers replaces one with servers.
// A full disk or a crashed editor can leave such a file, which would remove all servers at once. An
// empty file is never used. A file that explicitly has no servers is used only after secondLook or
// on SIGHUP.
type emptiness struct {
	patience time.Duration // 0 means secondLook
	log      *slog.Logger

	again *time.Timer // the timer that fires after secondLook; nil if it is not running
}

// wait returns the channel of the timer. It returns nil if the timer is not running.
func (e *emptiness) wait() <-chan time.Time {
	if e.again == nil {
		return nil
	}
	return e.again.C
}

// stop stops the timer.
func (e *emptiness) stop() {
	if e.again != nil {
		e.again.Stop()
		e.again = nil
	}
}

// refuses reports whether next must not be used yet, and logs the reason. sure is true on
// SIGHUP and when the timer has fired.
func (e *emptiness) refuses(now, next *config.Snapshot, sure bool) bool {
	e.stop()
	switch {
	case len(next.Servers) > 0 || len(now.Servers) == 0:
		return false
	case next.Empty:
		e.log.Warn("ignored an empty configuration file: all servers stay; to remove all servers, write mcpServers: {}", "servers", len(now.Servers))
		return true
	case sure:
		return false
	}
	if e.patience <= 0 {
		e.patience = secondLook
	}
	e.again = time.NewTimer(e.patience)
	e.log.Warn("the changed configuration has no servers: Dragoman waits before it removes the current servers; send SIGHUP to remove them now",
		"servers", len(now.Servers), "wait", e.patience.String())
	return true
}

// envFile watches the file of dragoman.envFile, whose path may change with the configuration. Only
// one goroutine may use it. After stop, the caller waits for the goroutines in running.
type envFile struct {
	log     *slog.Logger
	changed func()
	running *sync.WaitGroup

	path   string             // "" for none
	cancel context.CancelFunc // nil if nothing is watched
}

// follow watches the file at path instead of the previous file. If path is "", it watches no file.
func (e *envFile) follow(ctx context.Context, path string) {
	if path == e.path {
		return
	}
	e.stop()
	if e.path = path; path == "" {
		return
	}
	ctx, e.cancel = context.WithCancel(ctx)
	e.running.Go(func() {
		if err := config.WatchEnv(ctx, path, e.changed); err != nil && ctx.Err() == nil {
			e.log.Warn("the file of dragoman.envFile is not watched for changes", "cause", err.Error())
		}
	})
}

// stop ends the watch.
func (e *envFile) stop() {
	if e.cancel != nil {
		e.cancel()
		e.path, e.cancel = "", nil
	}
}

// logChanges logs the changes of a new configuration, with a line for each server.
func logChanges(log *slog.Logger, c config.Changes) {
	for _, name := range c.Added {
		log.Info("server added", "code", "server_added", "server", name)
	}
	for _, name := range c.Removed {
		log.Info("server removed", "code", "server_removed", "server", name)
	}
	for _, x := range c.Changed {
		effect := "applied without a restart"
		if x.Restart {
			effect = "restarted"
		}
		log.Info("server changed", "code", "server_changed", "server", x.Name, "settings", strings.Join(x.Settings, " "), "effect", effect)
	}
	attrs := []any{"code", "config_applied", "added", len(c.Added), "removed", len(c.Removed), "changed", len(c.Changed), "kept", len(c.Kept)}
	if len(c.Settings) > 0 {
		attrs = append(attrs, "settings", strings.Join(c.Settings, " "))
	}
	log.Info("configuration applied", attrs...)
}
