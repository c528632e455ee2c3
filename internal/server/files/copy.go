package files

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	Skipped     int     `json:"skipped,omitempty" jsonschema:"How many devices, pipes and sockets were not copied."`
	Replaced    *undone `json:"replaced,omitempty"`
}

func (s *Server) addCopy() {
	add(s, tool{
		name: "copy_file", title: "Copy",
		description: "Copy a file, or a folder with everything in it. The copy appears when it is complete. An existing destination is kept unless overwrite is true.",
		writes:      true, destroys: true, confirm: true, undo: true,
		restrictOut: func(p map[string]*jsonschema.Schema) {
			p["replaced"] = schemaOf[undone](nil)
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
	dir, base, err := s.parentFolder(to)
	if err != nil {
		return nil, none, err
	}
	defer func() { _ = dir.Close() }()
	old, err := s.free(dir, base, to, fi, in.Overwrite)
	if err != nil {
		return nil, none, err
	}
	if old == nil && sameEntry(from, to) {
		return nil, none, refuse("choose another destination", "source and destination are the same file")
	}
	d := &duplication{Server: s, ctx: ctx, report: s.progress(ctx, req)}
	replaced, err := d.run(from, fi, to, dir, base, old, in.Overwrite)
	if err != nil {
		return nil, none, err
	}
	return nil, copyOut{
		Source: from.name, Destination: to.name, Type: typeOf(fi.Mode()),
		Entries: d.entries, Bytes: d.bytes, Skipped: d.skipped, Replaced: replaced,
	}, nil
}

// duplicate copies the file or folder at the place from. The copy gets the place to, which may be
// in another root.
func (s *Server) duplicate(ctx context.Context, req *mcp.CallToolRequest, from place, fi fs.FileInfo, to place, dir *os.Root, base string, old fs.FileInfo, overwrite bool) (*undone, error) {
	d := &duplication{Server: s, ctx: ctx, report: s.progress(ctx, req), moving: true}
	return d.run(from, fi, to, dir, base, old, overwrite)
}

// duplication is one copy of a file or a folder.
type duplication struct {
	*Server
	ctx    context.Context
	report func(done int, message string)
	moving bool // the source is removed afterwards, so nothing may be skipped

	entries, skipped int
	bytes            int64
}

func (d *duplication) run(from place, fi fs.FileInfo, to place, dir *os.Root, base string, old fs.FileInfo, overwrite bool) (*undone, error) {
	switch typeOf(fi.Mode()) {
	case typeFolder:
		return nil, d.failed("copy", from, d.folder(from, dir, base))
	case typeSymlink:
		target, err := from.dir.Readlink(filepath.FromSlash(from.rel))
		if err == nil {
			err = dir.Symlink(target, base)
		}
		d.entries++
		return nil, d.failed("copy", from, err)
	}
	in, fi, err := d.regular(from)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	var k *keep
	d.entries++
	_, err = d.replace(d.ctx, change{
		dir: dir, base: base, old: old, like: fi, overwrite: overwrite,
		fill: func(w *os.File) error {
			return d.copyTo(d.ctx, w, in, func(n int64) {
				d.bytes += n
				d.report(int(d.bytes), from.name)
			})
		},
		before: func() error {
			if old == nil {
				return nil
			}
			keep := func() (err error) {
				k, err = d.keepCopy(d.ctx, to, old)
				return err
			}
			if d.moving {
				return keep() // the move already holds changing
			}
			return to.change(d.ctx, keep)
		},
	})
	if err != nil {
		k.drop()
		return nil, d.failed("copy", to, err)
	}
	return k.told(d.Server, to), nil
}

// folder copies a folder into a temporary one, which gets its name when it is complete.
func (d *duplication) folder(from place, dir *os.Root, base string) (err error) {
	source, err := d.Server.folder(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	temp := tempPrefix + rand.Text()
	if err := dir.Mkdir(temp, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = dir.RemoveAll(temp)
		}
	}()
	made, err := dir.OpenRoot(temp + string(os.PathSeparator) + ".")
	if err != nil {
		return err
	}
	err = d.tree(source, made, 0)
	if e := made.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if _, err := dir.Lstat(base); err == nil {
		return fs.ErrExist
	}
	if err := dir.Rename(temp, base); err != nil {
		return err
	}
	d.sync(dir)
	return nil
}

// tree copies the content of a folder.
func (d *duplication) tree(from, to *os.Root, depth int) error {
	if depth > searchDepth {
		return refuse("copy its parts one by one", "the folder is more than %d folders deep", searchDepth)
	}
	fi, err := from.Stat(".")
	if err != nil {
		return err
	}
	d.entries++
	err = eachName(from, func(names []string) error {
		for _, n := range names {
			if depth == 0 && isUndo(n) {
				continue
			}
			if err := d.entry(from, to, n, depth); err != nil {
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

func (d *duplication) entry(from, to *os.Root, name string, depth int) error {
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
		return d.copyBytes(d.ctx, at, place{root: &root{dir: to}, rel: name, name: name})
	case typeFolder:
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
		return d.tree(sub, made, depth+1)
	case typeSymlink:
		target, err := from.Readlink(name)
		if err != nil {
			return err
		}
		d.entries++
		return to.Symlink(target, name)
	}
	if d.moving {
		return refuse("move its parts one by one", "the folder contains %s, which is a device, a pipe or a socket", quote(name))
	}
	d.skipped++
	return nil
}
