package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestTA56ChainOfActs changes the rows of the acts as somebody could who has the database, and checks that the
// first act that isn't as it was written is named. Each case begins with six acts.
func TestTA56ChainOfActs(t *testing.T) {
	const by = "UPDATE acts SET "
	for name, c := range map[string]struct {
		do   []string
		want string // "" if it isn't found
	}{
		"nothing":          {nil, ""},
		"actor":            {[]string{by + "actor = 'eve' WHERE seq = 3"}, "act 3 was changed"},
		"object":           {[]string{by + "object = 'secret:shop/z' WHERE seq = 1"}, "act 1 was changed"},
		"time":             {[]string{by + "happened = '2026-01-02T03:04:05.000Z' WHERE seq = 6"}, "act 6 was changed"},
		"before":           {[]string{by + "was = '{}' WHERE seq = 4"}, "act 4 was changed"},
		"from one to next": {[]string{by + "via = 'a', project = 'shopb' WHERE seq = 4"}, "act 4 was changed"},
		"with its hash":    {[]string{by + "actor = 'eve', sum = prev WHERE seq = 3"}, "act 3 was changed"},
		"two in turn": {
			[]string{by + "seq = 100 WHERE seq = 3", by + "seq = 3 WHERE seq = 4", by + "seq = 4 WHERE seq = 100"},
			"act 3 does not follow the act before it",
		},
		"one deleted":                   {[]string{"DELETE FROM acts WHERE seq = 3"}, "act 4 comes after act 2, so act 3 was deleted"},
		"one deleted, and the gap shut": {[]string{"DELETE FROM acts WHERE seq = 3", by + "seq = 3 WHERE seq = 4"}, "act 3 does not follow the act before it"},
		"the first":                     {[]string{"DELETE FROM acts WHERE seq < 3"}, "the oldest act is act 3, so acts 1 to 2 were deleted"},
		"the last":                      {[]string{"DELETE FROM acts WHERE seq > 5"}, "the newest act is act 5, so act 6 was deleted"},
		"all":                           {[]string{"DELETE FROM acts"}, "all acts were deleted"},
		"one more":                      {[]string{"INSERT INTO acts (" + actColumns + ") SELECT 7, actor, via, project, action, object, was, became, happened, sum, sum FROM acts WHERE seq = 6"}, "act 7 was changed"},
		// Who has the database and puts the counter back, too, is found by the files with the calls; see package audit.
		"the last, and the counter": {[]string{"DELETE FROM acts WHERE seq > 5", "UPDATE counters SET last = 5 WHERE name = 'acts'"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, o Options) {
				s := open(t, o)
				for i := range 6 {
					if err := set(Through(t.Context(), "console"), s, fmt.Sprint("n", i), "x"); err != nil {
						t.Fatal(err)
					}
				}
				change(t, s, c.do...)
				got, err := s.VerifyActs(t.Context())
				if err != nil || (c.want == "") != (got.Broken == "") || !strings.Contains(got.Broken, c.want) {
					t.Errorf("%+v, %v", got, err)
				}
			})
		})
	}
}

// change runs statements that we would never run.
func change(t *testing.T, s *Store, statements ...string) {
	t.Helper()
	err := s.Write(t.Context(), "eve", func(t *Tx) (err error) {
		for _, q := range statements {
			err = errors.Join(err, t.t.Exec(q))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestActs checks what acts say: through what somebody has acted, and what was there before and after.
func TestActs(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		err := s.Write(Through(t.Context(), "console"), "ada", func(t *Tx) error {
			_, err := t.AddProject("shop", "x", []byte("s"), Settings{Became: map[string]string{"dragoman.title": "Shop"}})
			if err == nil {
				err = t.AddKey(Key{ID: "1", Name: "ci", Sum: []byte("sum"), Hint: "xyz", Project: "shop"})
			}
			if err == nil {
				_, err = t.RotateKey("1", func(k *Key) error { k.Sum, k.Hint = []byte("other"), "abc"; return nil })
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.Acts(t.Context(), 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range list {
			got = append(got, fmt.Sprintf("%s %s %s %s: %s -> %s", a.Via, a.Project, a.Action, a.Object, a.Was, a.Became))
		}
		want := `console shop rotated key:shop/1: {"hint":"xyz","name":"ci"} -> {"hint":"abc","name":"ci"}
console shop made key:shop/1:  -> {"hint":"xyz","name":"ci"}
console shop made project:shop:  -> {"settings":{"dragoman.title":"Shop"},"version":1}`
		if joined := strings.Join(got, "\n"); joined != want {
			t.Errorf("got\n%s\nwant\n%s", joined, want)
		}
	})
}

// TestUnrecorded checks that nothing happens if its act can't be recorded.
func TestUnrecorded(t *testing.T) {
	both(t, func(t *testing.T, o Options) {
		s := open(t, o)
		if err := set(t.Context(), s, "a", "x"); err != nil {
			t.Fatal(err)
		}
		change(t, s, "DROP TABLE acts")
		if err := set(t.Context(), s, "b", "y"); err == nil {
			t.Error("there was no error")
		}
		if err := s.Refresh(t.Context()); err != nil || secrets(s.Snapshot()) != "shop/a=x by ada" {
			t.Errorf("%q, %v", secrets(s.Snapshot()), err)
		}
	})
}
