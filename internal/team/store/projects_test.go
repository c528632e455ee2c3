package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// TestProjects makes, changes and removes projects. Who knows an old version changes nothing, a removed
// project takes its keys, secrets and roles with it and nothing of another project, and each change leaves its
// acts and reaches another store.
func TestProjects(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		err := s.Write(t.Context(), "ada", func(t *Tx) error {
			_, err := t.AddPerson("bo", "Bo", nil)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, project := range []string{"shop", "other", "default"} {
			err := s.Write(t.Context(), "ada", func(t *Tx) error {
				_, err := t.SetRoles("bo", project, []identity.Role{identity.Caller, identity.Viewer}, nil)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []string{"1", "2"} {
				err := s.Write(t.Context(), "ada", func(t *Tx) error {
					return errors.Join(
						t.AddKey(Key{ID: project + n, Name: n, Sum: []byte{1}, Project: project, Role: identity.Caller}),
						t.SetSecret(Secret{Project: project, Name: n, Sealed: []byte("x")}))
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		last := int64(0)
		next := func(version int64, err error) (bool, error) {
			if version != 0 && version != last+1 {
				err = fmt.Errorf("version %d after %d", version, last)
			}
			last = max(last, version)
			return version != 0, err
		}
		add := func(name, text string) func(*Tx) (bool, error) {
			return func(t *Tx) (bool, error) { return next(t.AddProject(name, text, []byte("s"+text), Settings{})) }
		}
		change := func(name, text string, known int64) func(*Tx) (bool, error) {
			return func(t *Tx) (bool, error) {
				return next(t.ChangeProject(name, text, []byte("s"+text), known, Settings{}))
			}
		}
		remove := func(name string, known int64, keep bool) func(*Tx) (bool, error) {
			return func(t *Tx) (bool, error) {
				gone, ok, err := t.RemoveProject(name, known, keep, Settings{})
				if want := map[bool]Gone{true: {2, 2, 1}}[ok && !keep]; err == nil && gone != want {
					err = fmt.Errorf("gone: %+v", gone)
				}
				return ok, err
			}
		}
		const others = "default1 default2 other1 other2 | default/1=x by ada, default/2=x by ada, other/1=x by ada, other/2=x by ada"
		const all = "default1 default2 other1 other2 shop1 shop2 | default/1=x by ada, default/2=x by ada, other/1=x by ada, other/2=x by ada, shop/1=x by ada, shop/2=x by ada"
		for i, c := range []struct {
			do   func(*Tx) (bool, error)
			acts string // the new ones, the oldest first; "" means that nothing was done
			want string
		}{
			{add("shop", "title: \"ä\"\r\n"), "made project:shop", "shop=title: \"ä\"\r\n@1 | " + all},
			{add("shop", "b"), "", "shop=title: \"ä\"\r\n@1 | " + all},
			{change("shop", "b", 2), "", "shop=title: \"ä\"\r\n@1 | " + all},
			{change("none", "b", 0), "", "shop=title: \"ä\"\r\n@1 | " + all},
			{change("shop", "", 1), "changed project:shop", "shop=@2 | " + all},
			{change("shop", "c", 1), "", "shop=@2 | " + all},
			{add("other", "o"), "made project:other", "other=o@3, shop=@2 | " + all},
			{remove("shop", 1, false), "", "other=o@3, shop=@2 | " + all},
			{remove("none", 0, false), "", "other=o@3, shop=@2 | " + all},
			{remove("shop", 2, true), "removed project:shop", "other=o@3 | " + all},
			{add("shop", "again"), "made project:shop", "other=o@3, shop=again@4 | " + all},
			{remove("shop", 4, false), "revoked key:shop/shop1, revoked key:shop/shop2, removed secret:shop/1, removed secret:shop/2, set roles none person:bo/shop, removed project:shop", "other=o@3 | " + others},
		} {
			before := len(actsOf(t, s))
			done := false
			err := s.Write(t.Context(), "bob", func(t *Tx) (err error) {
				done, err = c.do(t)
				return err
			})
			if err != nil || done != (c.acts != "") {
				t.Errorf("%d: %t, %v", i, done, err)
			}
			var acts []string
			for now := actsOf(t, s); len(now) > before; before++ {
				acts = append([]string{strings.TrimPrefix(now[len(acts)], "bob ")}, acts...)
			}
			if got := strings.Join(acts, ", "); got != c.acts {
				t.Errorf("%d: the acts are %q, want %q", i, got, c.acts)
			}
			if got := projectsOf(t, s.Snapshot()); got != c.want {
				t.Errorf("%d: the projects are %q, want %q", i, got, c.want)
			}
			bo, _ := s.Snapshot().Person("bo")
			if got, want := slices.Sorted(maps.Keys(bo.Roles)), strings.Fields("default other shop"); strings.Contains(c.acts, "roles none") && !slices.Equal(got, want[:2]) || c.acts == "" && !slices.Equal(got, want) {
				t.Errorf("%d: bo has roles in %q", i, got)
			}
		}
		if got, want := projectsOf(t, open(t, o).Snapshot()), projectsOf(t, s.Snapshot()); got != want {
			t.Errorf("another store has %q, want %q", got, want)
		}
	})
}

// projectsOf returns the projects of a snapshot as NAME=TEXT@VERSION, the ids of the keys, and the secrets.
func projectsOf(t *testing.T, s *Snapshot) string {
	t.Helper()
	var all, keys []string
	for _, x := range s.Projects() {
		if y, ok := s.Project(x.Name); !ok || y.Version != x.Version || string(x.Sum) != "s"+x.Text || x.Actor != "bob" || time.Since(x.Changed).Abs() > time.Hour {
			t.Errorf("the project is %+v, %+v", x, y)
		}
		all = append(all, fmt.Sprintf("%s=%s@%d", x.Name, x.Text, x.Version))
	}
	for _, k := range s.Keys() {
		keys = append(keys, k.ID)
	}
	return strings.Join(all, ", ") + " | " + strings.Join(keys, " ") + " | " + secrets(s)
}
