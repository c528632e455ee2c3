package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/audit"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// secondLook is how long Dragoman waits before it removes all servers because the changed file
// contains no servers.
const secondLook = 10 * time.Second

// emptiness decides whether Dragoman uses a changed configuration that has no servers, if the
// current configuration has servers. A full disk or a crashed editor can leave such a file by
// mistake. Dragoman never uses an empty file. It uses a file with an empty list of servers, but
// only after secondLook or on SIGHUP.
type emptiness struct {
	patience time.Duration // 0 means secondLook
	log      *slog.Logger

	again *time.Timer // fires after secondLook; nil if the timer is not running
}

// wait returns the channel of the timer, or nil if the timer is not running.
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

// emptyVerdict says whether Dragoman uses a changed configuration.
type emptyVerdict uint8

const (
	emptyUsed    emptyVerdict = iota // Dragoman uses the configuration
	emptyRefused                     // the file is empty
	emptyWaits                       // the file contains no servers; Dragoman decides when the timer fires
)

// check decides whether Dragoman uses the configuration next now. If not, check logs why. now is
// the current configuration. sure is true on SIGHUP and when the timer has fired.
func (e *emptiness) check(now, next *config.Snapshot, sure bool) emptyVerdict {
	e.stop()
	switch {
	case next.HasServers() || !now.HasServers():
		return emptyUsed
	case next.Empty:
		e.log.Warn("ignored an empty configuration file: all servers stay; to remove them, write mcpServers: {}", "servers", len(now.Servers))
		return emptyRefused
	case sure:
		return emptyUsed
	}
	if e.patience <= 0 {
		e.patience = secondLook
	}
	e.again = time.NewTimer(e.patience)
	e.log.Warn("the changed configuration has no servers: the current ones stay for a while; run `dragoman reload` to remove them now",
		"servers", len(now.Servers), "wait", e.patience.String())
	return emptyWaits
}

// envFile watches the file that dragoman.envFile names. A changed configuration can name another
// file. Only one goroutine may call the methods. After its last call of stop, this goroutine must
// wait until all goroutines in running have ended.
type envFile struct {
	log     *slog.Logger
	changed func()
	running *sync.WaitGroup

	path   string             // "" for none
	cancel context.CancelFunc // stops the watch of path; nil if no file is watched
}

// follow stops watching the previous file, and watches the file at path. If path is "", it watches
// no file.
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
			e.log.Warn("the file in dragoman.envFile is not watched for changes", "cause", err.Error())
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

// newProblems returns the problems that a reload has to report: those that the configuration before didn't
// have, wherever they stand in the file, and those of servers that have changed.
func newProblems(before, after config.Problems, c config.Changes) config.Problems {
	known := map[config.Problem]bool{}
	for _, p := range before {
		known[p.Unplaced()] = true
	}
	return slices.DeleteFunc(slices.Clone(after), func(p config.Problem) bool {
		if p.Project != "" {
			return known[p.Unplaced()]
		}
		changed := slices.ContainsFunc(c.Changed, func(x config.ServerChange) bool { return x.Name == p.Server })
		return known[p.Unplaced()] && !changed && !slices.Contains(c.Added, p.Server)
	})
}

// warnProblems logs the problems of a configuration that is used nevertheless.
func warnProblems(log *slog.Logger, problems config.Problems) {
	for _, p := range problems.Warnings() {
		log.Warn("problem in the configuration", "at", p)
	}
	for _, p := range problems.OfServers() {
		log.Warn("a server is not started", UnusableAttrs(p)...)
	}
	for _, p := range problems.OfProjects() {
		log.Error("a project of the file cannot be used", "project", p.Project, "at", p)
	}
}

// UnusableAttrs returns the attributes of a log record which says that a server isn't started because of a
// problem in its configuration.
func UnusableAttrs(p config.Problem) (attrs []any) {
	if p.Project != "" {
		attrs = append(attrs, "project", p.Project)
	}
	return append(append(attrs, "server", p.Server, "at", p), runtime.UnusableFailure(p).Attrs()...)
}

