// Package report contains the results of a comparison. It compares the results with the targets,
// and prints them as text, whose tables are Markdown, or as JSON.
//
// Every value that was measured more than once is a Spread: the median with the lowest and the
// highest value. A ratio is computed for each round, from two slices of that round, so that a
// varying load on the machine affects both slices. The final ratio is the median of the ratios of
// all rounds. The package does no I/O except to the given writer.
package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Spread is a value that was measured several times.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// Low and High are the ends of the interval that Middle returns. They are set only for ratios.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

// Summarize returns the median, the minimum and the maximum of values. It returns the zero value if
// values is empty. For an even number of values, the median is the mean of the two middle values.
func Summarize(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return Spread{Median: (s[(n-1)/2] + s[n/2]) / 2, Min: s[0], Max: s[n-1]}
}

// Middle returns an interval that contains the true median with a probability of about 95 %, if the
// values are independent. Both ends of the interval are elements of values. For fewer than six
// values, low is the lowest value and high is the highest value.
func Middle(values []float64) (low, high float64) {
	n := len(values)
	if n == 0 {
		return 0, 0
	}
	s := slices.Sorted(slices.Values(values))
	// The number of values below the median has a binomial distribution with the mean n/2 and
	// the standard deviation √n/2.
	rank := max(int(math.Floor(float64(n)/2-0.98*math.Sqrt(float64(n)))), 0)
	return s[rank], s[n-1-rank]
}

// Ratio returns the spread of the ratios a[i]/b[i]. It returns nil if a is empty, if a and b have
// different lengths, or if b contains a zero.
func Ratio(a, b []float64) *Spread {
	if len(a) == 0 || len(a) != len(b) {
		return nil
	}
	q := make([]float64, len(a))
	for i := range a {
		if b[i] == 0 {
			return nil
		}
		q[i] = a[i] / b[i]
	}
	s := Summarize(q)
	s.Low, s.High = Middle(q)
	return &s
}

// Rise fits a line to values that were measured at equal intervals. It returns how much the line
// rises from the first value to the last, and the mean.
func Rise(values []float64) (rise, mean float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	var above, square float64
	for i, v := range values {
		x := float64(i) - (n-1)/2
		above += x * (v - mean)
		square += x * x
	}
	if square == 0 {
		return 0, mean
	}
	return above / square * (n - 1), mean
}

// These constants are the possible values of Who.Path and of the flag -paths.
const (
	Direct = "direct" // no process between client and upstream
	Proxy  = "proxy"  // httputil.ReverseProxy, for reference
	Floor  = "bare"   // a net/http server that answers itself, without an upstream: less is not possible

	HTTP    = "http"   // Dragoman in front of an HTTP upstream
	Events  = "events" // the same, if the upstream answers with event streams
	Stdio   = "stdio"  // Dragoman in front of a stdio upstream that Dragoman starts
	Piped   = "piped"  // Dragoman in front of an HTTP upstream, with clients on stdio that share a pipe
	Crowded = "idle"   // HTTP with thousands of idle sessions

	// In these paths, "dragoman serve" merges the lists of several HTTP upstreams.
	Few  = "few"  // 10
	Many = "many" // 200

	// In these paths, "dragoman serve" is in front of an HTTP upstream. The results of Console and
	// Recording are compared with the results of Serve.
	Serve     = "serve"     // without the console, and without recording
	Console   = "console"   // with the console, but without recording
	Recording = "recording" // with the console, and with the setting "record: memory"

	// In these paths, clients of Serve need API keys. The results of Keys are compared with those of
	// Serve, and the results of Keyring with those of Keys.
	Keys    = "keys"    // one key
	Keyring = "keyring" // 10,000 keys, and 200 servers

	// In this path, Serve records all requests, and nobody needs a key. Its results are compared with those of Serve.
	Audited = "audited" // with "audit: {calls: names}"

	// In this path, Serve has all that a team decides about tools. Its results are compared with those of Serve.
	Guarded = "guarded" // one key, 200 rules, pins that hold, and "audit: {calls: names}"

	// In these paths, clients of Serve list 5,000 tools. The results of Filtered are compared with those of Listed.
	Listed   = "listed"   // all of them
	Filtered = "filtered" // what 200 rules leave of them

	// In these paths, clients of Serve have the keys of several people. The results of SignedIn are compared
	// with those of Header.
	Header   = "header"   // the configuration has a token for all
	SignedIn = "signedin" // everybody has signed in at the server
)

// Who identifies a contestant: one configuration that is measured.
type Who struct {
	Path     string `json:"path"`
	Client   string `json:"client"`   // M for modern or L for legacy
	Upstream string `json:"upstream"` // M for modern or L for legacy
	// Base is true if the contestant uses the earlier binary from the flag -against.
	Base bool `json:"base,omitempty"`
}

// Cell returns the eras of client and upstream, such as M>L.
func (w Who) Cell() string { return w.Client + ">" + w.Upstream }

