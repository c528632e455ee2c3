//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// check is the result of one check of the suite in one scenario.
type check struct {
	ID           string `json:"id"`
	Description  string `json:"description"`
	Status       string `json:"status"` // SUCCESS, FAILURE, WARNING, SKIPPED, INFO
	ErrorMessage string `json:"errorMessage"`
}

func (c check) String() string {
	why := c.ErrorMessage
	if why == "" {
		why = c.Description
	}
	why = strings.Join(strings.Fields(why), " ")
	if len(why) > 300 {
		why = why[:300] + " ..."
	}
	return c.ID + ": " + why
}

// outcome has the results of all checks of one scenario.
type outcome []check

func (o outcome) with(status string) (found []check) {
	for _, c := range o {
		if c.Status == status {
			found = append(found, c)
		}
	}
	return found
}

// ok reports whether the scenario ran and no check in it failed.
func (o outcome) ok() bool { return len(o) > 0 && len(o.with("FAILURE")) == 0 }

// strictly returns the outcome with warnings as failures, and with a failure if the suite, which also
// looks at the client's exit status and time, said that the scenario failed.
func (o outcome) strictly(said error) outcome {
	o = slices.Clone(o)
	for i := range o {
		if o[i].Status == "WARNING" {
			o[i].Status = "FAILURE"
		}
	}
	if said != nil {
		o = append(o, check{ID: "suite", Status: "FAILURE", ErrorMessage: "the suite ended with " + said.Error() + "; its log has the client's stderr"})
	}
	return o
}

var timestamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\dZ-]+$`)

// results reads the result files of the suite. Each scenario has a folder named
// [SIDE-]SCENARIO-TIME. A slash in the name of a scenario separates folders.
func results(dir, side string) (map[string]outcome, error) {
	found := map[string]outcome{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "checks.json" {
			return err
		}
		rel, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var o outcome
		if err := json.Unmarshal(b, &o); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		name := timestamp.ReplaceAllString(filepath.ToSlash(rel), "")
		name = strings.TrimPrefix(name, map[string]string{"server": "server-", "authorization": "authorization-server-"}[side]) // folders of client runs have no prefix
		found[name] = o
		return nil
	})
	return found, err
}

// scored returns the scenarios that count for a leg, in the order of the suite's file. The file
// contains a flat list for each side, so no YAML parser is needed.
func (l *leg) scored(file string) ([]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var names []string
	section := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, " \r\n")
		switch item, isItem := strings.CutPrefix(line, "  - "); {
		case line == "" || strings.HasPrefix(strings.TrimSpace(line), "#"):
		case !strings.HasPrefix(line, " "):
			section = strings.TrimSuffix(line, ":")
		case isItem && section == l.side && signsIn(item) == l.signsIn():
			names = append(names, item)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no scenario for %s", file, l.name())
	}
	return names, nil
}

// verdict is the comparison of a leg's result with the expected result.
type verdict struct {
	passed   int
	names    []string // the scenarios that count
	problems []string // the reasons why the leg failed; empty if it passed
	notes    []string // remarks that do not make the leg fail
}

// judge compares the results with those that the leg expects. names are the scenarios that
// count. If the leg has no frozen set, all scenarios that ran count.
func (l *leg) judge(found map[string]outcome, names []string) verdict {
	v := verdict{names: names}
	var failed, missing []string
	for _, n := range names {
		o, ran := found[n]
		if l.whole && len(o.with("SKIPPED")) > 0 {
			// The suite skips the checks of an extension that the server does not declare.
			v.problems = append(v.problems, fmt.Sprintf("%s: %d of %d checks were skipped: %s", n, len(o.with("SKIPPED")), len(o), o.with("SKIPPED")[0]))
		}
		o = o.without(l.excusedChecks)
		reason, excused := l.excused[n]
		switch {
		case o.ok():
			v.passed++
			if excused {
				v.notes = append(v.notes, n+" passes: take it off the list of excuses ("+reason+")")
			}
		case excused:
		case !ran:
			missing = append(missing, n)
		default:
			failed = append(failed, n)
		}
	}
	if len(failed) > 0 {
		v.problems = append(v.problems, "failed: "+strings.Join(failed, ", "))
	}
	if len(missing) > 0 {
		v.problems = append(v.problems, "did not run: "+strings.Join(missing, ", "))
	}
	for n := range l.excused {
		if !slices.Contains(names, n) {
			v.problems = append(v.problems, n+" is excused and does not exist")
		}
	}
	for id := range l.excusedChecks {
		if !l.fails(found, id) {
			v.notes = append(v.notes, "the check "+id+" does not fail: take it off the list of excuses")
		}
	}
	if len(names) != l.of {
		v.problems = append(v.problems, fmt.Sprintf("%d scenarios count, not %d as in legs.go: the suite has changed", len(names), l.of))
	}
	if floor := l.want - len(l.excused); v.passed < floor {
		v.problems = append(v.problems, fmt.Sprintf("%d passed, %d promised", v.passed, floor))
	}
	slices.Sort(v.problems)
	return v
}

// fails reports whether the check id fails in any scenario, or occurs in none of them.
func (l *leg) fails(found map[string]outcome, id string) bool {
	there := false
	for _, o := range found {
		for _, c := range o {
			there = there || c.ID == id
			if c.ID == id && c.Status == "FAILURE" {
				return true
			}
		}
	}
	return !there
}
