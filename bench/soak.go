package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/load"
	"github.com/dragoman-mcp/dragoman/bench/internal/proc"
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

const (
	soakSamples = 60 // in the whole time
	soakLooks   = 20 // at the gauges, for each sample
	longestRest = 90 * time.Second
	// leftover bounds the goroutines and descriptors that may stay when all sessions have gone.
	leftover      = 40
	leftoverLimit = 3 * time.Minute
	// soakEnv makes the garbage collector run every few seconds, so that of the looks for a sample
	// some see little garbage.
	soakEnv = "GOGC=50"
)

// gauges are what a leak would increase, by their names in /metrics, with the growth within the
// second half that is not taken for a slope. The heap contains the garbage since the last collection,
// and the resident memory what the runtime has not returned yet, so a sample is the smallest of many.
var gauges = []struct {
	name, title string
	unit, most  float64
}{
	{"go_memstats_heap_alloc_bytes", "heap MiB", 1 << 20, 0.05},
	{"process_resident_memory_bytes", "resident MiB", 1 << 20, 0.05},
	{"process_open_fds", "descriptors", 1, 0.02},
	{"go_goroutines", "goroutines", 1, 0.02},
}

// readings holds the values of gauges, in the same order.
type readings [4]float64

// soaking is one run of "bench soak".
type soaking struct {
	*stage
	addr     string
	serve    *proc.Process
	sessions int
	rest     time.Duration // the mean time between two calls of a session
	begun    time.Time

	open, opened, calls, broken atomic.Int64
	mu                          sync.Mutex
	wrong                       int
}

// soak lets sessions of both eras come, idle, call and go at "dragoman serve" for an hour, and fails
// if an answer is wrong or if memory, descriptors or goroutines of serve grow in the second half.
func soak(ctx context.Context, args []string) error {
	k := &soaking{stage: &stage{options: options{paths: []string{report.Serve}}}}
	flags := flag.NewFlagSet("bench soak", flag.ContinueOnError)
	length := flags.Duration("time", time.Hour, "how long")
	flags.IntVar(&k.sessions, "sessions", 5000, "sessions at a time")
	flags.DurationVar(&k.rest, "rest", 15*time.Second, "mean time between two calls of a session")
	flags.StringVar(&k.root, "root", "..", "where Dragoman's module is")
	flags.StringVar(&k.dragoman, "dragoman", "", "soak this binary instead of building one")
	if err := parse(flags, args); err != nil {
		return err
	}
	if k.sessions < 1 || k.sessions > load.MaxClients || k.rest <= 0 || *length <= 0 {
		return usageError{fmt.Errorf("-sessions must be 1 to %d, and -time and -rest positive", load.MaxClients)}
	}
	defer k.strike()
	if err := k.start(ctx); err != nil {
		return err
	}
	before, err := k.read()
	if err != nil {
		return err
	}
	k.begun = time.Now()
	living, end := context.WithTimeout(ctx, *length)
	defer end()
	var clients sync.WaitGroup
	for slot := range k.sessions {
		clients.Go(func() { k.inhabit(living, slot) })
	}
	samples, err := k.watch(living, *length)
	end()
	clients.Wait()
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	return errors.Join(k.slopes(samples), k.gone(ctx, before))
}

// start starts serve in front of four servers: both eras, over HTTP and on stdio.
func (k *soaking) start(ctx context.Context) error {
	if err := k.stage.open(ctx); err != nil {
		return err
	}
	if len(k.failures) > 0 {
		return errors.New(k.failures[0])
	}
	servers := ""
	for _, era := range []words.Era{words.Modern, words.Legacy} {
		servers += fmt.Sprintf("  %s-http: {url: 'http://%s/mcp'}\n", era, k.upstreams[era])
		servers += fmt.Sprintf("  %s-stdio: {command: %q, args: [echo, -stdio, -era, %s]}\n", era, k.self, era)
	}
	// All sessions come from one address, and those of the first minute are many.
	env, file, err := k.configure(servers, "  limits: {initializePerSecond: 1000}\n")
	if err != nil {
		return err
	}
	k.serve, k.addr, err = k.launch(append(env, soakEnv), k.dragoman, func(addr string) []string { return []string{"serve", "-c", file, "--listen", addr} })
	if k.serve != nil {
		k.processes = append(k.processes, k.serve)
	}
	if err != nil {
		return err
	}
	for slot := range 16 { // every era at every endpoint
		c, _ := k.dial(slot)
		err := errors.Join(c.Open(), c.List())
		_ = c.Leave()
		c.Close()
		if err != nil {
			return k.serve.Explain(err)
		}
	}
	return nil
}

