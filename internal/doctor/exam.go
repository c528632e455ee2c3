package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Options say how thorough an examination is. The zero value is the usual one.
type Options struct {
	Deep bool // the slower probes too
	// Call names the one tool that may be run, "" for none. It is called without
	// arguments, twice: once to its end, and once to be cancelled.
	Call string
	// Patience is how long an answer may take; 0 means 5 s.
	Patience time.Duration
	// Start is how long a server may take until it answers for the first time; 0
	// means 30 s.
	Start time.Duration
	// Parallel probes run at a time; 0 means 3.
	Parallel int
	// Progress hears what is being done. It is called by the caller of Examine.
	Progress func(step string)
}

// Report is what an examination has found.
type Report struct {
	Findings []Finding // the worst first
	Verdict  Verdict
}

// exam is one examination.
type exam struct {
	t    *Target
	o    Options
	http bool
	sse  bool // HTTP+SSE; settled before probes run at once

	// byName guards knowsLocalhost: whether a server that answers 403 serves localhost.
	byName         sync.Once
	knowsLocalhost bool

	lastID atomic.Int64 // over HTTP, where all conversations count together

	done, of int // probes that were begun, of how many; of Examine's own goroutine

	mu sync.Mutex
	state
}

// state is what probes find out, guarded by the exam's mu.
type state struct {
	found   map[string]Finding
	started []time.Duration // until the first answer, of each conversation
	start   time.Duration   // that a process is given beyond the patience with it
	reached bool            // the server has said something, whatever it was
	tried   map[mcp.Revision]*attempt
	// Evidence of errors in answer to initialize with a version that nobody knows, and
	// with none, which are faults only of a server that has initialize at all.
	refusedUnknown, refusedBare string

	pushed  bool              // a manifest came unasked
	odd     bool              // initialize works, but names no version
	alien   bool              // it is no MCP
	mute    bool              // it does not answer ping
	sent    map[string]sentID // over HTTP: the requests of all conversations, by their ids
	through throughDragoman
}

// attempt is what came of opening in one revision.
type attempt struct {
	opened  bool   // it speaks the revision, and answers requests in it
	answer  string // the revision that it named instead
	refused string // evidence of an error in place of an answer
	why     string // for people, when not opened
}

// Examine looks at a server. The error is ctx's; a server that cannot be reached at
// all is a finding, and Verdict.Reached is false.
func Examine(ctx context.Context, t Target, o Options) (*Report, error) {
	t.Secrets = spellings(t.Secrets)
	e := &exam{t: &t, o: o, http: t.URL != nil}
	e.found, e.tried = map[string]Finding{}, map[mcp.Revision]*attempt{}
	e.lastID.Store(firstID())
	orDefault(&e.o.Patience, 5*time.Second)
	orDefault(&e.o.Start, 30*time.Second)
	if e.o.Parallel <= 0 {
		e.o.Parallel = 3
	}
	if e.http && t.Transport == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxIdleConnsPerHost: 4}
		defer own.CloseIdleConnections()
		e.t.Transport = own
	}
	if e.reach(ctx) {
		if !e.http {
			e.start = min(e.o.Start, time.Duration(2*e.o.Parallel)*e.state.started[0])
		}
		if e.sse {
			e.run(ctx, []probe{{name: "two sessions at once", alone: e.twoSessions}})
		}
		e.run(ctx, e.openings())
		e.settleVersions()
		e.run(ctx, e.habits())
		e.judgeStart()
		e.judgeWhole()
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	return e.report(), nil
}

func orDefault(d *time.Duration, def time.Duration) {
	if *d <= 0 {
		*d = def
	}
}

// grace is how long an answer may take once a later request was answered.
func (e *exam) grace() time.Duration { return e.o.Patience / 2 }

// probe is one thing to look at in a conversation of its own.
type probe struct {
	name  string
	rev   mcp.Revision // that is opened for it; Unknown when it opens by itself
	death string       // the code for a server that dies meanwhile; "" means Dies
	run   func(ctx context.Context, t *talk)
	alone func(ctx context.Context) // in place of run: opens what it needs itself
}

