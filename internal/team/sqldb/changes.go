package sqldb

import (
	"context"
	"time"
)

// Change says that something happened to an object.
type Change struct {
	Seq            int64 // greater than that of every earlier change
	Object, Action string
}

const (
	kept  = 10_000 // the number of changes that the database keeps
	batch = 1000   // the number of changes that Follow delivers at once
	poll  = 500 * time.Millisecond
)

// Changed gives a change of an object its number. Those who follow hear of it after the commit.
func (t *Tx) Changed(object, action string) error {
	seq, err := t.Take("changes")
	if err != nil {
		return err
	}
	t.numbered = true
	if err := t.Exec("INSERT INTO changes (seq, object, action, happened) VALUES (?, ?, ?, ?)", seq, object, action, t.Now); err != nil {
		return err
	}
	if seq%100 == 0 {
		err = t.Exec("DELETE FROM changes WHERE seq <= ?", seq-kept)
	}
	return err
}

// Last returns the number of the last change, or 0 if there is none. Who reads tables first calls Last
// and then reads, so that Follow misses nothing.
func (d *DB) Last(ctx context.Context) (seq int64, err error) {
	if err := d.e.file.present(); err != nil {
		return 0, err
	}
	err = d.db.QueryRowContext(ctx, "SELECT COALESCE(MAX(seq), 0) FROM "+d.e.changes).Scan(&seq)
	return seq, d.e.explain(err)
}

// Follow calls heard with the changes after a number, at most 1000 at a time and in their order, until
// ctx ends. It hears of the changes of this DB at once, and of those of others within a second: we
// look twice a second, which both databases can do. If complete is false, list is empty and anything
// may have changed, because the database no longer has some of the changes or is another one. If heard
// returns an error, the same changes come again. If the changes can't be read, Follow calls
// Options.Lost and tries again.
func (d *DB) Follow(ctx context.Context, after int64, heard func(list []Change, complete bool) error) {
	lost := false
	for ctx.Err() == nil {
		own := *d.heard.Load() // before we look, so that nothing slips through between
		last, more, err := d.news(ctx, after, heard)
		if d.lost != nil && lost != (err != nil) && ctx.Err() == nil {
			lost = err != nil
			d.lost(err)
		}
		if after = last; more {
			continue
		}
		pause := time.NewTimer(poll)
		select {
		case <-ctx.Done():
		case <-own:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// news calls heard if there are changes after a number. It returns the number of the last one that was
// heard, and whether there are more.
func (d *DB) news(ctx context.Context, after int64, heard func([]Change, bool) error) (last int64, more bool, err error) {
	looking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	newest, err := d.Last(looking)
	if err != nil || newest == after {
		return after, false, err
	}
	list, complete, err := d.changes(looking, after)
	if err != nil {
		return after, false, err
	}
	last = newest
	if complete = complete && newest > after && len(list) > 0; complete {
		last = list[len(list)-1].Seq
	} else {
		list = nil
	}
	if err := heard(list, complete); err != nil {
		return after, false, err
	}
	return last, last < newest, nil
}

// changes returns the changes after a number. complete is false if the database has deleted some of
// them already.
func (d *DB) changes(ctx context.Context, after int64) (list []Change, complete bool, err error) {
	var first int64
	err = d.Read(ctx, func(t *Tx) error {
		if err := t.Row("SELECT COALESCE(MIN(seq), 0) FROM changes", nil, &first); err != nil {
			return err
		}
		list, err = All(t, func(scan func(...any) error) (c Change, err error) {
			err = scan(&c.Seq, &c.Object, &c.Action)
			return c, err
		}, "SELECT seq, object, action FROM changes WHERE seq > ? ORDER BY seq LIMIT ?", after, batch)
		return err
	})
	return list, first <= after+1, err
}