// dial returns a client for a slot, and whether it also listens. The slot decides era, stream, server
// and endpoint, so that there are always equally many of each kind.
func (k *soaking) dial(slot int) (c *load.Client, listens bool) {
	server := []string{"modern-http", "modern-stdio", "legacy-http", "legacy-stdio"}[slot/2%4]
	addr, tool := k.addr+"/s/"+server+"/mcp", "echo"
	if slot/8%2 == 0 {
		addr, tool = k.addr+"/mcp", server+"__echo"
	}
	c = load.Dial(addr, []words.Era{words.Modern, words.Legacy}[slot%2], slot)
	c.Tool = tool
	if slot%2 == 0 {
		return c, slot/16%64 == 0 // clients of one name and address may have 64 subscriptions
	}
	return c, slot/16%2 == 0
}

// inhabit lets one session after the other live in a slot. The first ones come within a minute.
func (k *soaking) inhabit(ctx context.Context, slot int) {
	pause(ctx, time.Duration(rand.Int64N(int64(time.Minute))))
	for ctx.Err() == nil {
		k.open.Add(1)
		err := k.live(ctx, slot)
		k.open.Add(-1)
		if err != nil {
			k.complain(fmt.Errorf("session in slot %d: %w", slot, err))
			pause(ctx, k.rest)
		}
	}
}

// live is the life of a session: some 20 calls with rests, and one of several ends.
func (k *soaking) live(ctx context.Context, slot int) (err error) {
	c, listens := k.dial(slot)
	defer c.Close()
	if err := c.Open(); err != nil {
		return err
	}
	k.opened.Add(1)
	if listens {
		listener, _ := k.dial(slot)
		listener.Share(c)
		ok, listenErr := listener.Listen()
		if listenErr != nil || !ok {
			listener.Close()
			return fmt.Errorf("there is no stream: %w", cmp.Or(listenErr, errors.ErrUnsupported))
		}
		heard := make(chan error, 1)
		go func() { heard <- listener.Watch() }()
		defer func() {
			listener.Close()
			err = errors.Join(err, <-heard)
		}()
	}
	if rand.IntN(2) == 0 {
		if err := c.List(); err != nil {
			return err
		}
	}
	c.Prepare(soakSize(slot))
	for rand.IntN(20) > 0 {
		if !pause(ctx, min(longestRest, time.Duration(rand.ExpFloat64()*float64(k.rest)))) {
			return c.Leave()
		}
		if _, err := c.Call(); err != nil {
			return fmt.Errorf("call: %w", err)
		}
		k.calls.Add(1)
	}
	return k.leave(c)
}

// leave ends a session: with DELETE, just so, or in the middle of a call.
func (k *soaking) leave(c *load.Client) error {
	switch rand.IntN(10) {
	case 0:
		return nil
	case 1:
		hangUp := time.AfterFunc(time.Duration(rand.Int64N(int64(200*time.Microsecond))), c.Close)
		if _, err := c.Call(); hangUp.Stop() {
			return err
		}
		k.broken.Add(1)
		return nil
	}
	return c.Leave()
}

// soakSize is the size of the texts of a slot. Few are large, because each client keeps its buffers.
func soakSize(slot int) int {
	switch {
	case slot%500 == 499:
		return 1 << 20
	case slot%50 == 49:
		return 64 << 10
	}
	return 256
}

func (k *soaking) complain(err error) {
	k.mu.Lock()
	k.wrong++
	n := k.wrong
	k.mu.Unlock()
	if n <= 20 {
		fmt.Printf("%s WRONG %v\n", time.Since(k.begun).Round(time.Second), err)
	}
}

