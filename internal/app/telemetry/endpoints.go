package telemetry

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/transport/sse"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// Endpoint contains the counters of an HTTP endpoint.
type Endpoint struct {
	Path string // the URL path at which the endpoint serves Streamable HTTP
	HTTP streamhttp.Counts
	SSE  sse.Counts
}

// endpoints is a collector that reads the counters of all HTTP endpoints on each scrape.
type endpoints struct {
	all          func() []Endpoint
	events, open *prometheus.Desc
}

// WatchEndpoints exports the counters of the endpoints that all returns, and the number of requests
// that guard refused.
func (m *Metrics) WatchEndpoints(all func() []Endpoint, guard *httpdoor.Guard) {
	m.registry.MustRegister(
		&endpoints{
			all: all,
			events: prometheus.NewDesc("dragoman_door_events_total",
				"Events at the HTTP endpoints, by transport and kind.", []string{"endpoint", "transport", "event"}, nil),
			open: prometheus.NewDesc("dragoman_door_open",
				"Open sessions, streams and requests at the HTTP endpoints, by transport.", []string{"endpoint", "transport", "what"}, nil),
		},
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "dragoman_guard_refusals_total", Help: "HTTP requests refused because of their Host, Origin or method.",
		}, func() float64 { return float64(guard.Refused()) }))
}

// Describe implements prometheus.Collector.
func (m *endpoints) Describe(c chan<- *prometheus.Desc) {
	c <- m.events
	c <- m.open
}

// Collect implements prometheus.Collector. An endpoint has a series for each event that has happened, and
// those of what is open once a client has used it. With 12 servers there are 14 endpoints, most of them
// unused, and all their zeros would be 365 series.
func (m *endpoints) Collect(c chan<- prometheus.Metric) {
	for _, e := range m.all() {
		for transport, counts := range map[string]any{"http": e.HTTP, "sse": e.SSE} {
			if used := counts != any(streamhttp.Counts{}) && counts != any(sse.Counts{}); !used {
				continue
			}
			each(counts, func(name string, n int64, total bool) {
				switch {
				case total && n == 0:
				case total:
					c <- prometheus.MustNewConstMetric(m.events, prometheus.CounterValue, float64(n), e.Path, transport, name)
				default:
					c <- prometheus.MustNewConstMetric(m.open, prometheus.GaugeValue, float64(n), e.Path, transport, name)
				}
			})
		}
	}
}

// each calls f for each field of counts, a struct. An int64 field is a total since the start. An
// int field is a current value. The name for f is derived from the name of the field: SlowReaders
// becomes slow_readers.
func each(counts any, f func(name string, n int64, total bool)) {
	v := reflect.ValueOf(counts)
	for i := range v.NumField() {
		name := strings.ToLower(strings.Join(splitWords(v.Type().Field(i).Name), "_"))
		f(name, v.Field(i).Int(), v.Field(i).Kind() == reflect.Int64)
	}
}

// splitWords splits a name before each capital letter.
func splitWords(name string) (words []string) {
	from := 0
	for i, r := range name {
		if i > 0 && unicode.IsUpper(r) {
			words = append(words, name[from:i])
			from = i
		}
	}
	return append(words, name[from:])
}
