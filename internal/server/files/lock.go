package files

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/folderlock"
)

// lockWait is the maximum time that a call waits until other processes have made their changes. It
// is longer than the copy of a large file takes.
const lockWait = time.Minute

// errLocked means that another process holds a lock.
var errLocked = errors.New("another process holds the lock")

// lockFolders locks folders for this call, so that other processes that serve them make no changes
// meanwhile. Each client can have a process of its own on the same root, and root.changing is known
// only to one of them. The locks belong to open files: the operating system removes them when the
// process dies, whatever the reason. unlock is not nil if err is nil.
//
// A process that serves a folder of our root knows nothing of our root. Therefore a call locks its
// root and also the folders in which it changes entries. All calls lock folders in the order of
// their paths. If two calls wait for each other nevertheless, for example because a folder is
// mounted twice, the wait ends after lockWait.
func lockFolders(ctx context.Context, changed []place) (unlock func(), err error) {
	var dirs []place
	for _, at := range changed {
		dirs = append(dirs, place{root: at.root, rel: ".", name: at.abs}, place{root: at.root, rel: path.Dir(at.rel), name: path.Dir(at.name)})
	}
	whole := func(p place) string { return filepath.Join(p.real, filepath.FromSlash(p.rel)) }
	slices.SortFunc(dirs, func(a, b place) int { return strings.Compare(whole(a), whole(b)) })
	dirs = slices.CompactFunc(dirs, func(a, b place) bool { return whole(a) == whole(b) })

	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, errLocked)
	defer cancel()
	var locked []func()
	unlock = func() {
		for i := len(locked) - 1; i >= 0; i-- {
			locked[i]()
		}
	}
	for _, at := range dirs {
		one, err := lockFolder(ctx, at)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the change itself says so better
		}
		if err != nil {
			unlock()
			if errors.Is(context.Cause(ctx), errLocked) {
				return nil, refuse("try again; if the error continues, end the other server", "another process has been changing files in %s for %s", quote(at.name), lockWait)
			}
			return nil, err
		}
		locked = append(locked, one)
	}
	return unlock, nil
}

// lockFolder waits for the lock of one folder.
func lockFolder(ctx context.Context, at place) (unlock func(), err error) {
	dir, err := at.dir.OpenFile(filepath.FromSlash(at.rel), openFolder, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err == nil:
		if unlock, err = folderlock.Lock(ctx, dir); err == nil {
			return unlock, nil
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, noLock(at, err)
}

// noLock is the error for a folder that cannot be locked.
func noLock(at place, err error) error {
	return refuse("check the permissions of this folder and of the user's cache directory", "%s cannot be locked against other processes, so nothing was changed: %v", quote(at.name), cause(err))
}
