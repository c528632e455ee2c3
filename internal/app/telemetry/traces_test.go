package telemetry

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/spans"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// startTraces returns a Traces that sends spans to a collector with the given handler.
func startTraces(t *testing.T, handle http.HandlerFunc, change func(*TraceSettings)) (*Traces, *bytes.Buffer) {
	t.Helper()
	collector := httptest.NewServer(handle)
	t.Cleanup(collector.Close)
	to := &TraceSettings{URL: collector.URL + tracesPath, Shown: "the collector", Header: map[string]string{"X-Key": "secret-key"}, Timeout: 30 * time.Second, Delay: 5 * time.Millisecond, ratio: 1, parentBased: true}
	if change != nil {
		change(to)
	}
	log := &bytes.Buffer{}
	traces := NewTraces(to, "1", slog.New(slog.NewTextHandler(log, nil)), nil)
	return traces, log
}

// span records one span.
func (t *Traces) span(name string) {
	s := t.Tracer().Start(spans.Context{})
	s.Name = name
	s.End()
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not true", what)
		}
	}
}

// TestTracesSurviveTheirCollector checks what becomes of spans if the collector fails. The tracer never waits.
func TestTracesSurviveTheirCollector(t *testing.T) {
	t.Run("one that hangs", func(t *testing.T) {
		release := make(chan struct{})
		traces, log := startTraces(t, func(http.ResponseWriter, *http.Request) { <-release }, nil)
		traces.flush = 50 * time.Millisecond
		defer close(release)
		began := time.Now()
		for range 3 * spanQueue {
			traces.span("x")
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("calls waited for the collector: %v", took)
		}
		if n := traces.Counts()["dropped"]; n < spanQueue-spanBatch {
			t.Errorf("%d dropped", n)
		}
		began = time.Now()
		traces.Close()
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("Close took %v", took)
		}
		if n := traces.Counts(); n["dropped"] != 3*spanQueue || strings.Count(log.String(), "traces could not be sent") != 1 {
			t.Errorf("%v\n%s", n, log)
		}
	})
	t.Run("one that is gone", func(t *testing.T) {
		traces, log := startTraces(t, nil, func(to *TraceSettings) { to.URL = "http://127.0.0.1:1/v1/traces?token=secret-token" })
		traces.span("x")
		time.Sleep(20 * time.Millisecond)
		traces.span("y")
		traces.Close()
		if n := traces.Counts(); n["dropped"] != 2 || n["sent"] != 0 {
			t.Errorf("%v", n)
		}
		if strings.Contains(log.String(), "secret") {
			t.Errorf("the log: %s", log)
		}
	})
	t.Run("one that is overloaded for a moment", func(t *testing.T) {
		var requests atomic.Int64
		traces, log := startTraces(t, func(w http.ResponseWriter, r *http.Request) {
			if requests.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, nil)
		traces.span("x")
		waitFor(t, "sent", func() bool { return traces.Counts()["sent"] == 1 })
		traces.Close()
		if requests.Load() != 2 || !strings.Contains(log.String(), "traces are sent again") {
			t.Errorf("%d requests\n%s", requests.Load(), log)
		}
	})
	t.Run("one that refuses", func(t *testing.T) {
		var requests atomic.Int64
		traces, _ := startTraces(t, func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			w.WriteHeader(http.StatusBadRequest)
		}, nil)
		traces.span("x")
		waitFor(t, "dropped", func() bool { return traces.Counts()["dropped"] == 1 })
		traces.Close()
		if requests.Load() != 1 {
			t.Errorf("%d requests", requests.Load())
		}
	})
	t.Run("one that sends us elsewhere", func(t *testing.T) {
		other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			t.Errorf("the headers went to another host: %v", r.Header)
		}))
		defer other.Close()
		traces, _ := startTraces(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusFound)
		}, nil)
		traces.span("x")
		waitFor(t, "dropped", func() bool { return traces.Counts()["dropped"] == 1 })
		traces.Close()
	})
	t.Run("one that takes a part", func(t *testing.T) {
		traces, _ := startTraces(t, func(w http.ResponseWriter, r *http.Request) {
			z, err := gzip.NewReader(r.Body)
			if err != nil || r.Header.Get("X-Key") != "secret-key" {
				t.Errorf("%v %v", err, r.Header)
				return
			}
			if b, _ := io.ReadAll(z); len(fields(fields(b)[1].bytes)) == 0 {
				t.Errorf("the body is no message: %q", b)
			}
			_, _ = w.Write(message(nil, 1, text(number(nil, 1, 1), 2, "too old")))
		}, func(to *TraceSettings) { to.Gzip, to.Delay = true, time.Hour })
		traces.span("x")
		traces.span("y")
		traces.Close() // sends what is left
		if n := traces.Counts(); n["sent"] != 1 || n["refused"] != 1 || n["dropped"] != 0 {
			t.Errorf("%v", n)
		}
	})
}

