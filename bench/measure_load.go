package main

import (
	"context"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/load"
	"github.com/dragoman-mcp/dragoman/bench/internal/proc"
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
)

// warmUp is the maximum length of the first slice for each size. The results do not include the
// first slice, because connections are opened and buffers grow during that slice.
const warmUp = 200 * time.Millisecond

// setting is what a row of results has in common.
type setting struct{ size, clients int }

// settings returns the settings to measure: all sizes, and then the other numbers of clients.
func (o *options) settings() (all []setting) {
	for _, size := range o.sizes {
		all = append(all, setting{size, o.clients[0]})
	}
	for _, n := range o.clients[1:] {
		all = append(all, setting{o.sizes[0], n})
	}
	return all
}

// sample holds the results of one slice with one contestant, and the CPU time of the contestant.
type sample struct {
	load.Slice
	cpu, childCPU time.Duration
	children      int
}

// measureLoad measures the load with each setting.
func (s *stage) measureLoad(ctx context.Context, r *report.Report) error {
	before := s.account()
	for _, at := range s.settings() {
		turns := s.turns(at)
		say("load, %d bytes, %d clients: %d contestants, %d rounds of %v", at.size, at.clients, len(turns), s.rounds, s.slice)
		for _, c := range turns {
			var err error
			if c.crowd, err = load.Gather(c.dial, at.clients); err != nil {
				s.drop(c, err)
				continue
			}
			c.crowd.Prepare(at.size)
			if _, err := c.crowd.Run(min(warmUp, s.slice)); err != nil {
				s.drop(c, err)
			}
		}
		for round := range s.rounds {
			if err := s.round(ctx, at, round); err != nil {
				return err
			}
		}
		for _, c := range turns {
			if c.crowd != nil {
				c.crowd.Disperse()
				c.crowd = nil
			}
		}
	}
	r.Foreign = s.account().foreign(before)
	for _, at := range s.settings() {
		for _, c := range s.turns(at) {
			r.Load = append(r.Load, s.row(c, at))
			r.Versus = append(r.Versus, c.versus(at)...)
		}
	}
	return nil
}

// round runs one slice with each contestant. The last contestant of an even round is also the first
// of the next round, which runs in the opposite order, so each of a pair runs before the other in half
// of the rounds. The second of two slices in a row needs less CPU time. The order rotates, so that each
// contestant has this advantage equally often.
func (s *stage) round(ctx context.Context, at setting, round int) error {
	turns := s.turns(at)
	if len(turns) > 0 {
		turns = slices.Concat(turns[round/2%len(turns):], turns[:round/2%len(turns)])
	}
	if round%2 == 1 {
		slices.Reverse(turns)
	}
	for _, c := range turns {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		taken, err := c.sample(s.slice)
		if err != nil {
			s.drop(c, err)
			continue
		}
		c.samples[at] = append(c.samples[at], taken)
	}
	return nil
}

// drop records the failure of c. The rest of the run skips c.
func (s *stage) drop(c *contestant, err error) {
	if c.middle != nil {
		err = c.middle.Explain(err)
	}
	c.err = err
	s.fail(c.String(), err)
}

// sample runs one slice of length d with c and measures the CPU time that c used.
func (c *contestant) sample(d time.Duration) (sample, error) {
	var cost, after usage
	var err error
	if c.middle != nil {
		if cost, err = read(c.middle.PID()); err != nil {
			return sample{}, err
		}
	}
	slice, err := c.crowd.Run(d)
	if err != nil {
		return sample{}, err
	}
	if c.middle != nil {
		if after, err = read(c.middle.PID()); err != nil {
			return sample{}, err
		}
	}
	s := sample{Slice: slice, cpu: after.own - cost.own, children: len(after.children)}
	for pid, used := range after.children {
		s.childCPU += used - cost.children[pid]
	}
	return s, nil
}

// usage holds the CPU time of a process, and the CPU time of each of its descendants by PID.
type usage struct {
	own      time.Duration
	children map[int]time.Duration
}

