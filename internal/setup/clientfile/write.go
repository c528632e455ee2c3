package clientfile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// A backup is named after its file, with this mark and the date, and a number if there are several of one second.
const (
	backupMark = ".dragoman-backup-"
	backupDate = "20060102-150405"
)

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
		err = os.Remove(path)
	} else {
		err = c.replace(path, mode, st)
	}
	if err == nil && backup != "" {
		removeBackups(path, backup)
	}
	return backup, err
}

// replace replaces the file, whose owner was that of st, in one step.
func (c Change) replace(path string, mode fs.FileMode, st fs.FileInfo) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
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
	return err
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

// keep writes a backup with a name that is not in use, and that comes after those of the same second. Backups may
// hold credentials, so only their owner may read them.
func keep(path string, b []byte, now time.Time) (string, error) {
	date, n := now.Format(backupDate), 1
	for _, was := range backupsOf(path) {
		if was.date == date {
			n = max(n, was.number+1)
		}
	}
	for most := n + 1000; ; n++ {
		try := path + backupMark + date
		if n > 1 {
			try = fmt.Sprintf("%s-%d", try, n)
		}
		f, err := os.OpenFile(try, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) && n < most {
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

// mostBackups is how many backups of one file there are: the oldest, which usually has the file as it was before
// Dragoman changed it for the first time, and the newest.
const mostBackups = 10

// removeBackups removes backups of a file beyond mostBackups, but never the one that was just made: the clock
// may have been set back. A backup that cannot be removed stays, because the change itself has succeeded.
func removeBackups(path, made string) {
	all := backupsOf(path)
	if len(all) <= mostBackups {
		return
	}
	for _, b := range all[mostBackups-1 : len(all)-1] {
		if b.path != made {
			_ = os.Remove(b.path)
		}
	}
}

// backup is a backup of a file: when it was made, and its number among those of the same second.
type backup struct {
	path, date string
	number     int
}

// backupsOf returns the backups of a file, the newest first. It leaves out what another program or the user may
// have made: files whose names have anything after the date and the number, links and folders.
func backupsOf(path string) (all []backup) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+backupMark)
		if !ok || len(rest) < len(backupDate) || !e.Type().IsRegular() {
			continue
		}
		b := backup{filepath.Join(filepath.Dir(path), e.Name()), rest[:len(backupDate)], 1}
		if more := rest[len(backupDate):]; more != "" {
			b.number, _ = strconv.Atoi(strings.TrimPrefix(more, "-"))
			if b.number < 2 || more != "-"+strconv.Itoa(b.number) {
				continue
			}
		}
		if _, err := time.Parse(backupDate, b.date); err == nil {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b backup) int { return cmp.Or(cmp.Compare(b.date, a.date), b.number-a.number) })
	return all
}

// Backups returns the contents of the backups of a file, the newest first.
func Backups(path string) [][]byte {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	var out [][]byte
	for _, b := range backupsOf(path) {
		if content, err := Load(b.path); err == nil && content != nil {
			out = append(out, content)
		}
	}
	return out
}
