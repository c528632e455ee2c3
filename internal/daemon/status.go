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

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/upstream"
)

// statusReport is how a daemon is, at /api/v1/status and in the dump. Members are
// added to it, never renamed. Nothing in it is a secret: principals go by aliases,
// and texts that repeat what a server said have the configured secrets taken out.
type statusReport struct {
	Name          string           `json:"name"`
	Version       string           `json:"version"`
	PID           int              `json:"pid"`
	Started       time.Time        `json:"started"`
	UptimeSeconds int64            `json:"uptimeSeconds"`
	State         string           `json:"state"` // "serving" or "stopping"
	Configured    time.Time        `json:"configured"`
	Conversations map[string]int   `json:"conversations"` // with clients, by transport
	Requests      int              `json:"requests"`      // that run and are a conversation by themselves
	InFlight      inFlightStatus   `json:"inFlight"`
	Endpoints     []endpointStatus `json:"endpoints"`
	Servers       []serverStatus   `json:"servers"`
	Parked        []parkedStatus   `json:"parked"`
	Listens       []listenStatus   `json:"listens"`
	Losses        []lossStatus     `json:"losses"`
}

// inFlightStatus is in bytes.
type inFlightStatus struct {
	Held    int64 `json:"held"`
	Limit   int64 `json:"limit"`
	Refused int64 `json:"refused"` // requests
}

type endpointStatus struct {
	Path          string         `json:"path"`
	Server        string         `json:"server,omitempty"` // "" for the one that joins them all
	Conversations map[string]int `json:"conversations"`
	Requests      int            `json:"requests"`
}

type serverStatus struct {
	Name      string           `json:"name"`
	State     string           `json:"state"`
	Since     time.Time        `json:"since"`
	Reason    string           `json:"reason,omitempty"`
	Era       string           `json:"era"`
	Revision  string           `json:"revision,omitempty"`
	Transport string           `json:"transport,omitempty"`
	Isolation string           `json:"isolation"`
	Restarts  int              `json:"restarts"`
	RetryAt   *time.Time       `json:"retryAt,omitempty"`
	LastError *faultStatus     `json:"lastError,omitempty"`
	Handshake *handshakeStatus `json:"handshake,omitempty"`
	Running   int              `json:"running"` // calls in flight
	Opening   int              `json:"opening"` // sessions
	Hearers   int              `json:"hearers"` // clients that hear its notices
	Listen    *interestStatus  `json:"listen,omitempty"`
	Sessions  []sessionStatus  `json:"sessions"`
	Lists     []listStatus     `json:"lists"`
}

type faultStatus struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

type handshakeStatus struct {
	At    time.Time `json:"at"`
	Trace []string  `json:"trace"`
}

type interestStatus struct {
	Tools     bool `json:"tools"`
	Prompts   bool `json:"prompts"`
	Resources bool `json:"resources"`
	URIs      int  `json:"uris"`
}

type sessionStatus struct {
	Principal    string     `json:"principal,omitempty"` // an alias; none for nobody in particular
	Capabilities []string   `json:"capabilities"`
	Role         string     `json:"role"` // "home", "lane", "call" or "link"
	Revision     string     `json:"revision"`
	PID          int        `json:"pid,omitempty"`
	Opened       time.Time  `json:"opened"`
	Running      int        `json:"running"`
	IdleSince    *time.Time `json:"idleSince,omitempty"`
	Hearers      int        `json:"hearers"`
	Watched      int        `json:"watched"`
}

type listStatus struct {
	Method  string      `json:"method"`
	Items   int         `json:"items"`
	ReadAt  *time.Time  `json:"readAt,omitempty"`
	Stale   bool        `json:"stale"`
	Reading bool        `json:"reading"`
	CutOff  bool        `json:"cutOff"`
	Failed  string      `json:"failed,omitempty"`
	Odd     []oddStatus `json:"odd,omitempty"`
}

type oddStatus struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

type parkedStatus struct {
	Server    string    `json:"server"`
	Method    string    `json:"method"`
	Principal string    `json:"principal,omitempty"`
	Since     time.Time `json:"since"`
	Questions int       `json:"questions"`
}

type listenStatus struct {
	Client string `json:"client"` // an alias, an address or a conversation
	Open   int    `json:"open"`
}

type lossStatus struct {
	Server string `json:"server"`
	What   string `json:"what"`
	Count  int64  `json:"count"`
}

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

// redactor takes what is configured as secret of a server out of texts in which
// the server, or the network, may repeat it.
func redactor(c config.Server) *strings.Replacer {
	var pairs []string
	if c.URL != "" && c.Describe() != c.URL {
		pairs = append(pairs, c.URL, c.Describe())
	}
	for _, s := range c.Secrets() { // of those that begin alike the first is taken, which is the longest
		pairs = append(pairs, s, "***")
	}
	return strings.NewReplacer(pairs...)
}

