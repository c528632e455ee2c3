//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	legWithin      = 3 * time.Minute  // the time limit of one leg, without installation
	eachWithin     = 8 * time.Minute  // the time limit of a leg with a run for each scenario, if many of them hang
	scenarioWithin = 30 * time.Second // the time limit of one scenario; the suite enforces it
)

// rig has the values that all legs share. It does not change after prepare.
type rig struct {
	suite    *suite
	self     string // the path of this program, which legs also run in other modes
	dragoman string
	server   string // the path of go-everything-server
	client   string // the path of go-everything-client
	out      string // the folder for the results of runs
	verbose  bool
}

// run runs one leg and writes its report to w. It returns the numbers of scored scenarios that
// passed and failed. It returns an error if the test set-up itself failed.
func (r *rig) run(ctx context.Context, l *leg, w io.Writer) (passed, failed int, err error) {
	within := legWithin
	if l.each {
		within = eachWithin
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no end within %v", within))
	defer cancel()
	begun := time.Now()
	dir := filepath.Join(r.out, strings.ReplaceAll(l.name(), "/", "_"))
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return 0, 0, err
	}

	names := l.only
	if names == nil && !l.all {
		if names, err = l.scored(filepath.Join(r.suite.requirements, l.rev+".yaml")); err != nil {
			return 0, 0, err
		}
		names = append(names, l.also...)
	}
	var problems []string
	var said map[string]error
	switch l.side {
	case "server":
		problems, err = r.runServer(ctx, l, dir)
	case "authorization":
		problems, err = r.runAuthorization(ctx, l, dir)
	default:
		said, err = r.runClient(ctx, l, dir, names)
	}
	var found map[string]outcome
	if err == nil {
		found, err = results(filepath.Join(dir, "results"), l.side)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w\nsee %s", l.name(), err, dir)
	}
	if l.all {
		names = slices.Sorted(maps.Keys(found))
	}
	for name, o := range found {
		if l.each {
			found[name] = o.strictly(said[name])
		}
	}
	v := l.judge(found, names)
	v.problems = append(v.problems, problems...)
	r.report(w, l, found, &v, time.Since(begun))
	failed = len(names) - v.passed - len(l.excused)
	if len(v.problems) > 0 {
		failed = max(failed, 1)
	}
	return v.passed, max(failed, 0), nil
}

// report writes one line for each scenario, and the summary of the leg. Without -v it omits
// scenarios that passed or are excused.
func (r *rig) report(w io.Writer, l *leg, found map[string]outcome, v *verdict, took time.Duration) {
	fmt.Fprintf(w, "== %s\n", l.name())
	for _, n := range slices.Sorted(maps.Keys(found)) {
		o := found[n].without(l.excusedChecks)
		counts := slices.Contains(v.names, n)
		why, excused := l.excused[n]
		if signsIn(n) != l.signsIn() || !r.verbose && (o.ok() || !counts || excused) {
			continue
		}
		word, remark := "ok  ", ""
		if !o.ok() {
			word = "FAIL"
		}
		if !counts {
			word, remark = strings.ToLower(word), " (not scored)"
		} else if excused {
			remark = " (excused: " + why + ")"
		}
		fmt.Fprintf(w, "   %s %s%s\n", word, n, remark)
		for _, c := range o.with("FAILURE") {
			fmt.Fprintf(w, "        failed %s\n", c)
		}
		for _, c := range o.with("WARNING") {
			fmt.Fprintf(w, "        warned %s\n", c)
		}
	}
	for _, p := range v.problems {
		fmt.Fprintf(w, "   PROBLEM %s\n", p)
	}
	for _, n := range v.notes {
		fmt.Fprintf(w, "   note: %s\n", n)
	}
	excused := ""
	if n := len(l.excused); n > 0 {
		excused = fmt.Sprintf(", %d excused", n)
	}
	fmt.Fprintf(w, "SCORED %s %s %d/%d via %s%s (%.1fs)\n", l.side, l.rev, v.passed, len(v.names), l.via, excused, took.Seconds())
}

// runServer starts the server side for the suite, and runs the suite as the client. problems
// describes the faults of the processes.
func (r *rig) runServer(ctx context.Context, l *leg, dir string) (problems []string, err error) {
	s := &stage{rig: r, dir: dir}
	url, err := s.build(ctx, l)
	if err == nil {
		for _, one := range selections(l) {
			_, failed := r.suiteRun(ctx, dir, "server", "--url", url, one)
			err = errors.Join(err, failed)
		}
	}
	for _, p := range s.strike() {
		problems = append(problems, p.Error())
	}
	return problems, err
}

// runClient runs the suite as the server. The suite starts the client. If each scenario has a run of
// its own, said has what the suite said of each that failed.
func (r *rig) runClient(ctx context.Context, l *leg, dir string, names []string) (said map[string]error, err error) {
	command := []string{r.self, "client", "-client", r.client}
	switch {
	case l.via == "sign-in":
		command = []string{r.self, "sign-in", "-dragoman", r.dragoman}
	case l.via == "serve-sign-in":
		command = []string{r.self, "sign-in", "-serve", "-dragoman", r.dragoman}
	case !strings.HasPrefix(l.via, "direct"):
		command = append(command, "-dragoman", r.dragoman)
	}
	if !l.each {
		_, err := r.suiteRun(ctx, dir, "client", "--command", strings.Join(command, " "), selections(l)[0])
		return nil, err
	}
	said = map[string]error{}
	for _, n := range names {
		if said[n], err = r.suiteRun(ctx, dir, "client", "--command", strings.Join(command, " "), one(n, l.rev)); err != nil {
			return nil, err
		}
	}
	return said, nil
}

// selections returns the arguments for each run of the suite. Most legs need only one run.
func selections(l *leg) (all [][]string) {
	for _, n := range l.only {
		all = append(all, one(n, l.rev))
	}
	switch {
	case l.only != nil:
		return all
	case l.all:
		return [][]string{{"--suite", "all", "--spec-version", l.rev}}
	}
	return [][]string{{"--requirements", l.rev}}
}

// one returns the arguments that select a single scenario.
func one(scenario, rev string) []string {
	return []string{"--scenario", scenario, "--spec-version", rev, "--force"}
}

// suiteRun runs the suite, with its results in dir/results. said is how the suite ended; a leg with
// many scenarios ignores it, because the suite and the leg do not count the same ones. If the suite
// stops early, scenarios are missing from the results.
func (r *rig) suiteRun(ctx context.Context, dir, side, flag, value string, selection []string) (said, err error) {
	log, err := os.OpenFile(filepath.Join(dir, "suite.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	results := filepath.Join(dir, "results")
	if err := os.MkdirAll(results, 0o755); err != nil {
		return nil, err
	}
	argv := append([]string{r.suite.node, r.suite.script, side, flag, value, "--output-dir", results}, selection...)
	if side == "server" {
		argv = append(argv, "--timeout", fmt.Sprint(scenarioWithin.Milliseconds()))
	}
	said = run(ctx, dir, []string{"NODE_OPTIONS=--require " + r.suite.hook}, log, argv...)
	if ctx.Err() != nil {
		return nil, said
	}
	return said, nil
}
