package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
)

const (
	relationColumns = "id, source, type, target, created"
	commentColumns  = "id, item, author, author_id, body, resolved, created"
)

// Details contains an item with its children, relations and comments, from one snapshot of the
// database. Each list has at most MaxPage entries.
type Details struct {
	Item
	Children      []Item
	ChildrenTotal int
	Relations     []Relation // from and to the item
	Comments      []Comment  // the newest first
	CommentsTotal int
}

// Details returns an item with its children, relations and comments.
func (s *Store) Details(ctx context.Context, id string) (d Details, err error) {
	if id, _, err = ParseID(id); err != nil {
		return Details{}, err
	}
	err = s.read(ctx, func(t *txn) error {
		if d.Item, err = t.item(id); err != nil {
			return err
		}
		if d.ChildrenTotal, err = t.Count("FROM items WHERE parent = ?", id); err != nil {
			return err
		}
		if d.CommentsTotal, err = t.Count("FROM comments WHERE item = ?", id); err != nil {
			return err
		}
		if d.Children, err = t.items("WHERE parent = ? ORDER BY rank, number LIMIT ?", id, MaxPage); err != nil {
			return err
		}
		if d.Relations, err = t.relations("WHERE source = ? OR target = ? ORDER BY number LIMIT ?", id, id, MaxPage); err != nil {
			return err
		}
		d.Comments, err = t.comments("WHERE item = ? ORDER BY number DESC LIMIT ?", id, MaxPage)
		return err
	})
	return d, err
}

// Link adds a relation. It returns an error if the relation exists already, or if source and target
// are the same item.
func (s *Store) Link(ctx context.Context, source, kind, target string) (Relation, error) {
	return write(ctx, s, func(t *txn) (Relation, error) { return t.link(source, kind, target) })
}

func (t *txn) link(source, kind, target string) (Relation, error) {
	source, target, err := t.ends(source, kind, target)
	if err != nil {
		return Relation{}, err
	}
	old, err := t.relation(source, kind, target)
	switch {
	case err == nil:
		return Relation{}, fail(Conflict, "use the existing relation", "the relation exists already as %s", old.ID)
	case !IsCode(err, NotFound):
		return Relation{}, err
	}
	for _, id := range []string{source, target} {
		n, err := t.Count("FROM relations WHERE source = ? OR target = ?", id, id)
		if err != nil {
			return Relation{}, err
		}
		if n >= MaxRelations {
			return Relation{}, fail(Full, "remove a relation with unlink_items, or link the parent of the item", "%s has %d relations, which is the maximum", id, n)
		}
	}
	n, err := t.Take(relationPrefix)
	if err != nil {
		return Relation{}, err
	}
	r := Relation{ID: reference(relationPrefix, n), Source: source, Type: kind, Target: target, Created: t.Now}
	if err := t.Exec("INSERT INTO relations (id, number, source, type, target, created) VALUES (?, ?, ?, ?, ?, ?)", r.ID, n, r.Source, r.Type, r.Target, r.Created); err != nil {
		return Relation{}, err
	}
	return r, errors.Join(t.changed(r.ID, Created), t.changed(source, Updated), t.changed(target, Updated))
}

// Unlink removes a relation and returns it.
func (s *Store) Unlink(ctx context.Context, source, kind, target string) (Relation, error) {
	return write(ctx, s, func(t *txn) (Relation, error) {
		source, target, err := t.ends(source, kind, target)
		if err != nil {
			return Relation{}, err
		}
		r, err := t.relation(source, kind, target)
		if err != nil {
			return Relation{}, err
		}
		if err := t.Exec("DELETE FROM relations WHERE id = ?", r.ID); err != nil {
			return Relation{}, err
		}
		return r, errors.Join(t.changed(r.ID, Removed), t.changed(r.Source, Updated), t.changed(r.Target, Updated))
	})
}

// ends checks the type and the two items of a relation. It returns the ids of the items in their
// usual form.
func (t *txn) ends(source, kind, target string) (string, string, error) {
	if err := among(kind, "type of relation", RelationTypes()); err != nil {
		return "", "", err
	}
	ids := []string{source, target}
	for i, id := range ids {
		id, _, err := ParseID(id)
		if err != nil {
			return "", "", err
		}
		if _, err := t.item(id); err != nil {
			return "", "", err
		}
		ids[i] = id
	}
	if ids[0] == ids[1] {
		return "", "", invalid("use two different items", "%s cannot have a relation to itself", ids[0])
	}
	return ids[0], ids[1], nil
}

// relation returns the relation of the type kind from source to target. If the type is mutual,
// relation also finds the relation from target to source.
func (t *txn) relation(source, kind, target string) (Relation, error) {
	found, err := t.relations("WHERE source = ? AND type = ? AND target = ?", source, kind, target)
	if err == nil && len(found) == 0 && slices.Contains(mutual, kind) {
		found, err = t.relations("WHERE source = ? AND type = ? AND target = ?", target, kind, source)
	}
	if err != nil {
		return Relation{}, err
	}
	if len(found) == 0 {
		return Relation{}, fail(NotFound, "list the relations of an item with get_item", "there is no relation %s from %s to %s", kind, source, target)
	}
	return found[0], nil
}

func scanRelation(scan func(...any) error) (r Relation, err error) {
	err = scan(&r.ID, &r.Source, &r.Type, &r.Target, &r.Created)
	return r, err
}

