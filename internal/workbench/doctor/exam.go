package doctor

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport/httplink"
)

// Options control an examination. The zero value has the usual settings.
type Options struct {
	Deep bool // Deep means that the slower probes run too
	// Call is the name of the only tool that Examine may call; "" means no tool. Examine calls this
	// tool several times without arguments, and cancels some of the calls.
	Call string
	// Patience is the timeout for an answer; 0 means 5 s.
	Patience time.Duration
	// Start is the timeout for the server's first answer; 0 means 30 s.
	Start time.Duration
	// Parallel is the maximum number of conversations at the same time. On a pipe, each conversation
	// has its own process of the server. 0 means 4.
	Parallel int
	// SignIn opens a page at which a person signs in. If it's nil, nobody does, and what comes after a sign-in isn't
	// examined.
	SignIn func(ctx context.Context, page string) error
	// Examine calls Progress for each step, in the goroutine that called Examine. Progress may be nil.
	Progress func(step string)
}

// Report is the result of an examination.
type Report struct {
	Findings []Finding // sorted by level, worst first, and then by the number of affected clients
	Verdict  Verdict
	// Passed has the names of the probes that found nothing, sorted.
	Passed []string
}

// exam is one running examination.
type exam struct {
	t     *Target
	o     Options
	known *excerpt.Known // the secrets to mask
	http  bool
	sse   bool // the server uses HTTP+SSE; decided before probes run in parallel

	// knowsLocalhost is true if a server that refuses the host name in the URL accepts localhost.
	// byName makes sure that the doctor tests this only once.
	byName         sync.Once
	knowsLocalhost bool

	lastID atomic.Int64 // the last request id over HTTP; all conversations share this counter

	done int // the number of probes started; used only by Examine's goroutine

	mu sync.Mutex
	state
}

// state has the results of the probes. The mutex of exam guards it.
type state struct {
	found   map[string]Finding
	passed  map[string]bool // for each probe, by name: whether it ran and found nothing
	jobs    []job           // the jobs to run after the current jobs
	deaths  []draft         // exits of the server in shared conversations
	started []time.Duration // the time until the first answer, for each conversation
	start   time.Duration   // extra time allowed for a process to start
	reached bool            // the server has sent a message, or has answered over HTTP
	tried   map[mcp.Revision]*attempt
	// refusedUnknown is the evidence that the server refused initialize with an unknown version.
	// refusedBare is the evidence that the server refused initialize without params. A refusal is a
	// fault only if the server supports initialize at all.
	refusedUnknown, refusedBare string

	guess    mcp.Revision          // the newest legacy revision that the server supports, according to its first answer
	examined map[mcp.Revision]bool // the revisions for which the probes of habits.go were added

	pushed  bool              // the server pushed a manifest without a request
	odd     bool              // initialize works, but returns no version
	notMCP  bool              // the server does not speak MCP
	noPing  bool              // the server does not answer ping
	sent    map[string]sentID // the requests of all conversations over HTTP, by id
	through throughDragoman
	offered offered

	wants     []string // the header WWW-Authenticate of the first 401
	unreached unreached
	nearby    []string // the URLs of MCP endpoints near an address that has none
}

// attempt is the result of opening the server in one revision.
type attempt struct {
	opened  bool   // the server speaks the revision and answers requests in it
	answer  string // the version in the server's answer, if it is another version
	refused string // the evidence that the server answered with an error
	why     string // a sentence that says why the server was not opened, if opened is false
}

