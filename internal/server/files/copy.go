package files

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

type copyIn struct {
	Source      string `json:"source" jsonschema:"The file or folder to copy."`
	Destination string `json:"destination" jsonschema:"The path of the copy, with its name. Folders that do not exist are made."`
	Overwrite   bool   `json:"overwrite,omitempty" jsonschema:"Replace an existing file. Its content goes to the undo folder."`
}

type copyOut struct {
	Source      string  `json:"source"`
	Destination string  `json:"destination"`
	Type        string  `json:"type"`
	Entries     int     `json:"entries" jsonschema:"How many files and folders were copied."`
	Bytes       int64   `json:"bytes"`
	Skipped     int     `json:"skipped,omitempty" jsonschema:"How many devices, pipes, sockets and undo folders were not copied."`
	Replaced    *undone `json:"replaced,omitempty"`
}

func (s *Server) addCopy() {
	add(s, tool{
		name: "copy_file", title: "Copy", long: true,
		description: "Copy a file, or a folder with everything in it. The copy appears when it is complete. An existing destination is kept unless overwrite is true.",
		writes:      true, destroys: true, confirm: true, undo: true,
		restrictOut: func(p map[string]*jsonschema.Schema) {
			p["replaced"] = tools.Schema[undone](nil)
			p["replaced"].Description = "Where the former file of the destination is now."
		},
	}, s.copy)
}

func (s *Server) copy(ctx context.Context, req *mcp.CallToolRequest, in copyIn) (*mcp.CallToolResult, copyOut, error) {
	var none copyOut
	from, fi, to, err := s.pair(in.Source, in.Destination, true)
	if err != nil {
		return nil, none, err
	}
	d := &duplication{Server: s, ctx: ctx, report: s.progress(ctx, req), root: from.rel == "."}
	var replaced *undone
	err = s.inParent(to, func(dir *os.Root, base string) error {
		at := slot{to, dir, base, in.Overwrite}
		old, err := s.free(at, fi) // check before the slow copy; install checks again
		if err != nil {
			return err
		}
		temp, err := d.make(from, fi, dir, old)
		if err != nil {
			return s.failed("copy", from, err)
		}
		err = to.change(ctx, func() (err error) {
			replaced, err = s.install(ctx, temp, fi, at)
			return err
		})
		if err != nil {
			_ = dir.RemoveAll(temp)
		}
		return s.failed("copy", to, err)
	})
	if err != nil {
		return nil, none, err
	}
	return nil, copyOut{
		Source: from.name, Destination: to.name, Type: typeOf(fi.Mode()),
		Entries: d.entries, Bytes: d.bytes, Skipped: d.skipped, Replaced: replaced,
	}, nil
}

// install renames temp, a temporary copy of source, to the name of the slot. If a file with this name exists,
// install first saves the file in the undo folder. The caller holds root.changing.
func (s *Server) install(ctx context.Context, temp string, source fs.FileInfo, to slot) (*undone, error) {
	old, err := s.free(to, source)
	if err != nil {
		return nil, err
	}
	var k *keep
	if old != nil {
		if k, err = s.keepCopy(ctx, to.at, old); err != nil {
			return nil, err
		}
	}
	if err := settle(to.dir, temp, to.base, old != nil); err != nil {
		k.drop()
		return nil, err
	}
	s.sync(to.dir)
	return k.told(s, to.at), nil
}

// duplication is one operation that copies a file or a folder.
type duplication struct {
	*Server
	ctx    context.Context
	report func(done int, message string)
	moving bool // for a move: the source is removed after the copy, so the copy must not skip an entry
	root   bool // the source is a whole root; its undo folder is not copied

	entries, skipped int
	bytes            int64
	made             fs.FileInfo // the new folder
	copied           []copied    // for a move: the copied entries, each folder before its content
}

// copied is one entry that a move copied, with its state right before the copy.
type copied struct {
	rel  string // the path relative to the source; "." is the source itself
	mark mark
}

