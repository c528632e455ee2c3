package store

import (
	"context"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// The actions of changes.
const (
	Created = "created"
	Updated = "updated"
	Removed = "removed"
)

// Change is an entry in the list of changes. Its Object is the id of an item, a comment or a relation;
// for a prompt, it's the result of PromptObject.
type Change = sqldb.Change

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
func (t *txn) changed(object, action string) error {
	if object == "" {
		return nil
	}
	return t.Changed(object, action)
}

// Last returns the number of the last change, or 0 if there is no change.
func (s *Store) Last(ctx context.Context) (int64, error) {
	seq, err := s.db.Last(ctx)
	return seq, unusable(err)
}

// Follow calls heard with the changes after a number until ctx ends; see sqldb.DB.Follow.
func (s *Store) Follow(ctx context.Context, after int64, heard func(list []Change, complete bool) error) {
	s.db.Follow(ctx, after, heard)
}
