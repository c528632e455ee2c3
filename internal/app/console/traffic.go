package console

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// Limits of the counters.
const (
	mostClients   = 256             // the maximum number of clients; clientKey determines what counts as one client
	mostConnected = 4 * mostClients // the maximum number of connected clients that the method sums uses
	mostServers   = 1024
	mostLosses    = 256 // the maximum number of kinds of losses
	mostPending   = 256 // the maximum number of calls in traffic.waiting
	mostInfos     = 512 // the maximum number of decoded clientInfo objects
	mostInfo      = 2 << 10
	minuteSlots   = 12 // the number of slots of 5 s
	hourSlots     = 60 // the number of slots of one minute
	latencies     = 40 // the number of steps of a latency histogram; the first step ends at 0.25 ms, and each other step ends at 4/3 of the previous step's end
)

// traffic counts calls and losses from the event stream. It is safe for concurrent use. The
// goroutines of calls execute note, so note must be fast: most calls are counted in a tally.
type traffic struct {
	project string // whose events count
	began   time.Time
	demo    map[string]bool // the names of the clients of the demo; see Options.DemoClients

	mu      sync.Mutex
	infos   map[string]named
	clients map[clientKey]*clientCount
	servers map[string]*serverCount
	losses  map[lossKey]*lossCount
	pending map[uint64][]lossKey
	waiting []uint64 // the calls in pending, oldest first
	lanes   [2][2]window
	hour    [hourSlots]minute
	calls   uint64 // the number of calls since the start
	lost    uint64
	events  eventRing
	tallies [tallies]tally // what is still to be added to the fields above
}

type named struct{ name, version string }

// callPlace says whose call it was, to which server, and for which tool, prompt or resource. The item of
// a call that names none, such as tools/list, is its method.
type callPlace struct {
	call         uint64
	client       clientKey
	server, item string
}

// clientKey identifies a client. Two running instances of one program have the same key, so they
// count as one client.
type clientKey struct {
	name, version string
	revision      mcp.Revision
	transport     string
}

type clientCount struct {
	window
	number       int // the number of the client in the URL of its page
	first, last  time.Time
	calls        uint64
	failed       uint64
	lost         uint64
	capabilities []byte
	described    time.Time         // when the client sent its capabilities
	shown        string            // the exact transport of the client's last connection; "" if it is not known
	servers      map[string]uint64 // the numbers of calls, by server; at most 64 servers
}

type serverCount struct {
	window
	last   time.Time
	calls  uint64
	failed uint64
}

// lossKey identifies one kind of loss. item is the tool, prompt or resource of the call, as the server
// calls it. server and item are "" if they are not known.
type lossKey struct{ server, item, what, why string }

type lossCount struct {
	count   uint64
	last    time.Time
	clients map[string]uint64 // the numbers of calls with this loss, by client name; at most 16 names
}

// window counts the calls of the last minute.
type window struct {
	slots [minuteSlots + 1]struct {
		at int64 // when the slot began, in units of 5 s since the epoch
		tallied
	}
}

// minute counts the calls that ended in one minute.
type minute struct {
	at                  int64 // when the minute began, in minutes since the epoch
	relayed, translated uint32
	other, failed       uint32
	took                [2][latencies]uint32 // latency histograms: 0 for relayed calls, 1 for translated calls
}

// newTraffic returns a traffic without calls. demo holds the names of the clients of the demo.
func newTraffic(demo ...string) *traffic {
	t := &traffic{
		project: event.DefaultProject, began: time.Now(), demo: map[string]bool{}, infos: map[string]named{}, clients: map[clientKey]*clientCount{}, servers: map[string]*serverCount{},
		losses: map[lossKey]*lossCount{}, pending: map[uint64][]lossKey{},
	}
	for _, name := range demo {
		t.demo[name] = true
	}
	return t
}

// tap subscribes to the events of p, which may be nil, and passes on those of the project: the pages show no other, and not everybody who sees them may know what is in another. It calls changed after each event.
// stop ends the subscription.
func (t *traffic) tap(p *event.Publisher, changed func()) (stop func()) {
	if p == nil {
		return func() {}
	}
	return p.Tap(event.Of(event.Call, event.Loss, event.Handshake, event.Lifecycle, event.Refusal, event.ServerRequest, event.Rename, event.Changed, event.Pinned, event.Question, event.Reload), func(e event.Event) {
		if e.Project != t.project {
			return
		}
		t.note(&e)
		changed()
	})
}

