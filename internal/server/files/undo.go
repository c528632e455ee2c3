package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// undoFolder is the name of the folder in each root that keeps the files and folders that calls
// replaced or deleted. Each entry of undoFolder is a folder whose name contains a time, a random
// part and a size. In the entry, the kept file or folder has the same path as it had in the root.
const undoFolder = ".dragoman-undo"

// prunedMost is the maximum number of entries of an undo folder that one call removes to make room
// on a full disk.
const prunedMost = 8

// treeMost is the maximum number of entries, on all levels, of a folder that a call copies, or
// deletes with undo.
const treeMost = 100_000

// Undo limits what an undo folder keeps. To stay within the limits, the server removes the oldest
// entries first.
type Undo struct {
	Size    int64         // the maximum size of all entries in bytes; zero turns undo off
	Entries int           // the maximum number of entries; zero means 1000
	Age     time.Duration // the maximum age of an entry; zero means no limit
}

// undone tells a client where a replaced or deleted file or folder is now.
type undone struct {
	Path string `json:"path" jsonschema:"Where the former file or folder is now."`
	How  string `json:"how" jsonschema:"How to bring it back."`
}

// isUndo reports whether name, an entry of a root, is the undo folder. It ignores case, because
// some file systems do.
func isUndo(name string) bool { return strings.EqualFold(name, undoFolder) }

// inUndo reports whether p is the undo folder or a place in it.
func (p place) inUndo() bool {
	first, _, _ := strings.Cut(p.rel, "/")
	return isUndo(first)
}

// notUndo returns an error if a place is the undo folder or is in it.
func notUndo(at place) error {
	if at.inUndo() {
		return refuse("use another path; to bring a file back, pass its path in the undo folder to move_file as source", "%s is in the undo folder, which is only for files that calls replaced or deleted", quote(at.name))
	}
	return nil
}

// keep is a new entry of the undo folder.
type keep struct {
	at    place // the place of the kept file or folder
	entry string
}

// newKeep makes room for size bytes in the undo folder, and creates an entry for a file or folder.
// It returns nil if undo is off, or if the file or folder is already in the undo folder. The caller
// must hold root.changing.
func (s *Server) newKeep(at place, size int64) (*keep, error) {
	if s.o.Undo.Size <= 0 || at.inUndo() {
		return nil, nil
	}
	if size > s.o.Undo.Size {
		return nil, refuse("set permanent to true to change it without undo, or start the server with a larger --undo-size",
			"%s has %d bytes, and the undo folder keeps at most %d", quote(at.name), size, s.o.Undo.Size)
	}
	entry := path.Join(undoFolder, s.now().UTC().Format("20060102-150405.000")+"-"+strings.ToLower(rand.Text()[:6])+"-"+strconv.FormatInt(size, 10))
	rel := path.Join(entry, at.rel)
	k := &keep{at: place{root: at.root, rel: rel, name: s.display(at.root, rel)}, entry: entry}
	for tries := 0; ; tries++ {
		err := s.makeEntry(at.root, path.Dir(rel), size)
		if err == nil {
			return k, nil
		}
		k.drop()
		if !isFull(err) {
			return nil, s.failed("keep", at, err)
		}
		if tries == prunedMost || !s.removeOldest(at.root) {
			return nil, refuse("free space on the disk, or set permanent to true in delete_file or write_file to change it without undo",
				"the disk is full, so %s cannot be kept in the undo folder, and the server did not change it", quote(at.name))
		}
	}
}

// makeEntry makes room for size bytes in the undo folder, and creates a new entry. folder is the
// folder in this entry that will contain the kept file or folder.
func (s *Server) makeEntry(r *root, folder string, size int64) error {
	if err := s.openUndo(r); err != nil {
		return err
	}
	if err := s.prune(r, size); err != nil {
		return err
	}
	if s.keeping != nil {
		if err := s.keeping(); err != nil {
			return err
		}
	}
	return r.dir.MkdirAll(filepath.FromSlash(folder), 0o700)
}

// removeOldest removes the oldest entry of the undo folder. It reports whether it removed an entry.
func (s *Server) removeOldest(r *root) bool {
	dir, err := r.dir.OpenRoot(undoFolder + "/.")
	if err != nil {
		return false
	}
	defer func() { _ = dir.Close() }()
	names, _, err := keptEntries(dir)
	return err == nil && len(names) > 0 && dir.RemoveAll(names[0]) == nil
}

// keptEntries returns the names of the entries of the undo folder, the oldest first, and their
// total size in bytes.
func keptEntries(dir *os.Root) (names []string, size int64, err error) {
	err = eachName(dir, func(group []string) error {
		for _, n := range group {
			if _, bytes, ok := keptEntry(n); ok {
				names = append(names, n)
				size += bytes
			}
		}
		return nil
	})
	slices.Sort(names) // each name begins with the time of the entry
	return names, size, err
}

// openUndo creates the undo folder of a root, unless it exists already. A .gitignore file in it
// makes Git ignore the folder.
func (s *Server) openUndo(r *root) error {
	err := r.dir.Mkdir(undoFolder, 0o700)
	if errors.Is(err, fs.ErrExist) {
		fi, err := r.dir.Lstat(undoFolder)
		if err == nil && !fi.IsDir() {
			return refuse("move it away, or start the server with --undo-size 0", "%s is not a folder, so nothing can be kept there", undoFolder)
		}
		return err
	}
	if err != nil {
		return err
	}
	return r.dir.WriteFile(undoFolder+"/.gitignore", []byte("*\n"), 0o600)
}

