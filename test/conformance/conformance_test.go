//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func pass() outcome { return outcome{{ID: "a", Status: "SUCCESS"}, {ID: "b", Status: "WARNING"}} }
func fail() outcome { return outcome{{ID: "a", Status: "SUCCESS"}, {ID: "b", Status: "FAILURE"}} }

func TestJudge(t *testing.T) {
	names := []string{"one", "two", "three"}
	tests := []struct {
		name    string
		leg     leg
		found   map[string]outcome
		passed  int
		problem string // a text in one of the problems; "" means no problems
		note    string
	}{
		{name: "as promised", leg: leg{want: 3, of: 3}, found: map[string]outcome{"one": pass(), "two": pass(), "three": pass()}, passed: 3},
		{name: "failed", leg: leg{want: 3, of: 3}, found: map[string]outcome{"one": pass(), "two": fail(), "three": pass()}, passed: 2, problem: "failed: two"},
		{name: "missing", leg: leg{want: 3, of: 3}, found: map[string]outcome{"one": pass(), "two": pass()}, passed: 2, problem: "did not run: three"},
		{name: "empty", leg: leg{want: 3, of: 3}, found: map[string]outcome{"one": pass(), "two": pass(), "three": {}}, passed: 2, problem: "failed: three"},
		{name: "excused", leg: leg{want: 3, of: 3, excused: map[string]string{"two": "x"}}, found: map[string]outcome{"one": pass(), "two": fail(), "three": pass()}, passed: 2},
		{name: "excused in vain", leg: leg{want: 3, of: 3, excused: map[string]string{"two": "x"}}, found: map[string]outcome{"one": pass(), "two": pass(), "three": pass()}, passed: 3, note: "two passes"},
		{name: "excused unknown", leg: leg{want: 3, of: 3, excused: map[string]string{"four": "x"}}, found: map[string]outcome{"one": pass(), "two": pass(), "three": pass()}, passed: 3, problem: "four is excused and does not exist"},
		{name: "excused check", leg: leg{want: 3, of: 3, excusedChecks: map[string]string{"b": "x"}}, found: map[string]outcome{"one": pass(), "two": fail(), "three": pass()}, passed: 3},
		{name: "another check fails", leg: leg{want: 3, of: 3, excusedChecks: map[string]string{"a": "x"}}, found: map[string]outcome{"one": pass(), "two": fail(), "three": pass()}, passed: 2, problem: "failed: two", note: "the check a does not fail"},
		{name: "another set", leg: leg{want: 3, of: 4}, found: map[string]outcome{"one": pass(), "two": pass(), "three": pass()}, passed: 3, problem: "the suite has changed"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			v := tc.leg.judge(tc.found, names)
			if v.passed != tc.passed {
				t.Errorf("passed = %d, want %d", v.passed, tc.passed)
			}
			problems, notes := strings.Join(v.problems, "\n"), strings.Join(v.notes, "\n")
			if (tc.problem == "") != (problems == "") || !strings.Contains(problems, tc.problem) {
				t.Errorf("problems = %q, want %q", problems, tc.problem)
			}
			if (tc.note == "") != (notes == "") || !strings.Contains(notes, tc.note) {
				t.Errorf("notes = %q, want %q", notes, tc.note)
			}
		})
	}
}

// TestStrictly checks that a warning, and what the suite says of a client, fail a scenario.
func TestStrictly(t *testing.T) {
	for _, tc := range []struct {
		o    outcome
		said error
		ok   bool
	}{
		{outcome{{ID: "a", Status: "SUCCESS"}, {ID: "b", Status: "INFO"}}, nil, true},
		{pass(), nil, false},
		{outcome{{ID: "a", Status: "SUCCESS"}}, errors.New("exit status 1"), false},
		{nil, nil, false},
	} {
		if got := tc.o.strictly(tc.said); got.ok() != tc.ok {
			t.Errorf("%v, %v: %v", tc.o, tc.said, got)
		}
	}
}

