package vault

import (
	"cmp"
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
	what string // what errors call it; "" means vaultKey
	// step, if not nil, is called before each step of a write. An error ends the write there.
	step func(name string) error
}

// vaultKey is what errors call the file of the vault.
const vaultKey = "the vault's key"

func (f *keyFile) String() string { return f.path }

// name is the subject of sentences about the file.
func (f *keyFile) name() string { return cmp.Or(f.what, vaultKey) + " " + f.path }

func (f *keyFile) make() string { return "" }

func (f *keyFile) read(context.Context) (string, error) {
	file, err := os.OpenFile(f.path, os.O_RDONLY|nonblock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, e := os.Lstat(f.path); e == nil {
			return "", fail("create what it leads to, or remove the link", nil, "%s is a link that leads to no file", f.name())
		}
		return "", fmt.Errorf("there is no file %s: %w", f.path, fs.ErrNotExist)
	}
	if err != nil {
		return "", explainFile(err, "read", f.name())
	}
	defer file.Close()
	st, err := file.Stat() // of the file that is open, not of the one that has this name by now
	if err == nil {
		err = f.private(st)
	}
	if err != nil {
		return "", explainFile(err, "read", f.name())
	}
	b, err := io.ReadAll(io.LimitReader(file, mostText+1))
	if err != nil {
		return "", explainFile(err, "read", f.name())
	}
	return string(b), nil
}

// private returns an error if others could have read the open file, or can put another one there.
func (f *keyFile) private(st fs.FileInfo) error {
	unix := runtime.GOOS != "windows"
	switch {
	case !st.Mode().IsRegular():
		return fail("save the key as a regular file", nil, "%s is not a regular file", f.name())
	case unix && st.Mode().Perm()&0o077 != 0:
		return fail("run `chmod 600 "+f.path+"`", fs.ErrPermission, "other users of this machine can read %s", f.name())
	case !ownedBy(st, os.Geteuid()):
		return fail("change its owner with chown to the user that dragoman runs as", fs.ErrPermission, "%s belongs to another user", f.name())
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
		return fail("run `chmod go-w "+folder+"`", fs.ErrPermission, "other users of this machine can replace %s", f.name())
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
		return nil, explainFile(err, "write", f.name())
	}
	return lockFolder(ctx, folder)
}

func lockFolder(ctx context.Context, folder string) (func(), error) {
	dir, err := os.Open(folder)
	if err != nil {
		return nil, explainFile(err, "write", vaultKey+" "+folder)
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
		return explainFile(err, "write", f.name())
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
