package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// Editors write a file in several steps. So Dragoman waits until the folder of the file has not
// changed for the duration settle, and then reads the file. If the folder keeps changing, Dragoman
// reads the file after the duration patience.
const (
	settle   = 100 * time.Millisecond
	patience = time.Second
	// lookAgain is how often Watch checks that the folder it watches is still the one on the path. A
	// watch stays with a folder that was moved away, or that a link on the path no longer leads to.
	lookAgain = 2 * time.Second
)

// Watch calls onChange with the file's content each time the content changes. It returns nil
// when ctx ends, or an error if watching fails. The content that loaded was read from is not reported, so
// a change between Load and Watch is; if loaded is nil, the content at the beginning isn't. If the file
// disappears, Watch reports nothing until the file exists again with different content. Watch reads
// at most clientfile.MaxFile+1 bytes, which is more than Parse accepts. Calls to onChange do not
// overlap. Watch returns only after the last call of onChange has returned.
//
// Watch watches the folder, because editors replace files, and a watch on the file would only see
// the old file. If the file is a symbolic link, Watch also watches the folder of the link's target. If
// another folder takes the place of the watched one, Watch notices it within two seconds.
func Watch(ctx context.Context, path string, loaded *Snapshot, onChange func([]byte)) error {
	t := &target{path: path, most: clientfile.MaxFile + 1}
	if loaded != nil && loaded.content != [sha256.Size]byte{} {
		t.hash, t.seen = loaded.content, true
	}
	return watch(ctx, t, onChange)
}

// WatchEnv does the same as Watch for the file of dragoman.envFile. It also calls onChange when the
// mode of the file changes, because ReadEnv checks the mode.
func WatchEnv(ctx context.Context, path string, onChange func()) error {
	return watch(ctx, &target{path: path, most: MaxEnvFile + 1, modes: true}, func([]byte) { onChange() })
}

func watch(ctx context.Context, t *target, onChange func([]byte)) error {
	path := t.path
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", path, err)
	}
	defer w.Close()
	t.replaced() // remember the folder; if another one takes its place before the next line, watchAgain notices
	if err := w.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("cannot watch %s: %w", path, err)
	}
	t.follow(w)
	known := t.seen
	if b, ok := t.changed(); ok && known { // read the baseline after the watch began, so that no change is missed
		onChange(b)
	}

	timer := time.NewTimer(settle)
	timer.Stop()
	defer timer.Stop()
	folder := time.NewTicker(lookAgain)
	defer folder.Stop()
	var since time.Time // time of the first event since the file was last read; zero if none
	stir := func() {
		if since.IsZero() {
			since = time.Now()
		}
		timer.Reset(min(settle, max(0, patience-time.Since(since))))
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Events:
			if !ok {
				return fmt.Errorf("cannot watch %s: the file watcher stopped", path)
			}
			if e.Op != fsnotify.Chmod || t.modes {
				stir()
			}
		case err, ok := <-w.Errors:
			if !ok {
				return fmt.Errorf("cannot watch %s: the file watcher stopped", path)
			}
			if err == fsnotify.ErrEventOverflow {
				stir() // some events were dropped; the hash shows whether the file has changed
				continue
			}
			return fmt.Errorf("cannot watch %s: %w", path, err)
		case <-folder.C:
			if t.watchAgain(w) {
				stir()
			}
		case <-timer.C:
			since = time.Time{}
			t.follow(w)
			if b, ok := t.changed(); ok {
				onChange(b)
			}
		}
	}
}

// target is the watched file.
type target struct {
	path  string
	most  int64 // the most bytes to read
	modes bool  // whether to report a change of the file's mode
	// folder is the folder of path, nil if it is unknown.
	folder fs.FileInfo
	real   string // the folder of the link's target; "" until Dragoman watches this folder
	hash   [sha256.Size]byte
	mode   fs.FileMode
	seen   bool // whether hash and mode are valid
}

// replaced reports whether another folder than before is on the path of the file.
func (t *target) replaced() bool {
	now, err := os.Stat(filepath.Dir(t.path))
	if err != nil || t.folder != nil && os.SameFile(now, t.folder) {
		return false
	}
	t.folder = now
	return true
}

// watchAgain watches the folder of path anew if another one is there now, and reports whether it did.
func (t *target) watchAgain(w *fsnotify.Watcher) bool {
	if !t.replaced() {
		return false
	}
	_ = w.Remove(filepath.Dir(t.path)) // the watch on the old folder; fails if it is gone
	if w.Add(filepath.Dir(t.path)) != nil {
		t.folder = nil // try again
		return false
	}
	return true
}

// follow watches the folder of a symbolic link's target. If the target does not exist, watch calls
// follow again after the next event.
func (t *target) follow(w *fsnotify.Watcher) {
	real, err := filepath.EvalSymlinks(t.path)
	if err != nil {
		return
	}
	dir, err := filepath.Abs(filepath.Dir(real))
	if err != nil || dir == t.real {
		return
	}
	old := t.real
	if w.Add(dir) != nil {
		return
	}
	t.real = dir
	if own, err := filepath.Abs(filepath.Dir(t.path)); old != "" && old != own && err == nil {
		_ = w.Remove(old) // fails if the folder does not exist any more
	}
}

// changed returns the content of the file, and whether it has changed since the last call. If modes is
// set, a new mode of the file is a change too.
func (t *target) changed() ([]byte, bool) {
	b, mode, err := read(t.path, t.most)
	if err != nil {
		return nil, false
	}
	hash := sha256.Sum256(b)
	if t.seen && hash == t.hash && (mode == t.mode || !t.modes) {
		return nil, false
	}
	t.hash, t.mode, t.seen = hash, mode, true
	return b, true
}
