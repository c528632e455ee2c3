package config

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChanges checks that a comparison names each server and setting that differs.
func TestChanges(t *testing.T) {
	parse := func(text string) *Snapshot {
		s, problems := Parse("x.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if s == nil {
			t.Fatal(problems.Err())
		}
		return s
	}
	old := parse(`
mcpServers:
  kept: {command: x}
  edited: {command: x, args: [a], env: {K: v}}
  slower: {command: x}
  removed: {command: x}
  off: {command: x}
dragoman: {servers: {slower: {callTimeout: 5s}}}
`)
	next := parse(`
mcpServers:
  added: {command: x}
  kept: {command: x}
  edited: {command: x, args: [b], env: {K: w}}
  slower: {command: x}
  off: {command: x, disabled: true}
dragoman: {listen: "127.0.0.1:1", log: {level: debug}, servers: {slower: {callTimeout: 6s}}}
`)
	moved, unset := "mcpServers:\n\n  a: {command: x, env: {K: \"${NOT_SET}\"}}", "mcpServers:\n  a: {command: x, env: {K: \"${NOT_SET}\"}}"
	if a, b := parse(unset), parse(moved); !b.Equal(a) || len(b.Since(a).Changed) > 0 {
		t.Errorf("a server is changed by a line above it: %+v", b.Since(a))
	}
	if d := cmp.Diff(Changes{
		Added: []string{"added"}, Removed: []string{"removed"}, Disabled: []string{"off"}, Kept: []string{"kept"},
		Changed: []ServerChange{
			{"edited", []string{"args", "env"}, true},
			{"slower", []string{"callTimeout"}, false},
		},
		Settings: []string{"listen", "log"},
	}, next.Since(old)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Changes{Kept: []string{"added", "kept", "edited", "slower"}}, next.Since(next)); d != "" {
		t.Error(d)
	}
}

// TestChangesKnowsEveryField checks that each exported field has an entry in the maps of
// names.
func TestChangesKnowsEveryField(t *testing.T) {
	for of, names := range map[reflect.Type]map[string]string{
		reflect.TypeFor[Server](): serverSettings, reflect.TypeFor[Snapshot](): snapshotSettings,
	} {
		known := map[string]bool{}
		for i := range of.NumField() {
			f := of.Field(i)
			if _, ok := names[f.Name]; f.IsExported() && !ok {
				t.Errorf("%s.%s has no entry", of, f.Name)
			}
			known[f.Name] = true
		}
		for name := range names {
			if !known[name] {
				t.Errorf("%s has no field %s", of, name)
			}
		}
	}
}