func (t *txn) relations(where string, args ...any) ([]Relation, error) {
	return all(t, scanRelation, "SELECT "+relationColumns+" FROM relations "+where, args...)
}

// Relation returns a relation by its id.
func (s *Store) Relation(ctx context.Context, id string) (r Relation, err error) {
	if id, err = parseOther(id, relationPrefix, "relation"); err != nil {
		return Relation{}, err
	}
	return read(ctx, s, func(t *txn) (Relation, error) {
		found, err := t.relations("WHERE id = ?", id)
		if err != nil {
			return Relation{}, err
		}
		if len(found) == 0 {
			return Relation{}, fail(NotFound, "list the relations of an item with get_item", "%s does not exist", id)
		}
		return found[0], nil
	})
}

// Comment adds a comment to an item. Item and Text are required.
func (s *Store) Comment(ctx context.Context, c Comment) (Comment, error) {
	return write(ctx, s, func(t *txn) (Comment, error) { return t.comment(c) })
}

func (t *txn) comment(c Comment) (Comment, error) {
	var err error
	if c.Text, err = text(c.Text, "text", MaxComment, true); err != nil {
		return Comment{}, err
	}
	if err := c.Author.check(); err != nil {
		return Comment{}, err
	}
	if c.Item, _, err = ParseID(c.Item); err != nil {
		return Comment{}, err
	}
	if _, err := t.item(c.Item); err != nil {
		return Comment{}, err
	}
	n, err := t.Count("FROM comments WHERE item = ?", c.Item)
	if err != nil {
		return Comment{}, err
	}
	if n >= MaxComments {
		return Comment{}, fail(Full, "write the text into the description of the item", "%s has %d comments, which is the maximum", c.Item, n)
	}
	num, err := t.Take(commentPrefix)
	if err != nil {
		return Comment{}, err
	}
	c.ID, c.Created, c.Resolved = reference(commentPrefix, num), t.Now, false
	if err := t.Exec("INSERT INTO comments (id, number, item, author, author_id, body, resolved, created, haystack) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)", c.ID, num, c.Item, c.Author.Name, c.Author.ID, c.Text, c.Created, strings.ToLower(c.Text)); err != nil {
		return Comment{}, err
	}
	return c, errors.Join(t.changed(c.ID, Created), t.changed(c.Item, Updated))
}

// Resolve marks a comment as resolved or open.
func (s *Store) Resolve(ctx context.Context, id string, resolved bool) (c Comment, err error) {
	if id, err = parseOther(id, commentPrefix, "comment"); err != nil {
		return Comment{}, err
	}
	return write(ctx, s, func(t *txn) (Comment, error) {
		c, err := t.commentOf(id)
		if err != nil || c.Resolved == resolved {
			return c, err
		}
		c.Resolved = resolved
		flag := 0
		if resolved {
			flag = 1
		}
		if err := t.Exec("UPDATE comments SET resolved = ? WHERE id = ?", flag, id); err != nil {
			return Comment{}, err
		}
		return c, errors.Join(t.changed(id, Updated), t.changed(c.Item, Updated))
	})
}

// CommentOf returns a comment by its id.
func (s *Store) CommentOf(ctx context.Context, id string) (c Comment, err error) {
	if id, err = parseOther(id, commentPrefix, "comment"); err != nil {
		return Comment{}, err
	}
	return read(ctx, s, func(t *txn) (Comment, error) { return t.commentOf(id) })
}

func (t *txn) commentOf(id string) (Comment, error) {
	found, err := t.comments("WHERE id = ?", id)
	if err == nil && len(found) == 0 {
		return Comment{}, fail(NotFound, "list the comments of an item with get_item", "%s does not exist", id)
	}
	if err != nil {
		return Comment{}, err
	}
	return found[0], nil
}

// Comments returns the comments of an item, the newest first. before is the id of the last comment
// on the previous page, or "" for the first page. next is the value of before for the next page, or
// "" on the last page.
func (s *Store) Comments(ctx context.Context, item, before string, limit int) (list []Comment, next string, err error) {
	if item, _, err = ParseID(item); err != nil {
		return nil, "", err
	}
	limit = limitOf(limit)
	where, args := "WHERE item = ?", []any{item}
	if before != "" {
		if before, err = parseOther(before, commentPrefix, "comment"); err != nil {
			return nil, "", invalid("use next_cursor of the previous page", "the cursor is not valid")
		}
		where, args = where+" AND number < ?", append(args, number(before))
	}
	err = s.read(ctx, func(t *txn) error {
		if _, err := t.item(item); err != nil {
			return err
		}
		list, err = t.comments(where+" ORDER BY number DESC LIMIT ?", append(args, limit+1)...)
		return err
	})
	if len(list) > limit {
		list = list[:limit]
		next = list[limit-1].ID
	}
	return list, next, err
}

func scanComment(scan func(...any) error) (c Comment, err error) {
	err = scan(&c.ID, &c.Item, &c.Author.Name, &c.Author.ID, &c.Text, &c.Resolved, &c.Created)
	return c, err
}

func (t *txn) comments(where string, args ...any) ([]Comment, error) {
	return all(t, scanComment, "SELECT "+commentColumns+" FROM comments "+where, args...)
}

// none reports whether err means that a query found no row.
func none(err error) bool { return errors.Is(err, sql.ErrNoRows) }
