// Package folderlock lets processes take turns at changing files in a folder.
//
// A lock belongs to an open file, so the operating system removes it when the process dies, whatever
// the reason. It binds only those who ask for it: other programs may still change the folder.
// The package holds no state, and its functions are safe for concurrent use. Two locks of one folder
// exclude each other within a process, too.
package folderlock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// errHeld means that somebody else holds the lock.
var errHeld = errors.New("somebody else holds the lock")

// Lock waits for the lock of the folder that is open as dir, until ctx ends. Then it returns the cause
// of ctx. Any other error means that this folder can't be locked. Lock takes dir over: it closes it
// after an error, and unlock closes it otherwise. unlock is not nil if err is nil.
func Lock(ctx context.Context, dir *os.File) (unlock func(), err error) {
	f, err := lockable(dir)
	if err != nil {
		return nil, err
	}
	// Neither flock nor LockFileEx can wait until a context ends, so we try again after a pause.
	pauses := work.Backoff{First: time.Millisecond, Ceiling: 20 * time.Millisecond}
	for {
		err := tryLock(f)
		if errors.Is(err, errHeld) {
			if err = work.Sleep(ctx, pauses.Fail()); err == nil {
				continue
			}
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		return func() { _ = f.Close() }, nil
	}
}

// lockable returns the file that the lock of a folder is attached to. On Unix, this is the folder
// itself, so that processes find the same lock whatever their environment is. Windows cannot lock
// folders, and some network file systems cannot either. There, an empty file in the user's cache
// directory has the lock. Its name contains the identity of the folder.
func lockable(dir *os.File) (*os.File, error) {
	if canLock(dir) {
		return dir, nil
	}
	defer func() { _ = dir.Close() }()
	id, err := folderID(dir)
	if err != nil {
		return nil, err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	base = filepath.Join(base, "dragoman", "locks")
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(base, id), os.O_RDWR|os.O_CREATE, 0o600)
}
