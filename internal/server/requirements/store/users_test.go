package store

import (
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// TestUsers opens a database of the version without users, lets three users write into it, and lists them.
// What was written before stays readable, and is nobody's, or that of a name that a client gave.
func TestUsers(t *testing.T) {
	onBoth(t, func(t *testing.T, o Options) {
		ctx := t.Context()
		first, err := fs.ReadFile(migrations, "migrations/001.sql")
		if err != nil {
			t.Fatal(err)
		}
		before, err := sqldb.Open(ctx, o.Database, sqldb.Options{
			Name: "dragoman_requirements", ID: 0x44725271, Schema: o.Schema, Migrations: fstest.MapFS{"001.sql": {Data: first}},
		})
		if err != nil {
			t.Fatal(err)
		}
		const at = "2026-01-02T03:04:05.000Z"
		err = before.Write(ctx, func(t *sqldb.Tx) error {
			if err := t.Exec("INSERT INTO items (id, kind, rank, number, title, description, status, type, priority, version, created, updated, haystack) VALUES ('EP-001', 'epic', 0, 1, 'Old', '', 'draft', '', 'low', 1, ?, ?, '')", at, at); err != nil {
				return err
			}
			if err := t.Exec("INSERT INTO prompts (name, title, description, content, active, version, created, updated) VALUES ('old', '', '', 'x', 0, 1, ?, ?)", at, at); err != nil {
				return err
			}
			if _, err := t.Take("EP"); err != nil {
				return err
			}
			return t.Exec("INSERT INTO comments (id, number, item, author, body, resolved, created, haystack) VALUES ('CM-000', 0, 'EP-001', 'Tom', 'x', 0, ?, '')", at)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := before.Close(); err != nil {
			t.Fatal(err)
		}

		s := open(t, o)
		old, err := s.Details(ctx, "EP-001")
		if err != nil || old.Author != (User{}) || old.Editor != (User{}) || len(old.Comments) != 1 || old.Comments[0].Author != (User{Name: "Tom"}) {
			t.Errorf("%+v, %v", old, err)
		}
		ci, ada, tom := User{"k:ci", "ci"}, User{"p:ada", "Ada"}, User{"", "Tom"}
		item := must[Item](t)
		title := "New"
		item(s.Update(ctx, "EP-001", 1, Update{Title: &title, Editor: ci}))
		again := item(s.Update(ctx, "EP-001", 2, Update{Title: &title, Editor: tom})) // changes nothing
		if again.Editor != ci || again.Author != (User{}) {
			t.Errorf("%+v", again)
		}
		made := item(s.Create(ctx, Item{Kind: Epic, Title: "x", Author: ada, Editor: tom}))
		if read, err := s.Details(ctx, made.ID); err != nil || read.Author != ada || read.Editor != (User{}) {
			t.Errorf("%+v, %v", read, err)
		}
		must[Comment](t)(s.Comment(ctx, Comment{Item: made.ID, Text: "x", Author: User{"p:ada", "Ada L."}}))
		must[Prompt](t)(s.SavePrompt(ctx, Prompt{Name: "old", Content: "y", Version: 1, Editor: tom}, yes))
		_, err = s.Create(ctx, Item{Kind: Epic, Title: "x", Author: User{"", "a\nb"}})
		refused(t, err, Invalid, "author")
		users, more, err := s.Users(ctx)
		for i := range users {
			if users[i].Last <= at {
				t.Errorf("%+v is old", users[i])
			}
			users[i].Last = ""
		}
		slices.SortFunc(users[:2], func(a, b Activity) int { return b.Items - a.Items }) // both have just written
		want := []Activity{{User: User{"p:ada", "Ada L."}, Items: 1, Comments: 1}, {User: ci, Edits: 1}, {User: tom, Edits: 1, Comments: 1}}
		if err != nil || more || !slices.Equal(users, want) {
			t.Errorf("%+v, %t, %v", users, more, err)
		}
	})
}
