package doctor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// This file decides which probes share a conversation. On a pipe, each conversation needs a process
// of its own. The start of a process takes longer than most probes, so many probes run one after the
// other in the same conversation. A finding of such a probe is in doubt if an earlier probe or a
// slow machine could be the cause. In this case, the probe runs again in its own conversation, and
// only the result of the second run counts. Over HTTP, a conversation is cheap, so each probe has
// its own conversation.

// probe is one test.
type probe struct {
	name  string
	rev   mcp.Revision // the revision in which the server is opened before the probe; Unknown if the probe opens the server itself
	death string       // the code to report if the server exits during the probe; "" means Dies
	run   func(ctx context.Context, t *talk)
	alone func(ctx context.Context) // replaces run for a probe that opens its own conversations

	midway bool // in a shared conversation, the probe runs between initialize and notifications/initialized
	odd    bool // the probe sends malformed input, so only odd probes may follow
	// then returns more probes for the same conversation. It may be nil.
	then func() []probe
}

// job is a series of probes in one conversation.
type job struct {
	probes []probe
	talk   *talk // an open conversation to use; if nil, the job opens a conversation
	open   mcp.Revision
	// final means that the findings of this job count without another run. A final job has one
	// probe.
	final bool
}

// singles returns a job for each probe.
func singles(all []probe) (out []job) {
	for _, p := range all {
		out = append(out, job{probes: []probe{p}})
	}
	return out
}

// draft is a possible finding that is not certain yet.
type draft struct {
	code, seen string
	level      Level // the level; "" means the usual level of the code
}

func (d draft) condition() Condition {
	c, ok := Lookup(d.code)
	if !ok {
		c = Condition{Code: d.code, Level: Warning} // tests use codes that the table does not have
	}
	if d.level != "" {
		c.Level = d.level
	}
	return c
}

// find records a possible finding of the conversation.
func (t *talk) find(code, seen string) { t.findAs(code, "", seen) }

// findAs does the same as find, but with level instead of the usual level of the code.
func (t *talk) findAs(code string, level Level, seen string) {
	t.drafts = append(t.drafts, draft{code, seen, level})
}

// deathCodes are the codes for a server that exits. formCodes are the codes for the form of a single
// message, so an earlier probe or a delay cannot be the cause of such a finding. matchCodes are the
// codes for findings that depend on which request an answer belongs to.
var (
	deathCodes = []string{Dies, ProbeDies, BareDies, DiesOnOdd, LongMessage, VeryLongMessage}
	formCodes  = []string{Noise, HalfLine, NoVersionMember, ErrorCode, ErrorShape, MessageShape, MessageLimit, AsksUndeclared}
	matchCodes = []string{IDLost, IDType, NoteAnswered, Unasked, PushesManifest, Floods}
)

// run runs jobs, at most Parallel at the same time. Then it runs the jobs that these jobs
// added.
func (e *exam) run(ctx context.Context, all []job) {
	for len(all) > 0 && ctx.Err() == nil {
		work, steps := make(chan job, len(all)), make(chan string)
		for _, j := range all {
			work <- j
		}
		close(work)
		var workers, end sync.WaitGroup
		for range min(e.o.Parallel, len(all)) {
			workers.Go(func() {
				for j := range work {
					e.follow(ctx, j, func(p *probe) { steps <- p.name })
				}
			})
		}
		end.Go(func() {
			workers.Wait()
			close(steps)
		})
		for name := range steps {
			e.progress(name)
		}
		end.Wait()
		e.mu.Lock()
		all, e.jobs = e.jobs, nil
		e.mu.Unlock()
	}
	for _, j := range all {
		if j.talk != nil {
			j.talk.w.close()
		}
	}
}

// probeTime is the fixed part of the timeout of a job, as a multiple of Options.Patience. Each probe
// of the job adds Options.Patience once.
const probeTime = 12

// follow runs the probes of a job.
func (e *exam) follow(ctx context.Context, j job, step func(*probe)) {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, time.Duration(probeTime+len(j.probes))*e.o.Patience+e.startTime())
	defer cancel()
	if one := &j.probes[0]; one.alone != nil {
		step(one)
		one.alone(ctx)
		return
	}
	t := j.talk
	if t == nil {
		if t = e.beginJob(ctx); t == nil {
			return
		}
	}
	defer t.w.close()
	probes := j.probes
	t.final, t.shared = j.final, len(probes) > 1 || probes[0].then != nil
	if j.open != mcp.Unknown && !t.openAs(ctx, j.open) {
		e.later(singles(probes)...)
		return
	}
	var done []probe
	for i := 0; i < len(probes) && whole.Err() == nil; i++ {
		p := probes[i]
		step(&p)
		t.death, t.timedOut, t.unsure = p.death, false, false
		switch {
		case t.fits(&p):
		case t.shared:
			e.later(job{probes: []probe{p}})
			continue
		case !t.openAs(ctx, p.rev):
			t.ran = false
			e.settle(t, &p)
			return
		}
		t.ran = true
		p.run(ctx, t)
		last := i == len(probes)-1
		var more []probe
		if last && p.then != nil && !t.over {
			more = p.then()
			last = len(more) == 0
		}
		if last && (!e.http || e.sse) {
			t.lingerAtEnd(ctx, p.odd)
		}
		if whole.Err() != nil {
			return
		}
		if clean := e.settle(t, &p); !clean {
			e.leave(t, &p, done, append(slices.Clone(probes[i+1:]), more...))
			return
		}
		done = append(done, p)
		probes = append(probes, more...)
	}
}

