package matrix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// Options configure a run. Program is required.
type Options struct {
	Filter Filter
	// Program is the beginning of the command line of dragoman: the executable file, and any
	// arguments before the name of the command.
	Program []string
	// Parallel is the number of concurrent conversations; 0 means 3.
	Parallel int
	// Done, if set, is called after each conversation, on the goroutine that called Run.
	Done func(p Pair, direct bool, done, of int)
	// Through omits the conversations without Dragoman.
	Through bool
	// Env returns additional environment variables, as K=V, for the Dragoman process of a pair.
	// Capture returns a writer for the messages of the pair's client; see
	// fake.ClientOptions.Capture. Several goroutines may call Env and Capture at the same time. The
	// two functions are not called for conversations without Dragoman or with the console. Both may be nil.
	Env     func(p Pair) []string
	Capture func(p Pair) io.Writer
}

// featureWithin is the timeout of one feature. A feature that works needs much less time.
const featureWithin = 20 * time.Second

// verdict is the outcome of one feature in one conversation.
type verdict struct {
	outcome Outcome
	reason  string
}

// Run measures each selected pair through Dragoman. If both ends have the same transport and
// Options.Through is false, Run also measures the pair without Dragoman. It returns an error if
// nothing can be measured, or if ctx ends. If ctx ends, the error is the cause of ctx, and the
// report has the pairs that were measured before.
func Run(ctx context.Context, o Options) (*Report, error) {
	if len(o.Program) == 0 {
		return nil, errors.New("matrix: no program to measure")
	}
	if o.Parallel <= 0 {
		o.Parallel = 3
	}
	pairs := o.Filter.pairs()
	jobs := o.jobs(pairs)
	if len(jobs) == 0 {
		return nil, errors.New("there is nothing to measure: no pair of revisions and transports is left")
	}
	queue, over := make(chan job, len(jobs)), make(chan job)
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	var workers sync.WaitGroup
	for range o.Parallel {
		workers.Go(func() {
			for j := range queue {
				if j.console {
					j.verdicts = playConsole(ctx, &o, pairs[j.pair])
				} else {
					j.verdicts = play(ctx, &o, pairs[j.pair], j.direct)
				}
				over <- j
			}
		})
	}
	through, direct, console := make([]map[string]verdict, len(pairs)), make([]map[string]verdict, len(pairs)), make([]map[string]verdict, len(pairs))
	for done := range jobs {
		p := <-over
		if ctx.Err() != nil {
			continue // ignore the result, because the conversation may have been cut off
		}
		switch {
		case p.direct:
			direct[p.pair] = p.verdicts
		case p.console:
			console[p.pair] = p.verdicts
		default:
			through[p.pair] = p.verdicts
		}
		if o.Done != nil && ctx.Err() == nil {
			o.Done(pairs[p.pair], p.direct, done+1, len(jobs))
		}
	}
	workers.Wait()
	r := &Report{pairs: pairs}
	for i := range pairs {
		if through[i] != nil {
			r.add(pairs[i], o.Filter.Features, through[i], direct[i])
			r.addConsole(pairs[i], console[i])
		}
	}
	return r, context.Cause(ctx)
}

// job is one conversation to measure.
type job struct {
	pair     int // the index of the pair
	direct   bool
	console  bool               // with somebody who answers questions
	verdicts map[string]verdict // set when the pair was played
}

// jobs returns the conversations of the pairs, those without Dragoman included.
func (o *Options) jobs(pairs []Pair) (all []job) {
	for i, p := range pairs {
		all = append(all, job{pair: i})
		if p.ClientTransport == p.ServerTransport && !o.Through {
			all = append(all, job{pair: i, direct: true})
		}
		if len(o.helped(p)) > 0 {
			all = append(all, job{pair: i, console: true})
		}
	}
	return all
}