// TestNoTraces checks that a nil Traces does nothing.
func TestNoTraces(t *testing.T) {
	traces := NewTraces(nil, "", nil, nil)
	if traces.Tracer() != nil || traces.Counts() != nil {
		t.Error("there are traces without settings")
	}
	traces.Close()
	m := NewMetrics()
	m.WatchTraces(traces)
	if strings.Contains(scrape(m), "trace") {
		t.Error("there are metrics of traces without traces")
	}
}

// TestTraceSettings checks what the configuration and the variables of OpenTelemetry mean.
func TestTraceSettings(t *testing.T) {
	field := config.Field{Name: "Authorization", Value: config.NewSecret("of the file")}
	for _, c := range []struct {
		env  string // separated by spaces
		file config.Traces
		want string // the URL, "" for none, then what is not the default
		err  string
	}{
		{"", config.Traces{}, "", ""},
		{"OTEL_SERVICE_NAME=x OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://m", config.Traces{}, "", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", config.Traces{}, "http://c:4318/v1/traces", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://c/otlp/", config.Traces{}, "https://c/otlp/v1/traces", ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://c/x OTEL_EXPORTER_OTLP_ENDPOINT=http://d", config.Traces{}, "https://c/x", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_SDK_DISABLED=true", config.Traces{}, "", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_EXPORTER=none", config.Traces{}, "", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317 OTEL_EXPORTER_OTLP_PROTOCOL=grpc", config.Traces{}, "", "only over HTTP"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf", config.Traces{}, "http://c/v1/traces", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4317", config.Traces{}, "", "must be an http or https URL"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://env OTEL_SDK_DISABLED=true", config.Traces{Endpoint: "http://file:4318", Header: []config.Field{field}}, "http://file:4318/v1/traces Authorization=of the file", ""},
		{"OTEL_EXPORTER_OTLP_HEADERS=a=1,b=x%20y,bad OTEL_EXPORTER_OTLP_TIMEOUT=500 OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=gzip", config.Traces{Endpoint: "http://file/t"}, "http://file/t a=1 b=x y 500ms gzip", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=2", config.Traces{}, "http://c/v1/traces", "OTEL_TRACES_SAMPLER_ARG"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_TRACES_SAMPLER=jaeger_remote", config.Traces{}, "http://c/v1/traces", "OTEL_TRACES_SAMPLER"},
	} {
		env := pairs(strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(c.env, ",", "%2C"), "x%20y", "x%2520y"), " ", ","))
		got, err := TracesFrom(c.file, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
		text := ""
		if got != nil {
			text = got.URL
			for _, k := range slices.Sorted(maps.Keys(got.Header)) {
				text += " " + k + "=" + got.Header[k]
			}
			if got.Timeout != 10*time.Second {
				text += " " + got.Timeout.String()
			}
			if got.Gzip {
				text += " gzip"
			}
		}
		if text != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, want %q; %v", c.env, text, c.want, err)
		}
	}
}

// TestSampler checks which traces are recorded.
func TestSampler(t *testing.T) {
	yes, no := spans.ParseContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "", ""), spans.ParseContext("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "", "")
	for _, c := range []struct{ name, arg, want string }{ // want: a client that records, one that doesn't, and the share of others
		{"", "", "true false 1"},
		{"always_on", "", "true true 1"},
		{"always_off", "", "false false 0"},
		{"parentbased_always_off", "", "true false 0"},
		{"parentbased_traceidratio", "0.25", "true false 0.25"},
	} {
		var s TraceSettings
		if err := s.readSampler(c.name, c.arg); err != nil {
			t.Error(err)
		}
		tracer, kept := &spans.Tracer{Sample: s.sample, Sink: func(*spans.Span) {}}, 0.0
		for range 4000 {
			if tracer.Start(spans.Context{}).Sampled() {
				kept++
			}
		}
		share := float64(int(kept/4000*20+.5)) / 20
		if got := fmt.Sprint(tracer.Start(yes).Sampled(), tracer.Start(no).Sampled(), share); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