func TestResults(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"server-tools-list-2026-11-21T10-32-13-416Z", "server-server-initialize-2026-11-21T10-32-13-416Z", "server-json-schema-2020-12-2026-11-21T10-32-13-416Z", "auth/basic-2026-11-21T10-32-13-416Z"} {
		d := filepath.Join(dir, name)
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "checks.json"), []byte(`[{"id":"a","status":"SUCCESS"}]`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := results(dir, "server")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"tools-list", "server-initialize", "json-schema-2020-12", "auth/basic"} {
		if !got[n].ok() {
			t.Errorf("%s is missing from %v", n, got)
		}
	}
}

func TestScored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rev.yaml")
	text := "# about\nserver:\n  - ping\n  # why\n  - tools-list\n\nclient:\n  - initialize\n  - auth/basic\nnot_scored:\n  - scenario: x\n    leg: server\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		leg  leg
		want []string
	}{
		{leg{side: "server", via: "run"}, []string{"ping", "tools-list"}},
		{leg{side: "client", via: "run"}, []string{"initialize"}},
		{leg{side: "client", via: "sign-in"}, []string{"auth/basic"}},
	} {
		if got, err := tc.leg.scored(file); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, %v; want %q", tc.leg.name(), got, err, tc.want)
		}
	}
	if _, err := (&leg{side: "nobody"}).scored(file); err == nil {
		t.Error("an empty set must be an error")
	}
}

func TestGates(t *testing.T) {
	modern := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","mine":1}}}`
	tests := []struct {
		name       string
		gate       func([]byte) ([]byte, []byte)
		in         string
		pass, told string // a part of the forwarded line, and a part of the answer that is sent back
	}{
		{"legacy: discover", legacyGate, `{"jsonrpc":"2.0","id":"x","method":"server/discover"}`, "", `"id":"x","error":{"code":-32601`},
		{"legacy: envelope", legacyGate, modern, `{"_meta":{"mine":1}}`, ""},
		{"legacy: initialize", legacyGate, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `initialize`, ""},
		{"legacy: answer", legacyGate, `{"jsonrpc":"2.0","id":1,"result":{}}`, `result`, ""},
		{"modern: initialize", modernGate, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, "", `-32022`},
		{"modern: bare", modernGate, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "", `-32602`},
		{"modern: envelope", modernGate, modern, `2026-07-28`, ""},
		{"modern: notice", modernGate, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `cancelled`, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			on, back := tc.gate([]byte(tc.in))
			if (tc.pass == "") != (on == nil) || !strings.Contains(string(on), tc.pass) {
				t.Errorf("passes: %s, want %s", on, tc.pass)
			}
			if (tc.told == "") != (back == nil) || !strings.Contains(string(back), tc.told) {
				t.Errorf("the answer is %s, want %s", back, tc.told)
			}
			if strings.Contains(string(on), "modelcontextprotocol/protocolVersion") && tc.name == "legacy: envelope" {
				t.Errorf("the _meta of the newer era passed: %s", on)
			}
		})
	}
}

func TestTellModern(t *testing.T) {
	for in, want := range map[string]string{
		`{"id":1,"result":{"supportedVersions":["2026-07-28","2025-11-25"]}}`: `{"id":1,"result":{"supportedVersions":["2026-07-28"]}}`,
		`{"id":1,"result":{"text":"\"supportedVersions\""}}`:                  `{"id":1,"result":{"text":"\"supportedVersions\""}}`,
		`{"id": 1,"result":{}}`: `{"id": 1,"result":{}}`,
	} {
		if got := string(tellModern([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// TestBuiltInLegs checks that each built-in server has legs in both eras, through run and serve, and that
// nothing is excused without a reason.
func TestBuiltInLegs(t *testing.T) {
	for name := range builtIn {
		n := 0
		for _, l := range legs {
			if _, of, ok := builtInOf(l.via); !ok || of != name {
				continue
			}
			n++
			for what, reason := range l.excused {
				if what == "" || reason == "" {
					t.Errorf("%s: %q is excused because of %q", l.name(), what, reason)
				}
			}
		}
		if n != 4 {
			t.Errorf("%s has %d legs, want 4", name, n)
		}
	}
	if _, _, ok := builtInOf("run-url"); ok {
		t.Error("run-url is not a built-in server")
	}
}