// prune removes entries that are too old, and then the oldest entries until another entry of size
// bytes fits.
func (s *Server) prune(r *root, size int64) error {
	dir, err := r.dir.OpenRoot(undoFolder + "/.")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	names, kept, err := keptEntries(dir)
	if err != nil {
		return err
	}
	total := kept + size
	most := s.o.Undo.Entries
	if most == 0 {
		most = 1000
	}
	for i, n := range names {
		at, size, _ := keptEntry(n)
		old := s.o.Undo.Age > 0 && s.now().Sub(at) > s.o.Undo.Age
		if !old && total <= s.o.Undo.Size && len(names)-i < most {
			break
		}
		if err := dir.RemoveAll(n); err != nil {
			return err
		}
		total -= size
	}
	return nil
}

// keptEntry returns the time and the size in the name of an entry. It returns false for names
// that the server did not make.
func keptEntry(name string) (at time.Time, size int64, ok bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 4 {
		return time.Time{}, 0, false
	}
	at, err := time.Parse("20060102-150405.000", parts[0]+"-"+parts[1])
	if err != nil {
		return time.Time{}, 0, false
	}
	size, err = strconv.ParseInt(parts[3], 10, 64)
	return at, size, err == nil && size >= 0
}

// drop removes k from the undo folder. It does nothing if k is nil.
func (k *keep) drop() {
	if k != nil {
		_ = k.at.dir.RemoveAll(filepath.FromSlash(k.entry))
	}
}

// told returns what a client must know about k: its path, and how to move the file or folder back.
// was is the former place of the file or folder. told returns nil if k is nil.
func (k *keep) told(s *Server, was place) *undone {
	if k == nil {
		return nil
	}
	return &undone{Path: k.at.name, How: fmt.Sprintf("Call move_file with source %q, destination %q and overwrite true.", k.at.name, s.display(was.root, was.rel))}
}

// keepCopy adds a file to the undo folder before a rename replaces the file. The file also stays at
// its own path, so that this path is never without a file.
func (s *Server) keepCopy(ctx context.Context, at place, fi fs.FileInfo) (*keep, error) {
	k, err := s.newKeep(at, fi.Size())
	if err != nil || k == nil {
		return nil, err
	}
	if at.dir.Link(filepath.FromSlash(at.rel), filepath.FromSlash(k.at.rel)) == nil {
		return k, nil
	}
	// The file system may not support hard links.
	if _, err := s.copyBytes(ctx, at, k.at); err != nil {
		k.drop()
		return nil, err
	}
	return k, nil
}

// copyBytes copies a regular file to a path that does not exist. It returns the metadata that the
// file had before the copy.
func (s *Server) copyBytes(ctx context.Context, from, to place) (fs.FileInfo, error) {
	in, fi, err := s.regular(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	out, err := to.dir.OpenFile(filepath.FromSlash(to.rel), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, s.failed("copy", to, err)
	}
	err = s.copyTo(ctx, out, in, nil)
	if err == nil {
		err = s.finish(out, fi)
	}
	if e := out.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = to.dir.Remove(filepath.FromSlash(to.rel))
	}
	return fi, s.failed("copy", to, err)
}

// treeSize returns the total size of an entry in bytes, and the number of entries. For a folder,
// both include all entries below the folder.
func treeSize(ctx context.Context, dir *os.Root, name string) (size int64, entries int, err error) {
	fi, err := dir.Lstat(name)
	if err != nil {
		return 0, 0, err
	}
	if !fi.IsDir() {
		return fi.Size(), 1, nil
	}
	sub, err := dir.OpenRoot(name + string(os.PathSeparator) + ".")
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = sub.Close() }()
	entries = 1
	err = eachName(sub, func(names []string) error {
		for _, n := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			b, e, err := treeSize(ctx, sub, n)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			size, entries = size+b, entries+e
			if entries > treeMost {
				return errTooMany
			}
		}
		return nil
	})
	return size, entries, err
}

var errTooMany = errors.New("too many entries")

// change runs f while no other call, of this process or of another one, changes files in the root
// or the folder of p.
func (p place) change(ctx context.Context, f func() error) error {
	return changeAll(ctx, []place{p}, f)
}

// changeAll does the same as change for several places. It locks their roots in the order of their
// numbers, so that two calls cannot wait for each other.
func changeAll(ctx context.Context, places []place, f func() error) error {
	roots := make([]*root, 0, len(places))
	for _, p := range places {
		roots = append(roots, p.root)
	}
	slices.SortFunc(roots, func(a, b *root) int { return a.number - b.number })
	for _, r := range slices.Compact(roots) {
		select {
		case r.changing <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-r.changing }()
	}
	unlock, err := lockFolders(ctx, places)
	if err != nil {
		return err
	}
	defer unlock()
	return f()
}

// copyTo copies in to out in steps, so that a call can be cancelled. After each step, copyTo calls
// done with the number of bytes in this step, unless done is nil.
func (s *Server) copyTo(ctx context.Context, out io.Writer, in io.Reader, done func(int64)) error {
	const step = 8 << 20
	if s.filling != nil {
		out = s.filling(out)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(out, in, step)
		if done != nil {
			done(n)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// finish gives f the permissions of like, unless like is nil. It also syncs f, so that the content
// of f survives a crash.
func (s *Server) finish(f *os.File, like fs.FileInfo) error {
	if like != nil {
		if err := f.Chmod(like.Mode().Perm()); err != nil {
			return err
		}
	}
	if s.volatile {
		return nil
	}
	return f.Sync()
}

// validName returns an error if at.rel is not valid UTF-8, because no client could send this path.
func validName(at place) error {
	if !utf8.ValidString(at.rel) {
		return refuse("use another name", "%s is not valid UTF-8", quote(at.name))
	}
	return nil
}
