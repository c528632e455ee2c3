package telemetry

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
	"github.com/dragoman-mcp/dragoman/internal/relay/upstream"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// Metrics counts events and exports the counts to Prometheus. NewMetrics creates a Metrics, with
// its own registry. All methods are safe for concurrent use.
type Metrics struct {
	registry   *prometheus.Registry
	handshakes *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	calls      *prometheus.CounterVec
	took       *prometheus.HistogramVec
	waited     *prometheus.HistogramVec
	openings   *prometheus.CounterVec
	losses     *prometheus.CounterVec
	malformed  *prometheus.CounterVec
	counters   sync.Map // maps callLabels to prometheus.Counter

	mu    sync.Mutex
	names map[string]struct{}
	lost  map[loss]int64 // the counts of losses, for Losses
}

// loss contains the values of the labels of a loss.
type loss struct{ project, server, what string }

// maxClientNames bounds the number of values of the label client, because clients choose their
// names.
const maxClientNames = 64

type callLabels struct {
	project, server, from, to, outcome string
}

// durations returns the options of a histogram of seconds. A Prometheus that reads native histograms
// gets exponential buckets, each 10 % wider than the one before, and one series. Any other gets the few
// classic buckets: each is a series for each server and outcome.
func durations(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: []float64{.005, .025, .1, .5, 2.5, 10, 60},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}
}

// NewMetrics returns a Metrics. It counts no events until Subscribe is called.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_handshakes_total", Help: "Handshakes of clients (initialize and server/discover), by client name, requested revision and outcome.",
		}, []string{"client", "requested", "outcome"}),
		latency: prometheus.NewHistogramVec(durations("dragoman_handshake_seconds", "Time until initialize or server/discover was answered, in seconds."), []string{"revision"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_calls_total", Help: "Calls that ended, by project, server, the client's and the server's era, and outcome. The server is empty if a call isn't for one server.",
		}, []string{"project", "server", "client_era", "server_era", "outcome"}),
		took:   prometheus.NewHistogramVec(durations("dragoman_call_seconds", "Time from a call's arrival to its answer, in seconds, by project, server and outcome. Without subscriptions/listen."), []string{"project", "server", "outcome"}),
		waited: prometheus.NewHistogramVec(durations("dragoman_call_queue_seconds", "How long a call waited for a session with its server, in seconds: a free one, or until the server had started."), []string{"project", "server", "outcome"}),
		openings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_server_handshakes_total", Help: "Handshakes with servers, by outcome: ok or failed. Each start and each reconnection has at least one.",
		}, []string{"project", "server", "outcome"}),
		losses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_losses_total", Help: "Parts of messages that were left out because the receiver's revision doesn't have them, by project, server and kind.",
		}, []string{"project", "server", "what"}),
		malformed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_malformed_messages_total", Help: "Invalid messages of clients, except initialize and server/discover, by error code.",
		}, []string{"code"}),
	}
	m.registry.MustRegister(m.handshakes, m.latency, m.calls, m.took, m.waited, m.openings, m.losses, m.malformed,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Subscribe makes m count the events of p until stop is called.
func (m *Metrics) Subscribe(p *event.Publisher) (stop func()) {
	return p.Tap(event.Of(event.Call, event.Loss, event.Handshake, event.BadMessage), m.count)
}

// count is the tap. The publisher calls it for each event.
func (m *Metrics) count(e event.Event) {
	switch e.Kind {
	case event.Call:
		m.called(e)
	case event.Loss:
		m.lose(e.Project, e.Server, e.Name)
	case event.BadMessage:
		m.malformed.WithLabelValues(strconv.FormatInt(e.Code, 10)).Inc()
	case event.Handshake:
		switch {
		case e.OfClient():
			m.opened(e)
		case e.Outcome == event.OK:
			m.openings.WithLabelValues(e.Project, e.Server, string(event.OK)).Inc()
		default:
			m.openings.WithLabelValues(e.Project, e.Server, string(mcp.Failed)).Inc()
		}
	}
}

// WatchServers exports the state of each server that all returns, by project. The state is read on each
// scrape.
func (m *Metrics) WatchServers(all func() map[string][]upstream.Status) {
	m.registry.MustRegister(&servers{
		all: all,
		up: prometheus.NewDesc(
			"dragoman_server_up", "1 if the server is ready, 0 otherwise.", []string{"project", "server", "state", "revision"}, nil),
		odd: prometheus.NewDesc(
			"dragoman_odd_messages_total", "A server's messages, except answers, that couldn't be used: invalid, for an unknown call, or not allowed.", []string{"project", "server"}, nil),
		workers: prometheus.NewDesc(
			"dragoman_worker_handshakes_total", "Handshakes with Codex workers, by version (v1, v2, none) and the reason why it isn't v2.", []string{"project", "server", "version", "cause"}, nil),
		late: prometheus.NewDesc(
			"dragoman_late_progress_total", "A server's progress notifications for a request that had been answered, cancelled or timed out.", []string{"project", "server"}, nil),
		unasked: prometheus.NewDesc(
			"dragoman_unasked_answers_total", "A server's answers that match no open request: late, repeated, or for another client.", []string{"project", "server"}, nil),
	})
}

// WatchBudget exports the memory that messages use, and the number of requests that b refused. The
// values are read on each scrape.
func (m *Metrics) WatchBudget(b *transport.Budget) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dragoman_in_flight_bytes", Help: "Memory that messages in flight use, in bytes.",
		}, func() float64 { return float64(b.State().Held) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "dragoman_overload_refusals_total", Help: "Requests refused because messages in flight used too much memory.",
		}, func() float64 { return float64(b.State().Refused) }))
}

