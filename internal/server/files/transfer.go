package files

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// remainingMost is the maximum length of transfer.remaining.
const remainingMost = 100

// transfer moves an entry to another root or disk: it copies the entry, and then removes what it
// copied. Entries that somebody created or changed during the move stay in the source.
type transfer struct {
	*Server
	from place
	to   slot

	replaced       *undone
	remaining      []string // at most remainingMost
	remainingCount int
}

// run moves the entry. It copies without holding root.changing, so that other calls can change
// files during the copy. It holds the locks of both roots only for the rest of the move.
func (t *transfer) run(ctx context.Context, req *mcp.CallToolRequest, fi fs.FileInfo) error {
	old, err := t.free(t.to, fi) // check before the slow copy; install checks again
	if err != nil {
		return err
	}
	d := &duplication{Server: t.Server, ctx: ctx, report: t.progress(ctx, req), moving: true}
	temp, err := d.make(t.from, fi, t.to.dir, old)
	if err != nil {
		return t.failed("copy", t.from, err)
	}
	err = changeAll(ctx, []place{t.from, t.to.at}, func() error {
		if !t.unchanged(d.copied[0]) {
			return refuse("try again", "%s changed during the move, so nothing was moved", quote(t.from.name))
		}
		var err error
		if t.replaced, err = t.install(ctx, temp, fi, t.to); err != nil {
			return t.failed("move", t.to.at, err)
		}
		return t.removeSource(d.copied)
	})
	if err != nil {
		_ = t.to.dir.RemoveAll(temp)
	}
	return err
}

// at returns the place of an entry of the source. rel is relative to the source.
func (t *transfer) at(rel string) place {
	rel = path.Join(t.from.rel, rel)
	return place{root: t.from.root, rel: rel, name: t.display(t.from.root, rel)}
}

// unchanged reports whether an entry of the source has not changed since it was copied. A folder is
// unchanged if it is still the same folder, whatever it contains.
func (t *transfer) unchanged(c copied) bool {
	fi, err := t.from.dir.Lstat(filepath.FromSlash(t.at(c.rel).rel))
	if err != nil {
		return false
	}
	is := markOf(fi)
	if c.mark.kind.IsDir() {
		return fi.IsDir() && is.identity == c.mark.identity
	}
	return is == c.mark
}

// removeSource removes each copied entry that has not changed since it was copied. It removes only
// empty folders, so that entries that were not copied stay.
func (t *transfer) removeSource(all []copied) error {
	stayed := map[string]bool{}
	stay := func(rel string) {
		stayed[rel] = true
		if t.remainingCount++; len(t.remaining) < remainingMost {
			t.remaining = append(t.remaining, t.at(rel).name)
		}
	}
	var first error  // the error of the first entry that could not be removed
	changed := false // whether the source may still contain something that the copy does not contain
	for i := len(all) - 1; i >= 0; i-- {
		c := all[i]
		rel := filepath.FromSlash(t.at(c.rel).rel)
		if !t.unchanged(c) {
			if _, err := t.from.dir.Lstat(rel); !errors.Is(err, fs.ErrNotExist) {
				changed = true
				stay(c.rel)
			}
			continue
		}
		err := t.from.dir.Remove(rel)
		switch {
		case err == nil || errors.Is(err, fs.ErrNotExist):
		case !c.mark.kind.IsDir():
			stay(c.rel)
			if first == nil {
				first = t.failed("remove", t.at(c.rel), err)
			}
		default:
			inside, unread := t.newIn(c.rel, stayed, func(rel string) {
				changed = true
				stay(rel)
			})
			changed = changed || unread != nil
			stayed[c.rel] = true
			if !inside && first == nil {
				first = t.failed("remove", t.at(c.rel), err)
			}
		}
	}
	t.syncParent(t.from)
	if first != nil {
		hint := "delete what is left of the source; the copy is complete"
		if changed {
			hint = "compare what is left of the source with the copy before you delete it; the source changed during the move"
		}
		return refuse(hint, "%s was copied to %s, but not all of the source could be removed. %s", quote(t.from.name), quote(t.to.at.name), first)
	}
	return nil
}

// newIn calls stay for each entry of the folder rel, except for entries that are in stayed. some is
// true if the folder has entries. The error is not nil if newIn could not read the folder.
func (t *transfer) newIn(rel string, stayed map[string]bool, stay func(rel string)) (some bool, err error) {
	dir, err := t.folder(t.at(rel))
	if err != nil {
		return false, err
	}
	defer func() { _ = dir.Close() }()
	err = eachName(dir, func(names []string) error {
		for _, n := range names {
			some = true
			if child := path.Join(rel, n); !stayed[child] {
				stay(child)
			}
		}
		return nil
	})
	return some, err
}