// Examine examines a server. It returns an error only if ctx ends. If the server cannot be reached,
// the report has a finding, and Verdict.Reached is false.
func Examine(ctx context.Context, t Target, o Options) (*Report, error) {
	e := &exam{t: &t, o: o, http: t.URL != nil, known: knownOf(t.Secrets)}
	e.found, e.tried, e.examined = map[string]Finding{}, map[mcp.Revision]*attempt{}, map[mcp.Revision]bool{}
	e.passed = map[string]bool{}
	e.lastID.Store(firstID())
	orDefault(&e.o.Patience, 5*time.Second)
	orDefault(&e.o.Start, 30*time.Second)
	if e.o.Parallel <= 0 {
		e.o.Parallel = 4
	}
	e.t.given = t.Transport != nil
	if e.http && t.Transport == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxIdleConnsPerHost: 4}
		httplink.Trust(own, t.CAs)
		defer own.CloseIdleConnections()
		e.t.Transport = own
	}
	if first, ok := e.reach(ctx); ok {
		e.reached = true
		if !e.http {
			e.start = min(e.o.Start, time.Duration(2*e.o.Parallel)*e.state.started[0])
		}
		if e.sse {
			e.run(ctx, []job{{probes: []probe{{name: "two sessions at once", alone: e.twoSessions}}}})
		}
		e.run(ctx, e.openings(first))
		e.settleVersions()
		e.run(ctx, e.examinations())
		e.judgeDeaths()
		e.judgeStart(ctx)
		e.judgeWhole()
	}
	e.lookAround(ctx)
	e.visitSignIn(ctx)
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

// grace is how long the doctor still waits for an answer after the server has answered a later
// request.
func (e *exam) grace() time.Duration { return e.o.Patience / 2 }

// begin opens a new conversation without sending anything.
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

// slack is how much longer the doctor waits before a missing answer counts. It is longer for a
// server that starts slowly, because the machine may be busy.
func (e *exam) slack() time.Duration {
	return max(e.o.Patience, min(4*e.o.Patience, e.startTime()))
}

// find records a finding. Only the first evidence of a code is kept.
func (e *exam) find(code, seen string) { e.accept(draft{code: code, seen: seen}) }

// accept records a finding of a conversation. Only the first evidence of a code is kept,
// unless a later finding has a worse level.
func (e *exam) accept(d draft) {
	f := Finding{Condition: d.condition(), Evidence: d.seen}
	e.mu.Lock()
	defer e.mu.Unlock()
	if had, ok := e.found[d.code]; ok && (had.Level == f.Level || f.Level == Info) {
		return
	}
	e.found[d.code] = f
}

func (e *exam) redact(b []byte) string { return redact(b, e.known) }

// pushes records that the server has pushed a manifest.
func (e *exam) pushes() {
	e.mu.Lock()
	e.pushed = true
	e.mu.Unlock()
}

// startedAfter records the time from the start of a conversation to its first message.
func (e *exam) startedAfter(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state.started = append(e.state.started, d)
}

// startTime is the extra time for the first answer of a process. It is a multiple of the time of
// the first start, because several processes start at the same time.
func (e *exam) startTime() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.start
}

// judgeWhole reports that no revision works, unless another finding explains why.
func (e *exam) judgeWhole() {
	e.mu.Lock()
	useless := !e.odd && !e.pushed
	var why []string
	for _, r := range mcp.Revisions() {
		if a := e.tried[r]; a != nil {
			useless = useless && !a.opened
			why = append(why, "# "+r.String()+": "+e.redact([]byte(a.why)))
		}
	}
	for _, f := range e.found {
		useless = useless && f.Level != Error && f.Code != WantsCredentials
	}
	e.mu.Unlock()
	if useless {
		e.find(NoRevision, evidence(why...))
	}
}

// report returns the findings and the verdict.
func (e *exam) report() *Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := &Report{}
	for _, f := range e.found {
		if !e.impliedLocked(f.Code) {
			r.Findings = append(r.Findings, f)
		}
	}
	slices.SortFunc(r.Findings, func(a, b Finding) int { return cmp.Or(severity(a, b), cmp.Compare(a.Evidence, b.Evidence)) })
	r.Verdict = e.verdictLocked()
	for name, ok := range e.passed {
		if ok {
			r.Passed = append(r.Passed, name)
		}
	}
	slices.Sort(r.Passed)
	return r
}

// impliedLocked reports whether a finding is only another view of the fault that a second finding
// describes. The report has one finding for each fault.
func (e *exam) impliedLocked(code string) bool {
	has := func(code string) bool { _, ok := e.found[code]; return ok }
	switch {
	case code == StuckOnOdd: // after malformed input, a server may hang once and exit another time
		return has(DiesOnOdd)
	case code != Unreachable && !e.http: // a command that only prints a text and exits
		return has(Unreachable)
	}
	return false
}
