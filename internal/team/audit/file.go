package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// writer writes the files of a process. Only Trail.write uses it.
type writer struct {
	t       *Trail
	id      string    // of the process
	file    int       // the number of the newest file
	f       *os.File  // nil before the first line of a file
	known   bool      // an act says that f began
	asked   time.Time // when that was tried last
	size    int64     // of f, without what a failed write has left there
	end     place     // behind all lines
	kept    place     // behind those that are on the disk
	pending []byte    // the lines of f between the two
	ending  bool      // the last pending line ends the file
}

// place is a place in a chain.
type place struct {
	seq int64
	sum []byte
}

func newID() string {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return time.Now().UTC().Format("20060102T150405.000Z") + "-" + hex.EncodeToString(b[:])
}

const (
	namePrefix = "calls-"
	nameSuffix = ".jsonl"
)

func nameOf(id string, file int) string {
	return fmt.Sprintf("%s%s-%06d%s", namePrefix, id, file, nameSuffix)
}

// parseName returns what nameOf has made a name of.
func parseName(name string) (id string, file int, ok bool) {
	rest, a := strings.CutPrefix(name, namePrefix)
	rest, b := strings.CutSuffix(rest, nameSuffix)
	i := strings.LastIndexByte(rest, '-')
	if !a || !b || i < 0 {
		return "", 0, false
	}
	file, err := strconv.Atoi(rest[i+1:])
	return rest[:i], file, err == nil && file > 0
}

// errNowhere says that there is no folder.
var errNowhere = errors.New("this user has no folder for data; set HOME")

// flush writes what waits. If begin is true, there is a file afterwards in any case.
func (w *writer) flush(begin bool) error {
	if !begin && len(w.pending) == 0 && !w.t.waits() {
		return nil
	}
	err := w.ready()
	if err == nil && len(w.pending) > 0 {
		if err = w.put(); err == nil { // what has failed before, or the beginning of a file
			err = w.ready()
		}
	}
	if err == nil {
		w.format()
		err = w.put()
	}
	w.say(err)
	if err == nil && w.size >= w.t.o.Settings().Size {
		w.finish("full")
	}
	return err
}

