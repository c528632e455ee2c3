package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
)

// TestTraffic reads the limits of default and of projects, and prints them so that they are read again.
func TestTraffic(t *testing.T) {
	const text = `
mcpServers: {git: {command: x}}
dragoman:
  limits:
    result: 2KiB
    traffic:
      - {per: key, who: {keys: ["ci-*"], people: [Ada], roles: [operator]}, callsPerSecond: 50, burst: 60, callsInFlight: 8, bytesPerMinute: 1MiB}
      - {per: key, callsPerSecond: 0.5}
      - {per: server, servers: git, callsInFlight: 3}
  projects:
    shop: {use: [git], limits: {traffic: [{per: project, callsPerSecond: 3}]}}
    bare: {use: [git], limits: {call: 20s}}
    free: {use: [git], limits: {traffic: []}}
`
	s, problems := Parse("f", []byte(text), nil)
	if s == nil || len(problems) > 0 {
		t.Fatal(listing(problems))
	}
	house := []limits.Limit{
		{Per: limits.Key, Keys: []string{"ci-*"}, People: []string{"Ada"}, Roles: []identity.Role{identity.Operator}, Calls: 50, Burst: 60, InFlight: 8, Bytes: 1 << 20},
		{Per: limits.Key, Calls: 0.5, Burst: 1},
		{Per: limits.Server, Servers: []string{"git"}, InFlight: 3},
	}
	own := []limits.Limit{{Per: limits.Project, Calls: 3, Burst: 6}}
	again, problems := Parse("f", s.AppendYAML(nil), nil)
	if again == nil {
		t.Fatalf("%s\n%s", listing(problems), s.AppendYAML(nil))
	}
	for _, s := range []*Snapshot{s, again} {
		if d := cmp.Diff(house, s.Limits.Traffic); d != "" || s.HouseTraffic != nil || s.Limits.Result != 2048 {
			t.Error(d)
		}
		for i, want := range [][]limits.Limit{own, house, {}} {
			p := s.Projects[i].Config
			if d := cmp.Diff(want, p.Limits.Traffic); d != "" || cmp.Diff(house, p.HouseTraffic) != "" {
				t.Errorf("%s: %s", s.Projects[i].Name, d)
			}
		}
	}
	stored, problems := ParseProject("mall", []byte(`{use: [git], limits: {traffic: [{per: person, callsInFlight: 1}]}}`), s, nil)
	if stored.Config == nil || len(problems) > 0 || cmp.Diff(house, stored.Config.HouseTraffic) != "" || len(stored.Config.Limits.Traffic) != 1 {
		t.Errorf("a project of the store: %s", listing(problems))
	}
}

