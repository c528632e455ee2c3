// Package report holds what a comparison measured, judges it against the targets
// and prints it: as tables for people, as Markdown, as JSON.
//
// Every figure that was taken more than once is a Spread: the median, and between
// what it lay. Ratios are taken round by round, between slices that ran right
// after one another, and only then is their median taken: load on the machine that
// comes and goes hits both sides of such a pair. No I/O but the writer given.
package report

import (
	"fmt"
	"slices"
)

// Spread is a figure taken several times.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summarize returns the spread of values, zero if there are none; of an even
// number the median is the mean of the middle two.
func Summarize(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return Spread{Median: (s[(n-1)/2] + s[n/2]) / 2, Min: s[0], Max: s[n-1]}
}

// Ratio returns the spread of a[i]/b[i], nil if they do not pair up.
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
	return &s
}

// Paths, as Who.Path and the flag -paths name them.
const (
	Direct = "direct" // no process in the middle
	Proxy  = "proxy"  // httputil.ReverseProxy, the reference
	Pooled = "pooled" // the same with a buffer pool
	HTTP   = "http"   // Dragoman in front of an HTTP upstream
	Stdio  = "stdio"  // Dragoman in front of its own child
)

// Who is a contestant.
type Who struct {
	Path     string `json:"path"`
	Client   string `json:"client"`   // M or L
	Upstream string `json:"upstream"` // M or L
	// Base marks the binary that -against names: the same contestant, built earlier.
	Base bool `json:"base,omitempty"`
}

// String is what the tables call it.
func (w Who) String() string {
	cell := w.Client + ">" + w.Upstream
	switch w.Path {
	case Direct:
		return "direct " + cell
	case Proxy:
		return "ReverseProxy " + cell
	case Pooled:
		return "ReverseProxy+pool " + cell
	}
	if w.Base {
		return "base " + w.Path + " " + cell
	}
	return "dragoman " + w.Path + " " + cell
}

// Load is what one contestant did at one payload size.
type Load struct {
	Who
	Size     int     `json:"size_bytes"`
	Calls    int     `json:"calls"`
	Rate     Spread  `json:"calls_per_second"`
	P50      Spread  `json:"p50_us"`
	P99      Spread  `json:"p99_us"`
	CPU      *Spread `json:"cpu_us_per_call,omitempty"`       // of the process in the middle
	ChildCPU *Spread `json:"child_cpu_us_per_call,omitempty"` // of its children
	Children int     `json:"children,omitempty"`
	CPURatio *Spread `json:"cpu_to_proxy,omitempty"`
	Rates    *Spread `json:"rate_to_proxy,omitempty"`
}

// Versus compares a contestant with the same one of the binary that -against names.
// Each ratio pairs two slices that ran right after one another, the new binary first in
// every other round; below 1 the new one is cheaper, or slower.
type Versus struct {
	Who
	Size  int     `json:"size_bytes"`
	Pairs int     `json:"pairs"`
	CPU   *Spread `json:"cpu_to_base"`
	Rate  *Spread `json:"rate_to_base"`
}

// Handshake is the latency of opening a conversation on a new connection.
type Handshake struct {
	Who
	Opening string  `json:"opening"` // what was said
	Times   int     `json:"times"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	Ratio   float64 `json:"p50_to_direct,omitempty"`
}

// Start is the time from starting a process to its first answered tools/list.
type Start struct {
	Who
	Time Spread `json:"ms"`
}

// Idle is the memory that one idle session takes.
type Idle struct {
	Server   string  `json:"server"` // "bare" or "dragoman"
	Kind     string  `json:"kind"`   // one of the three below
	Sessions int     `json:"sessions"`
	Bytes    float64 `json:"bytes_per_session"`
	Note     string  `json:"note,omitempty"`
}

// What an idle session keeps open.
const (
	Connected = "connection"
	Streaming = "connection and GET stream"
	Alone     = "no connection"
)

// Report is one run.
type Report struct {
	Date       string      `json:"date"`
	Command    string      `json:"command"`
	CPU        string      `json:"cpu"`
	Cores      int         `json:"cores"`
	Kernel     string      `json:"kernel"`
	Go         string      `json:"go"`
	GOMAXPROCS string      `json:"gomaxprocs"`
	Clients    int         `json:"clients"`
	Rounds     int         `json:"rounds"`
	Slice      string      `json:"slice"`
	Foreign    float64     `json:"foreign_cpu_share"` // of the machine, by processes not ours, during load
	Load       []Load      `json:"load,omitempty"`
	Versus     []Versus    `json:"versus,omitempty"`
	Handshakes []Handshake `json:"handshakes,omitempty"`
	Starts     []Start     `json:"starts,omitempty"`
	Idles      []Idle      `json:"idle,omitempty"`
	Targets    []Target    `json:"targets"`
	Failures   []string    `json:"failures"`
}

func size(n int) string {
	if n >= 1024 && n%1024 == 0 {
		return fmt.Sprintf("%d KiB", n/1024)
	}
	return fmt.Sprintf("%d B", n)
}