func read(pid int) (u usage, err error) {
	if u.own, err = proc.CPU(pid); err != nil {
		return u, err
	}
	children, err := proc.Descendants(pid)
	if err != nil {
		return u, err
	}
	u.children = map[int]time.Duration{}
	for _, child := range children {
		if used, err := proc.CPU(child); err == nil { // an error means that the child has just exited
			u.children[child] = used
		}
	}
	return u, nil
}

// figures returns the values of c for one setting, in the order of the rounds.
func (c *contestant) figures(at setting) (cpu, rate, p99 []float64) {
	for _, v := range c.samples[at] {
		cpu = append(cpu, micros(v.cpu)/float64(v.Calls))
		rate = append(rate, v.rate())
		p99 = append(p99, micros(v.P99))
	}
	return cpu, rate, p99
}

// versus compares the slices of c with the slices of c.base and of c.plain from the same rounds.
func (c *contestant) versus(at setting) (all []report.Versus) {
	cpu, rate, _ := c.figures(at)
	for _, other := range []*contestant{c.base, c.plain} {
		if other == nil || other.err != nil {
			continue
		}
		otherCPU, otherRate, _ := other.figures(at)
		all = append(all, report.Versus{
			Who: c.Who, To: other.Who, Size: at.size, Pairs: len(cpu),
			CPU: report.Ratio(cpu, otherCPU), Rate: report.Ratio(rate, otherRate),
		})
	}
	return all
}

// row summarises the samples of c for one setting. The ratios compare c with the ReverseProxy for the
// same client era.
func (s *stage) row(c *contestant, at setting) report.Load {
	row := report.Load{Who: c.Who, Size: at.size, Clients: at.clients}
	cpu, rate, p99 := c.figures(at)
	var p50, childCPU []float64
	for _, v := range c.samples[at] {
		row.Calls += v.Calls
		row.Children = max(row.Children, v.children)
		p50 = append(p50, micros(v.P50))
		childCPU = append(childCPU, micros(v.childCPU)/float64(v.Calls))
	}
	row.Rate, row.P50, row.P99 = report.Summarize(rate), report.Summarize(p50), report.Summarize(p99)
	proxy := s.find(report.Proxy, c.client, c.client)
	if proxy != nil && proxy != c && proxy.err == nil {
		proxyCPU, proxyRate, proxyP99 := proxy.figures(at)
		row.Rates, row.P99Ratio = report.Ratio(rate, proxyRate), report.Ratio(p99, proxyP99)
		if c.middle != nil {
			row.CPURatio = report.Ratio(cpu, proxyCPU)
		}
	}
	if c.middle == nil {
		return row
	}
	spread := report.Summarize(cpu)
	row.CPU = &spread
	if row.Children > 0 {
		spread := report.Summarize(childCPU)
		row.ChildCPU = &spread
	}
	return row
}

func (v sample) rate() float64 { return float64(v.Calls) / v.Elapsed.Seconds() }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// account holds, for one moment, the CPU time of the whole machine (busy), and the CPU time of bench
// and the processes that it started (ours).
type account struct {
	at         time.Time
	busy, ours time.Duration
}

func (s *stage) account() account {
	a := account{at: time.Now()}
	a.busy, _ = proc.Busy()
	own, err := proc.CPU(os.Getpid())
	if err != nil {
		return a
	}
	a.ours = own
	for _, p := range s.processes {
		if u, err := read(p.PID()); err == nil {
			a.ours += u.own
			for _, used := range u.children {
				a.ours += used
			}
		}
	}
	return a
}

// foreign returns the share of the machine's CPU time that other processes used between the account
// before and the account a.
func (a account) foreign(before account) float64 {
	all := a.at.Sub(before.at) * time.Duration(runtime.NumCPU())
	return max(0, float64((a.busy-before.busy)-(a.ours-before.ours))/float64(all))
}
