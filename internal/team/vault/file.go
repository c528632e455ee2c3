package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/folderlock"
)

// lockWait is how long we wait for another process that writes a key.
const lockWait = 10 * time.Second

const keyFileHead = `# Whoever has a key can open the secrets in Dragoman's database. Keep a copy of this file apart from
# the database: without it, they are lost. The first key is the newest; the others open old backups.
`

// keyFile is a file with the keys that only this user can read. A symbolic link is followed, since
// whoever mounts secrets often makes links, but what it leads to has to be private all the same.
type keyFile struct {
	path string
	// step, if not nil, is called before each step of a write. An error ends the write there.
	step func(name string) error
}

func (f *keyFile) String() string { return f.path }

func (f *keyFile) make() string { return "" }

func (f *keyFile) read(context.Context) (string, error) {
	file, err := os.OpenFile(f.path, os.O_RDONLY|nonblock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, e := os.Lstat(f.path); e == nil {
			return "", fail("create what it leads to, or remove the link", nil, "the vault's key %s is a link that leads to no file", f.path)
		}
		return "", fmt.Errorf("there is no file %s: %w", f.path, fs.ErrNotExist)
	}
	if err != nil {
		return "", explainFile(err, "read", f.path)
	}
	defer file.Close()
	st, err := file.Stat() // of the file that is open, not of the one that has this name by now
	if err == nil {
		err = f.private(st)
	}
	if err != nil {
		return "", explainFile(err, "read", f.path)
	}
	b, err := io.ReadAll(io.LimitReader(file, mostText+1))
	if err != nil {
		return "", explainFile(err, "read", f.path)
	}
	return string(b), nil
}

// private returns an error if others could have read the open file, or can put another one there.
func (f *keyFile) private(st fs.FileInfo) error {
	unix := runtime.GOOS != "windows"
	switch {
	case !st.Mode().IsRegular():
		return fail("save the key as a regular file", nil, "the vault's key %s is not a regular file", f.path)
	case unix && st.Mode().Perm()&0o077 != 0:
		return fail("run `chmod 600 "+f.path+"`", fs.ErrPermission, "other users of this machine can read the vault's key %s", f.path)
	case !ownedBy(st, os.Geteuid()):
		return fail("change its owner with chown to the user that dragoman runs as", fs.ErrPermission, "the vault's key %s belongs to another user", f.path)
	}
	return f.privateFolder()
}

func (f *keyFile) privateFolder() error {
	folder := filepath.Dir(f.target())
	dir, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" && dir.Mode().Perm()&0o022 != 0 {
		return fail("run `chmod go-w "+folder+"`", fs.ErrPermission, "other users of this machine can replace the vault's key %s", f.path)
	}
	return nil
}

// target returns the path without links, if there is a file.
func (f *keyFile) target() string {
	if target, err := filepath.EvalSymlinks(f.path); err == nil {
		return target
	}
	return f.path
}

func (f *keyFile) lock(ctx context.Context) (func(), error) {
	folder := filepath.Dir(f.target())
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, explainFile(err, "write", f.path)
	}
	return lockFolder(ctx, folder)
}

func lockFolder(ctx context.Context, folder string) (func(), error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, explainFile(err, "write", folder)
	}
	busy := fail("try again; if the error continues, end the other process", nil, "another process has been changing the folder %s for %s", folder, lockWait)
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, busy)
	defer cancel()
	unlock, err := folderlock.Lock(ctx, dir)
	if err != nil && !errors.Is(err, busy) && context.Cause(ctx) == nil {
		err = fail("use another folder", err, "the folder %s cannot be locked against other processes: %v", folder, err)
	}
	return unlock, err
}

// write replaces the file in one step. A process that is killed meanwhile leaves the old file, and
// perhaps a file NAME.part, which the next write replaces.
func (f *keyFile) write(_ context.Context, text string) error {
	target := f.target()
	part := target + ".part"
	err := f.replace(target, part, keyFileHead+text)
	if err != nil {
		_ = os.Remove(part)
		return explainFile(err, "write", f.path)
	}
	return nil
}

func (f *keyFile) replace(target, part, text string) error {
	step := func(name string) error {
		if f.step == nil {
			return nil
		}
		return f.step(name)
	}
	if err := f.privateFolder(); err != nil {
		return err
	}
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return err
	}
	if err := step("create"); err != nil {
		return err
	}
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	for _, do := range []struct {
		name string
		f    func() error
	}{
		{"write", func() error { _, err := file.WriteString(text); return err }},
		{"sync", file.Sync},
	} {
		if err = step(do.name); err == nil {
			err = do.f()
		}
		if err != nil {
			break
		}
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := step("rename"); err != nil {
		return err
	}
	if err := os.Rename(part, target); err != nil {
		return err
	}
	if err := step("sync folder"); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(target))
}

// syncFolder makes a renamed file last. Windows can't sync folders, and needs no help.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
