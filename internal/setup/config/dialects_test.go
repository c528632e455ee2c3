package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

const dialectFile = `
mcpServers: {a: {command: a}, b: {command: b}, c: {command: c}}
dragoman:
  dialects:
    acme:
      about: Acme's own
      like: manifest-python
      detect: {has: [toolbox.tools, product], lacks: protocolVersion}
      open:
        probe: true
        initialized: true
        version: 2025-03-26
        params: {protocolVersion: "3", capabilities: ~, deep: {a: [1, true, x, "2"]}}
        identity: product
      tools: {manifest: toolbox.tools, schema: [args], confirm: [], repair: false}
      errors: {notReady: [E_WARMING, 4711], tool: {-1: gone, "-2": ~}}
      never: [ping, x/*]
      maxMessage: 1MiB
    plain: {open: {params: none}}
  servers: {a: {dialect: acme}, b: {dialect: codex-app-server}}
`

func TestDialects(t *testing.T) {
	s := good(t, dialectFile)
	python := dialect.Lookup(dialect.ManifestPython)
	acme := s.Dialects[0]
	if acme.Name != "acme" || acme.Open.NoProbe || acme.Open.NoInitialized || acme.Open.Version != mcp.R20250326 || acme.MaxMessage != 1<<20 ||
		acme.Tools.Manifest != "toolbox.tools" || acme.Tools.Repair || !acme.Tools.Wrap || acme.Tools.Confirm != nil || len(acme.Tools.Undo) != len(python.Tools.Undo) {
		t.Errorf("%+v", acme)
	}
	var params []string
	for _, f := range acme.Open.Params {
		params = append(params, f.Key+" "+string(f.Value))
	}
	if d := cmp.Diff([]string{`protocolVersion "3"`, "capabilities ", `deep {"a":[1,true,"x","2"]}`}, params); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]dialect.ToolError{{Code: -1, Means: "gone"}, {Code: -2}}, acme.Errors.Tool); d != "" {
		t.Error(d)
	}
	if !s.Dialects[1].Open.NoParams || len(s.Dialects[1].Detect.Has) != 0 {
		t.Errorf("%+v", s.Dialects[1])
	}
	if s.Servers[0].Profile != acme || s.Servers[1].Dialect != "codex-app-server" || s.Servers[2].Profile != nil {
		t.Error("wrong dialects or profiles")
	}
	if look := s.Look(); look[0] != acme || len(look) != 1+len(dialect.Builtin()) {
		t.Errorf("Look returned %d profiles", len(look))
	}
	if Default().Look() != nil {
		t.Error("Look returned profiles of an empty file")
	}
	// The printed configuration parses to the same snapshot.
	again := good(t, string(s.AppendYAML(nil)))
	if d := cmp.Diff(s.Dialects, again.Dialects, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("dialects changed by printing:\n%s\n%s", d, s.AppendYAML(nil))
	}
	for i := range s.Servers {
		if s.Servers[i].Fingerprint != again.Servers[i].Fingerprint && i != 1 {
			t.Errorf("%s has a different fingerprint after printing", s.Servers[i].Name)
		}
	}
	// A server is restarted only if its dialect changes.
	other := good(t, strings.Replace(dialectFile, "E_WARMING", "E_COLD", 1))
	for i, changes := range map[int]bool{0: true, 2: true} { // server c has no configured dialect, so Dragoman might detect the dialect acme
		if (s.Servers[i].Fingerprint != other.Servers[i].Fingerprint) != changes {
			t.Errorf("%s: wrong fingerprint after a change of the dialect", s.Servers[i].Name)
		}
	}
	other = good(t, strings.Replace(dialectFile, "params: none", "params: standard", 1))
	for i := range s.Servers {
		if s.Servers[i].Fingerprint != other.Servers[i].Fingerprint {
			t.Errorf("%s: fingerprint depends on a dialect that it does not use", s.Servers[i].Name)
		}
	}
}

// TestDialectProblems checks that all problems of a dialect are reported, each with its position.
func TestDialectProblems(t *testing.T) {
	for in, want := range map[string]string{
		"manifest: {}":                                     "f:4:5: dragoman.dialects.manifest: is the name of a built-in dialect",
		"codex-app-server: {}":                             "is the name of a built-in dialect",
		"a b: {}":                                          "contains a character that is not allowed",
		"x: {like: manifset}":                              `f:4:15: dragoman.dialects.x.like: "manifset" is not a built-in dialect; did you mean manifest?`,
		"x: {begin: {}}":                                   "unknown key; valid keys: like, about, detect, open",
		"x: {opne: {}}":                                    "dragoman.dialects.x.opne: unknown key; did you mean open?",
		"x: {open: {prob: true}}":                          "did you mean probe?",
		"x: {detect: {lacks: [a]}}":                        "has is missing",
		"x: {open: {version: 2026-07-28}}":                 "is not a revision that initialize can offer",
		"x: {open: {params: nothing}}":                     "is not a valid value; write standard or none",
		"x: {open: {params: {a: '${A}'}}}":                 "must not contain ${...}",
		"x: {open: {params: {'a\"': 1}}}":                  "must not contain quotes",
		"x: {open: {pushed: true}}":                        "no tools.manifest",
		"x: {tools: {manifest: a..b}}":                     "has two dots in a row",
		"x: {tools: {schema: ['']}}":                       "is empty",
		"x: {tools: {schema: [a.b.c.d.e.f.g.h.i]}}":        "more than eight names",
		"x: {errors: {notReady: [no]}}":                    "is too short",
		"x: {errors: {tool: {gone: x}}}":                   "is not an error code",
		"x: {never: [initialize]}":                         "matches initialize, which Dragoman needs to open a connection",
		"x: {never: ['*']}":                                "matches initialize, which Dragoman needs to open a connection",
		"x: {never: ['a*b*']}":                             "is not a method",
		"x: {maxMessage: 1}":                               "must be between",
		"x: {about: ''}":                                   "must be a text",
		"x: {never: [" + strings.Repeat("a, ", 33) + "a]}": "has more than 32 entries",
		"x: 7": "must be a mapping",
	} {
		s, problems := Parse("f", []byte("mcpServers: {}\ndragoman:\n  dialects:\n    "+in), env("A=secret"))
		text := listing(problems)
		if s != nil || !strings.Contains(text, want) || strings.Contains(text, "secret") {
			t.Errorf("%s:\n got %s\nwant %s", in, text, want)
		}
	}
	var many strings.Builder
	for i := range mostDialects + 1 {
		fmt.Fprintf(&many, "    d%d: {}\n", i)
	}
	if s, problems := Parse("f", []byte("dragoman:\n  dialects:\n"+many.String()), nil); s != nil || !strings.Contains(listing(problems), "more than 64") {
		t.Error(listing(problems))
	}
	_, problems := Parse("f", []byte("mcpServers: {a: {command: x}}\ndragoman: {dialects: {acme: {like: 1}}, servers: {a: {dialect: acne}}}"), nil)
	if text := listing(problems); !strings.Contains(text, `f:2:64: dragoman.servers.a.dialect: "acne" is not a known dialect; did you mean acme?`) || !strings.Contains(text, "acme.like") {
		t.Error(text)
	}
	if _, p := Complete(Server{Command: "x", Dialect: "manifset"}); p == nil || !strings.Contains(p.Hint, "did you mean manifest?") {
		t.Errorf("%v", p)
	}
}
