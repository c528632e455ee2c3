package daemon

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/event"
	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
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

// emptyVerdict says whether a changed configuration can be used.
type emptyVerdict uint8

const (
	emptyUsed    emptyVerdict = iota // the configuration can be used
	emptyRefused                     // the file is empty
	emptyWaits                       // the file has no servers; Dragoman decides when the timer fires
)

// check returns whether next can be used now, and logs it if not. sure is true on SIGHUP and when
// the timer has fired.
func (e *emptiness) check(now, next *config.Snapshot, sure bool) emptyVerdict {
	e.stop()
	switch {
	case len(next.Servers) > 0 || len(now.Servers) == 0:
		return emptyUsed
	case next.Empty:
		e.log.Warn("ignored an empty configuration file: all servers stay; to remove all servers, write mcpServers: {}", "servers", len(now.Servers))
		return emptyRefused
	case sure:
		return emptyUsed
	}
	if e.patience <= 0 {
		e.patience = secondLook
	}
	e.again = time.NewTimer(e.patience)
	e.log.Warn("the changed configuration has no servers: Dragoman waits before it removes the current servers; send SIGHUP to remove them now",
		"servers", len(now.Servers), "wait", e.patience.String())
	return emptyWaits
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

// mostNamed is the number of servers that the event of a reload names in each list.
const mostNamed = 5

// publishReload publishes that a changed configuration was applied, or why it was refused. detail
// consists of sentences.
func (d *daemon) publishReload(outcome mcp.Outcome, detail string) {
	level := slog.LevelInfo
	if outcome != event.OK {
		level = slog.LevelWarn
	}
	d.events.Publish(event.Event{Kind: event.Reload, Level: level, Outcome: outcome, Detail: detail})
}

// refusalOf returns the reason why a changed configuration was refused, as sentences. err has the
// problems of the configuration.
func refusalOf(err error) string {
	const kept = "The changed configuration was refused, and the current one stays in use. "
	var bad *config.Error
	if !errors.As(err, &bad) {
		return kept + err.Error()
	}
	text := kept + excerpt.Line(bad.Problems[0].String(), 400)
	if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "?") {
		text += "."
	}
	if n := len(bad.Problems) - 1; n > 0 {
		text += " There are more problems: " + strconv.Itoa(n) + "."
	}
	return text
}

// changesText returns the changes of a configuration that was applied, as sentences. later are the
// settings that wait for a restart, and problems those of the file.
func changesText(c config.Changes, later []string, problems config.Problems) string {
	text := "The changed configuration was applied."
	list := func(what string, names []string) {
		if len(names) == 0 {
			return
		}
		text += " " + what + ": " + strings.Join(names[:min(len(names), mostNamed)], ", ")
		if more := len(names) - mostNamed; more > 0 {
			text += " and " + strconv.Itoa(more) + " more"
		}
		text += "."
	}
	var changed, restarted []string
	for _, x := range c.Changed {
		if x.Restart {
			restarted = append(restarted, x.Name)
		} else {
			changed = append(changed, x.Name)
		}
	}
	list("Added", c.Added)
	list("Removed", c.Removed)
	list("Restarted", restarted)
	list("Changed", changed)
	list("Settings", c.Settings)
	list("Settings that change only with a restart", later)
	var unusable []string
	for _, p := range problems.OfServers() {
		if !slices.Contains(unusable, p.Server) {
			unusable = append(unusable, p.Server)
		}
	}
	list("Not started because of an error", unusable)
	return text
}