// Name returns the name of the path for the tables.
func (w Who) Name() string {
	return cmp.Or(map[string]string{
		Proxy: "ReverseProxy", Floor: "net/http server", Events: "http, event streams", Piped: "http, clients on stdio",
		Crowded: "http, idle sessions", Few: "serve, 10 servers", Many: "serve, 200 servers",
		Serve: "serve, no console", Console: "serve, recording off", Recording: "serve, record: memory",
		Keys: "serve, keys on", Keyring: "serve, 10,000 keys, 200 servers", Audited: "serve, audit: names", Guarded: "serve, a key, 200 rules, pins, audit: names",
		Listed: "serve, list of 5,000 tools", Filtered: "serve, list of 5,000 tools with 200 rules",
		Header: "serve, a token for all", SignedIn: "serve, a token for each",
	}[w.Path], w.Path)
}

// String returns the name of the contestant for the tables.
func (w Who) String() string {
	name := w.Name() + " " + w.Cell()
	switch {
	case w.Path == Direct || w.Path == Proxy || w.Path == Floor:
		return name
	case w.Base:
		return "base " + name
	}
	return "dragoman " + name
}

// Load holds the results of one contestant for one payload size.
type Load struct {
	Who
	Size     int     `json:"size_bytes"`
	Clients  int     `json:"clients"`
	Calls    int     `json:"calls"`
	Rate     Spread  `json:"calls_per_second"`
	P50      Spread  `json:"p50_us"`
	P99      Spread  `json:"p99_us"`
	CPU      *Spread `json:"cpu_us_per_call,omitempty"`       // the CPU time of the process between client and upstream
	ChildCPU *Spread `json:"child_cpu_us_per_call,omitempty"` // the CPU time of the child processes of the process between client and upstream
	Children int     `json:"children,omitempty"`
	CPURatio *Spread `json:"cpu_to_proxy,omitempty"`
	Rates    *Spread `json:"rate_to_proxy,omitempty"`
	P99Ratio *Spread `json:"p99_to_proxy,omitempty"`
}

// Versus compares the contestant Who with the contestant To. To is either the same configuration
// with the binary from the flag -against, or one without what Who is there to measure. Each ratio is
// computed from two slices of one round. In every second round the contestants run in the opposite
// order. A CPU ratio below 1 means that Who needs less CPU time than To. A rate ratio below 1 means
// that Who makes fewer calls per second than To.
type Versus struct {
	Who
	To    Who     `json:"to"`
	Size  int     `json:"size_bytes"`
	Pairs int     `json:"pairs"`
	CPU   *Spread `json:"cpu_to_base"`
	Rate  *Spread `json:"rate_to_base"`
}

// Start holds the time from the start of Dragoman to its first answer to tools/list, with a stdio
// upstream, and of the upstream alone.
type Start struct {
	Who
	Time   Spread  `json:"ms"`
	Alone  Spread  `json:"alone_ms"`
	Ratio  *Spread `json:"to_alone"`
	Memory int64   `json:"idle_bytes"`     // the resident memory when nothing has happened for a while
	Own    int64   `json:"idle_own_bytes"` // without the content of files, which is mostly the program itself
}

// House holds what an existing store costs "dragoman serve", compared with none.
type House struct {
	With    Spread  `json:"ms"`             // the time from the start of the process until it listens
	Without Spread  `json:"without_ms"`     // the same without a store
	More    Spread  `json:"more_ms"`        // the difference between two starts that follow each other
	Memory  Spread  `json:"more_bytes"`     // the difference in resident memory when nothing happens
	Own     Spread  `json:"more_own_bytes"` // the same without the content of files, which is mostly the program itself
	Person  float64 `json:"person_bytes"`   // the memory of somebody with a key who has listed the tools
}

// Idle holds the memory that one idle session needs.
type Idle struct {
	Server   string  `json:"server"` // "bare" or "dragoman"
	Kind     string  `json:"kind"`   // Connected or Streaming
	Sessions int     `json:"sessions"`
	Bytes    float64 `json:"bytes_per_session"`
	Note     string  `json:"note,omitempty"`
}

// These values of Idle.Kind describe the connections that an idle session keeps open.
const (
	Connected = "connection"
	Streaming = "connection and GET stream"
)

// Report holds the results of one run of bench.
type Report struct {
	Date       string   `json:"date"`
	Command    string   `json:"command"`
	CPU        string   `json:"cpu"`
	Cores      int      `json:"cores"`
	Kernel     string   `json:"kernel"`
	Go         string   `json:"go"`
	GOMAXPROCS string   `json:"gomaxprocs"`
	Clients    int      `json:"clients"`
	Rounds     int      `json:"rounds"`
	Slice      string   `json:"slice"`
	Foreign    float64  `json:"foreign_cpu_share"` // the share of the machine's CPU time that other processes used while load was measured
	Load       []Load   `json:"load,omitempty"`
	Versus     []Versus `json:"versus,omitempty"`
	Starts     []Start  `json:"starts,omitempty"`
	House      *House   `json:"house,omitempty"`
	Idles      []Idle   `json:"idle,omitempty"`
	Targets    []Target `json:"targets"`
	Failures   []string `json:"failures"`
}

func size(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
