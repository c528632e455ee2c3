package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	Until   time.Time // only what happened before
	Before  Place     // only what comes behind it, the newest first
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

func (e *Entry) place() Place {
	if e.Act != nil {
		return Place{At: e.At, Seq: e.Act.Seq}
	}
	return Place{At: e.At, Trail: e.Line.Trail, Seq: e.Line.Seq}
}

// Place is where an entry is among all others, by when it happened, and not by how many there are: those that come
// later move nothing. The zero value is in front of the newest.
type Place struct {
	At    time.Time
	Trail string // whose line it is; "" for an act
	Seq   int64
	// Act is one more than the number of the newest act that comes behind it, so that nobody has to look for that.
	Act int64
}

// String returns the text of which ParsePlace makes the place again.
func (p Place) String() string {
	if p.At.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d.%s", p.At.UnixNano(), p.Seq, p.Act, p.Trail)
}

// ParsePlace returns the place of a text, and whether it is one.
func ParsePlace(text string) (p Place, ok bool) {
	if text == "" {
		return p, true
	}
	parts := strings.SplitN(text, ".", 4)
	if len(parts) < 4 {
		return p, false
	}
	at, err := strconv.ParseInt(parts[0], 10, 64)
	seq, errSeq := strconv.ParseInt(parts[1], 10, 64)
	act, errAct := strconv.ParseInt(parts[2], 10, 64)
	return Place{time.Unix(0, at), parts[3], seq, act}, err == nil && errSeq == nil && errAct == nil && act >= 0
}

// compare is negative if p comes before o, the newest first.
func (p Place) compare(o Place) int {
	return cmp.Or(o.At.Compare(p.At), cmp.Compare(o.Trail, p.Trail), cmp.Compare(o.Seq, p.Seq))
}

// Read returns what a query selects, the newest first, and the place of the last of them. If that is asked for what
// is before it, the list goes on there.
func (t *Trail) Read(ctx context.Context, q Query) (list []Entry, last Place, err error) {
	if err := t.Flush(ctx); err != nil && ctx.Err() != nil {
		return nil, last, err
	}
	all := found{query: &q, glance: glanceOf(&q), limits: limits{since: limit(q.Since), until: limit(q.Until), before: limit(q.Before.At)}}
	if err := t.readActs(ctx, &all); err != nil {
		return nil, last, err
	}
	names, err := filesOf(t.o.Folder)
	paths := make([]string, len(names))
	for i, name := range slices.Backward(names) {
		if paths[i] = filepath.Join(t.o.Folder, name); err == nil {
			err = all.read(ctx, paths[i], &t.blocks)
		}
	}
	t.blocks.keep(paths)
	all.cut(q.Most)
	return all.list, all.last(), err
}

func (t *Trail) readActs(ctx context.Context, all *found) error {
	const page = 1000
	all.oldest = all.query.Before.Act
	for n := 0; t.o.Store != nil; {
		list, err := t.o.Store.Acts(ctx, all.oldest, page)
		if err != nil {
			return err
		}
		for i := range list {
			a := &list[i]
			if all.oldest = a.Seq; a.At.Before(all.query.Since) {
				return nil
			}
			if e := (Entry{At: a.At, Act: a}); all.query.reaches(&e) && all.query.selects(a.Project, []string{a.Actor}, a.Action, a.Object) {
				all.add(e)
				all.acts = append(all.acts, a.Seq)
				n++
			}
		}
		if len(list) < page || n >= all.query.Most {
			return nil
		}
	}
	return nil
}

// reaches reports whether an entry is of the time that a query selects, and behind the place where it begins.
func (q *Query) reaches(e *Entry) bool {
	return !e.At.Before(q.Since) && (q.Until.IsZero() || e.At.Before(q.Until)) && (q.Before.At.IsZero() || q.Before.compare(e.place()) < 0)
}

// is reports whether a name is of whom a query wants.
func (q *Query) is(name string) bool {
	return name != "" && (strings.EqualFold(name, q.Who) || q.Name != nil && strings.EqualFold(q.Name(name), q.Who))
}

// selects reports whether a query selects something in a project that somebody has done, by any of their names.
func (q *Query) selects(project string, who []string, what ...string) bool {
	return (q.Project == "" || q.Project == project) && (q.Who == "" || slices.ContainsFunc(who, q.is)) &&
		(q.What == "" || strings.Contains(strings.ToLower(strings.Join(what, " ")), strings.ToLower(q.What)))
}

func (q *Query) selectsLine(l *Line) bool {
	return q.selects(l.Project, []string{l.Who, l.Seat, l.Name}, l.Method, l.Server+"/"+l.Item, l.As, l.Outcome, l.Cause, cmp.Or(l.Kind, kindCall))
}