// run runs probes, a few at a time.
func (e *exam) run(ctx context.Context, all []probe) {
	e.of += len(all)
	next := make(chan probe)
	var wg sync.WaitGroup
	for range min(e.o.Parallel, len(all)) {
		wg.Go(func() {
			for p := range next {
				e.try(ctx, p)
			}
		})
	}
	for _, p := range all {
		next <- p
		if e.done++; e.o.Progress != nil {
			e.o.Progress(fmt.Sprintf("%d of %d: %s", e.done, e.of, p.name))
		}
	}
	close(next)
	wg.Wait()
}

// probeTime bounds one probe, as a number of patiences.
const probeTime = 12

func (e *exam) try(ctx context.Context, p probe) {
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime*e.o.Patience+e.startTime())
	defer cancel()
	if p.alone != nil {
		p.alone(ctx)
		return
	}
	t, err := e.begin(ctx)
	if err != nil {
		if ctx.Err() == nil {
			e.find(CannotStart, "# "+e.veil([]byte(err.Error())))
		}
		return
	}
	defer t.w.close()
	t.death = p.death
	if p.rev == mcp.Unknown || t.openAs(ctx, p.rev) {
		p.run(ctx, t)
		if !e.http || e.sse {
			// A server that dies of what it was sent need not do so at once: it may still
			// answer the next request.
			t.linger(ctx, e.grace()/20)
		}
	}
}

// begin opens a fresh conversation, in which nothing is said yet.
func (e *exam) begin(ctx context.Context) (*talk, error) {
	t := &talk{e: e, began: time.Now()}
	var err error
	switch {
	case e.sse:
		var w *sse
		if w, err = openSSE(ctx, e.t); err == nil {
			t.w = w
		}
	case e.http:
		t.w = openWeb(ctx, e.t)
	default:
		var w *pipe
		if w, err = openPipe(ctx, e.t); err == nil {
			t.w = w
		}
	}
	return t, err
}

// find notes a condition. The first evidence of it counts.
func (e *exam) find(code, seen string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, had := e.found[code]; had {
		return
	}
	c, ok := Lookup(code)
	if !ok {
		c = Condition{Code: code, Level: Warning} // a test finds codes that are in no table
	}
	e.found[code] = Finding{Condition: c, Evidence: seen}
}

func (e *exam) veil(b []byte) string { return veil(b, e.t.Secrets) }

// pushes notes that the server has pushed a manifest.
func (e *exam) pushes() {
	e.mu.Lock()
	e.pushed = true
	e.mu.Unlock()
}

// startedAfter notes how long a conversation took until the first answer.
func (e *exam) startedAfter(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reached = true
	e.state.started = append(e.state.started, d)
}

// startTime is how much longer than usual the first answer of a process may take: a
// multiple of what the very first one took, since others start beside it now.
func (e *exam) startTime() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.start
}

// slow is what clients that probe a server give it at least.
const slow = 2500 * time.Millisecond

// judgeStart judges by the quickest of all starts, so that a machine that was busy
// once proves nothing.
func (e *exam) judgeStart() {
	if e.http || len(e.state.started) < 2 {
		return
	}
	if quickest := slices.Min(e.state.started); quickest >= slow {
		e.find(SlowStart, fmt.Sprintf("# of %d starts none was answered within %s", len(e.state.started), quickest.Round(100*time.Millisecond)))
	}
}

// judgeWhole says that a server is of no use where nothing else says why.
func (e *exam) judgeWhole() {
	e.mu.Lock()
	useless := !e.odd && !e.pushed
	var why []string
	for _, r := range mcp.Revisions() {
		if a := e.tried[r]; a != nil {
			useless = useless && !a.opened
			why = append(why, "# "+r.String()+": "+e.veil([]byte(a.why)))
		}
	}
	for _, f := range e.found {
		useless = useless && f.Level != Error
	}
	e.mu.Unlock()
	if useless {
		e.find(NoRevision, evidence(why...))
	}
}

// report joins what was found.
func (e *exam) report() *Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &Report{}
	for _, f := range e.found {
		r.Findings = append(r.Findings, f)
	}
	slices.SortFunc(r.Findings, func(a, b Finding) int { return cmp.Or(severity(a, b), cmp.Compare(a.Evidence, b.Evidence)) })
	r.Verdict = e.verdictLocked()
	return r
}
