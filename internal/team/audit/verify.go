package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Chain is what Verify has found out about the files of one process.
type Chain struct {
	Trail string
	Files int
	Lines int64  // how many are as they were written
	Sum   string // of the last of them
	// Ended says that the process has closed its trail. If it hasn't, it still runs or was killed, and then up to a
	// second of lines is missing.
	Ended bool
	// Torn says that the last line is incomplete, as a process leaves it that is killed while it writes.
	Torn bool
	// Unknown says that no act knows of these files, or of some of them. They're older than all acts that are kept, so
	// nobody can tell who has written them.
	Unknown bool
	// Broken says where the chain is the first time not as it was written, as a sentence. It's "" if it is.
	Broken string
}

// Verified is what Verify has found.
type Verified struct {
	Acts   store.ActChain
	Chains []Chain
	// Elsewhere are the files of which the acts know that processes have written them of which no file is here. With a
	// store of this machine there are none: the files were deleted.
	Elsewhere []string
}

// Verify walks the chain of the acts, and those of all processes whose files are in the folder.
func (t *Trail) Verify(ctx context.Context) (v Verified, err error) {
	if err := t.Flush(ctx); err != nil && ctx.Err() != nil {
		return v, err
	}
	if t.o.Store != nil {
		if v.Acts, err = t.o.Store.VerifyActs(ctx); err != nil {
			return v, err
		}
	}
	heads := map[string]*Head{}
	if t.o.Heads != nil {
		all, err := t.o.Heads(ctx)
		if err != nil {
			return v, err
		}
		for i := range all {
			heads[all[i].Trail] = &all[i]
		}
	}
	names, err := filesOf(t.o.Folder)
	if err != nil {
		return v, err
	}
	marks := marksOf(v.Acts.Trails)
	var w *walk
	end := func() {
		if w != nil {
			w.finish()
			v.Chains = append(v.Chains, w.Chain)
		}
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		id, file, _ := parseName(name)
		if w == nil || w.Trail != id {
			end()
			w = &walk{Chain: Chain{Trail: id}, acts: &v.Acts, marks: marks[id], head: heads[id]}
			delete(marks, id)
		}
		if err := w.read(filepath.Join(t.o.Folder, name), file); err != nil {
			return v, err
		}
	}
	end()
	alone := t.o.Store != nil && t.o.Store.State().Place == store.File // nobody on another machine writes acts into it
	for _, a := range v.Acts.Trails {
		id := trailOf(&a)
		files := marks[id].files(id)
		if delete(marks, id); len(files) == 0 {
			continue
		}
		if alone {
			v.Chains = append(v.Chains, Chain{Trail: id, Broken: "all its files were deleted: " + strings.Join(files, ", ")})
		} else {
			v.Elsewhere = append(v.Elsewhere, files...)
		}
	}
	return v, nil
}

// marks are what the acts say of the files of a process.
type marks struct {
	began, dropped map[int]bool
	ended          map[int]mark
}

// files returns the names of the files that there must be.
func (m *marks) files(id string) (names []string) {
	if m == nil {
		return nil
	}
	for _, file := range slices.Sorted(maps.Keys(m.began)) {
		if !m.dropped[file] {
			names = append(names, nameOf(id, file))
		}
	}
	return names
}

func trailOf(a *store.Act) string {
	_, id, _ := strings.Cut(a.Object, ":")
	return id
}

func marksOf(acts []store.Act) map[string]*marks {
	all := map[string]*marks{}
	for i := range acts {
		var x struct{ Line mark }
		if json.Unmarshal(acts[i].Became, &x) != nil {
			continue
		}
		id := trailOf(&acts[i])
		m := all[id]
		if m == nil {
			m = &marks{map[int]bool{}, map[int]bool{}, map[int]mark{}}
			all[id] = m
		}
		switch acts[i].Action {
		case "began":
			m.began[x.Line.File] = true
		case "dropped":
			m.dropped[x.Line.File] = true
		case "ended":
			m.ended[x.Line.File] = x.Line
		}
	}
	return all
}

// walk goes through the files of one process.
type walk struct {
	Chain
	acts  *store.ActChain
	marks *marks // nil if the acts say nothing
	head  *Head  // that was kept last; nil if none was
	at    place
	file  int // the number of the last file
	name  string
	line  int
	last  time.Time // of the newest line of the file
	known place     // the newest act that a file knows
}

// wrong notes the first thing that is wrong.
func (w *walk) wrong(format string, args ...any) {
	if w.Broken == "" {
		w.Broken = fmt.Sprintf(format, args...)
	}
}

