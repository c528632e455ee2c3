package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// postgresEnv is the variable with the URL of a PostgreSQL database for the tests. Each test
// uses a schema of its own.
const postgresEnv = "DRAGOMAN_TEST_POSTGRES"

// onBoth runs a test with SQLite and with PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, o Options)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, Options{Database: filepath.Join(t.TempDir(), "a b?c#%41.db")})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := os.Getenv(postgresEnv)
		if url == "" {
			t.Skipf("set %s to the URL of a PostgreSQL database, for example postgres://me@127.0.0.1/test", postgresEnv)
		}
		schema := strings.ToLower("test_" + strings.ReplaceAll(strings.ReplaceAll(t.Name(), "/", "_"), "#", "_"))
		drop := func() {
			db, err := sql.Open("pgx", url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if _, err := db.Exec("DROP SCHEMA IF EXISTS " + schema + " CASCADE"); err != nil {
				t.Fatal(err)
			}
		}
		drop()
		t.Cleanup(drop)
		test(t, Options{Database: url, Schema: schema})
	})
}

func open(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func yes(Prompt) error { return nil }

// refused fails the test unless err has the code c, a next step and all words.
func refused(t *testing.T, err error, c Code, words ...string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != c {
		t.Errorf("got the error %v, want one with code %d", err, c)
		return
	}
	if e.Next == "" {
		t.Errorf("%q has no next step", e.Text)
	}
	for _, w := range words {
		if !strings.Contains(e.Text+" "+e.Next, w) {
			t.Errorf("%q %q lacks %q", e.Text, e.Next, w)
		}
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestItems(t *testing.T) {
	onBoth(t, func(t *testing.T, o Options) {
		s, ctx := open(t, o), t.Context()
		item := must[Item](t)
		epic := item(s.Create(ctx, Item{Kind: Epic, Title: " Sign in "}))
		if epic.ID != "EP-001" || epic.Title != "Sign in" || epic.Status != "backlog" || epic.Version != 1 || epic.Priority != "medium" {
			t.Errorf("the epic is %+v", epic)
		}
		story := item(s.Create(ctx, Item{Kind: Story, Title: "Reset a password", Parent: "ep-1", Priority: "high"}))
		if story.ID != "US-001" || story.Parent != "EP-001" {
			t.Errorf("the story is %+v", story)
		}
		crit := item(s.Create(ctx, Item{Kind: Criterion, Title: "The mail arrives", Parent: story.ID}))
		req := item(s.Create(ctx, Item{Kind: Requirement, Title: "Ärger 100%_sure", Description: "SMTP über TLS", Parent: crit.ID, Type: "constraint"}))
		if got := must[Details](t)(s.Details(ctx, "req-1")).Item; got != req {
			t.Errorf("the requirement is %+v, want %+v", got, req)
		}

		for _, test := range []struct {
			it    Item
			words []string
		}{
			{Item{Kind: "task", Title: "x"}, []string{"task", "user_story"}},
			{Item{Kind: Epic}, []string{"title is empty"}},
			{Item{Kind: Epic, Title: strings.Repeat("x", MaxTitle+1)}, []string{"501", "500"}},
			{Item{Kind: Epic, Title: "a\nb"}, []string{"one line"}},
			{Item{Kind: Epic, Title: "a\x00b"}, []string{"control character"}},
			{Item{Kind: Epic, Title: "a\xff"}, []string{"UTF-8"}},
			{Item{Kind: Epic, Title: "x", Parent: "EP-001"}, []string{"cannot have a parent"}},
			{Item{Kind: Epic, Title: "x", Type: "functional"}, []string{"cannot have a type"}},
			{Item{Kind: Epic, Title: "x", Priority: "urgent"}, []string{"critical, high, medium, low"}},
			{Item{Kind: Epic, Title: "x", Status: "done"}, []string{"update_item"}},
			{Item{Kind: Criterion, Title: "x"}, []string{"needs a parent", "US-"}},
			{Item{Kind: Criterion, Title: "x", Parent: "EP-001"}, []string{"cannot belong to an epic"}},
			{Item{Kind: Requirement, Title: "x", Type: "odd"}, []string{"non_functional"}},
		} {
			_, err := s.Create(ctx, test.it)
			refused(t, err, Invalid, test.words...)
		}
		_, err := s.Create(ctx, Item{Kind: Story, Title: "x", Parent: "EP-009"})
		refused(t, err, NotFound, "EP-009")
		_, err = s.Details(ctx, "nonsense")
		refused(t, err, Invalid, "EP-001")

		find := func(q Query) string {
			p := must[Page](t)(s.Items(ctx, q))
			var ids []string
			for _, it := range p.Items {
				ids = append(ids, it.ID)
			}
			return strings.Join(ids, " ")
		}
		for _, test := range []struct {
			q    Query
			want string
		}{
			{Query{}, "EP-001 US-001 AC-001 REQ-001"},
			{Query{Kind: Story}, "US-001"},
			{Query{Parent: "us-001"}, "AC-001"},
			{Query{Status: "backlog"}, "EP-001 US-001"},
			{Query{Priority: "high"}, "US-001"},
			{Query{Type: "constraint"}, "REQ-001"},
			{Query{Search: "ÜBER ärger"}, "REQ-001"},
			{Query{Search: "100%_"}, "REQ-001"},
			{Query{Search: "%"}, "REQ-001"},
			{Query{Search: "us-001"}, "US-001"},
			{Query{Search: "nothing"}, ""},
			{Query{Prefix: "re"}, "REQ-001"},
		} {
			if got := find(test.q); got != test.want {
				t.Errorf("%+v finds %q, want %q", test.q, got, test.want)
			}
		}
		var all []string
		q := Query{Limit: 3}
		for {
			p := must[Page](t)(s.Items(ctx, q))
			if p.Total != 4 {
				t.Errorf("the total is %d", p.Total)
			}
			for _, it := range p.Items {
				all = append(all, it.ID)
			}
			if q.After = p.Next; q.After == "" {
				break
			}
		}
		if got := strings.Join(all, " "); got != "EP-001 US-001 AC-001 REQ-001" {
			t.Errorf("the pages have %s", got)
		}
		_, err = s.Items(ctx, Query{After: "x"})
		refused(t, err, Invalid, "cursor")
	})
}

func TestUpdate(t *testing.T) {
	onBoth(t, func(t *testing.T, o Options) {
		s, ctx := open(t, o), t.Context()
		item := must[Item](t)
		item(s.Create(ctx, Item{Kind: Epic, Title: "A"}))
		item(s.Create(ctx, Item{Kind: Epic, Title: "B"}))
		story := item(s.Create(ctx, Item{Kind: Story, Title: "C", Parent: "EP-001"}))

		draft, done, title, other, detach := Status("draft"), Status("done"), "D", "EP-002", ""
		_, err := s.Update(ctx, story.ID, 1, Update{Status: &done})
		refused(t, err, Forbidden, "US-001 is backlog", "draft, cancelled")
		odd := Status("odd")
		_, err = s.Update(ctx, story.ID, 1, Update{Status: &odd})
		refused(t, err, Invalid, "in_progress")
		got := item(s.Update(ctx, "us-1", 1, Update{Status: &draft, Title: &title, Parent: &other}))
		if got.Status != draft || got.Title != "D" || got.Parent != "EP-002" || got.Version != 2 {
			t.Errorf("the story is %+v", got)
		}
		_, err = s.Update(ctx, story.ID, 1, Update{Title: &title})
		refused(t, err, Conflict, "version 2")
		if got := item(s.Update(ctx, story.ID, 2, Update{Title: &title})); got.Version != 2 {
			t.Errorf("an update without a difference makes version %d", got.Version)
		}
		if got := item(s.Update(ctx, story.ID, 2, Update{Parent: &detach})); got.Parent != "" {
			t.Errorf("the parent is %s", got.Parent)
		}
		_, err = s.Update(ctx, "US-099", 1, Update{})
		refused(t, err, NotFound)
		if found := must[Page](t)(s.Items(ctx, Query{Search: "d", Kind: Story})); found.Total != 1 {
			t.Error("the search does not find the new title")
		}
	})
}

// TestTransitions checks that each status can be reached and left, and that each status has a row
// of transitions.
func TestTransitions(t *testing.T) {
	for _, k := range Kinds() {
		all := Statuses(k)
		reached := []Status{all[0]}
		for i := 0; i < len(reached); i++ {
			for _, next := range Next(k, reached[i]) {
				if !slices.Contains(all, next) {
					t.Errorf("%s: the status %s is unknown", k, next)
				}
				if !slices.Contains(reached, next) {
					reached = append(reached, next)
				}
			}
		}
		for _, s := range all {
			if !slices.Contains(reached, s) || len(Next(k, s)) == 0 {
				t.Errorf("%s: the status %s cannot be reached or left", k, s)
			}
		}
		if len(transitions[k]) != len(all) {
			t.Errorf("%s has %d statuses and %d rows of transitions", k, len(all), len(transitions[k]))
		}
	}
}

func TestDetails(t *testing.T) {
	onBoth(t, func(t *testing.T, o Options) {
		s, ctx := open(t, o), t.Context()
		for range 2 {
			must[Item](t)(s.Create(ctx, Item{Kind: Requirement, Title: "A"}))
		}
		rel := must[Relation](t)
		r := rel(s.Link(ctx, "req-1", "relates_to", "REQ-002"))
		if r.ID != "REL-001" || r.Source != "REQ-001" {
			t.Errorf("the relation is %+v", r)
		}
		_, err := s.Link(ctx, "REQ-002", "relates_to", "REQ-001")
		refused(t, err, Conflict, "REL-001")
		rel(s.Link(ctx, "REQ-001", "depends_on", "REQ-002"))
		rel(s.Link(ctx, "REQ-002", "depends_on", "REQ-001"))
		_, err = s.Link(ctx, "REQ-001", "depends_on", "req-1")
		refused(t, err, Invalid, "itself")
		_, err = s.Link(ctx, "REQ-001", "likes", "REQ-002")
		refused(t, err, Invalid, "depends_on, blocks")
		_, err = s.Link(ctx, "REQ-001", "blocks", "REQ-005")
		refused(t, err, NotFound, "REQ-005")
		if got := rel(s.Relation(ctx, "rel-2")); got.Type != "depends_on" {
			t.Errorf("the relation is %+v", got)
		}
		rel(s.Unlink(ctx, "REQ-002", "relates_to", "REQ-001"))
		_, err = s.Unlink(ctx, "REQ-002", "relates_to", "REQ-001")
		refused(t, err, NotFound, "get_item")

		comment := must[Comment](t)
		for i := range 5 {
			comment(s.Comment(ctx, Comment{Item: "REQ-001", Author: "me", Text: fmt.Sprint("Remark ", i)}))
		}
		_, err = s.Comment(ctx, Comment{Item: "REQ-001"})
		refused(t, err, Invalid, "empty")
		if c := comment(s.Resolve(ctx, "cm-2", true)); !c.Resolved {
			t.Error("the comment is open")
		}
		if c := comment(s.CommentOf(ctx, "CM-002")); !c.Resolved || c.Text != "Remark 1" {
			t.Errorf("the comment is %+v", c)
		}
		list, next, err := s.Comments(ctx, "REQ-001", "", 3)
		if err != nil || len(list) != 3 || list[0].ID != "CM-005" || next != "CM-003" {
			t.Errorf("the comments are %+v, %s, %v", list, next, err)
		}
		list, next, err = s.Comments(ctx, "REQ-001", next, 3)
		if err != nil || len(list) != 2 || list[1].ID != "CM-001" || next != "" {
			t.Errorf("the comments are %+v, %s, %v", list, next, err)
		}
		if p := must[Page](t)(s.Items(ctx, Query{Search: "remark"})); p.Total != 1 {
			t.Error("the search does not look into comments")
		}
		d := must[Details](t)(s.Details(ctx, "REQ-001"))
		if len(d.Relations) != 2 || len(d.Comments) != 5 || d.CommentsTotal != 5 || d.ID != "REQ-001" {
			t.Errorf("the details are %+v", d)
		}
	})
}

func TestPrompts(t *testing.T) {
	onBoth(t, func(t *testing.T, o Options) {
		s, ctx := open(t, o), t.Context()
		prompt := must[Prompt](t)
		if p := prompt(s.Active(ctx)); p.Name != "" {
			t.Errorf("%s is active", p.Name)
		}
		prompt(s.SavePrompt(ctx, Prompt{Name: "one", Description: "What to do.", Content: "Do it."}, yes))
		prompt(s.SavePrompt(ctx, Prompt{Name: "two", Content: "Do it twice."}, yes))
		for _, name := range []string{"", "Ä", "a b", strings.Repeat("x", 65)} {
			_, err := s.SavePrompt(ctx, Prompt{Name: name, Content: "x"}, yes)
			refused(t, err, Invalid, "small letters")
		}
		_, err := s.SavePrompt(ctx, Prompt{Name: "one", Content: "x"}, yes)
		refused(t, err, Conflict, "version 1")
		for _, name := range []string{"one", "two", "one"} {
			if err := s.Activate(ctx, name, yes); err != nil {
				t.Fatal(err)
			}
			if p := prompt(s.Active(ctx)); p.Name != name {
				t.Errorf("%q is active, want %q", p.Name, name)
			}
		}
		if got := prompt(s.Active(ctx)).Instructions(); got != "What to do.\n\nDo it." {
			t.Errorf("the instructions are %q", got)
		}
		got := prompt(s.SavePrompt(ctx, Prompt{Name: "one", Content: "New.", Version: 1}, yes))
		if !got.Active || got.Version != 2 || got.Instructions() != "New." {
			t.Errorf("the prompt is %+v", got)
		}
		_, err = s.SavePrompt(ctx, Prompt{Name: "one", Content: "x", Version: 1}, yes)
		refused(t, err, Conflict, "version 2")
		refused(t, s.Activate(ctx, "none", yes), NotFound, "list_prompts")
		if err := s.Activate(ctx, "", yes); err != nil {
			t.Fatal(err)
		}
		if p := prompt(s.Active(ctx)); p.Name != "" {
			t.Errorf("%s is active", p.Name)
		}
		if err := s.DeletePrompt(ctx, "one"); err != nil {
			t.Fatal(err)
		}
		if all := must[[]Prompt](t)(s.Prompts(ctx)); len(all) != 1 || all[0].Name != "two" {
			t.Errorf("the prompts are %+v", all)
		}
	})
}

func TestChanges(t *testing.T) {
	onBoth(t, func(t *testing.T, o Options) {
		s, ctx := open(t, o), t.Context()
		must[Item](t)(s.Create(ctx, Item{Kind: Epic, Title: "A"}))
		after := must[int64](t)(s.Last(ctx))
		other := open(t, o) // simulates another process
		must[Item](t)(other.Create(ctx, Item{Kind: Story, Title: "B", Parent: "EP-001"}))
		if err := errors.Join(func() error { _, err := other.SavePrompt(ctx, Prompt{Name: "p", Content: "x"}, yes); return err }(), other.Activate(ctx, "p", yes)); err != nil {
			t.Fatal(err)
		}
		list, complete, err := s.Changes(ctx, after)
		var got []string
		for _, c := range list {
			got = append(got, c.Object+" "+string(c.Action))
		}
		want := []string{"US-001 created", "EP-001 updated", "prompt:p created", "prompt:p updated"}
		if err != nil || !complete || !slices.Equal(got, want) {
			t.Errorf("the changes are %q, %v, %v", got, complete, err)
		}
		if _, err := s.db.Exec(s.engine.bind("DELETE FROM changes WHERE seq < ?"), after+2); err != nil {
			t.Fatal(err)
		}
		if _, complete, err := s.Changes(ctx, after); complete || err != nil {
			t.Errorf("missing changes are not noticed: %v", err)
		}
	})
}

// TestTogether changes one database through two stores at the same time.
func TestTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, o Options) {
		a, b, ctx := open(t, o), open(t, o), t.Context()
		must[Item](t)(a.Create(ctx, Item{Kind: Epic, Title: "A"}))
		var group sync.WaitGroup
		var mu sync.Mutex
		ids, won := map[string]bool{}, 0
		for i, s := range []*Store{a, b, a, b} {
			group.Go(func() {
				for range 5 {
					it, err := s.Create(ctx, Item{Kind: Requirement, Title: "R"})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					ids[it.ID] = true
					mu.Unlock()
				}
				title := fmt.Sprint("New ", i)
				_, err := s.Update(ctx, "EP-001", 1, Update{Title: &title})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if !IsCode(err, Conflict) {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if len(ids) != 20 || won != 1 {
			t.Errorf("%d different ids of 20, and %d of 4 updates of one version", len(ids), won)
		}
	})
}

func TestSchemaVersion(t *testing.T) {
	onBoth(t, func(t *testing.T, o Options) {
		s := open(t, o)
		must[Item](t)(s.Create(t.Context(), Item{Kind: Epic, Title: "A"}))
		again := open(t, o)
		if it := must[Details](t)(again.Details(t.Context(), "EP-001")); it.Title != "A" {
			t.Errorf("the item is %+v", it)
		}
		if _, err := s.db.Exec("UPDATE dragoman_requirements SET value = '2' WHERE name = 'schema'"); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), o)
		refused(t, err, Unusable, "schema version 2", "newer dragoman")
		if _, err := s.db.Exec("DROP TABLE dragoman_requirements"); err != nil {
			t.Fatal(err)
		}
		_, err = Open(t.Context(), o)
		refused(t, err, Unusable, "another program", "another database")
	})
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), Options{Database: filepath.Join(dir, "x.db"), Existing: true})
	refused(t, err, Unusable, "no database", "--db")
	for _, test := range []struct{ database, words string }{
		{"", "no database"},
		{dir, "path of a file"},
		{filepath.Join(dir, "none", "x.db"), "mkdir"},
		{garbage, "not an SQLite database"},
		{"mysql://x", "postgres://"},
		{"postgres://me:secret@127.0.0.1:notaport/x", "not valid"},
		{"postgres://me:secret@127.0.0.1:1/x", "cannot connect"},
	} {
		s, err := Open(t.Context(), Options{Database: test.database})
		if err == nil {
			_ = s.Close()
		}
		refused(t, err, Unusable, test.words)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
}

// TestSettings checks, on every connection, the SQLite settings on which the store's guarantees
// depend. It also checks the permissions of the database files.
func TestSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, Options{Database: path})
	must[Item](t)(s.Create(t.Context(), Item{Kind: Epic, Title: "A"}))
	for range connections {
		c, err := s.db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "15000", "foreign_keys": "1"} {
			var got string
			if err := c.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %s, want %s (%v)", pragma, got, want, err)
			}
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if fi, err := os.Stat(name); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, fi.Mode(), err)
		}
	}
}

