package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
)

// check checks the members of a user.
func (u *User) check() (err error) {
	if len(u.ID) > MaxUserID {
		return invalid("use another id", "the id of the author is longer than %d bytes", MaxUserID)
	}
	u.Name, err = line(u.Name, "author", MaxAuthor, false)
	return err
}

// activities has a row for each user and kind of object. Names that nobody knows are left out.
const activities = `SELECT id, name, SUM(items), SUM(edits), SUM(comments), MAX(last) FROM (
	SELECT author_id AS id, author AS name, 1 AS items, 0 AS edits, 0 AS comments, created AS last FROM items
	UNION ALL SELECT editor_id, editor, 0, 1, 0, updated FROM items
	UNION ALL SELECT author_id, author, 0, 0, 1, created FROM comments
	UNION ALL SELECT editor_id, editor, 0, 1, 0, updated FROM prompts
) AS all_of WHERE id <> '' OR name <> '' GROUP BY id, name`

// Users returns who has written what is in the database: first those whom Dragoman has vouched for, then
// names that clients have given, each ordered by the time of the last change. A user with an id has the
// name with which they wrote last. There are at most MaxUsers; more is true if there are others.
func (s *Store) Users(ctx context.Context) (users []Activity, more bool, err error) {
	rows, err := read(ctx, s, func(t *txn) ([]Activity, error) {
		return all(t, func(scan func(...any) error) (a Activity, err error) {
			err = scan(&a.ID, &a.Name, &a.Items, &a.Edits, &a.Comments, &a.Last)
			return a, err
		}, activities)
	})
	if err != nil {
		return nil, false, err
	}
	byUser := map[User]Activity{}
	for _, a := range rows {
		key := a.User
		if a.ID != "" {
			key.Name = ""
		}
		if have, ok := byUser[key]; ok {
			if have.Last > a.Last {
				a.Name, a.Last = have.Name, have.Last
			}
			a.Items, a.Edits, a.Comments = a.Items+have.Items, a.Edits+have.Edits, a.Comments+have.Comments
		}
		byUser[key] = a
	}
	users = slices.SortedFunc(maps.Values(byUser), func(a, b Activity) int {
		if (a.ID == "") != (b.ID == "") {
			return cmp.Compare(b.ID, a.ID)
		}
		return cmp.Or(cmp.Compare(b.Last, a.Last), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	if len(users) > MaxUsers {
		return users[:MaxUsers], true, nil
	}
	return users, false, nil
}
