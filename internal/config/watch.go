package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A folder must be quiet for settle before the file is read, because editors
// write one in several steps; but where something else never lets it rest, the
// file is read after patience all the same.
const (
	settle   = 100 * time.Millisecond
	patience = time.Second
)

// Watch calls onChange with the content of the file each time that it has become
// different, and returns when ctx ends (with nil) or when watching fails. The
// content at the start is not reported. A file that vanishes is not reported
// either; when it returns changed, that is. At most MaxFile+1 bytes are read, which
// Parse refuses. Calls do not overlap; Watch waits for the last one.
//
// The folder is watched rather than the file, because editors replace a file and
// the watch would stay with the old one. Where the file is a link, the folder of
// what it leads to is watched as well.
func Watch(ctx context.Context, path string, onChange func([]byte)) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer w.Close()
	if err := w.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	t := target{path: path}
	t.follow(w)
	t.changed() // the baseline; read after the watch began, so that nothing is missed

	timer := time.NewTimer(settle)
	timer.Stop()
	defer timer.Stop()
	var since time.Time // the first event that the file was not read after
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
				return fmt.Errorf("watch %s: the watcher ended", path)
			}
			if e.Op != fsnotify.Chmod {
				stir()
			}
		case err, ok := <-w.Errors:
			if !ok {
				return fmt.Errorf("watch %s: the watcher ended", path)
			}
			if err == fsnotify.ErrEventOverflow {
				stir() // something happened; the hash says whether to us
				continue
			}
			return fmt.Errorf("watch %s: %w", path, err)
		case <-timer.C:
			since = time.Time{}
			t.follow(w)
			if b, ok := t.changed(); ok {
				onChange(b)
			}
		}
	}
}

// target is the file that is watched.
type target struct {
	path string
	real string // the folder of what path leads to, once watched
	hash [sha256.Size]byte
	seen bool // hash is of some content
}

// follow watches the folder to which a link leads. A link that leads nowhere is
// looked at again after the next event.
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
		_ = w.Remove(old) // gone already where the folder was
	}
}

// changed returns the content if it is another than the last time.
func (t *target) changed() ([]byte, bool) {
	b, _, err := read(t.path)
	if err != nil {
		return nil, false
	}
	hash := sha256.Sum256(b)
	if t.seen && hash == t.hash {
		return nil, false
	}
	t.hash, t.seen = hash, true
	return b, true
}