// WatchPins exports how many changed definitions wait for a decision, which all returns by project and server. It's
// called on each scrape.
func (m *Metrics) WatchPins(all func() map[string]map[string]int) {
	m.registry.MustRegister(&byServer{all: all, desc: prometheus.NewDesc(
		"dragoman_changed_definitions", "Tools, prompts and templates of a server that have changed since they were approved, and about which nobody has decided.", []string{"project", "server"}, nil)})
}

// WatchLimits exports how many calls limits have refused, which all returns. It's called on each scrape.
func (m *Metrics) WatchLimits(all func() []limits.Refused) {
	m.registry.MustRegister(&refusedCalls{all: all, desc: prometheus.NewDesc(
		"dragoman_limit_refusals_total", "Calls that a limit has refused. The party is the id of a key or a person, or the name of a server; it's empty for a project, for clients without a key, and for all further ones if there are too many.",
		[]string{"project", "per", "party", "limit"}, nil)})
}

// refusedCalls is the collector of WatchLimits.
type refusedCalls struct {
	all  func() []limits.Refused
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (x *refusedCalls) Describe(c chan<- *prometheus.Desc) { c <- x.desc }

// Collect implements prometheus.Collector.
func (x *refusedCalls) Collect(c chan<- prometheus.Metric) {
	for _, r := range x.all() {
		c <- prometheus.MustNewConstMetric(x.desc, prometheus.CounterValue, float64(r.Times), r.Project, r.Per.String(), r.ID, r.What.String())
	}
}

// WatchQuestions exports how many questions wait for a person, which all returns by project and server. It's called on
// each scrape.
func (m *Metrics) WatchQuestions(all func() map[string]map[string]int) {
	m.registry.MustRegister(&byServer{all: all, desc: prometheus.NewDesc(
		"dragoman_questions_waiting", "Questions that wait for a person, because clients can't show them, by project and server.", []string{"project", "server"}, nil)})
}

// byServer is a collector of numbers by project and server.
type byServer struct {
	all  func() map[string]map[string]int
	desc *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (x *byServer) Describe(c chan<- *prometheus.Desc) { c <- x.desc }

// Collect implements prometheus.Collector.
func (x *byServer) Collect(c chan<- prometheus.Metric) {
	for project, servers := range x.all() {
		for server, n := range servers {
			c <- prometheus.MustNewConstMetric(x.desc, prometheus.GaugeValue, float64(n), project, server)
		}
	}
}

// servers is a collector that exports the state of each server.
type servers struct {
	all                             func() map[string][]upstream.Status
	up, unasked, odd, late, workers *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (s *servers) Describe(c chan<- *prometheus.Desc) {
	c <- s.up
	c <- s.unasked
	c <- s.odd
	c <- s.late
	c <- s.workers
}

// Collect implements prometheus.Collector.
func (s *servers) Collect(c chan<- prometheus.Metric) {
	for project, all := range s.all() {
		for _, st := range all {
			up := 0.0
			if st.State == upstream.Ready {
				up = 1
			}
			c <- prometheus.MustNewConstMetric(s.up, prometheus.GaugeValue, up, project, st.Name, string(st.State), st.Revision.String())
			for _, x := range []struct {
				desc *prometheus.Desc
				n    int64
			}{{s.unasked, st.Unasked}, {s.odd, st.Odd}, {s.late, st.Late}} {
				if x.n != 0 {
					c <- prometheus.MustNewConstMetric(x.desc, prometheus.CounterValue, float64(x.n), project, st.Name)
				}
			}
			for of, n := range st.Handshakes {
				c <- prometheus.MustNewConstMetric(s.workers, prometheus.CounterValue, float64(n), project, st.Name, of[0], of[1])
			}
		}
	}
}

// Handler returns a handler that serves the metrics in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// opened counts the handshake of a client.
func (m *Metrics) opened(e event.Event) {
	client := e.Name
	m.mu.Lock()
	if _, known := m.names[client]; !known {
		if len(m.names) < maxClientNames {
			if m.names == nil {
				m.names = make(map[string]struct{})
			}
			m.names[client] = struct{}{}
		} else {
			client = "other"
		}
	}
	m.mu.Unlock()
	m.handshakes.WithLabelValues(client, requestedLabel(e.Opening), string(e.Outcome)).Inc()
	if e.From == mcp.Unknown {
		return // the request was refused before Dragoman processed it
	}
	m.latency.WithLabelValues(e.From.String()).Observe(e.Took.Seconds())
}

// requestedLabel returns the revision that a client requested. It returns "other" for an unknown
// revision, and "none" if the client requested no revision.
func requestedLabel(o *event.Opening) string {
	if o == nil || o.Requested == "" {
		return "none"
	}
	if rev, known := mcp.ParseRevision(o.Requested); known {
		return rev.String()
	}
	return "other"
}

// called counts a call and observes its times.
func (m *Metrics) called(e event.Event) {
	l := callLabels{e.Project, e.Server, e.From.Era(), e.To.Era(), string(e.Outcome)}
	c, ok := m.counters.Load(l)
	if !ok {
		c, _ = m.counters.LoadOrStore(l, m.calls.WithLabelValues(l.project, l.server, l.from, l.to, l.outcome))
	}
	c.(prometheus.Counter).Inc()
	if e.Server == "" || e.Method == mcp.MethodListen {
		return // subscriptions/listen lasts as long as its client wants
	}
	m.took.WithLabelValues(e.Project, e.Server, l.outcome).Observe(e.Took.Seconds())
	if e.Waited > 0 {
		m.waited.WithLabelValues(e.Project, e.Server, l.outcome).Observe(e.Waited.Seconds())
	}
}

// lose counts a loss. Unknown methods share the label "other", because clients choose the names of
// methods.
func (m *Metrics) lose(project, server, what string) {
	switch what {
	case mcp.NoteRootsChanged, mcp.NoteMessage, mcp.NoteProgress, mcp.MethodElicit:
	case "limits.result", "limits.result.structuredContent", "content.audio", "content.resource_link", "structuredContent", "outputSchema",
		"sampling.content", "sampling.audio", "sampling.tool_use", "sampling.tool_result":
	default:
		if mcp.LookupMethod(what) == nil {
			what = "other"
		}
	}
	m.losses.WithLabelValues(project, server, what).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost == nil {
		m.lost = make(map[loss]int64)
	}
	m.lost[loss{project, server, what}]++
}

// Losses returns the number of losses of each kind in a project so far, sorted by the server and by what
// was lost.
func (m *Metrics) Losses(project string) []admin.Loss {
	m.mu.Lock()
	all := make([]admin.Loss, 0, len(m.lost))
	for l, n := range m.lost {
		if l.project == project {
			all = append(all, admin.Loss{Server: l.server, What: l.what, Count: n})
		}
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b admin.Loss) int {
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.What, b.What))
	})
	return all
}

// WatchTraces exports what became of the spans that t has taken. Without traces there is no metric.
func (m *Metrics) WatchTraces(t *Traces) {
	if t == nil {
		return
	}
	for i, outcome := range spanOutcomes {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "dragoman_trace_spans_total", Help: "Spans of traces, by outcome: sent, dropped or refused by the collector.", ConstLabels: prometheus.Labels{"outcome": outcome},
		}, func() float64 { return float64(t.outcomes[i].Load()) }))
	}
}