// TestProblemsOfTraffic checks that each limit that can't count refuses the file, with one sentence and a way out, and in
// a project the project alone.
func TestProblemsOfTraffic(t *testing.T) {
	const zero = `would refuse every call; remove it for no limit, write a larger number, or write a rule with do: deny`
	for traffic, want := range map[string]string{
		`key`:                                                  "dragoman.limits.traffic: must be a list, not a single value; write a - before each limit",
		`[x]`:                                                  "dragoman.limits.traffic[0]: must be a mapping",
		`[{callsPerSecond: 1}]`:                                "dragoman.limits.traffic[0].per: is missing; write per: key, person, project or server",
		`[{per: user, callsPerSecond: 1}]`:                     `"user" is not a valid value`,
		`[{per: key}]`:                                         "limits nothing; write callsPerSecond, callsInFlight or bytesPerMinute",
		`[{per: key, callsPerSecond: 0}]`:                      `dragoman.limits.traffic[0].callsPerSecond: "0" ` + zero,
		`[{per: key, callsPerSecond: 0.0}]`:                    `"0.0" ` + zero,
		`[{per: key, callsPerSecond: -1}]`:                     `"-1" ` + zero,
		`[{per: key, callsInFlight: 0}]`:                       `dragoman.limits.traffic[0].callsInFlight: "0" ` + zero,
		`[{per: key, bytesPerMinute: 0MiB}]`:                   `dragoman.limits.traffic[0].bytesPerMinute: "0MiB" ` + zero,
		`[{per: key, bytesPerMinute: -1KiB}]`:                  `"-1KiB" ` + zero,
		`[{per: key, callsPerSecond: 1, burst: 0}]`:            `dragoman.limits.traffic[0].burst: "0" ` + zero,
		`[{per: key, callsPerSecond: 0.001}]`:                  "must be a number between 0.01 and 10000",
		`[{per: key, callsPerSecond: 20000}]`:                  "must be a number between 0.01 and 10000",
		`[{per: key, callsPerSecond: NaN}]`:                    "must be a number between 0.01 and 10000",
		`[{per: key, callsPerSecond: 1e3}]`:                    "must be a number between 0.01 and 10000",
		`[{per: key, callsPerSecond: many}]`:                   "must be a number between 0.01 and 10000",
		`[{per: key, callsInFlight: 1.5}]`:                     "must be a whole number between 1 and 100000",
		`[{per: key, callsInFlight: 99999999999999999999}]`:    "must be a whole number between 1 and 100000",
		`[{per: key, bytesPerMinute: 100}]`:                    "must be between 1KiB and 64GiB",
		`[{per: key, bytesPerMinute: 9999GiB}]`:                "must be between 1KiB and 64GiB",
		`[{per: key, callsInFlight: 1, burst: 5}]`:             "burst: has no effect without callsPerSecond",
		`[{per: server, who: {keys: [a]}, callsInFlight: 1}]`:  "who: is for per: key or person alone",
		`[{per: project, who: {keys: [a]}, callsInFlight: 1}]`: "who: is for per: key or person alone",
		`[{per: key, servers: [git], callsInFlight: 1}]`:       "servers: is for per: server alone",
		`[{per: key, who: {}, callsInFlight: 1}]`:              "names nobody",
		`[{per: key, calls: 1, callsInFlight: 1}]`:             "unknown key",
		`[{per: key, callsInFlight: 1}, {per: key, who: {keys: [a]}, callsInFlight: 1}]`:                  "dragoman.limits.traffic[1]: can never count, because dragoman.limits.traffic[0] comes first",
		`[{per: server, servers: "g*", callsInFlight: 1}, {per: server, servers: git, callsInFlight: 1}]`: "dragoman.limits.traffic[1]: can never count",
	} {
		s, problems := Parse("f", []byte("mcpServers: {git: {command: x}}\ndragoman:\n  limits:\n    traffic: "+traffic+"\n"), nil)
		if s != nil || !strings.Contains(listing(problems), want) || len(problems) > 1 && traffic != "[x]" {
			t.Errorf("%s: %s", traffic, listing(problems))
		}
		s, problems = Parse("f", []byte("dragoman:\n  projects:\n    shop:\n      mcpServers: {git: {command: x}}\n      limits: {traffic: "+traffic+"}\n    mall: {mcpServers: {git: {command: x}}}\n"), nil)
		if s == nil || s.Projects[0].Config != nil || s.Projects[1].Config == nil {
			t.Errorf("in a project: %s: %s", traffic, listing(problems))
		}
	}
	for result, want := range map[string]string{
		`0`:    `dragoman.limits.result: "0" would leave nothing of a result; remove it for whole results, or write at least 1KiB`,
		`0MiB`: `"0MiB" would leave nothing of a result`, `1`: "must be between 1KiB and 1GiB", `-1KiB`: "is not a size", `9GiB`: "must be between 1KiB and 1GiB", `off`: "is not a size",
	} {
		if s, problems := Parse("f", []byte("dragoman:\n  limits: {result: "+result+"}\n"), nil); s != nil || len(problems) != 1 || !strings.Contains(listing(problems), want) {
			t.Errorf("%s: %s", result, listing(problems))
		}
	}
	for traffic, want := range map[string]string{
		`[{per: server, servers: [gti], callsInFlight: 1}]`:                                                `"gti" matches no server that is configured; did you mean git/`,
		`[{per: key, who: {keys: [a]}, callsInFlight: 2}, {per: key, callsInFlight: 1}]`:                   "",
		`[{per: server, servers: git, callsInFlight: 2}, {per: server, callsInFlight: 1}]`:                 "",
		`[{per: key, callsInFlight: 2}, {per: person, callsInFlight: 1}, {per: server, callsInFlight: 9}]`: "",
	} {
		s, problems := Parse("f", []byte("mcpServers: {git: {command: x}}\ndragoman:\n  limits:\n    traffic: "+traffic+"\n"), nil)
		if s == nil || (want == "") != (len(problems) == 0) || !strings.Contains(listing(problems), want) {
			t.Errorf("%s: %s", traffic, listing(problems))
		}
	}
}