// beginJob opens a conversation for a job. It returns nil if it cannot, after it has reported that.
func (e *exam) beginJob(ctx context.Context) *talk {
	t, err := e.begin(ctx)
	if err == nil {
		return t
	}
	if ctx.Err() == nil {
		e.find(CannotStart, "# "+e.redact([]byte(err.Error())))
	}
	return nil
}

// fits reports whether the conversation is in the state that a probe needs.
func (t *talk) fits(p *probe) bool {
	switch {
	case t.spent:
		return false
	case p.midway && t.shared:
		return t.greeted && !t.announced
	case p.rev == mcp.Unknown:
		return !t.greeted
	case p.rev.Modern():
		return t.rev == p.rev
	}
	return t.opened && t.rev == p.rev
}

// lingerAtEnd waits for a short time, to notice a server that exits. A server that crashes on its
// input may still answer the next request before it exits.
func (t *talk) lingerAtEnd(ctx context.Context, odd bool) {
	d := t.e.grace() / 20
	if odd {
		d = t.e.grace() / 5
	}
	t.linger(ctx, d)
}

// settle decides which possible findings of a probe count. If a finding is in doubt, settle adds a
// job that runs the probe again. It reports whether the conversation can continue.
func (e *exam) settle(t *talk, p *probe) bool {
	drafts := t.drafts
	t.drafts = nil
	doubt := t.timedOut || t.unsure && t.shared
	for _, d := range drafts {
		if t.final || slices.Contains(formCodes, d.code) || d.condition().Level == Info {
			continue
		}
		doubt = doubt || t.shared && !e.has(d.code)
	}
	if doubt && !t.final {
		for _, d := range drafts {
			if slices.Contains(formCodes, d.code) {
				e.accept(d)
			}
		}
		e.rerun(p)
		t.keepDeath(drafts)
		return !t.timedOut && !t.unsure && !t.over && !slices.ContainsFunc(drafts, isMatch)
	}
	for _, d := range drafts {
		e.accept(d)
	}
	e.mu.Lock()
	e.passed[p.name] = t.ran && len(drafts) == 0 && !t.timedOut && !t.over
	e.mu.Unlock()
	return !t.over && !t.timedOut
}

func isMatch(d draft) bool { return slices.Contains(matchCodes, d.code) }

// keepDeath keeps the evidence that the server exited in a shared conversation. judgeDeaths uses the
// evidence if the server does not exit again when each probe runs alone.
func (t *talk) keepDeath(drafts []draft) {
	t.e.mu.Lock()
	defer t.e.mu.Unlock()
	for _, d := range drafts {
		if t.over && slices.Contains(deathCodes, d.code) {
			t.e.deaths = append(t.e.deaths, d)
		}
	}
}

// judgeDeaths reports that the server exited in a shared conversation, if the server did not exit
// again later. The exit is certain, but the probe that caused the exit is not known.
func (e *exam) judgeDeaths() {
	if slices.ContainsFunc(deathCodes, e.has) {
		return
	}
	e.mu.Lock()
	deaths := e.deaths
	e.mu.Unlock()
	for _, d := range deaths {
		e.accept(d)
	}
}

// rerun adds a job that runs a probe again in its own conversation. The findings of this job count.
func (e *exam) rerun(p *probe) {
	one := *p
	one.then = nil
	e.later(job{probes: []probe{one}, final: true})
}

// leave adds jobs when a shared conversation has to end after probe p. The probes after p (rest) run
// in another conversation. If an earlier probe (done) may be the cause, that probe runs again.
func (e *exam) leave(t *talk, p *probe, done, rest []probe) {
	if t.over || !t.timedOut && !t.unsure {
		for i := range done {
			if q := &done[i]; q.death == p.death && !q.odd == !p.odd {
				e.rerun(q)
			}
		}
	}
	if len(rest) == 0 {
		return
	}
	if rest[0].rev == mcp.Unknown {
		e.later(singles(rest)...)
		return
	}
	e.later(job{probes: rest, open: rest[0].rev})
}

func (e *exam) later(jobs ...job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.jobs = append(e.jobs, jobs...)
}

// progress reports a step. The total number of steps is unknown, because a probe may add steps.
func (e *exam) progress(name string) {
	e.done++
	if e.o.Progress != nil {
		e.o.Progress(fmt.Sprintf("step %d: %s", e.done, name))
	}
}