// TestCancelledChange checks that the store does not make a change whose caller gave up before the
// change began.
func TestCancelledChange(t *testing.T) {
	s := open(t, Options{Database: filepath.Join(t.TempDir(), "x.db")})
	ctx, cancel := context.WithCancel(t.Context())
	s.turn <- struct{}{} // another change runs
	cancel()
	if _, err := s.Create(ctx, Item{Kind: Epic, Title: "A"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Create returns %v", err)
	}
	<-s.turn
	if _, err := s.Create(ctx, Item{Kind: Epic, Title: "A"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Create returns %v", err)
	}
	if p := must[Page](t)(s.Items(t.Context(), Query{})); p.Total != 0 {
		t.Errorf("there are %d items", p.Total)
	}
}

func TestFillAndDump(t *testing.T) {
	onBoth(t, func(t *testing.T, o Options) {
		s, ctx := open(t, o), t.Context()
		set := Set{
			Items: []Item{
				{Kind: Epic, Title: "A", Status: "in_progress"}, {Kind: Epic, Title: "B"},
				{Kind: Story, Title: "C", Parent: "EP-001"}, {Kind: Criterion, Title: "D", Parent: "US-001"}, {Kind: Requirement, Title: "E", Parent: "EP-002"},
			},
			Relations: []Relation{{Source: "US-001", Type: "depends_on", Target: "EP-001"}, {Source: "REQ-001", Type: "blocks", Target: "US-001"}},
			Comments:  []Comment{{Item: "AC-001", Text: "F"}, {Item: "REQ-001", Text: "G"}},
			Prompts:   []Prompt{{Name: "one", Content: "x", Active: true}, {Name: "two", Content: "y"}},
		}
		bad := set
		bad.Comments = []Comment{{Item: "AC-009", Text: "x"}}
		if _, err := s.Fill(ctx, bad); err == nil {
			t.Error("Fill accepts a comment on nothing")
		}
		if filled, err := s.Fill(ctx, set); !filled || err != nil {
			t.Fatalf("Fill: %v %v", filled, err)
		}
		if filled, err := s.Fill(ctx, set); filled || err != nil {
			t.Errorf("the second Fill: %v %v", filled, err)
		}
		if p := must[Prompt](t)(s.Active(ctx)); p.Name != "one" {
			t.Errorf("%q is active", p.Name)
		}
		dump := must[Dump](t)
		all := dump(s.Dump(ctx, "", 1<<20))
		if len(all.Items) != 5 || len(all.Relations) != 2 || len(all.Comments) != 2 || all.Items[0].Status != "in_progress" {
			t.Errorf("the dump is %+v", all)
		}
		part := dump(s.Dump(ctx, "ep-1", 1<<20))
		if len(part.Items) != 3 || len(part.Relations) != 1 || len(part.Comments) != 1 {
			t.Errorf("the part is %+v", part)
		}
		_, err := s.Dump(ctx, "", 100)
		refused(t, err, Full, "root")
		_, err = s.Dump(ctx, "EP-009", 1<<20)
		refused(t, err, NotFound)
		if ids := must[[]string](t)(s.IDs(ctx, "CM", "CM-", 1)); !slices.Equal(ids, []string{"CM-001"}) {
			t.Errorf("the ids are %v", ids)
		}
	})
}

// TestOpenTogether opens and creates one database through many stores at the same time.
func TestOpenTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, o Options) {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				s, err := Open(t.Context(), o)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := s.Create(t.Context(), Item{Kind: Epic, Title: "A"}); err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if p := must[Page](t)(open(t, o).Items(t.Context(), Query{})); p.Total != 8 {
			t.Errorf("there are %d items", p.Total)
		}
	})
}