// add adds the cells of a pair. direct is nil if the pair was not measured without Dragoman.
func (r *Report) add(p Pair, selected []string, through, direct map[string]verdict) {
	for _, f := range features() {
		if !wanted(selected, f.name) {
			continue
		}
		c := Cell{Pair: p, Feature: f.name, Outcome: through[f.name].outcome, Reason: through[f.name].reason, Direct: None}
		if direct != nil {
			c.Direct, c.DirectReason = direct[f.name].outcome, direct[f.name].reason
		}
		r.Cells = append(r.Cells, c)
	}
}

// addConsole adds what was measured with somebody who answers questions to the cells of a pair.
func (r *Report) addConsole(p Pair, console map[string]verdict) {
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Pair != p {
			continue
		}
		c.Console, c.ConsoleReason = c.Outcome, c.Reason
		if v, ok := console[c.Feature]; ok {
			c.Console, c.ConsoleReason = v.outcome, v.reason
		}
	}
}

// play tests all features of a pair in one conversation.
func play(ctx context.Context, o *Options, p Pair, direct bool) map[string]verdict {
	if ctx.Err() != nil {
		return nil // skip the rest of the queue
	}
	out := map[string]verdict{}
	var chosen []feature
	for _, f := range features() {
		switch {
		case !wanted(o.Filter.Features, f.name):
		case f.apart != nil:
			out[f.name] = judgeApart(ctx, o, p, direct, &f)
		default:
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return out
	}
	all := func(err error) map[string]verdict {
		for _, f := range chosen {
			out[f.name] = verdict{Fails, err.Error()}
		}
		return out
	}
	s, err := setStage(ctx, o, p, direct)
	if err != nil {
		return all(err)
	}
	defer s.strike()
	t, err := s.open(ctx, p, fake.ClientOptions{})
	if err != nil {
		return all(err)
	}
	for _, f := range chosen {
		out[f.name] = t.judge(ctx, &f)
	}
	var wrong []string
	if err := t.c.Close(); err != nil {
		wrong = append(wrong, "the conversation did not end cleanly: "+err.Error())
	}
	for _, v := range s.reported() {
		if !t.provoked(v) {
			wrong = append(wrong, "a process of the server saw a violation: "+v)
		}
	}
	last := chosen[len(chosen)-1].name
	if v := out[last]; len(wrong) > 0 && v.outcome != Fails {
		out[last] = verdict{Fails, strings.Join(wrong, "; ")}
	}
	return out
}

// judgeApart tests a feature in a conversation of its own and returns its outcome.
func judgeApart(ctx context.Context, o *Options, p Pair, direct bool, f *feature) verdict {
	sentence := lossOf(f.name, p)
	v := verdict{Works, sentence}
	switch {
	case sentence != "" && absentIn(f.name, p):
		v.outcome = Absent
	case sentence != "":
		v.outcome = Loss
	case direct:
		return verdict{None, "the strict clients can't do this by themselves"}
	}
	if sentence != "" && (direct || !f.always) {
		return v
	}
	ctx, cancel := context.WithTimeoutCause(ctx, featureWithin, fmt.Errorf("the test did not end within %s", featureWithin))
	defer cancel()
	if err := f.apart(ctx, o, p); err != nil {
		return verdict{Fails, strings.ReplaceAll(err.Error(), "\n", "; ")}
	}
	return v
}

// judge tests one feature and returns its outcome.
func (t *talk) judge(ctx context.Context, f *feature) verdict {
	ctx, cancel := context.WithTimeoutCause(ctx, featureWithin, fmt.Errorf("the test did not end within %s", featureWithin))
	defer cancel()
	v := verdict{outcome: Works}
	act := f.play
	if sentence := lossOf(f.name, t.Pair); sentence != "" {
		v = verdict{Loss, sentence}
		if absentIn(f.name, t.Pair) {
			v.outcome = Absent
		}
		act = f.lost // both ends must get a proper answer in either case
	}
	if act == nil {
		return v
	}
	var wrong []string
	if err := act(ctx, t); err != nil {
		wrong = append(wrong, err.Error())
	}
	wrong = append(wrong, t.misdeeds(ctx)...)
	if len(wrong) > 0 {
		return verdict{Fails, strings.ReplaceAll(strings.Join(wrong, "; "), "\n", "; ")}
	}
	return v
}