// read reads a file, which has a number.
func (w *walk) read(path string, file int) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // dropped meanwhile
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	before := w.name
	if w.name = filepath.Base(path); w.Torn {
		w.wrong("the last line of %s is incomplete, and there is a later file", before)
	}
	w.Files, w.Ended, w.Torn, w.line, w.last = w.Files+1, false, false, 0, time.Time{}
	w.lacks(w.file+1, file)
	w.file = file
	for r := bufio.NewReaderSize(f, 64<<10); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			w.Torn = len(line) > 0
			break
		}
		if err != nil {
			return err
		}
		if w.line++; w.Broken == "" {
			w.follow(line[:len(line)-1])
		}
	}
	w.asksWho()
	if m := w.marks; m != nil && w.Broken == "" {
		if x, ok := m.ended[file]; ok && (x.Seq != w.at.seq || !bytes.Equal(x.Sum, w.at.sum)) {
			w.wrong("%s ends with line %d of the process, and its act says that it must end with line %d, so lines were deleted at its end", w.name, w.at.seq, x.Seq)
		}
	}
	return nil
}

// asksWho asks the acts whether a process has begun the file. Those of its first lines may be older than all acts.
func (w *walk) asksWho() {
	switch a := w.acts; {
	case w.Broken != "" || a.Broken != "" || a.First == 0 || w.marks != nil && w.marks.began[w.file]:
	case w.last.Before(a.Since.Add(lateAct)):
		w.Unknown = true
	default:
		w.wrong("no act knows of the file %s, so it's none of a process with this database, unless that could not be reached all the while", w.name)
	}
}

// lateAct is how much later than the first act a process may hear of a new database.
const lateAct = time.Minute

// lacks says that files are missing of which the acts know that they began, and that nobody has dropped.
func (w *walk) lacks(from, to int) {
	for i := from; i < to && w.marks != nil; i++ {
		if w.marks.began[i] && !w.marks.dropped[i] {
			w.wrong("the file %s was deleted", nameOf(w.Trail, i))
		}
	}
}

// follow looks at the next line.
func (w *walk) follow(line []byte) {
	body, sum, ok := cut(line)
	var x struct {
		Seq    int64
		At     time.Time
		File   int
		Prev   string
		Act    int64
		ActSum []byte
		Why    string
	}
	kind := kindOf(body)
	first := w.line == 1
	switch {
	case !ok || json.Unmarshal(line, &x) != nil:
		w.wrong("line %d of %s was changed", w.line, w.name)
		return
	case first != (kind == kindFile) || first && x.File != w.file:
		w.wrong("line %d of %s is not what it was: lines were deleted or moved there", w.line, w.name)
		return
	case first && w.file == 1 && (x.Seq != 1 || x.Prev != ""):
		w.wrong("line 1 of %s was changed", w.name)
		return
	case first && w.at.seq == 0:
		w.at.seq = x.Seq - 1 // the files before were dropped, or there are none
		w.at.sum, _ = base64.RawURLEncoding.DecodeString(x.Prev)
	case x.Seq > w.at.seq+1:
		w.wrong("line %d of %s has number %d and comes after number %d, so lines were deleted between them", w.line, w.name, x.Seq, w.at.seq)
		return
	case x.Seq <= w.at.seq:
		w.wrong("line %d of %s has number %d and comes after number %d, so lines were moved", w.line, w.name, x.Seq, w.at.seq)
		return
	}
	if !bytes.Equal(sum, sumOf(w.at.sum, body)) {
		w.wrong("line %d of %s was changed, or replaced with the lines before it", w.line, w.name)
		return
	}
	if h := w.head; h != nil && !h.False && x.Seq == h.Seq && !bytes.Equal(sum, h.Sum) {
		w.wrong("line %d of %s is not the one that the database knows, so the lines up to it were replaced", w.line, w.name)
		return
	}
	w.Lines, w.Sum = w.Lines+1, base64.RawURLEncoding.EncodeToString(sum)
	if w.at = (place{x.Seq, sum}); x.At.After(w.last) {
		w.last = x.At
	}
	w.Ended = kind == kindEnd && x.Why == whyClosed
	if x.Act > 0 {
		w.known = place{x.Act, x.ActSum}
		w.asksActs()
	}
}

// asksActs compares the newest act that a file knows with the acts.
func (w *walk) asksActs() {
	sum, ok := w.acts.Sum(w.known.seq)
	switch a := w.acts; {
	case ok && bytes.Equal(sum, w.known.sum), a.First > w.known.seq, a.Broken != "":
	case ok:
		a.Broken = fmt.Sprintf("act %d is not the one that %s knows, so acts were replaced, or this is another database", w.known.seq, w.name)
	default:
		a.Broken = fmt.Sprintf("%s knows of act %d, so acts were deleted at the end, or this is another database", w.name, w.known.seq)
	}
}

// finish looks for what is missing behind the last file.
func (w *walk) finish() {
	switch h := w.head; {
	case h == nil:
	case h.False:
		w.wrong("what the database knows of the last line of %s was changed there", w.name)
	case w.at.seq < h.Seq:
		w.wrong("%s ends with line %d of the process, and the database knows of line %d, so lines were deleted at its end", w.name, w.at.seq, h.Seq)
	}
	if w.marks == nil {
		return
	}
	last := w.file
	for i := range w.marks.began {
		last = max(last, i)
	}
	w.lacks(w.file+1, last+1)
}