// found are the newest entries so far.
type found struct {
	query  *Query
	glance *glance
	list   []Entry
	least  time.Time // nothing older is among the newest; zero if that isn't known
	limits limits
	acts   []int64 // the numbers of all acts that were added
	oldest int64   // the number of the oldest act that was looked at; 0 if there is none
}

func (f *found) add(e Entry) {
	if f.list = append(f.list, e); len(f.list) >= 2*f.query.Most+100 {
		f.cut(f.query.Most)
	}
}

// cut leaves the newest entries, sorted.
func (f *found) cut(most int) {
	slices.SortFunc(f.list, func(a, b Entry) int { return a.place().compare(b.place()) })
	if len(f.list) >= most && most > 0 {
		f.list = slices.Clone(f.list[:most])
		f.least = f.list[most-1].At
		f.limits.least = limit(f.least)
	}
}

// last returns the place of the last entry.
func (f *found) last() (p Place) {
	if len(f.list) == 0 {
		return p
	}
	p = f.list[len(f.list)-1].place()
	p.Act = f.oldest
	for _, seq := range f.acts {
		if seq >= p.Act && !slices.ContainsFunc(f.list, func(e Entry) bool { return e.Act != nil && e.Act.Seq == seq }) {
			p.Act = seq + 1
		}
	}
	return p
}

// read adds the lines of a file, of which it asks all which of its blocks may have some.
func (f *found) read(ctx context.Context, path string, all *blocks) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // dropped meanwhile
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	x, err := file.Stat()
	if err != nil || x.ModTime().Before(f.query.Since) || x.ModTime().Before(f.least) {
		return err // its lines are older than it
	}
	of, err := all.of(ctx, path, file, x.Size())
	if err != nil {
		return err
	}
	trail, _, _ := parseName(filepath.Base(path))
	return f.backwards(file, x.Size(), of, func(raw []byte) error {
		var l Line
		if f.passes(raw) || f.glance.lacks(raw) || json.Unmarshal(raw, &l) != nil || l.Kind == kindFile || l.Kind == kindEnd || l.At.Before(f.least) {
			return ctx.Err() // Verify says what is wrong
		}
		l.Trail = trail
		if e := (Entry{At: l.At, Line: &l}); f.query.reaches(&e) && f.query.selectsLine(&l) {
			f.add(e)
		}
		return ctx.Err()
	})
}

// passes reports whether a line is of another time than what is looked for, without reading the rest of it.
func (f *found) passes(line []byte) bool {
	at := timeIn(line)
	return at != nil && f.passesBy(at, at)
}

// timeIn returns the time of a line as it stands there, or nil. The times of all lines are in UTC and have the same
// length, so they sort as their texts do.
func timeIn(line []byte) []byte {
	const key = `,"at":"`
	from := bytes.Index(line[:min(len(line), 64)], []byte(key)) // behind the number of the line
	if from += len(key); from < len(key) || len(line) < from+len(timeFormat) {
		return nil
	}
	return line[from : from+len(timeFormat)]
}

// limits are the times of what is looked for, as lines have them; "" for none.
type limits struct{ since, until, before, least string }

// passesBy reports whether all lines from one time to another are of another time than what is looked for.
func (f *found) passesBy(least, most []byte) bool {
	older := func(limit string) bool { return limit != "" && string(most) < limit }
	newer := func(limit string) bool { return limit != "" && string(least) > limit }
	return older(f.limits.since) || older(f.limits.least) || newer(f.limits.until) || newer(f.limits.before)
}

// limit returns a time for limits.
func limit(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeFormat)
}

// mostLine is the length of a line that nobody has written.
const mostLine = 1 << 20

// backwards calls do with all lines of a file of a size, the last one first, until do returns an error. What is behind
// the last line break is none.
func backwards(file io.ReaderAt, size int64, do func(line []byte) error) error {
	const block = 256 << 10
	var rest []byte // the end of a line that begins in an earlier block
	ended := false  // a line break was seen
	for end := size; end > 0; {
		from := max(0, end-block)
		b := make([]byte, end-from, end-from+int64(len(rest)))
		if _, err := file.ReadAt(b, from); err != nil {
			return err
		}
		b, end = append(b, rest...), from
		for i := bytes.LastIndexByte(b, '\n'); i >= 0; i = bytes.LastIndexByte(b, '\n') {
			if ended {
				if err := do(b[i+1:]); err != nil {
					return err
				}
			}
			b, ended = b[:i], true
		}
		if rest = b; len(rest) > mostLine {
			rest = nil
		}
	}
	if !ended {
		return nil
	}
	return do(rest)
}
