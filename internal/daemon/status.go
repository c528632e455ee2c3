package daemon

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/admin"
	"github.com/dragoman-mcp/dragoman/internal/catalog"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/upstream"
)

// aliases give principals names that tell them apart and say nothing of them: the
// same for as long as the process runs, and no digest of theirs that could be tried
// out. The zero value is ready.
type aliases struct {
	once sync.Once
	key  [32]byte
}

func (a *aliases) of(principal string) string {
	if principal == "" {
		return ""
	}
	a.once.Do(func() { _, _ = rand.Read(a.key[:]) }) // never fails since Go 1.24
	sum := hmac.New(sha256.New, a.key[:])
	sum.Write([]byte(principal))
	return "p-" + hex.EncodeToString(sum.Sum(nil)[:5])
}

// report gathers how everything is. It asks nobody and waits for nobody.
func (d *daemon) report() *admin.Report {
	now, state := time.Now(), d.runtime.Report()
	r := &admin.Report{
		Name: "dragoman", Version: d.opts.Version, PID: os.Getpid(), State: "serving",
		Started: d.started.UTC(), UptimeSeconds: int64(now.Sub(d.started).Seconds()), Configured: state.Configured.UTC(),
		Conversations: map[string]int{}, Endpoints: []admin.Endpoint{}, Servers: []admin.Server{},
		Parked: []admin.ParkedCall{}, Listens: []admin.Listens{}, Losses: d.metrics.Losses(),
	}
	r.InFlight = admin.InFlight(d.budget.State())
	if state.Draining {
		r.State = "stopping"
	}
	for _, x := range state.Endpoints {
		e := admin.Endpoint{Path: x.Path, Server: x.Server, Conversations: map[string]int{}, Requests: x.Requests}
		r.Requests += x.Requests
		for transport, n := range x.Conversations {
			if n != 0 {
				e.Conversations[transport] = n
				r.Conversations[transport] += n
			}
		}
		r.Endpoints = append(r.Endpoints, e)
	}
	for _, u := range state.Servers {
		r.Servers = append(r.Servers, d.serverStatus(u.Report, state.Lists, u.Clean))
	}
	for _, p := range state.Parked {
		r.Parked = append(r.Parked, admin.ParkedCall{
			Server: p.Server, Method: p.Method, Principal: d.alias.of(p.Principal), Since: p.Since.UTC(), Questions: p.Questions,
		})
	}
	for who, n := range state.Listens {
		if principal, ok := strings.CutPrefix(who, "principal "); ok {
			who = d.alias.of(principal)
		}
		r.Listens = append(r.Listens, admin.Listens{Client: who, Open: n})
	}
	slices.SortFunc(r.Listens, func(a, b admin.Listens) int { return cmp.Compare(a.Client, b.Client) })
	return r
}

func (d *daemon) serverStatus(u upstream.Report, lists []catalog.ListReport, clean func(string) string) admin.Server {
	s := admin.Server{
		Name: u.Name, State: string(u.State), Since: u.Since.UTC(), Reason: clean(u.Reason),
		Era: u.Revision.Era(), Transport: u.Transport, Isolation: string(u.Isolation), Restarts: u.Restarts,
		RetryAt: at(u.Retry), Running: u.Running, Opening: u.Opening, Hearers: u.Hearers,
		Unasked: u.Unasked, Odd: u.Odd, Broadcasts: u.Broadcasts,
		Sessions: []admin.Session{}, Lists: []admin.List{},
	}
	if u.Revision != mcp.Unknown {
		s.Revision = u.Revision.String()
	}
	if u.Fault.Text != "" {
		s.LastError = &admin.Fault{At: u.Fault.At.UTC(), Text: clean(u.Fault.Text)}
	}
	if len(u.Trace) > 0 {
		s.Handshake = &admin.Handshake{At: u.TracedAt.UTC()}
		for _, line := range u.Trace {
			s.Handshake.Trace = append(s.Handshake.Trace, clean(line))
		}
	}
	if u.Listen != nil {
		s.Listen = &admin.Filter{Tools: u.Listen.Tools, Prompts: u.Listen.Prompts, Resources: u.Listen.Resources, URIs: len(u.Listen.URIs)}
	}
	for _, x := range u.Sessions {
		caps := x.Capabilities
		if caps == nil {
			caps = []string{}
		}
		s.Sessions = append(s.Sessions, admin.Session{
			Principal: d.alias.of(x.Principal), Capabilities: caps, Role: string(x.Role), Revision: x.Revision.String(),
			PID: x.PID, Opened: x.Opened.UTC(), Running: x.Running, IdleSince: at(x.Idle), Hearers: x.Hearers, Watched: x.Watched,
		})
	}
	// A server that has ended by itself may list something else when it is back.
	away := u.State == upstream.Broken || u.State == upstream.Idle && u.Reason != ""
	for _, l := range lists {
		if l.Server != u.Name {
			continue
		}
		out := admin.List{
			Method: l.Method, Items: l.Items, ReadAt: at(l.Read), Stale: l.Stale || away && !l.Read.IsZero(),
			Reading: l.Reading, CutOff: l.CutOff, Failed: clean(l.Failed),
		}
		if l.Method == mcp.MethodListTools {
			for _, name := range slices.Sorted(maps.Keys(u.LeftOut)) {
				out.Odd = append(out.Odd, admin.RejectedItem{Name: clean(name), Why: clean("its x-mcp-header is invalid: " + u.LeftOut[name])})
			}
		}
		for _, x := range l.Collided {
			out.Odd = append(out.Odd, admin.RejectedItem{Name: clean(x.Name), Why: clean(x.Why)})
		}
		s.Lists = append(s.Lists, out)
	}
	return s
}

// at is nil for the zero time.
func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