// make copies a file, a folder or a symlink to a new temporary name in dir. old is the file that
// the copy will replace, or nil.
func (d *duplication) make(from place, fi fs.FileInfo, dir *os.Root, old fs.FileInfo) (temp string, err error) {
	switch typeOf(fi.Mode()) {
	case typeFolder:
		return d.folder(from, dir)
	case typeSymlink:
		d.entries++
		d.record(".", fi)
		target, err := from.dir.Readlink(filepath.FromSlash(from.rel))
		if err != nil {
			return "", err
		}
		temp = tempPrefix + rand.Text()
		return temp, dir.Symlink(target, temp)
	}
	in, fi, err := d.regular(from)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	d.entries++
	d.record(".", fi)
	temp, _, err = d.temporary(change{
		dir: dir, old: old, like: fi,
		fill: func(w *os.File) error {
			return d.copyTo(d.ctx, w, in, func(n int64) {
				d.bytes += n
				d.report(int(d.bytes), from.name)
			})
		},
	})
	return temp, err
}

// record adds an entry to d.copied if the copy is part of a move. fi is the metadata that the entry
// had right before the copy.
func (d *duplication) record(rel string, fi fs.FileInfo) {
	if d.moving {
		d.copied = append(d.copied, copied{rel: rel, mark: markOf(fi)})
	}
}

// folder copies a folder into a new temporary folder in dir.
func (d *duplication) folder(from place, dir *os.Root) (_ string, err error) {
	source, err := d.Server.folder(from)
	if err != nil {
		return "", err
	}
	defer func() { _ = source.Close() }()
	temp := tempPrefix + rand.Text()
	if err := dir.Mkdir(temp, 0o700); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = dir.RemoveAll(temp)
		}
	}()
	made, err := dir.OpenRoot(temp + string(os.PathSeparator) + ".")
	if err != nil {
		return "", err
	}
	if d.made, err = made.Stat("."); err == nil {
		err = d.tree(source, made, ".", 0)
	}
	if e := made.Close(); err == nil {
		err = e
	}
	return temp, err
}

// tree copies the content of one folder into another folder, which exists already. rel is the path
// of the first folder relative to the source.
func (d *duplication) tree(from, to *os.Root, rel string, depth int) error {
	if depth > searchDepth {
		return refuse("copy its parts one by one", "the folder is more than %d folders deep", searchDepth)
	}
	fi, err := from.Stat(".")
	if err != nil {
		return err
	}
	d.entries++
	d.record(rel, fi)
	err = eachName(from, func(names []string) error {
		for _, n := range names {
			switch {
			case d.root && depth == 0 && isUndo(n):
				d.skipped++
				continue
			case strings.HasPrefix(n, tempPrefix) && !d.isMade(from, n):
				continue // a temporary file or folder of another call
			}
			if err := d.entry(from, to, n, path.Join(rel, n), depth); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	d.sync(to)
	return to.Chmod(".", fi.Mode().Perm())
}

func (d *duplication) entry(from, to *os.Root, name, rel string, depth int) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if d.entries >= treeMost {
		return refuse("copy its parts one by one", "the folder has more than %d entries", treeMost)
	}
	d.report(int(d.bytes), name)
	fi, err := from.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the entry was deleted meanwhile
	}
	if err != nil {
		return err
	}
	switch typeOf(fi.Mode()) {
	case typeFile:
		d.entries++
		at := place{root: &root{dir: from}, rel: name, name: name}
		d.bytes += fi.Size()
		fi, err := d.copyBytes(d.ctx, at, place{root: &root{dir: to}, rel: name, name: name})
		if err == nil {
			d.record(rel, fi)
		}
		return err
	case typeFolder:
		if os.SameFile(d.made, fi) {
			return refuse("choose a destination outside the source", "the destination is inside the source")
		}
		sub, err := from.OpenRoot(name + string(os.PathSeparator) + ".")
		if err != nil {
			return err
		}
		defer func() { _ = sub.Close() }()
		if err := to.Mkdir(name, 0o700); err != nil {
			return err
		}
		made, err := to.OpenRoot(name + string(os.PathSeparator) + ".")
		if err != nil {
			return err
		}
		defer func() { _ = made.Close() }()
		return d.tree(sub, made, rel, depth+1)
	case typeSymlink:
		target, err := from.Readlink(name)
		if err != nil {
			return err
		}
		d.entries++
		d.record(rel, fi)
		return to.Symlink(target, name)
	}
	if d.moving {
		return refuse("move its parts one by one", "the folder contains %s, which is a device, a pipe or a socket", quote(name))
	}
	d.skipped++
	return nil
}

// isMade reports whether name in dir is the folder that this duplication creates.
func (d *duplication) isMade(dir *os.Root, name string) bool {
	fi, err := dir.Lstat(name)
	return err == nil && os.SameFile(d.made, fi)
}