// report gathers how everything is. It asks nobody and waits for nobody.
func (d *daemon) report() *statusReport {
	d.mu.Lock()
	g, snapshot, order := d.gateway, d.snapshot, d.order
	since, draining := d.since, d.draining
	rooms := map[string]*room{"": d.merged}
	maps.Copy(rooms, d.single)
	d.mu.Unlock()

	now := time.Now()
	r := &statusReport{
		Name: "dragoman", Version: d.opts.Version, PID: os.Getpid(), State: "serving",
		Started: d.started.UTC(), UptimeSeconds: int64(now.Sub(d.started).Seconds()), Configured: since.UTC(),
		Conversations: map[string]int{}, Endpoints: []endpointStatus{}, Servers: []serverStatus{},
		Parked: []parkedStatus{}, Listens: []listenStatus{}, Losses: []lossStatus{},
	}
	r.InFlight = inFlightStatus(d.budget.State())
	if draining {
		r.State = "stopping"
	}
	for _, name := range slices.Sorted(maps.Keys(rooms)) {
		e := endpointStatus{Path: "/mcp", Server: name, Conversations: map[string]int{}}
		if name != "" {
			e.Path = "/s/" + name + "/mcp"
		}
		all, requests := rooms[name].reception.Conversations()
		e.Requests = requests
		r.Requests += requests
		for transport, n := range all {
			if n != 0 {
				e.Conversations[transport] = n
				r.Conversations[transport] += n
			}
		}
		r.Endpoints = append(r.Endpoints, e)
	}
	configured := make(map[string]config.Server)
	for _, c := range snapshot.Servers {
		configured[c.Name] = c
	}
	lists := g.Lists()
	for _, u := range order {
		r.Servers = append(r.Servers, d.serverStatus(u.Report(), lists, redactor(configured[u.Name()])))
	}
	for _, p := range d.relay.ParkedCalls() {
		r.Parked = append(r.Parked, parkedStatus{p.Server, p.Method, d.alias.of(p.Principal), p.Since.UTC(), p.Questions})
	}
	for who, n := range d.relay.Listens() {
		if principal, ok := strings.CutPrefix(who, "principal "); ok {
			who = d.alias.of(principal)
		}
		r.Listens = append(r.Listens, listenStatus{who, n})
	}
	slices.SortFunc(r.Listens, func(a, b listenStatus) int { return cmp.Compare(a.Client, b.Client) })
	for l, n := range d.metrics.lostSoFar() {
		r.Losses = append(r.Losses, lossStatus{l.server, l.what, n})
	}
	slices.SortFunc(r.Losses, func(a, b lossStatus) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.What, b.What))
	})
	return r
}

func (d *daemon) serverStatus(u upstream.Report, lists []gateway.ListReport, clean *strings.Replacer) serverStatus {
	s := serverStatus{
		Name: u.Name, State: string(u.State), Since: u.Since.UTC(), Reason: clean.Replace(u.Reason),
		Era: era(u.Revision), Transport: u.Transport, Isolation: string(u.Isolation), Restarts: u.Restarts,
		RetryAt: at(u.Retry), Running: u.Running, Opening: u.Opening, Hearers: u.Hearers,
		Sessions: []sessionStatus{}, Lists: []listStatus{},
	}
	if u.Revision != mcp.Unknown {
		s.Revision = u.Revision.String()
	}
	if u.Fault.Text != "" {
		s.LastError = &faultStatus{u.Fault.At.UTC(), clean.Replace(u.Fault.Text)}
	}
	if len(u.Trace) > 0 {
		s.Handshake = &handshakeStatus{At: u.TracedAt.UTC()}
		for _, line := range u.Trace {
			s.Handshake.Trace = append(s.Handshake.Trace, clean.Replace(line))
		}
	}
	if u.Listen != nil {
		s.Listen = &interestStatus{u.Listen.Tools, u.Listen.Prompts, u.Listen.Resources, len(u.Listen.URIs)}
	}
	for _, x := range u.Sessions {
		caps := x.Capabilities
		if caps == nil {
			caps = []string{}
		}
		s.Sessions = append(s.Sessions, sessionStatus{
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
		out := listStatus{
			Method: l.Method, Items: l.Items, ReadAt: at(l.Read), Stale: l.Stale || away && !l.Read.IsZero(),
			Reading: l.Reading, CutOff: l.CutOff, Failed: clean.Replace(l.Failed),
		}
		if l.Method == mcp.MethodListTools {
			for _, name := range slices.Sorted(maps.Keys(u.LeftOut)) {
				out.Odd = append(out.Odd, oddStatus{clean.Replace(name), clean.Replace("its x-mcp-header is invalid: " + u.LeftOut[name])})
			}
		}
		for _, x := range l.Collided {
			out.Odd = append(out.Odd, oddStatus{clean.Replace(x.Name), clean.Replace(x.Why)})
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
