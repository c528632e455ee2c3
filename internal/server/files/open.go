package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Types of entries, as they appear in results.
const (
	typeFile    = "file"
	typeFolder  = "folder"
	typeSymlink = "symlink"
	typeOther   = "other" // a device, a pipe or a socket; never opened
)

func typeOf(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return typeFile
	case m.IsDir():
		return typeFolder
	case m&fs.ModeSymlink != 0:
		return typeSymlink
	}
	return typeOther
}

// regular opens a regular file for reading. It opens nothing else, because opening a pipe may block
// and opening a device may have side effects.
func (s *Server) regular(at place) (*os.File, fs.FileInfo, error) {
	rel := filepath.FromSlash(at.rel)
	fi, err := at.dir.Stat(rel)
	if err != nil {
		return nil, nil, s.failed("read", at, err)
	}
	if err := onlyFile(at, fi); err != nil {
		return nil, nil, err
	}
	f, err := at.dir.OpenFile(rel, openFile, 0)
	if err != nil {
		return nil, nil, s.failed("read", at, err)
	}
	if fi, err = f.Stat(); err == nil {
		err = onlyFile(at, fi) // somebody may have replaced the file after the first check
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, s.failed("read", at, err)
	}
	return f, fi, nil
}

// onlyFile returns an error unless fi describes a regular file.
func onlyFile(at place, fi fs.FileInfo) error {
	switch typeOf(fi.Mode()) {
	case typeFile:
		return nil
	case typeFolder:
		return refuse("use the path of a file; list_dir lists a folder", "%s is a folder", quote(at.name))
	}
	if fi.Mode()&fs.ModeSymlink != 0 {
		return refuse("try again", "somebody made %s a symlink during the call", quote(at.name))
	}
	return refuse("use the path of a file", "%s is a device, a pipe or a socket, which this server never opens", quote(at.name))
}

// folder opens a folder. The result keeps referring to this folder, even if another folder later
// gets its path.
func (s *Server) folder(at place) (*os.Root, error) {
	// Because of the dot, the operating system returns an error if the path is not that of a
	// folder. Without the dot, it would open a pipe, and this may block.
	dir, err := at.dir.OpenRoot(filepath.FromSlash(at.rel) + string(filepath.Separator) + ".")
	if err != nil {
		if fi, e := at.dir.Stat(filepath.FromSlash(at.rel)); e == nil && !fi.IsDir() {
			return nil, refuse("use the path of a folder", "%s is not a folder", quote(at.name))
		}
		return nil, s.failed("open", at, err)
	}
	return dir, nil
}

// eachName calls f with groups of the names in dir, in the order of the file system. f may keep the
// names but not the slice.
func eachName(dir *os.Root, f func(names []string) error) error {
	d, err := dir.OpenFile(".", openFolder, 0)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	for {
		names, err := d.Readdirnames(4096)
		if len(names) > 0 {
			if err := f(names); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// version returns a short text that changes when a file changes.
func version(fi fs.FileInfo) string {
	return strconv.FormatInt(fi.ModTime().UnixNano(), 36) + "-" + strconv.FormatInt(fi.Size(), 36) + "-" + strconv.FormatUint(identity(fi), 36)
}