// note adds the event e to the counters.
func (t *traffic) note(e *event.Event) {
	if e.Kind == event.Call {
		if x := endedCallOf(e); !t.tallyOf(e.Call).note(&x) {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.callLocked(&x)
		}
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events.noteLocked(e)
	if e.Kind == event.Loss {
		t.lossLocked(e)
	}
}

// failedCall reports whether the client got a JSON-RPC error. A tool result that describes an error
// is not a failed call. A call that the client cancelled is not a failed call either.
func failedCall(e *event.Event) bool {
	switch e.Outcome {
	case event.OK, event.ToolError, event.Parked, event.Negotiated, event.Cancelled, "":
		return false
	}
	return true
}

// endedListening reports whether a call is a subscription that ended without an error. Such a call
// lasts as long as its client listens. Therefore, it counts in rows and totals, but not in rates,
// error rates and latencies.
func endedListening(e *event.Event) bool {
	return e.Method == mcp.MethodListen && !failedCall(e)
}

func (t *traffic) callLocked(x *endedCall) {
	if x.failed && x.Client != nil && len(t.demo) > 0 && t.demo[t.nameLocked(x.Client.Info).name] {
		x.failed = false
	}
	t.calls++
	lost := t.pending[x.Call]
	if lost != nil {
		delete(t.pending, x.Call)
		t.waiting = slices.DeleteFunc(t.waiting, func(call uint64) bool { return call == x.Call })
	}
	place := callPlace{call: x.Call, server: x.Server, item: x.item()}
	if x.Client != nil {
		place.client = t.callerLocked(x)
	}
	for _, k := range lost {
		t.placeLocked(k, &place)
	}
	if x.Server != "" {
		t.calledLocked(x)
	}
	if !x.listened {
		if x.through {
			t.lanes[side(x.From)][side(x.To)].add(x.slot, x.tallied())
		}
		t.minuteLocked(x.Time.Unix() / 60).add(x)
	}
	t.joinLocked(x, place)
}

// callerLocked counts a call for the client that made it, and returns the client.
func (t *traffic) callerLocked(x *endedCall) clientKey {
	n := t.nameLocked(x.Client.Info)
	key := clientKey{n.name, n.version, x.From, transportOf(x.Client)}
	c := t.clientLocked(key, x.Time)
	c.count(1, x.failures(), x.Time)
	if !x.listened {
		c.add(x.slot, x.tallied())
	}
	if x.Server != "" && (len(c.servers) < 64 || c.servers[x.Server] > 0) {
		c.servers[x.Server]++
	}
	c.describe(x.Client.Capabilities, x.Time)
	return key
}

// calledLocked counts a call for the server that it was for.
func (t *traffic) calledLocked(x *endedCall) {
	s := t.servers[x.Server]
	if s == nil {
		if len(t.servers) >= mostServers {
			return
		}
		s = &serverCount{}
		t.servers[x.Server] = s
	}
	s.count(1, x.failures(), x.Time)
	if !x.listened {
		s.add(x.slot, x.tallied())
	}
}

func (t *traffic) lossLocked(e *event.Event) {
	k := lossKey{e.Server, "", excerpt.Cut(e.Name, 128), excerpt.Cut(e.Detail, 256)}
	l := t.countLocked(k)
	l.count, l.last = l.count+1, e.Time
	t.lost++
	if e.Call == 0 {
		return
	}
	if place, ended := t.placeOf(e.Call); ended {
		t.placeLocked(k, &place)
		return
	}
	if t.pending[e.Call] == nil {
		if len(t.waiting) >= mostPending {
			delete(t.pending, t.waiting[0])
			t.abandon(t.waiting[0])
			t.waiting = append(t.waiting[:0:0], t.waiting[1:]...)
		}
		t.waiting = append(t.waiting, e.Call)
	}
	if len(t.pending[e.Call]) < 16 {
		t.pending[e.Call] = append(t.pending[e.Call], k)
	}
}

// countLocked returns the counters of a kind of loss. If the kind is new and there are mostLosses kinds
// already, countLocked removes the kind that occurred least recently.
func (t *traffic) countLocked(k lossKey) *lossCount {
	if l := t.losses[k]; l != nil {
		return l
	}
	if len(t.losses) >= mostLosses {
		var oldest lossKey
		for x, v := range t.losses {
			if o := t.losses[oldest]; o == nil || v.last.Before(o.last) {
				oldest = x
			}
		}
		delete(t.losses, oldest)
	}
	l := &lossCount{clients: map[string]uint64{}}
	t.losses[k] = l
	return l
}

// placeLocked counts one loss for the client, the server and the item of its call, which only the event at
// the end of the call tells.
func (t *traffic) placeLocked(k lossKey, p *callPlace) {
	t.events.placeLocked(p)
	if c := t.clients[p.client]; c != nil {
		c.lost++
	}
	placed := k
	placed.server, placed.item = cmp.Or(k.server, p.server), p.item
	l := t.losses[k]
	if l == nil {
		return
	}
	if placed != k {
		last := l.last
		if l.count--; l.count == 0 {
			delete(t.losses, k)
		}
		l = t.countLocked(placed)
		l.count, l.last = l.count+1, last
	}
	if name := p.client.name; p.client != (clientKey{}) && (len(l.clients) < 16 || l.clients[name] > 0) {
		l.clients[name]++
	}
}

// clientLocked returns the counters of a client. If the client is new and there are mostClients
// clients already, clientLocked removes the client with the oldest last call.
func (t *traffic) clientLocked(key clientKey, at time.Time) *clientCount {
	c := t.clients[key]
	if c != nil {
		return c
	}
	if len(t.clients) >= mostClients {
		t.addTalliesLocked(true)
		oldest, _ := t.oldestLocked()
		delete(t.clients, oldest)
	}
	number := 1
	for _, v := range t.clients {
		number = max(number, v.number+1)
	}
	c = &clientCount{number: number, first: at, servers: map[string]uint64{}}
	t.clients[key] = c
	return c
}

// oldestLocked returns the client whose last call is oldest, and the time of that call.
func (t *traffic) oldestLocked() (oldest clientKey, last time.Time) {
	first := true
	for k, v := range t.clients {
		if first || v.last.Before(last) {
			oldest, last, first = k, v.last, false
		}
	}
	return oldest, last
}

// nameLocked returns the name and the version from the clientInfo that a client sent.
func (t *traffic) nameLocked(info []byte) named {
	if n, ok := t.infos[string(info)]; ok {
		return n
	}
	at := jsonrpc.Whole(info)
	name, _ := jsonrpc.Text(info, jsonrpc.Find(info, at, "name"))
	version, _ := jsonrpc.Text(info, jsonrpc.Find(info, at, "version"))
	n := named{shownName(name, 128), shownName(version, 64)}
	if len(info) <= mostInfo {
		if len(t.infos) >= mostInfos {
			clear(t.infos)
		}
		t.infos[string(info)] = n
	}
	return n
}

// shownName shortens a name that a client reports about itself, and masks secrets in it.
func shownName(name string, limit int) string {
	return excerpt.Cut(excerpt.MaskSecrets(excerpt.Cut(name, 4*limit)), limit)
}

func transportOf(c *mcp.ClientInfo) string {
	if c.Remote == "" {
		return "stdio"
	}
	return "HTTP"
}

// minuteLocked returns the counters of a minute since the epoch. Those of an hour ago are gone, so nobody
// sees what is added to them.
func (t *traffic) minuteLocked(n int64) *minute {
	m := &t.hour[n%hourSlots]
	if m.at > n {
		return &minute{}
	}
	if m.at != n {
		*m = minute{at: n}
	}
	return m
}

// add counts a call.
func (m *minute) add(x *endedCall) {
	if x.failed {
		m.failed++
	}
	mode := 0
	switch {
	case !x.through:
		m.other++
		return
	case side(x.From) != side(x.To):
		mode = 1
		m.translated++
	default:
		m.relayed++
	}
	m.took[mode][x.step]++
}

// merge adds the calls that other counted.
func (m *minute) merge(other *minute) {
	m.relayed += other.relayed
	m.translated += other.translated
	m.other += other.other
	m.failed += other.failed
	for mode := range m.took {
		for i, n := range other.took[mode] {
			m.took[mode][i] += n
		}
	}
}

// add counts calls that ended in a slot. Slots that are older than the window are ignored.
func (w *window) add(slot int64, n tallied) {
	s := &w.slots[slot%int64(len(w.slots))]
	switch {
	case s.at > slot:
		return
	case s.at != slot:
		s.at, s.tallied = slot, tallied{}
	}
	s.calls += n.calls
	s.failed += n.failed
	s.through += n.through
}

// last returns the numbers of calls in the minute before now.
func (w *window) last(now time.Time) (r rate) {
	slot := now.Unix() / 5
	for i := range w.slots {
		if s := &w.slots[i]; s.at > slot-minuteSlots && s.at <= slot {
			r.Calls += int(s.calls)
			r.Failed += int(s.failed)
			r.Through += int(s.through)
		}
	}
	return r
}

// side returns 0 for a legacy revision and 1 for a modern one.
func side(r mcp.Revision) int {
	if r.Modern() {
		return 1
	}
	return 0
}

// latencyStep returns the index of the histogram step that contains the duration d.
func latencyStep(d time.Duration) int {
	if d <= 250*time.Microsecond {
		return 0
	}
	return min(latencies-1, int(math.Ceil(math.Log(float64(d)/float64(250*time.Microsecond))/math.Log(4.0/3))))
}

// stepTime returns the upper end of histogram step i.
func stepTime(i int) time.Duration {
	return time.Duration(float64(250*time.Microsecond) * math.Pow(4.0/3, float64(i)))
}

// rate has the numbers of calls that ended in the last minute.
type rate struct {
	Calls   int // all calls
	Failed  int // calls for which the client got a JSON-RPC error; see failedCall and Options.DemoClients
	Through int // calls that Dragoman sent to a server
}

// sums is a copy of the counters of traffic at one moment, together with the clients that are
// connected then.
type sums struct {
	At      time.Time
	Began   time.Time
	Clients []clientSum
	Servers map[string]serverSum
	Lanes   [2][2]rate // the calls; the first index is the era of the client, the second that of the server: 0 legacy, 1 modern
	Losses  []lossSum  // the kinds of losses, most frequent first
	Hour    []minute   // the minutes of the last hour, oldest first; the last element is the current minute
	Calls   uint64
	Lost    uint64
	Events  uint64 // the number of events that were added to the eventRing
}

type clientSum struct {
	clientKey
	rate
	Number      int
	First, Last time.Time
	All, Bad    uint64
	Lost        uint64
	Caps        []byte
	Servers     []nameCount
	Sessions    []runtime.ClientReport // the client's open sessions, and entries for requests that it sent without a session in the last hour
	shown       string                 // the exact transport; "" if it is not known
}

type nameCount struct {
	Name  string
	Count uint64
}

type serverSum struct {
	rate
	Last     time.Time
	All, Bad uint64
}

type lossSum struct {
	Server, Item, What, Why string
	Clients                 []nameCount
	Count                   uint64
	Last                    time.Time
}

// Name returns the name that the client reports about itself. It may be "".
func (c clientSum) Name() string { return c.name }

// Title returns the name and the version of the client.
func (c clientSum) Title() string {
	name := cmp.Or(c.name, "unnamed client")
	if c.version == "" {
		return name
	}
	return name + " " + c.version
}

func (c clientSum) ID() string        { return strconv.Itoa(c.Number) }
func (c clientSum) Revision() string  { return c.revision.String() }
func (c clientSum) Transport() string { return cmp.Or(c.shown, c.transport) }

// SessionCount returns the number of open sessions as text. If the client's revision has no
// sessions, the text is "–".
func (c clientSum) SessionCount() string {
	if c.revision.Modern() {
		return "–"
	}
	n := 0
	for _, x := range c.Sessions {
		if x.Session {
			n++
		}
	}
	return number(n)
}

func (c clientSum) Modern() bool { return c.revision.Modern() }

// sums returns a copy of the counters. It adds the clients in connected, which are connected now.
// Some of these clients may not have made a call yet.
func (t *traffic) sums(now time.Time, connected []runtime.ClientReport) *sums {
	s := &sums{At: now, Began: t.began, Servers: map[string]serverSum{}}
	// There may be very many connected clients, and calls wait while sums holds the lock.
	// Therefore, use only the clients that sent a message most recently.
	if len(connected) > mostConnected {
		connected = slices.Clone(connected)
		slices.SortStableFunc(connected, func(a, b runtime.ClientReport) int { return b.Last.Compare(a.Last) })
		connected = connected[:mostConnected]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addTalliesLocked(false)
	sessions := t.sessionsLocked(connected)
	for k, c := range t.clients {
		if all := sessions[k]; len(all) > 0 {
			c.shown = transportName(all[0].Transport) // keep the transport, to show it after the session has ended
		}
		x := clientSum{clientKey: k, shown: c.shown, rate: c.last60(now), Number: c.number, First: c.first, Last: c.last, All: c.calls, Bad: c.failed, Lost: c.lost, Caps: c.capabilities, Servers: counts(c.servers), Sessions: sessions[k]}
		s.Clients = append(s.Clients, x)
	}
	slices.SortFunc(s.Clients, func(a, b clientSum) int { return cmp.Compare(a.Number, b.Number) })
	for name, x := range t.servers {
		s.Servers[name] = serverSum{x.last60(now), x.last, x.calls, x.failed}
	}
	for from := range t.lanes {
		for to := range t.lanes[from] {
			s.Lanes[from][to] = t.lanes[from][to].last(now)
		}
	}
	for k, l := range t.losses {
		s.Losses = append(s.Losses, lossSum{k.server, k.item, k.what, k.why, counts(l.clients), l.count, l.last})
	}
	slices.SortFunc(s.Losses, func(a, b lossSum) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.What, b.What), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Why, b.Why))
	})
	n := now.Unix() / 60
	for i := n - hourSlots + 1; i <= n; i++ {
		if m := &t.hour[i%hourSlots]; m.at == i {
			s.Hour = append(s.Hour, *m)
		} else {
			s.Hour = append(s.Hour, minute{at: i})
		}
	}
	s.Calls, s.Lost, s.Events = t.calls, t.lost, t.events.seq
	return s
}