// logChanges logs what is different in a new configuration, with one record for each changed
// server. problems are those of the configuration.
func logChanges(log *slog.Logger, c config.Changes, problems config.Problems) {
	unusable := map[string]bool{}
	for _, p := range problems.OfServers() {
		unusable[p.Server] = true
	}
	for _, name := range c.Added {
		log.Info("server added", "code", "server_added", "server", name)
	}
	for _, name := range c.Removed {
		log.Info("server removed", "code", "server_removed", "server", name)
	}
	for _, name := range c.Disabled {
		log.Info("server disabled", "code", "server_disabled", "server", name)
	}
	for _, x := range c.Changed {
		effect := "applied without a restart"
		switch {
		case unusable[x.Name]:
			effect = "not started"
		case x.Restart:
			effect = "restarted"
		}
		log.Info("server changed", "code", "server_changed", "server", x.Name, "settings", strings.Join(x.Settings, " "), "effect", effect)
	}
	attrs := []any{"code", "config_applied", "added", len(c.Added), "removed", len(c.Removed), "changed", len(c.Changed), "kept", len(c.Kept), "disabled", len(c.Disabled)}
	if len(c.Settings) > 0 {
		attrs = append(attrs, "settings", strings.Join(c.Settings, " "))
	}
	log.Info("configuration applied", attrs...)
}

// ofHouse is the actor of what happens without anybody whom we know.
const ofHouse = "dragoman"

// recordLimit is how long a changed configuration waits for its act.
const recordLimit = 10 * time.Second

// record makes an act of a changed configuration, before it's used. by has who wants it, if anybody knows, and through
// what. Whoever has asked for a record relies on it, so what can't be recorded isn't used. Otherwise the file is used all
// the same, as calls go on; see ADR 48. Nothing is recorded for one person who has neither a database nor an audit.
func (d *daemon) record(by context.Context, what string) error {
	s, set := d.opts.store, d.auditSettings()
	if s == nil || s.State().Place == store.Absent && set.Level == audit.Off {
		return nil
	}
	ctx, cancel := context.WithTimeout(by, recordLimit)
	defer cancel()
	err := s.Write(ctx, cmp.Or(store.ActorOf(by), ofHouse), func(t *store.Tx) error {
		return t.Noted("reloaded", "configuration", filepath.Base(d.opts.ConfigPath), "", map[string]any{"what": what})
	})
	switch {
	case err == nil || by.Err() != nil:
		return nil
	case set.Refuse && set.Level != audit.Off:
		return fmt.Errorf("it can't be recorded in the audit, and audit.onFailure is refuse: %w; mend the database, then run `dragoman reload`", err)
	}
	d.log.Warn("the changed configuration is used, but can't be recorded in the audit", "cause", err.Error())
	return nil
}

// changedProjects names the projects of a file that are new, gone or different.
func changedProjects(before, after *config.Snapshot) string {
	known := map[string]*config.Project{}
	for i := range before.Projects {
		known[before.Projects[i].Name] = &before.Projects[i]
	}
	var names []string
	for i := range after.Projects {
		p := &after.Projects[i]
		if was := known[p.Name]; was == nil || !p.Equal(*was) {
			names = append(names, p.Name)
		}
		delete(known, p.Name)
	}
	names = slices.AppendSeq(names, maps.Keys(known))
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return " Projects: " + strings.Join(names, ", ") + "."
}

// errEmpty is the reason why an empty configuration file is refused.
var errEmpty = errors.New("the file is empty, so all servers stay; to remove them, write mcpServers: {}")

// mostNamed is the maximum number of names in each list that changesText makes.
const mostNamed = 5

// publishReload publishes an event which says that a changed configuration was applied or refused.
// detail says in sentences what changed, or why it was refused.
func (d *daemon) publishReload(outcome mcp.Outcome, detail string) {
	level := slog.LevelInfo
	if outcome != event.OK {
		level = slog.LevelWarn
	}
	d.events.Publish(event.Event{Kind: event.Reload, Level: level, Outcome: outcome, Detail: detail})
}

// refusalOf says in sentences why a changed configuration was refused. err is the error of the
// changed configuration.
func refusalOf(err error) string {
	const kept = "The changed configuration was refused, and the current one stays in use. "
	var bad *config.Error
	if !errors.As(err, &bad) {
		return kept + err.Error()
	}
	text := kept + sentence(&bad.Problems[0])
	if n := len(bad.Problems) - 1; n > 0 {
		text += " There are more problems: " + strconv.Itoa(n) + "."
	}
	return text
}

// sentence returns a problem as a sentence.
func sentence(p *config.Problem) string {
	text := excerpt.Line(p.String(), 400)
	if !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "?") { // a hint may be a question
		text += "."
	}
	return text
}

// changesText says in sentences what a new configuration has changed. later lists the settings that
// change only after a restart. problems are the problems of the configuration file.
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
	list("Disabled", c.Disabled)
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
