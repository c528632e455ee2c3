package clientfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/folderlock"
)

// Load reads a file. It returns nil and no error if the file does not exist. It refuses files
// that are not regular, and files larger than MaxFile.
func Load(path string) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, &SyntaxError{File: path, Text: "not a regular file"}
	case st.Size() > MaxFile:
		return nil, &SyntaxError{File: path, Text: fmt.Sprintf("the file is larger than %d MiB", MaxFile>>20)}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if b == nil && err == nil {
		b = []byte{}
	}
	return b, err
}

const backupMark = ".dragoman-backup-"

// Change is a change of one file. Write makes the change.
type Change struct {
	Path   string
	Before []byte // the content when the file was read; nil if it did not exist
	After  []byte // the new content; nil removes the file
	// Private makes Write set the mode of the file to 0600. If Private is false, an existing file
	// keeps its mode, and a new file gets 0600.
	Private bool
	// Backup makes Write keep a copy of Before beside the file.
	Backup bool
}

// lockWait is the maximum time that Write waits until other processes of Dragoman have made their
// changes in the same folder.
const lockWait = 10 * time.Second

// ErrChanged means that another program changed the file at the same time. The caller may try again.
var ErrChanged = errors.New("another program changed the file at the same time; try again")

// Write makes the change. It replaces the file in one step, so no reader sees a partial file. If
// the path is a symbolic link, it replaces the link's target. Write returns the path of the backup,
// or "" if there is no backup. It fails with ErrChanged if the content of the file is no longer
// Before, and if the path is a symbolic link whose target does not exist, because the user meant some
// other file.
//
// The folder of the file is locked meanwhile: if several processes of Dragoman change one file at the
// same time, each sees what the others wrote, or gets ErrChanged.
func (c Change) Write(now time.Time) (backup string, err error) {
	path := c.Path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	} else if st, e := os.Lstat(path); e == nil && st.Mode()&fs.ModeSymlink != 0 {
		return "", fmt.Errorf("%s is a symbolic link that leads to no file: create its target, or remove the link", path)
	}
	mode := fs.FileMode(0o600)
	st, err := os.Stat(path)
	switch {
	case err == nil && !c.Private:
		mode = st.Mode().Perm()
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := c.unchanged(path); err != nil {
		return "", err
	}
	if c.Backup && c.Before != nil {
		if backup, err = keep(path, c.Before, now); err != nil {
			return "", fmt.Errorf("cannot make a backup: %w", err)
		}
	}
	if c.After == nil {
		return backup, os.Remove(path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return backup, err
	}
	defer os.Remove(f.Name()) // has no effect after the file has been renamed
	_, err = f.Write(c.After)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && st != nil {
		sameOwner(f, st)
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = c.unchanged(path)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return backup, err
}

// lock locks a folder for a change.
func lock(folder string) (unlock func(), err error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	busy := fmt.Errorf("another Dragoman has been changing files in %s for %s; try again", folder, lockWait)
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockWait, busy)
	defer cancel()
	unlock, err = folderlock.Lock(ctx, dir)
	if err != nil && !errors.Is(err, busy) {
		err = fmt.Errorf("%s cannot be locked against other processes, so nothing was changed: %w", folder, err)
	}
	return unlock, err
}

// unchanged returns ErrChanged if the content of the file is no longer Before.
func (c Change) unchanged(path string) error {
	b, err := Load(path)
	if err != nil {
		return err
	}
	if (b == nil) != (c.Before == nil) || !bytes.Equal(b, c.Before) {
		return ErrChanged
	}
	return nil
}

// keep writes a backup with a name that is not in use. Backups may hold credentials, so
// only their owner may read them.
func keep(path string, b []byte, now time.Time) (string, error) {
	name := path + backupMark + now.Format("20060102-150405")
	for n := 1; ; n++ {
		try := name
		if n > 1 {
			try = fmt.Sprintf("%s-%d", name, n)
		}
		f, err := os.OpenFile(try, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) && n < 1000 {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(b)
		if e := f.Close(); err == nil {
			err = e
		}
		return try, err
	}
}

// maxBackups is the maximum number of backups that Backups reads.
const maxBackups = 50

// Backups returns the contents of the backups of a file, the newest first.
func Backups(path string) [][]byte {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasPrefix(e.Name(), filepath.Base(path)+backupMark) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	var out [][]byte
	for _, n := range names[:min(len(names), maxBackups)] {
		if b, err := Load(filepath.Join(filepath.Dir(path), n)); err == nil && b != nil {
			out = append(out, b)
		}
	}
	return out
}