// sessionsLocked counts the connected clients among the clients, and returns their sessions.
func (t *traffic) sessionsLocked(connected []runtime.ClientReport) map[clientKey][]runtime.ClientReport {
	sessions := map[clientKey][]runtime.ClientReport{}
	for i := range connected {
		x := &connected[i]
		if x.Revision == mcp.Unknown || len(x.Info) == 0 && x.Requests == 0 {
			continue // the client has not sent its clientInfo yet
		}
		n := t.nameLocked(x.Info)
		key := clientKey{n.name, n.version, x.Revision, "HTTP"}
		if x.Remote == "" {
			key.transport = "stdio"
		}
		if t.clients[key] == nil && len(t.clients) >= mostClients {
			if _, last := t.oldestLocked(); !x.Last.After(last) {
				continue // t is full, and the client would replace a client that was active more recently
			}
		}
		c := t.clientLocked(key, x.Since)
		if x.Last.After(c.last) {
			c.last = x.Last
		}
		if len(c.capabilities) == 0 && len(x.Capabilities) <= mostInfo {
			c.capabilities = slices.Clone(x.Capabilities)
		}
		if len(sessions[key]) < pageRows {
			sessions[key] = append(sessions[key], *x)
		}
	}
	return sessions
}

func (c *clientCount) count(calls, failed uint64, last time.Time) {
	c.calls += calls
	c.failed += failed
	if last.After(c.last) {
		c.last = last
	}
}

