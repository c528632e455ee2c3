package report

import "fmt"

// Target is a target value for a measurement, with the measured value.
type Target struct {
	Promise string  `json:"promise"`
	Who     string  `json:"who"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least,omitempty"` // whether Limit is a minimum; otherwise Limit is a maximum
	Unit    string  `json:"unit"`
	Spread  string  `json:"spread,omitempty"`
}

// Kept reports whether the measured value meets the target.
func (t Target) Kept() bool {
	if t.AtLeast {
		return t.Value >= t.Limit
	}
	return t.Value <= t.Limit
}

// These are the targets. Most ratios are relative to ReverseProxy with the same client era and size
// over HTTP. The ratio for handshakes is relative to the same handshake without a process in between.
const (
	sameEraCPU   = 1.25     // for payloads of 256 B to 1 KiB
	sameEraRate  = 0.8      // for payloads of 256 B to 1 KiB
	sameEraLarge = 1.75     // for payloads of 64 KiB
	mixedCPU     = 1.5      // for payloads of 1 KiB
	stdioCPU     = 0.75     // for payloads of 256 B to 1 KiB
	consoleCPU   = 1.03     // for payloads of 1 KiB; relative to "dragoman serve" without the console
	recordingCPU = 1.10     // for payloads of 1 KiB; relative to "dragoman serve" without the console
	handshake    = 2.0      // p50
	firstList    = 25.0     // ms
	connected    = 33 << 10 // bytes, including the connection
	alone        = 1 << 10  // bytes; also the limit for the memory of a connected session minus that of a connection to the bare server
)

// Judge sets Targets from the measured values. It omits targets that have no measured value.
func (r *Report) Judge() {
	r.Targets = nil
	for _, l := range r.Load {
		if !l.Base {
			r.judgeLoad(l)
		}
	}
	for _, v := range r.Versus {
		limit := map[string]float64{Console: consoleCPU, Recording: recordingCPU}[v.Path]
		if limit > 0 && v.Size == 1024 && v.CPU != nil && !v.Base && v.To.Path == Serve {
			r.add(Target{Promise: "CPU per call relative to serve without the console, " + size(v.Size), Who: v.String(), Value: v.CPU.Median, Limit: limit, Unit: "x", Spread: fmt.Sprintf("%.3f to %.3f", v.CPU.Low, v.CPU.High)})
		}
	}
	for _, h := range r.Handshakes {
		if h.Path == HTTP && !h.Base && h.Ratio > 0 {
			r.add(Target{Promise: h.Opening + ", p50 relative to direct", Who: h.String(), Value: h.Ratio, Limit: handshake, Unit: "x"})
		}
	}
	for _, s := range r.Starts {
		if s.Path == Stdio {
			r.add(Target{Promise: "from start to the first answered list", Who: s.String(), Value: s.Time.Median, Limit: firstList, Unit: "ms", Spread: between(s.Time)})
		}
	}
	r.judgeIdle()
}

func (r *Report) judgeLoad(l Load) {
	small := l.Size >= 256 && l.Size <= 1024
	same := l.Client == l.Upstream
	cpu := func(limit float64) {
		if l.CPURatio != nil {
			r.add(Target{Promise: "CPU per call, " + size(l.Size), Who: l.String(), Value: l.CPURatio.Median, Limit: limit, Unit: "x", Spread: between(*l.CPURatio)})
		}
	}
	switch {
	case l.Path == Stdio && small:
		cpu(stdioCPU)
	case l.Path != HTTP:
	case !same:
		if l.Size == 1024 {
			cpu(mixedCPU)
		}
	case small:
		cpu(sameEraCPU)
		if l.Rates != nil {
			r.add(Target{Promise: "calls/s, " + size(l.Size), Who: l.String(), Value: l.Rates.Median, Limit: sameEraRate, AtLeast: true, Unit: "x", Spread: between(*l.Rates)})
		}
	case l.Size == 64<<10:
		cpu(sameEraLarge)
	}
}

// judgeIdle adds the targets for the memory of idle sessions. A connected session has two targets:
// its total memory, and its memory minus that of a connection to the bare server.
func (r *Report) judgeIdle() {
	bare := 0.0
	for _, i := range r.Idles {
		if i.Server == "bare" && i.Kind == Connected {
			bare = i.Bytes
		}
	}
	for _, i := range r.Idles {
		t := Target{Promise: "idle session, " + i.Kind, Who: i.Server, Value: i.Bytes / 1024, Unit: "KiB"}
		switch {
		case i.Server == "bare":
		case i.Kind == Connected:
			t.Limit = connected / 1024
			r.add(t)
			if bare > 0 {
				t.Promise += ", above bare"
				t.Value, t.Limit = (i.Bytes-bare)/1024, alone/1024
				r.add(t)
			}
		case i.Kind == Alone:
			t.Limit = alone / 1024
			r.add(t)
		}
	}
}

func (r *Report) add(t Target) { r.Targets = append(r.Targets, t) }

func between(s Spread) string { return fmt.Sprintf("%.2f to %.2f", s.Min, s.Max) }