// ready sees to it that there is a file. One that was moved away, or deleted, has a successor.
func (w *writer) ready() error {
	if w.f != nil {
		has, err := w.f.Stat()
		is, gone := os.Lstat(w.path()) // a link to it elsewhere isn't it: nobody reads links
		if err == nil && gone == nil && os.SameFile(has, is) {
			w.begin()
			return nil
		}
		_ = w.f.Close()
		w.f = nil
	}
	folder := w.t.o.Folder
	if folder == "" {
		return errNowhere
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	w.file++
	f, err := os.OpenFile(w.path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		w.file--
		return err
	}
	w.f, w.size, w.known, w.asked = f, 0, false, time.Time{}
	w.begin()
	lost := w.pending
	w.pending, w.end, w.ending = nil, w.kept, false
	head := fmt.Appendf(nil, `,"at":%q,"kind":%q,"trail":%q,"file":%d`, time.Now().UTC().Format(timeFormat), kindFile, w.id, w.file)
	head = appendText(head, "prev", base64.RawURLEncoding.EncodeToString(w.end.sum))
	w.line(w.appendAct(head))
	w.again(lost)
	w.drop()
	return nil
}

// again chains lines that should have stood in another file. Its own beginning and end are no longer needed.
func (w *writer) again(lines []byte) {
	for line := range bytes.Lines(lines) {
		body, _, ok := cut(bytes.TrimSuffix(line, []byte("\n")))
		_, members, found := bytes.Cut(body, []byte(","))
		if kind := kindOf(body); ok && found && kind != kindFile && kind != kindEnd {
			w.line(append([]byte(","), members...))
		}
	}
}

func (w *writer) path() string { return filepath.Join(w.t.o.Folder, nameOf(w.id, w.file)) }

// line chains a line, which put writes.
func (w *writer) line(members []byte) {
	w.end.seq++
	w.pending, w.end.sum = chain(w.pending, w.end.seq, w.end.sum, members)
}

// format chains what waits.
func (w *writer) format() {
	list, l := w.t.take()
	m := newMasks(&w.t.o)
	var b []byte
	for i := range list {
		b = list[i].append(b[:0], m)
		w.line(b)
	}
	if l != (left{}) {
		b = fmt.Appendf(b[:0], `,"at":%q,"kind":%q`, time.Now().UTC().Format(timeFormat), kindMissed)
		w.line(appendInt(appendInt(appendInt(b, "refused", l.refused), "lost", l.lost), "denied", l.denied))
	}
	now := w.t.State()
	now.Refused, now.Lost = now.Refused+l.refused, now.Lost+l.lost
	w.t.state.Store(&now)
}

// put writes the pending lines. After an error they stay pending, and what was written of them is removed.
func (w *writer) put() error {
	if len(w.pending) == 0 {
		return nil
	}
	var err error
	if w.t.o.sync != nil {
		err = w.t.o.sync()
	}
	if err == nil {
		_, err = w.f.WriteAt(w.pending, w.size)
	}
	if err == nil {
		err = w.f.Sync()
	}
	if err != nil {
		if w.f.Truncate(w.size) != nil {
			_ = w.f.Close() // its end is torn; the next line begins another file
			w.f = nil
		}
		return err
	}
	w.size += int64(len(w.pending))
	w.pending, w.kept = w.pending[:0], w.end
	w.t.head.Store(&Head{Trail: w.id, File: w.file, Seq: w.kept.seq, Sum: bytes.Clone(w.kept.sum)})
	if w.ending {
		_ = w.f.Close()
		w.f, w.ending = nil, false
		w.note("ended", w.id, w.file)
	}
	return nil
}

// say tells people whether lines can be written.
func (w *writer) say(err error) {
	was := w.t.State()
	now := was
	if now.Problem = err; err == nil {
		now.File = w.path()
	}
	w.t.state.Store(&now)
	switch {
	case err != nil && was.Problem == nil:
		w.t.o.Log.Warn("requests cannot be recorded in the audit", "cause", err.Error(), "refused", w.t.o.Settings().Refuse)
	case err == nil && was.Problem != nil:
		w.t.o.Log.Info("requests are recorded in the audit again")
	}
}

// finish ends the file, if there is one.
func (w *writer) finish(why string) {
	if w.f == nil || len(w.pending) > 0 {
		return
	}
	b := fmt.Appendf(nil, `,"at":%q,"kind":%q,"why":%q`, time.Now().UTC().Format(timeFormat), kindEnd, why)
	w.line(w.appendAct(b))
	w.ending = true
	if err := w.put(); err != nil {
		w.say(err)
	}
}

// drop deletes the files that were written to the longest time ago, if there are too many, but never our own. Their
// names wouldn't do: those of a process that began long ago come first, however new its file is. Another process
// whose file we delete begins another one, since it looks before each write whether its file is there.
func (w *writer) drop() {
	names, err := filesOf(w.t.o.Folder)
	written := make(map[string]time.Time, len(names))
	for _, name := range names {
		if fi, statErr := os.Stat(filepath.Join(w.t.o.Folder, name)); statErr == nil {
			written[name] = fi.ModTime()
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return written[a].Compare(written[b]) })
	own := nameOf(w.id, w.file)
	names = slices.DeleteFunc(names, func(name string) bool { return name == own })
	for len(names) >= max(1, w.t.o.Settings().Files) && err == nil {
		id, file, _ := parseName(names[0])
		w.note("dropped", id, file)
		if err = os.Remove(filepath.Join(w.t.o.Folder, names[0])); errors.Is(err, os.ErrNotExist) {
			err = nil // another process has deleted it
		}
		names = names[1:]
	}
	if err != nil {
		w.t.o.Log.Warn("old files of the audit cannot be deleted", "cause", err.Error())
	}
}

// filesOf returns the names of the files in a folder, those of the process that began first first.
func filesOf(folder string) (names []string, err error) {
	list, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, x := range list {
		if _, _, ok := parseName(x.Name()); ok && x.Type().IsRegular() {
			names = append(names, x.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(a, b) })
	return names, err
}

// mark is what an act says of a file.
type mark struct {
	File int    `json:"file"`
	Seq  int64  `json:"seq,omitempty"` // the number of its last line
	Sum  []byte `json:"sum,omitempty"`
}

// begin sees to it that an act knows of the file: Verify doesn't believe one that no act knows. If there's no database
// yet, or it can't be reached, it tries again.
func (w *writer) begin() {
	if s := w.t.o.Store; w.known || s == nil || !lasts(s) || time.Since(w.asked) < askAgain {
		return
	}
	w.known = w.note("began", w.id, w.file)
	w.asked = time.Now()
}

// askAgain is how long lines don't wait for a database that can't be reached.
const askAgain = 30 * time.Second

// note makes an act of what happens to a file, if the store keeps acts, and reports whether it has. A file goes on
// without one.
func (w *writer) note(action, id string, file int) bool {
	s := w.t.o.Store
	if s == nil || !lasts(s) {
		return false
	}
	m := mark{File: file}
	if action == "ended" {
		m.Seq, m.Sum = w.kept.seq, w.kept.sum
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.ctx), actWithin)
	defer cancel()
	err := s.Write(ctx, ofHouse, func(t *store.Tx) error { return t.Trailed(action, id, m) })
	if err != nil {
		w.t.o.Log.Warn("the store does not know of a file of the audit", "cause", err.Error())
	}
	return err == nil
}

// ofHouse is the actor of what happens by itself.
const ofHouse = "dragoman"

// lasts reports whether acts are kept for longer than the process.
func lasts(s *store.Store) bool {
	place := s.State().Place
	return place == store.File || place == store.Postgres
}

// appendAct appends by what the newest act can be known.
func (w *writer) appendAct(b []byte) []byte {
	s := w.t.o.Store
	if s == nil || !lasts(s) {
		return b
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.ctx), actWithin)
	defer cancel()
	list, err := s.Acts(ctx, 0, 1)
	if err != nil || len(list) == 0 {
		return b
	}
	return appendText(appendInt(b, "act", list[0].Seq), "actSum", base64.StdEncoding.EncodeToString(list[0].Sum))
}
