package daemon

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/upstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics counts what happens. Each daemon has its own registry.
type metrics struct {
	registry   *prometheus.Registry
	handshakes *prometheus.CounterVec
	latency    *prometheus.HistogramVec
	calls      *prometheus.CounterVec
	losses     *prometheus.CounterVec
	counters   sync.Map // callLabels -> prometheus.Counter

	mu    sync.Mutex
	names map[string]struct{}
	lost  map[loss]int64 // what losses counts, to be read back
}

// loss is what was lost of a server.
type loss struct{ server, what string }

// lostSoFar returns how often what was lost.
func (m *metrics) lostSoFar() map[loss]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.lost)
}

// maxClientNames bounds the label that strangers choose.
const maxClientNames = 64

type callLabels struct {
	server, from, to, outcome string
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_handshakes_total", Help: "initialize and server/discover of clients, by what the client calls itself.",
		}, []string{"client", "revision", "outcome"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "dragoman_handshake_seconds", Help: "Time to answer initialize and server/discover.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"revision"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_calls_total", Help: "Calls relayed, by server, the eras of client and server, and outcome.",
		}, []string{"server", "client_era", "server_era", "outcome"}),
		losses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dragoman_losses_total", Help: "What could not be said in the words of the other side.",
		}, []string{"server", "what"}),
	}
	m.registry.MustRegister(m.handshakes, m.latency, m.calls, m.losses,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// watch adds the metrics of each server's state, which are read on every scrape.
func (m *metrics) watch(all func() []upstream.Status) {
	m.registry.MustRegister(&states{
		all: all,
		desc: prometheus.NewDesc(
			"dragoman_server_up", "1 while the server is ready, 0 otherwise.", []string{"server", "state", "revision"}, nil),
		odd: prometheus.NewDesc(
			"dragoman_odd_messages_total", "Other messages of a server that could not be used: unreadable, without a matching call, or not allowed there.", []string{"server"}, nil),
		unasked: prometheus.NewDesc(
			"dragoman_unasked_answers_total", "Answers of a server to no open request: late, repeated, or another client's.", []string{"server"}, nil),
	})
}

// watchBudget adds what messages hold, read when scraped.
func (m *metrics) watchBudget(b *transport.Budget) {
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dragoman_in_flight_bytes", Help: "What the messages that are under way hold.",
		}, func() float64 { return float64(b.State().Held) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "dragoman_overload_refusals_total", Help: "Requests refused because too much was under way.",
		}, func() float64 { return float64(b.State().Refused) }))
}

type states struct {
	all                func() []upstream.Status
	desc, unasked, odd *prometheus.Desc
}

func (s *states) Describe(c chan<- *prometheus.Desc) {
	c <- s.desc
	c <- s.unasked
	c <- s.odd
}

func (s *states) Collect(c chan<- prometheus.Metric) {
	for _, st := range s.all() {
		up := 0.0
		if st.State == upstream.Ready {
			up = 1
		}
		c <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, up, st.Name, string(st.State), st.Revision.String())
		c <- prometheus.MustNewConstMetric(s.unasked, prometheus.CounterValue, float64(st.Unasked), st.Name)
		c <- prometheus.MustNewConstMetric(s.odd, prometheus.CounterValue, float64(st.Odd), st.Name)
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Handshake is a peer.Observer's.
func (m *metrics) Handshake(client string, rev mcp.Revision, took time.Duration, ok bool) {
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
	outcome := "ok"
	if !ok {
		outcome = "failed"
	}
	m.handshakes.WithLabelValues(client, rev.String(), outcome).Inc()
	m.latency.WithLabelValues(rev.String()).Observe(took.Seconds())
}

// Call is a bridge.Bridge's Observe.
func (m *metrics) Call(server string, from, to mcp.Revision, code int64) {
	l := callLabels{server, era(from), era(to), "ok"}
	if code != 0 {
		l.outcome = "error"
	}
	c, ok := m.counters.Load(l)
	if !ok {
		c, _ = m.counters.LoadOrStore(l, m.calls.WithLabelValues(l.server, l.from, l.to, l.outcome))
	}
	c.(prometheus.Counter).Inc()
}

func era(r mcp.Revision) string {
	switch {
	case r.Modern():
		return "modern"
	case r.Legacy():
		return "legacy"
	}
	return "unknown"
}

// Lost is an upstream.Options' Lost. Methods that nobody knows share one label,
// for clients choose them.
func (m *metrics) Lost(server, what, _ string) {
	switch what {
	case mcp.NoteRootsChanged, mcp.NoteMessage, mcp.NoteProgress, mcp.MethodElicit:
	case "content.audio", "content.resource_link", "structuredContent", "outputSchema",
		"sampling.content", "sampling.audio", "sampling.tool_use", "sampling.tool_result":
	default:
		if mcp.LookupMethod(what) == nil {
			what = "other"
		}
	}
	m.losses.WithLabelValues(server, what).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost == nil {
		m.lost = make(map[loss]int64)
	}
	m.lost[loss{server, what}]++
}
