package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type moveIn struct {
	Source      string `json:"source" jsonschema:"The file, folder or symlink to move. Paths in the undo folder are allowed."`
	Destination string `json:"destination" jsonschema:"The new path, with the new name. Folders that do not exist are made."`
	Overwrite   bool   `json:"overwrite,omitempty" jsonschema:"Replace an existing file. Its content goes to the undo folder."`
}

type moveOut struct {
	Source      string  `json:"source"`
	Destination string  `json:"destination"`
	Type        string  `json:"type"`
	Undo        string  `json:"undo" jsonschema:"How to move it back."`
	Replaced    *undone `json:"replaced,omitempty"`
}

func (s *Server) addMove() {
	add(s, tool{
		name: "move_file", title: "Move or rename",
		description: "Move or rename a file, a folder or a symlink. An existing destination is kept unless overwrite is true.",
		writes:      true, destroys: true, confirm: true, undo: true,
		restrictOut: func(p map[string]*jsonschema.Schema) {
			p["replaced"] = schemaOf[undone](nil)
			p["replaced"].Description = "Where the former file of the destination is now."
		},
	}, s.move)
}

func (s *Server) move(ctx context.Context, req *mcp.CallToolRequest, in moveIn) (*mcp.CallToolResult, moveOut, error) {
	var none moveOut
	from, fi, to, err := s.pair(in.Source, in.Destination, false)
	if err != nil {
		return nil, none, err
	}
	out := moveOut{
		Source: from.name, Destination: to.name, Type: typeOf(fi.Mode()),
		Undo: fmt.Sprintf("Call move_file with source %q and destination %q.", to.name, from.name),
	}
	dir, base, err := s.parentFolder(to)
	if err != nil {
		return nil, none, err
	}
	defer func() { _ = dir.Close() }()
	err = to.change(ctx, func() error {
		old, err := s.free(dir, base, to, fi, in.Overwrite)
		if err != nil {
			return err
		}
		if from.root == to.root {
			var k *keep
			if old != nil {
				if k, err = s.keepCopy(ctx, to, old); err != nil {
					return err
				}
			}
			err = settle(to.dir, filepath.FromSlash(from.rel), filepath.FromSlash(to.rel), old != nil || fi.IsDir() || from.rel == to.rel || sameEntry(from, to))
			if err == nil {
				out.Replaced = k.told(s, to)
				s.sync(dir)
				s.syncParent(from)
				return nil
			}
			k.drop()
			if !isCrossDevice(err) {
				return s.failed("move", from, err)
			}
		}
		// The two are on different file systems: copy, then remove.
		if out.Replaced, err = s.duplicate(ctx, req, from, fi, to, dir, base, old, in.Overwrite); err != nil {
			return err
		}
		if err := from.dir.RemoveAll(filepath.FromSlash(from.rel)); err != nil {
			return s.failed("remove", from, err)
		}
		s.syncParent(from)
		return nil
	})
	if err != nil {
		return nil, none, err
	}
	from.tidy()
	return nil, out, nil
}

// sameEntry reports whether two paths name one entry, as on file systems that ignore case.
func sameEntry(a, b place) bool {
	x, err1 := a.dir.Lstat(filepath.FromSlash(a.rel))
	y, err2 := b.dir.Lstat(filepath.FromSlash(b.rel))
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// syncParent syncs the folder of a place, so that its entries survive a crash.
func (s *Server) syncParent(at place) {
	parent, _ := at.parent(s)
	if dir, err := s.folder(parent); err == nil {
		s.sync(dir)
		_ = dir.Close()
	}
}

// tidy removes empty folders from an entry of the undo folder.
func (p place) tidy() {
	if !p.inUndo() {
		return
	}
	for dir := path.Dir(p.rel); strings.Contains(dir, "/"); dir = path.Dir(dir) {
		if p.dir.Remove(filepath.FromSlash(dir)) != nil {
			return
		}
	}
}

// pair returns the two places of a call that moves or copies, and the metadata of the source.
// If follow is true and the source is a symlink, the source is the target of the symlink.
func (s *Server) pair(source, destination string, follow bool) (from place, fi fs.FileInfo, to place, err error) {
	fail := func(err error) (place, fs.FileInfo, place, error) { return place{}, nil, place{}, err }
	if from, err = s.target(source); err != nil {
		return fail(err)
	}
	if to, err = s.target(destination); err != nil {
		return fail(err)
	}
	if from, err = s.resolve(from, follow); err != nil {
		return fail(err)
	}
	if to, err = s.resolve(to, false); err != nil {
		return fail(err)
	}
	if err = notUndo(to); err != nil {
		return fail(err)
	}
	if fi, err = from.dir.Lstat(filepath.FromSlash(from.rel)); err != nil {
		return fail(s.failed("read", from, err))
	}
	if typeOf(fi.Mode()) == typeOther {
		return fail(onlyFile(from, fi))
	}
	if from.root == to.root {
		_, inside := below("/"+from.rel, "/"+to.rel)
		if inside && fi.IsDir() && from.rel != to.rel {
			return fail(refuse("choose a destination outside the source", "%s is inside %s", quote(to.name), quote(from.name)))
		}
		if from.rel == to.rel {
			return fail(refuse("choose another destination", "source and destination are both %s", quote(to.name)))
		}
	}
	return from, fi, to, nil
}

// free checks that the destination may be replaced by the source. It returns the file that already
// exists at the destination, or nil.
func (s *Server) free(dir *os.Root, base string, to place, source fs.FileInfo, overwrite bool) (fs.FileInfo, error) {
	old, err := dir.Lstat(base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, s.failed("write", to, err)
	case os.SameFile(old, source) && !old.Mode().IsRegular():
		return nil, nil // another spelling of the same name
	case os.SameFile(old, source):
		return nil, nil
	case old.IsDir():
		return nil, refuse("give the whole new path, such as "+to.name+"/NAME", "%s is a folder", quote(to.name))
	case !overwrite:
		return nil, refuse("choose another destination, or set overwrite to true", "%s exists already", quote(to.name))
	case source.IsDir():
		return nil, refuse("choose another destination", "%s is a file, and a folder cannot replace it", quote(to.name))
	case !old.Mode().IsRegular():
		return nil, refuse("delete it first", "%s is not a regular file, so it is not replaced", quote(to.name))
	}
	return old, nil
}