// watch takes samples until ctx ends, and prints them.
func (k *soaking) watch(ctx context.Context, length time.Duration) (samples []readings, err error) {
	fmt.Println("     time  open  opened    calls  cut off  wrong  heap MiB  resident  descriptors  goroutines  CPU of serve  of all  foreign")
	every := length / soakSamples
	used, _ := proc.CPU(k.serve.PID())
	all := k.account()
	for n := 1; ; n++ {
		least := readings{math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)}
		for range soakLooks {
			if !pause(ctx, every/soakLooks) {
				return samples, nil
			}
			now, err := k.read()
			if err != nil {
				return nil, k.serve.Explain(err)
			}
			for i := range least {
				least[i] = min(least[i], now[i]/gauges[i].unit)
			}
		}
		samples = append(samples, least)
		u, _ := proc.CPU(k.serve.PID())
		a := k.account()
		core := func(d time.Duration) float64 { return 100 * float64(d) / float64(a.at.Sub(all.at)) }
		fmt.Printf("%9s %5d %7d %8d %8d %6d %9.1f %9.1f %12.0f %11.0f %11.1f %% %5.1f %% %6.0f %%\n", time.Since(k.begun).Round(time.Second),
			k.open.Load(), k.opened.Load(), k.calls.Load(), k.broken.Load(), k.mistakes(), least[0], least[1], least[2], least[3],
			core(u-used), core(a.ours-all.ours), 100*a.foreign(all))
		used, all = u, a
	}
}

func (k *soaking) mistakes() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wrong
}

// slopes fits a line to the second half of the samples of each gauge, prints how much it rises from
// the first to the last, and returns an error if a gauge grows or an answer was wrong.
func (k *soaking) slopes(samples []readings) error {
	var all []error
	half := samples[len(samples)/2:]
	for i, g := range gauges {
		var values []float64
		for _, s := range half {
			values = append(values, s[i])
		}
		grown, mean := report.Rise(values)
		fmt.Printf("%s: mean %.1f in the second half, growth %+.2f %% (at most %.0f %%)\n", g.title, mean, 100*grown/mean, 100*g.most)
		if grown > g.most*mean {
			all = append(all, fmt.Errorf("%s grow by %.1f in the second half", g.title, grown))
		}
	}
	fmt.Printf("%d calls in %d sessions, %d cut off by the client, %d wrong\n", k.calls.Load(), k.opened.Load(), k.broken.Load(), k.mistakes())
	if n := k.mistakes(); n > 0 {
		all = append(all, fmt.Errorf("%d sessions failed or got a wrong answer", n))
	}
	return errors.Join(all...)
}

// gone waits until serve has as few descriptors and goroutines as before the first session.
func (k *soaking) gone(ctx context.Context, before readings) error {
	end := time.Now().Add(leftoverLimit)
	for {
		now, err := k.read()
		if err != nil {
			return err
		}
		if left := max(now[2]-before[2], now[3]-before[3]); left <= leftover {
			fmt.Printf("after all have left: %.0f descriptors, %.0f before; %.0f goroutines, %.0f before\n", now[2], before[2], now[3], before[3])
			return nil
		} else if time.Now().After(end) {
			return fmt.Errorf("descriptors and goroutines stay when all have left: %.0f and %.0f, before %.0f and %.0f", now[2], now[3], before[2], before[3])
		}
		if !pause(ctx, time.Second) {
			return ctx.Err()
		}
	}
}

// read reads the gauges.
func (k *soaking) read() (v readings, err error) {
	res, err := http.Get("http://" + k.addr + "/metrics")
	if err != nil {
		return v, err
	}
	defer res.Body.Close()
	found := 0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		for i, g := range gauges {
			if name == g.name {
				found++
				if _, err := fmt.Sscan(value, &v[i]); err != nil {
					return v, fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	if found < len(gauges) {
		return v, fmt.Errorf("/metrics lacks a gauge: HTTP %d", res.StatusCode)
	}
	return v, nil
}

// pause reports whether d has passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
