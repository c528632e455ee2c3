package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Query selects acts and lines. The zero value of a field, except of Most, selects all.
type Query struct {
	Who     string    // a subject, a seat or a name
	What    string    // a part of an action and its object, or of a method, a server, an item, what the client calls it, an outcome and a cause
	Project string    // what is about the whole house is in none
	Since   time.Time // only what happened then or later
	Most    int       // the newest so many
	// Name returns what people call a subject; nil for nothing.
	Name func(subject string) string
}

// Entry is an act or a line: one of the two is set.
type Entry struct {
	At   time.Time
	Act  *store.Act
	Line *Line
}

func (e *Entry) seq() int64 {
	if e.Act != nil {
		return e.Act.Seq
	}
	return e.Line.Seq
}

// Read returns what a query selects, the newest first.
func (t *Trail) Read(ctx context.Context, q Query) ([]Entry, error) {
	if err := t.Flush(ctx); err != nil && ctx.Err() != nil {
		return nil, err
	}
	all := found{query: &q}
	if err := t.readActs(ctx, &all); err != nil {
		return nil, err
	}
	names, err := filesOf(t.o.Folder)
	for _, name := range slices.Backward(names) {
		if err == nil {
			err = all.read(ctx, filepath.Join(t.o.Folder, name))
		}
	}
	all.cut(q.Most)
	return all.list, err
}

func (t *Trail) readActs(ctx context.Context, all *found) error {
	const page = 1000
	for before, n := int64(0), 0; t.o.Store != nil; {
		list, err := t.o.Store.Acts(ctx, before, page)
		if err != nil {
			return err
		}
		for i := range list {
			a := &list[i]
			if before = a.Seq; a.At.Before(all.query.Since) {
				return nil
			}
			if all.query.selects(a.Project, []string{a.Actor}, a.Action, a.Object) {
				all.add(Entry{At: a.At, Act: a})
				n++
			}
		}
		if len(list) < page || n >= all.query.Most {
			return nil
		}
	}
	return nil
}

// selects reports whether a query selects something in a project that somebody has done, by any of their names.
func (q *Query) selects(project string, who []string, what ...string) bool {
	is := func(name string) bool {
		return name != "" && (strings.EqualFold(name, q.Who) || q.Name != nil && strings.EqualFold(q.Name(name), q.Who))
	}
	return (q.Project == "" || q.Project == project) && (q.Who == "" || slices.ContainsFunc(who, is)) &&
		(q.What == "" || strings.Contains(strings.ToLower(strings.Join(what, " ")), strings.ToLower(q.What)))
}

// found are the newest entries so far.
type found struct {
	query *Query
	list  []Entry
	least time.Time // nothing older is among the newest; zero if that isn't known
}

func (f *found) add(e Entry) {
	if f.list = append(f.list, e); len(f.list) >= 2*f.query.Most+100 {
		f.cut(f.query.Most)
	}
}

// cut leaves the newest entries, sorted.
func (f *found) cut(most int) {
	slices.SortStableFunc(f.list, func(a, b Entry) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.seq(), a.seq())) })
	if len(f.list) >= most && most > 0 {
		f.list = slices.Clone(f.list[:most])
		f.least = f.list[most-1].At
	}
}

// read adds the lines of a file.
func (f *found) read(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // dropped meanwhile
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if x, err := file.Stat(); err == nil && (x.ModTime().Before(f.query.Since) || x.ModTime().Before(f.least)) {
		return nil // its lines are older than it
	}
	for r := bufio.NewReaderSize(file, 64<<10); ctx.Err() == nil; {
		raw, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var l Line
		if json.Unmarshal(bytes.TrimSpace(raw), &l) != nil || l.Kind == kindFile || l.Kind == kindEnd || l.At.Before(f.query.Since) || l.At.Before(f.least) {
			continue // Verify says what is wrong
		}
		if f.query.selects(l.Project, []string{l.Who, l.Seat, l.Name}, l.Method, l.Server+"/"+l.Item, l.As, l.Outcome, l.Cause, cmp.Or(l.Kind, "call")) {
			f.add(Entry{At: l.At, Line: &l})
		}
	}
	return ctx.Err()
}