// TestMovedDatabase moves, deletes and replaces the file of an open database. Nothing is
// acknowledged that would be lost, and all goes on when the file is back.
func TestMovedDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	s := open(t, Options{Database: path})
	add := func() error {
		_, err := s.Create(t.Context(), Item{Kind: Epic, Title: "A"})
		return err
	}
	if err := add(); err != nil {
		t.Fatal(err)
	}
	away := path + ".away"
	if err := os.Rename(path, away); err != nil {
		t.Skip(err) // Windows does not move open files
	}
	refused := func(what string) {
		t.Helper()
		if err := add(); !IsCode(err, Unusable) || !strings.Contains(err.Error(), "was moved, deleted or replaced") {
			t.Errorf("%s: a change: %v", what, err)
		}
		if _, err := s.Items(t.Context(), Query{}); !IsCode(err, Unusable) {
			t.Errorf("%s: a query: %v", what, err)
		}
	}
	refused("moved")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("replaced")
	if err := os.Rename(away, path); err != nil {
		t.Fatal(err)
	}
	if err := add(); err != nil {
		t.Errorf("back again: %v", err)
	}
	// After a while, the file alone has all changes.
	s.checkpoint()
	if log, err := os.Stat(path + "-wal"); err != nil || log.Size() != 0 {
		t.Errorf("the log is %v, %v", log, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused("deleted")
}
