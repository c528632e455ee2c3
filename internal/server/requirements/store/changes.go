package store

import (
	"context"
	"strings"
)

// Action says what happened to an object.
type Action string

// The actions of changes.
const (
	Created Action = "created"
	Updated Action = "updated"
	Removed Action = "removed"
)

// Change is an entry in the list of changes.
type Change struct {
	Seq    int64
	Object string // the id of an item, a comment or a relation; for a prompt, the result of PromptObject
	Action Action
}

// kept is the number of changes that the database keeps. The store deletes older changes.
const kept = 10_000

// promptObject is the prefix of Change.Object if the changed object is a prompt.
const promptObject = "prompt:"

// PromptObject returns the value of Change.Object for the prompt with this name.
func PromptObject(name string) string { return promptObject + name }

// PromptOf returns the name of a prompt from a Change.Object, or "" if the changed object is not a
// prompt.
func PromptOf(object string) string {
	name, ok := strings.CutPrefix(object, promptObject)
	if !ok {
		return ""
	}
	return name
}

// changed adds a change of object to the list of changes. If object is "", changed does nothing.
func (t *txn) changed(object string, a Action) error {
	if object == "" {
		return nil
	}
	seq, err := t.take("changes")
	if err != nil {
		return err
	}
	if err := t.exec("INSERT INTO changes (seq, object, action, happened) VALUES (?, ?, ?, ?)", seq, object, string(a), t.at); err != nil {
		return err
	}
	if seq%100 == 0 {
		err = t.exec("DELETE FROM changes WHERE seq <= ?", seq-kept)
	}
	return err
}

// Last returns the number of the last change, or 0 if there is no change.
func (s *Store) Last(ctx context.Context) (seq int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT COALESCE(MAX(seq), 0) FROM changes").Scan(&seq)
	return seq, s.engine.explain(err)
}

// Changes returns the changes with a number greater than the parameter after, at most 1000, in the
// order of their numbers. complete is false if the database has already deleted some of these
// changes.
func (s *Store) Changes(ctx context.Context, after int64) (list []Change, complete bool, err error) {
	var first int64
	err = s.read(ctx, func(t *txn) error {
		if err := t.row("SELECT COALESCE(MIN(seq), 0) FROM changes", nil, &first); err != nil {
			return err
		}
		list, err = all(t, func(scan func(...any) error) (c Change, err error) {
			err = scan(&c.Seq, &c.Object, &c.Action)
			return c, err
		}, "SELECT seq, object, action FROM changes WHERE seq > ? ORDER BY seq LIMIT 1000", after)
		return err
	})
	return list, first <= after+1, err
}
