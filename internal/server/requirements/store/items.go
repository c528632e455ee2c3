package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const itemColumns = "id, kind, COALESCE(parent, ''), title, description, status, type, priority, version, author, author_id, editor, editor_id, created, updated"

func scanItem(scan func(...any) error) (Item, error) {
	var it Item
	err := scan(&it.ID, &it.Kind, &it.Parent, &it.Title, &it.Description, &it.Status, &it.Type, &it.Priority, &it.Version, &it.Author.Name, &it.Author.ID, &it.Editor.Name, &it.Editor.ID, &it.Created, &it.Updated)
	return it, err
}

// Create adds an item. Kind and Title are required. An acceptance criterion also needs Parent. Type
// and Priority have defaults. Status must be empty, because the store sets the status of a new
// item.
func (s *Store) Create(ctx context.Context, it Item) (Item, error) {
	if it.Status != "" {
		return Item{}, invalid("leave out the status; update_item changes it later", "a new item cannot have a status")
	}
	return write(ctx, s, func(t *txn) (Item, error) { return t.create(it) })
}

func (t *txn) create(it Item) (Item, error) {
	r, ok := rules[it.Kind]
	if !ok {
		return Item{}, among(it.Kind, "kind", Kinds())
	}
	if it.Status == "" {
		it.Status = r.statuses[0]
	}
	it.Version, it.Editor, it.Created, it.Updated = 1, User{}, t.Now, t.Now
	if it.Priority == "" {
		it.Priority = defaultPriority
	}
	if it.Type == "" && it.Kind == Requirement {
		it.Type = Types()[0]
	}
	if err := t.check(&it); err != nil {
		return Item{}, err
	}
	if err := it.Author.check(); err != nil {
		return Item{}, err
	}
	n, err := t.Count("FROM items")
	if err != nil {
		return Item{}, err
	}
	if n >= MaxItems {
		return Item{}, fail(Full, "use another database", "the database has %d items, which is the maximum", n)
	}
	num, err := t.Take(r.prefix)
	if err != nil {
		return Item{}, err
	}
	it.ID = reference(r.prefix, num)
	err = t.Exec("INSERT INTO items (id, kind, rank, number, parent, title, description, status, type, priority, version, author, author_id, created, updated, haystack) VALUES (?, ?, ?, ?, NULLIF(?, ''), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		it.ID, string(it.Kind), slices.Index(Kinds(), it.Kind), num, it.Parent, it.Title, it.Description, string(it.Status), it.Type, it.Priority, it.Version, it.Author.Name, it.Author.ID, it.Created, it.Updated, haystack(it))
	if err != nil {
		return Item{}, err
	}
	return it, errors.Join(t.changed(it.ID, Created), t.changed(it.Parent, Updated))
}

// haystack returns the text of an item in which a search looks for words. The text is in lower
// case.
func haystack(it Item) string {
	return strings.ToLower(it.ID + "\n" + it.Title + "\n" + it.Description)
}

// check checks the members of an item that a client can set.
func (t *txn) check(it *Item) (err error) {
	r := rules[it.Kind]
	if it.Title, err = line(it.Title, "title", MaxTitle, true); err != nil {
		return err
	}
	if it.Description, err = text(it.Description, "description", MaxDescription, false); err != nil {
		return err
	}
	if err := among(it.Priority, "priority", Priorities()); err != nil {
		return err
	}
	switch {
	case it.Kind == Requirement:
		if err := among(it.Type, "type of requirement", Types()); err != nil {
			return err
		}
	case it.Type != "":
		return invalid("leave out the type", "%s cannot have a type", r.noun)
	}
	return t.checkParent(it)
}

func (t *txn) checkParent(it *Item) error {
	r := rules[it.Kind]
	if it.Parent == "" {
		if !r.orphans {
			return invalid("name "+nouns(r.parents), "%s needs a parent", r.noun)
		}
		return nil
	}
	if len(r.parents) == 0 {
		return invalid("leave out the parent, or use link_items", "%s cannot have a parent", r.noun)
	}
	id, kind, err := ParseID(it.Parent)
	if err != nil {
		return err
	}
	if !slices.Contains(r.parents, kind) {
		return invalid("name "+nouns(r.parents)+", or use link_items", "%s cannot belong to %s (%s)", r.noun, rules[kind].noun, id)
	}
	if _, err := t.item(id); err != nil {
		return err
	}
	it.Parent = id
	return nil
}

// nouns lists kinds with the form of their ids, such as "an epic (EP-…) or a user story (US-…)".
func nouns(kinds []Kind) string {
	list := make([]string, len(kinds))
	for i, k := range kinds {
		list[i] = fmt.Sprintf("%s (%s-…)", rules[k].noun, rules[k].prefix)
	}
	return strings.Join(list, " or ")
}

// item returns the item with this id. The id must have its usual form; see ParseID.
func (t *txn) item(id string) (Item, error) {
	it, err := scanItem(func(into ...any) error {
		return t.Row("SELECT "+itemColumns+" FROM items WHERE id = ?", []any{id}, into...)
	})
	if none(err) {
		return Item{}, fail(NotFound, "find it with search_items or list_items", "%s does not exist", id)
	}
	return it, err
}

func (t *txn) items(where string, args ...any) ([]Item, error) {
	return all(t, scanItem, "SELECT "+itemColumns+" FROM items "+where, args...)
}

// Update contains new values for the members of an item. A nil member leaves the value unchanged.
type Update struct {
	Title, Description, Type, Priority *string
	Status                             *Status
	Parent                             *string // "" removes the parent
	Editor                             User    // who makes the update
}

// Update changes an item if its version is still the given version. If somebody else has changed
// the item meanwhile, Update returns an error with the code Conflict. A new status must be allowed
// after the current status. If the update changes nothing, the version stays the same.
func (s *Store) Update(ctx context.Context, id string, version int64, u Update) (Item, error) {
	id, kind, err := ParseID(id)
	if err != nil {
		return Item{}, err
	}
	return write(ctx, s, func(t *txn) (Item, error) {
		was, err := t.item(id)
		if err != nil {
			return Item{}, err
		}
		if was.Version != version {
			return Item{}, fail(Conflict, fmt.Sprintf("read %s with get_item, and repeat the update with version %d if the update is still correct", id, was.Version), "%s has version %d, not %d, because somebody changed it", id, was.Version, version)
		}
		it := was
		set(&it.Title, u.Title)
		set(&it.Description, u.Description)
		set(&it.Type, u.Type)
		set(&it.Priority, u.Priority)
		set(&it.Parent, u.Parent)
		set(&it.Status, u.Status)
		if it.Status != was.Status {
			if err := allowed(kind, was.ID, was.Status, it.Status); err != nil {
				return Item{}, err
			}
		}
		if err := t.check(&it); err != nil {
			return Item{}, err
		}
		if it == was {
			return it, nil
		}
		if err := u.Editor.check(); err != nil {
			return Item{}, err
		}
		it.Version, it.Editor, it.Updated = was.Version+1, u.Editor, t.Now
		err = t.Exec("UPDATE items SET parent = NULLIF(?, ''), title = ?, description = ?, status = ?, type = ?, priority = ?, version = ?, editor = ?, editor_id = ?, updated = ?, haystack = ? WHERE id = ?",
			it.Parent, it.Title, it.Description, string(it.Status), it.Type, it.Priority, it.Version, it.Editor.Name, it.Editor.ID, it.Updated, haystack(it), id)
		if err != nil {
			return Item{}, err
		}
		err = errors.Join(t.changed(id, Updated), t.changed(it.Parent, Updated))
		if was.Parent != it.Parent {
			err = errors.Join(err, t.changed(was.Parent, Updated))
		}
		return it, err
	})
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// allowed returns an error if an item of the kind k must not change from one status to the other.
func allowed(k Kind, id string, from, to Status) error {
	if err := among(to, "status of "+rules[k].noun, rules[k].statuses); err != nil {
		return err
	}
	next := transitions[k][from]
	if slices.Contains(next, to) {
		return nil
	}
	names := make([]string, len(next))
	for i, n := range next {
		names[i] = string(n)
	}
	return fail(Forbidden, "use one of "+strings.Join(names, ", "), "%s is %s, and its status cannot change to %s", id, from, to)
}

// Query selects items. An empty member does not restrict the selection.
type Query struct {
	Kind     Kind
	Status   Status
	Type     string
	Priority string
	Parent   string
	Search   string // words; each must occur in the id, the title, the description or a comment
	Prefix   string // the beginning of the id
	After    string // the id of the last item of the previous page
	Limit    int    // the maximum number of items on a page, up to MaxPage; 0 means 50
}

// Page is one page of a list of items.
type Page struct {
	Items []Item
	Total int    // the number of items on all pages
	Next  string // the value of Query.After for the next page; "" on the last page
}

// Items returns items in the order of their kinds and numbers.
func (s *Store) Items(ctx context.Context, q Query) (p Page, err error) {
	where, args, err := q.where()
	if err != nil {
		return Page{}, err
	}
	limit := limitOf(q.Limit)
	err = s.read(ctx, func(t *txn) error {
		where, args := where, args
		p.Total, err = t.Count("FROM items WHERE "+where, args...)
		if err != nil {
			return err
		}
		if q.After != "" {
			id, kind, err := ParseID(q.After)
			if err != nil {
				return invalid("use next_cursor of the previous page", "the cursor is not valid")
			}
			rank := slices.Index(Kinds(), kind)
			where += " AND (rank > ? OR (rank = ? AND number > ?))"
			args = append(args, rank, rank, number(id))
		}
		p.Items, err = t.items("WHERE "+where+" ORDER BY rank, number LIMIT ?", append(args, limit+1)...)
		return err
	})
	if len(p.Items) > limit {
		p.Items = p.Items[:limit]
		p.Next = p.Items[limit-1].ID
	}
	return p, err
}

func limitOf(n int) int {
	if n <= 0 {
		return 50
	}
	return min(n, MaxPage)
}

func (q Query) where() (string, []any, error) {
	where, args := "1 = 1", []any{}
	add := func(condition string, values ...any) {
		where += " AND " + condition
		args = append(args, values...)
	}
	if q.Kind != "" {
		if err := among(q.Kind, "kind", Kinds()); err != nil {
			return "", nil, err
		}
		add("kind = ?", string(q.Kind))
	}
	if q.Status != "" {
		add("status = ?", string(q.Status))
	}
	if q.Type != "" {
		add("type = ?", q.Type)
	}
	if q.Priority != "" {
		add("priority = ?", q.Priority)
	}
	if q.Parent != "" {
		id, _, err := ParseID(q.Parent)
		if err != nil {
			return "", nil, err
		}
		add("parent = ?", id)
	}
	if q.Prefix != "" {
		add(`id LIKE ? ESCAPE '\'`, like(strings.ToUpper(q.Prefix))+"%")
	}
	search, err := text(q.Search, "search text", MaxSearch, false)
	if err != nil {
		return "", nil, err
	}
	for _, word := range strings.Fields(strings.ToLower(search)) {
		pattern := "%" + like(word) + "%"
		add(`(haystack LIKE ? ESCAPE '\' OR EXISTS (SELECT 1 FROM comments WHERE comments.item = items.id AND comments.haystack LIKE ? ESCAPE '\'))`, pattern, pattern)
	}
	return where, args, nil
}

// like escapes the characters that have a special meaning in a LIKE pattern.
func like(s string) string {
	return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(s)
}
