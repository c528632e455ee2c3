package store

import (
	"context"
	"fmt"
	"slices"
)

// Set is the content of a new database. The objects of each kind get their ids in the order of the
// list, so objects can refer to each other by id.
type Set struct {
	Items     []Item // an item without a Status gets the status of a new item
	Relations []Relation
	Comments  []Comment
	Prompts   []Prompt // the prompt whose Active is true becomes the active prompt
}

// Fill writes all objects of a set into a database in one transaction. If the database contains
// objects already, or contained objects before, Fill returns false and writes nothing.
func (s *Store) Fill(ctx context.Context, set Set) (filled bool, err error) {
	err = s.write(ctx, func(t *txn) error {
		filled = false
		for _, table := range []string{"items", "prompts", "counters"} {
			if n, err := t.Count("FROM " + table); err != nil || n > 0 {
				return err
			}
		}
		filled = true
		for _, it := range set.Items {
			if it.Status != "" && !slices.Contains(rules[it.Kind].statuses, it.Status) {
				return fmt.Errorf("%s: unknown status %s", it.Title, it.Status)
			}
			if _, err := t.create(it); err != nil {
				return fmt.Errorf("%s: %w", it.Title, err)
			}
		}
		for _, r := range set.Relations {
			if _, err := t.link(r.Source, r.Type, r.Target); err != nil {
				return fmt.Errorf("%s %s %s: %w", r.Source, r.Type, r.Target, err)
			}
		}
		for _, c := range set.Comments {
			if _, err := t.comment(c); err != nil {
				return fmt.Errorf("comment on %s: %w", c.Item, err)
			}
		}
		accept := func(Prompt) error { return nil }
		for _, p := range set.Prompts {
			if _, err := t.savePrompt(p, accept); err != nil {
				return fmt.Errorf("prompt %s: %w", p.Name, err)
			}
			if p.Active {
				if err := t.activate(p.Name, accept); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return filled && err == nil, err
}

// Dump contains the items of a database, or some of them, with their relations and comments.
type Dump struct {
	Items     []Item
	Relations []Relation // between these items
	Comments  []Comment  // on these items, the oldest first
}

// Dump returns all items, or one item with everything below it, from one snapshot of the database.
// If the total size of the texts exceeds the limit most, in bytes, Dump returns an error with the
// code Full.
func (s *Store) Dump(ctx context.Context, root string, most int) (d Dump, err error) {
	from, args := "FROM items", []any{}
	if root != "" {
		if root, _, err = ParseID(root); err != nil {
			return Dump{}, err
		}
		from = `FROM items WHERE id IN (WITH RECURSIVE tree (id) AS (
			SELECT id FROM items WHERE id = ? UNION SELECT items.id FROM items JOIN tree ON items.parent = tree.id
		) SELECT id FROM tree)`
		args = []any{root}
	}
	err = s.read(ctx, func(t *txn) error {
		d = Dump{}
		room := dumpRoom{most: most}
		if root != "" {
			if _, err := t.item(root); err != nil {
				return err
			}
		}
		has := map[string]bool{}
		err := t.Each(func(scan func(...any) error) error {
			it, err := scanItem(scan)
			if err != nil {
				return err
			}
			has[it.ID] = true
			d.Items = append(d.Items, it)
			return room.take(it.Title, it.Description)
		}, "SELECT "+itemColumns+" "+from+" ORDER BY rank, number", args...)
		if err != nil {
			return err
		}
		err = t.Each(func(scan func(...any) error) error {
			r, err := scanRelation(scan)
			if err != nil || !has[r.Source] || !has[r.Target] {
				return err
			}
			d.Relations = append(d.Relations, r)
			return room.take(r.ID)
		}, "SELECT "+relationColumns+" FROM relations ORDER BY number")
		if err != nil {
			return err
		}
		return t.Each(func(scan func(...any) error) error {
			c, err := scanComment(scan)
			if err != nil || !has[c.Item] {
				return err
			}
			d.Comments = append(d.Comments, c)
			return room.take(c.Text)
		}, "SELECT "+commentColumns+" FROM comments ORDER BY number")
	})
	return d, err
}

// dumpRoom counts the bytes of a dump.
type dumpRoom struct{ size, most int }

func (r *dumpRoom) take(texts ...string) error {
	for _, one := range texts {
		r.size += len(one) + 64
	}
	if r.size > r.most {
		return fail(Full, "export one epic or one user story: pass its id as root", "the export has more than %d MiB", r.most>>20)
	}
	return nil
}

// IDs returns the ids that start with the given text, at most limit of them. The ids are those of
// comments if prefix is CM, or of relations if prefix is REL.
func (s *Store) IDs(ctx context.Context, prefix, beginning string, limit int) ([]string, error) {
	table, ok := map[string]string{commentPrefix: "comments", relationPrefix: "relations"}[prefix]
	if !ok {
		return nil, nil
	}
	return read(ctx, s, func(t *txn) ([]string, error) {
		return all(t, func(scan func(...any) error) (id string, err error) {
			err = scan(&id)
			return id, err
		}, "SELECT id FROM "+table+` WHERE id LIKE ? ESCAPE '\' ORDER BY number LIMIT ?`, like(beginning)+"%", limit)
	})
}
