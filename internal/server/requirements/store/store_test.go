package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
)

// onBoth runs a test with SQLite and with PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, o Options)) {
	dbtest.Both(t, func(t *testing.T, where, schema string) { test(t, Options{Database: where, Schema: schema}) })
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
			comment(s.Comment(ctx, Comment{Item: "REQ-001", Author: User{Name: "me"}, Text: fmt.Sprint("Remark ", i)}))
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
		var got []string
		ctx, stop := context.WithTimeout(ctx, time.Minute)
		s.Follow(ctx, after, func(list []Change, complete bool) error {
			defer stop()
			if !complete {
				t.Error("changes are missing")
			}
			for _, c := range list {
				got = append(got, c.Object+" "+c.Action)
			}
			return nil
		})
		want := []string{"US-001 created", "EP-001 updated", "prompt:p created", "prompt:p updated"}
		if !slices.Equal(got, want) {
			t.Errorf("the changes are %q, want %q", got, want)
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

// TestUnusable checks that an error of the database has a code and the next step, and that a missing
// database names the flag.
func TestUnusable(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(t.Context(), Options{Database: filepath.Join(dir, "x.db"), Existing: true})
	refused(t, err, Unusable, "no database", "--db")
	path := filepath.Join(dir, "r.db")
	s := open(t, Options{Database: path})
	if err := os.Rename(path, path+".away"); err != nil {
		t.Skip(err) // Windows does not move open files
	}
	_, err = s.Create(t.Context(), Item{Kind: Epic, Title: "A"})
	refused(t, err, Unusable, "was moved, deleted or replaced", "put the file back")
	_, err = s.Items(t.Context(), Query{})
	refused(t, err, Unusable, "was moved, deleted or replaced")
}
