package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/spans"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// TraceSettings say where and how spans are sent.
type TraceSettings struct {
	URL      string
	Shown    string // URL for people, without user, query and fragment
	Header   map[string]string
	Timeout  time.Duration // of one request
	Delay    time.Duration // between two batches
	Gzip     bool
	Resource []spans.Attr

	ratio       float64 // the share of new traces that is recorded
	parentBased bool    // a trace that the client records is recorded, and one that it doesn't isn't
}

// tracesPath is the path of a collector's endpoint for traces (OTLP §OTLP/HTTP Request).
const tracesPath = "/v1/traces"

// TracesFrom returns the settings of a configuration file, or else those of the environment variables that
// OpenTelemetry defines ("OpenTelemetry Protocol Exporter"). It returns nil if there are none, which is the usual case,
// or if the variables turn traces off. env returns a variable; it may be nil. The error is for people: traces are
// configured, but not in a way that we can use.
func TracesFrom(file config.Traces, env func(string) (string, bool)) (*TraceSettings, error) {
	get := func(name string) string {
		if env == nil {
			return ""
		}
		v, _ := env(name)
		return strings.TrimSpace(v)
	}
	// The variable for traces comes before the one for all signals.
	of := func(name string) string {
		if v := get("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
			return v
		}
		return get("OTEL_EXPORTER_OTLP_" + name)
	}
	address := file.Endpoint
	if address == "" {
		switch exporter := get("OTEL_TRACES_EXPORTER"); {
		case strings.EqualFold(get("OTEL_SDK_DISABLED"), "true"), exporter != "" && exporter != "otlp":
			return nil, nil
		case get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "":
			address = get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
		case get("OTEL_EXPORTER_OTLP_ENDPOINT") != "":
			address = strings.TrimRight(get("OTEL_EXPORTER_OTLP_ENDPOINT"), "/") + tracesPath
		default:
			return nil, nil
		}
		if of("PROTOCOL") == "grpc" {
			return nil, errors.New("OTEL_EXPORTER_OTLP_PROTOCOL is grpc, but Dragoman sends traces only over HTTP: set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf and the endpoint for it, usually with the port 4318")
		}
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the endpoint for traces must be an http or https URL, such as http://127.0.0.1:4318")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = tracesPath
	}
	t := &TraceSettings{URL: u.String(), Shown: u.Scheme + "://" + u.Host + u.Path, Header: map[string]string{}, Timeout: 10 * time.Second, Delay: spanDelay, Gzip: of("COMPRESSION") == "gzip"}
	for name, value := range pairs(of("HEADERS")) {
		t.Header[name] = value
	}
	for _, f := range file.Header {
		t.Header[f.Name] = f.Value.Reveal()
	}
	if ms, err := strconv.Atoi(of("TIMEOUT")); err == nil && ms > 0 {
		t.Timeout = time.Duration(ms) * time.Millisecond
	}
	if ms, err := strconv.Atoi(get("OTEL_BSP_SCHEDULE_DELAY")); err == nil && ms > 0 {
		t.Delay = time.Duration(ms) * time.Millisecond
	}
	t.describe(get)
	return t, t.readSampler(get("OTEL_TRACES_SAMPLER"), get("OTEL_TRACES_SAMPLER_ARG"))
}

// describe sets the attributes of this process.
func (t *TraceSettings) describe(get func(string) string) {
	all := pairs(get("OTEL_RESOURCE_ATTRIBUTES"))
	name := get("OTEL_SERVICE_NAME")
	if name == "" {
		name = all["service.name"]
	}
	if name == "" {
		name = "dragoman"
	}
	t.Resource = append(t.Resource, spans.Text("service.name", name))
	for key, value := range all {
		if key != "service.name" && value != "" {
			t.Resource = append(t.Resource, spans.Text(key, value))
		}
	}
}

// readSampler reads the variables that choose which traces are recorded.
func (t *TraceSettings) readSampler(name, arg string) error {
	t.ratio = 1
	name, t.parentBased = strings.CutPrefix(name, "parentbased_")
	switch name {
	case "":
		t.parentBased = true
	case "always_on":
	case "always_off":
		t.ratio = 0
	case "traceidratio":
		if f, err := strconv.ParseFloat(arg, 64); err == nil && f >= 0 && f <= 1 {
			t.ratio = f
		} else if arg != "" {
			return fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q, but must be a number from 0 to 1; all traces are recorded", arg)
		}
	default:
		t.parentBased = true
		return fmt.Errorf("OTEL_TRACES_SAMPLER is %q, which Dragoman doesn't know; traces are recorded if the client records them", name)
	}
	return nil
}

// sample is spans.Tracer.Sample.
func (t *TraceSettings) sample(trace [16]byte, parent *spans.Context) bool {
	if t.parentBased && !parent.IsZero() {
		return parent.Sampled()
	}
	// The last 7 bytes are random in every trace id (W3C Trace Context Level 2, "Random Trace ID Flag").
	return float64(binary.BigEndian.Uint64(trace[8:])&(1<<56-1)) < t.ratio*(1<<56)
}

// pairs reads a list such as a=1,b=2 with percent-encoded values, as in W3C Baggage.
func pairs(list string) map[string]string {
	out := map[string]string{}
	for item := range strings.SplitSeq(list, ",") {
		key, value, ok := strings.Cut(item, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if plain, err := url.PathUnescape(value); err == nil {
			value = plain
		}
		if ok && key != "" && !strings.ContainsAny(key+value, "\r\n\x00") {
			out[key] = value
		}
	}
	return out
}
