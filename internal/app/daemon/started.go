package daemon

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
)

const (
	// startReport is the longest time that reportStart waits for servers.
	startReport = 5 * time.Second
	startPoll   = 50 * time.Millisecond
)

// Start has the state of the servers after the start, or after a few seconds if some servers are
// still starting.
type Start struct {
	Report *admin.Report // of default
	// Projects has the other projects, sorted by name.
	Projects []StartedProject
	At       time.Time // no later than the report
	Began    time.Time // the time at which Dragoman began to start the servers
}

// StartedProject has the state of the servers of a project.
type StartedProject struct {
	Name           string
	Servers, Ready int
	Starting       bool // a server is still starting
}

// started returns the state of all projects but default.
func (d *daemon) started() (all []StartedProject) {
	for _, p := range d.runtime.Projects()[1:] {
		x := StartedProject{Name: p.Name()}
		for _, s := range p.Statuses() {
			x.Servers++
			x.Starting = x.Starting || s.State == upstream.Starting
			if s.State == upstream.Ready {
				x.Ready++
			}
		}
		all = append(all, x)
	}
	return all
}

// reportStart calls Started when every server is settled, or after a few seconds. If ctx ends
// earlier, reportStart does not call Started.
func (d *daemon) reportStart(ctx context.Context, began time.Time) {
	lazy := map[string]bool{}
	for _, c := range d.project.Current().Servers {
		lazy[c.Name] = c.Lazy
	}
	late := time.NewTimer(cmp.Or(d.opts.startWait, startReport))
	defer late.Stop()
	poll := time.NewTicker(startPoll)
	defer poll.Stop()
	for waiting := true; waiting; {
		r := d.admin.Report()
		waiting = slices.ContainsFunc(d.started(), func(p StartedProject) bool { return p.Starting })
		for i := range r.Servers {
			waiting = waiting || !settled(&r.Servers[i], lazy[r.Servers[i].Name])
		}
		if !waiting {
			break
		}
		select {
		case <-poll.C:
		case <-late.C:
			waiting = false
		case <-ctx.Done():
			return
		}
	}
	if ctx.Err() == nil {
		at := time.Now()
		d.opts.Started(Start{Report: d.admin.Report(), Projects: d.started(), At: at, Began: began})
	}
}

// settled reports whether the start of a server is over. A ready server is settled when its list of
// tools was read or could not be read. An idle server is settled if the server is lazy.
func settled(s *admin.Server, lazy bool) bool {
	switch s.State {
	case "starting":
		return false
	case "idle":
		return lazy
	case "ready":
		for _, l := range s.Lists {
			if l.Method == mcp.MethodListTools {
				return l.ReadAt != nil || l.Failed != ""
			}
		}
		return false
	}
	return true
}