func (c *serverCount) count(calls, failed uint64, last time.Time) {
	c.calls += calls
	c.failed += failed
	if last.After(c.last) {
		c.last = last
	}
}

// describe sets the capabilities that the client sent at a time, unless it has sent others since.
func (c *clientCount) describe(capabilities []byte, at time.Time) {
	if len(capabilities) > mostInfo || at.Before(c.described) {
		return
	}
	c.described = at
	if string(c.capabilities) != string(capabilities) {
		c.capabilities = slices.Clone(capabilities)
	}
}

func (c *clientCount) last60(now time.Time) rate { return c.window.last(now) }
func (c *serverCount) last60(now time.Time) rate { return c.window.last(now) }

func counts(m map[string]uint64) (out []nameCount) {
	for name, n := range m {
		out = append(out, nameCount{name, n})
	}
	slices.SortFunc(out, func(a, b nameCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// p95 returns the time within which 95 % of the calls ended. mode is 0 for relayed calls and 1 for
// translated calls. p95 returns 0 if there were no calls.
func (m *minute) p95(mode int) time.Duration {
	total := 0
	for _, n := range m.took[mode] {
		total += int(n)
	}
	if total == 0 {
		return 0
	}
	left := total - (total*95+99)/100
	for i := latencies - 1; i >= 0; i-- {
		if left -= int(m.took[mode][i]); left < 0 {
			return stepTime(i)
		}
	}
	return stepTime(0)
}
