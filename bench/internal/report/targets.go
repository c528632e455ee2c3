package report

import "fmt"

// Target is a target value for a measurement, with the measured value.
type Target struct {
	Promise string  `json:"promise"`
	Cell    string  `json:"cell,omitempty"`
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

// These are the targets. Ratios of CPU time, calls per second and p99 are relative to ReverseProxy
// with the same client era, size and number of clients.
var (
	cpuTargets = map[string]map[int]float64{ // for each size, with the same era on both sides
		HTTP:  {256: 0.60, 64 << 10: 0.95, 1 << 20: 1.3},
		Stdio: {256: 0.42, 64 << 10: 0.95, 1 << 20: 1.5},
	}
	// plainTargets are relative to the contestant without what the path is there to measure.
	plainTargets = map[string]float64{Events: 1.1, Many: 1.05, Crowded: 1.05, Console: 1.07, Recording: 1.07, Keys: 1.10, Keyring: 1.05, Audited: 1.10, Guarded: 1.15, Filtered: 1.2, SignedIn: 1.05}
	idleTargets  = map[string]float64{Connected: 0.45, Streaming: 0.35} // relative to the bare server
)

const (
	mixedTarget  = 1.05 // relative to the same path with the client's era on both sides
	rateTarget   = 1.2
	p99Target    = 1.0
	p99Clients   = 64
	startTarget  = 3 // relative to the upstream alone
	memoryTarget = 14e6

	houseTarget       = 5 // ms
	houseMemoryTarget = 2e6
	personTarget      = 2048
)

// Judge sets Targets from the measured values. It omits targets that have no measured value.
func (r *Report) Judge() {
	r.Targets = nil
	for _, l := range r.Load {
		r.judgeLoad(l)
	}
	for _, v := range r.Versus {
		r.judgeVersus(v)
	}
	bare := map[string]float64{}
	for _, i := range r.Idles {
		if i.Server == "bare" {
			bare[i.Kind] = i.Bytes
		} else if bare[i.Kind] > 0 {
			r.add(Target{Promise: "memory of an idle session with " + i.Kind + " / of a net/http server", Value: i.Bytes / bare[i.Kind], Limit: idleTargets[i.Kind]}, nil)
		}
	}
	if h := r.House; h != nil {
		r.add(Target{Promise: "start of serve, with a store minus without", Value: h.More.Median, Limit: houseTarget, Unit: " ms"}, &h.More)
		r.add(Target{Promise: "idle memory of serve, with a store minus without", Value: h.Memory.Median / 1e6, Limit: houseMemoryTarget / 1e6, Unit: " MB"}, nil)
		r.add(Target{Promise: "the same without the pages of the program's file", Value: h.Own.Median / 1e6, Limit: houseMemoryTarget / 1e6, Unit: " MB"}, nil)
		r.add(Target{Promise: "memory of each of 1,000 people without a token of their own", Value: h.Person / 1024, Limit: personTarget / 1024, Unit: " KiB"}, nil)
	}
	for _, s := range r.Starts {
		if s.Ratio != nil {
			r.add(Target{Promise: "start to the first list / of the server alone", Cell: s.Cell(), Value: s.Ratio.Median, Limit: startTarget}, s.Ratio)
		}
		r.add(Target{Promise: "idle memory of run", Cell: s.Cell(), Value: float64(s.Memory) / 1e6, Limit: memoryTarget / 1e6, Unit: " MB"}, nil)
	}
}

func (r *Report) judgeLoad(l Load) {
	if l.Base || l.Client != l.Upstream {
		return
	}
	if limit := cpuTargets[l.Path][l.Size]; limit > 0 && l.CPURatio != nil && l.Clients == r.Clients {
		r.add(Target{Promise: "CPU of " + l.Name() + " / of ReverseProxy, " + size(l.Size), Cell: l.Cell(), Value: l.CPURatio.Median, Limit: limit}, l.CPURatio)
	}
	if l.Path != HTTP || l.Size != 256 || l.Rates == nil || l.P99Ratio == nil {
		return
	}
	r.add(Target{Promise: fmt.Sprintf("calls/s / of ReverseProxy, %d clients", l.Clients), Cell: l.Cell(), Value: l.Rates.Median, Limit: rateTarget, AtLeast: true}, l.Rates)
	if l.Clients == p99Clients {
		r.add(Target{Promise: fmt.Sprintf("p99 / of ReverseProxy, %d clients", l.Clients), Cell: l.Cell(), Value: l.P99Ratio.Median, Limit: p99Target}, l.P99Ratio)
	}
}

func (r *Report) judgeVersus(v Versus) {
	if v.To.Base || v.CPU == nil {
		return
	}
	limit, ok := plainTargets[v.Path]
	promise := fmt.Sprintf("CPU of %s / of %s, %s", v.Name(), v.To.Name(), size(v.Size))
	if !ok {
		limit = mixedTarget
		promise = fmt.Sprintf("CPU of %s, mixed / of the client's era, %s", v.Name(), size(v.Size))
	}
	r.add(Target{Promise: promise, Cell: v.Cell(), Value: v.CPU.Median, Limit: limit}, v.CPU)
}

// add adds a target, with the spread of its value if there is one.
func (r *Report) add(t Target, s *Spread) {
	if s != nil {
		t.Spread = fmt.Sprintf("%.2f..%.2f", s.Low, s.High)
	}
	r.Targets = append(r.Targets, t)
}
