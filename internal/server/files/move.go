package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/tools"
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

	Remaining      []string `json:"remaining,omitempty" jsonschema:"What changed during a move to another root or disk and so stayed in the source. The destination has no copy of it, or an older one."`
	RemainingCount int      `json:"remaining_count,omitempty" jsonschema:"How many entries stayed; remaining has the first 100."`
}

func (s *Server) addMove() {
	add(s, tool{
		name: "move_file", title: "Move or rename", long: true,
		description: "Move or rename a file, a folder or a symlink. An existing destination is kept unless overwrite is true.",
		writes:      true, destroys: true, confirm: true, undo: true,
		restrictOut: func(p map[string]*jsonschema.Schema) {
			p["replaced"] = tools.Schema[undone](nil)
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
	err = s.inParent(to, func(dir *os.Root, base string) error {
		at := slot{to, dir, base, in.Overwrite}
		if from.root == to.root && !s.apart {
			err := changeAll(ctx, []place{from, to}, func() (err error) {
				out.Replaced, err = s.rename(ctx, from, at)
				return err
			})
			if err == nil || !isCrossDevice(err) {
				return s.failed("move", from, err)
			}
		}
		t := &transfer{Server: s, from: from, to: at}
		err := t.run(ctx, req, fi)
		out.Replaced, out.Remaining, out.RemainingCount = t.replaced, t.remaining, t.remainingCount
		return err
	})
	if err != nil {
		return nil, none, err
	}
	if out.RemainingCount > 0 {
		out.Undo = fmt.Sprintf("Move the entries of %q back to %q one by one.", to.name, from.name)
	}
	from.tidy()
	return nil, out, nil
}

// slot is where a moved or copied entry goes: the name base in the folder dir.
type slot struct {
	at        place
	dir       *os.Root
	base      string
	overwrite bool // an existing file may be replaced
}

// rename moves an entry within one file system, to a slot. The caller holds
// root.changing.
func (s *Server) rename(ctx context.Context, from place, to slot) (*undone, error) {
	source, target := filepath.FromSlash(from.rel), filepath.FromSlash(to.at.rel)
	fi, err := from.dir.Lstat(source)
	if err != nil {
		return nil, err
	}
	var old fs.FileInfo
	respelled := s.respelled(from, fi, to.dir, to.base)
	if !respelled {
		if old, err = s.free(to, fi); err != nil {
			return nil, err
		}
	}
	var k *keep
	if old != nil {
		if k, err = s.keepCopy(ctx, to.at, old); err != nil {
			return nil, err
		}
	}
	if err := settle(to.at.dir, source, target, old != nil || respelled || fi.IsDir()); err != nil {
		k.drop()
		return nil, err
	}
	s.sync(to.dir)
	s.syncParent(from)
	return k.told(s, to.at), nil
}

// respelled reports whether the name base in dir is another spelling of the source's own name. File
// systems that ignore case accept several spellings of one name. A hard link is a different name,
// not another spelling.
func (s *Server) respelled(from place, fi fs.FileInfo, dir *os.Root, base string) bool {
	old, err := dir.Lstat(base)
	if err != nil || !os.SameFile(old, fi) || path.Base(from.rel) == base {
		return false
	}
	parent, _ := from.parent(s)
	a, err1 := from.dir.Stat(filepath.FromSlash(parent.rel))
	b, err2 := dir.Stat(".")
	if err1 != nil || err2 != nil || !os.SameFile(a, b) {
		return false
	}
	found := false
	err = eachName(dir, func(names []string) error {
		found = found || slices.Contains(names, base)
		return nil
	})
	return err == nil && !found
}

// syncParent syncs the folder that contains a place, so that changes of the entries in this folder
// survive a crash.
func (s *Server) syncParent(at place) {
	parent, _ := at.parent(s)
	if dir, err := s.folder(parent); err == nil {
		s.sync(dir)
		_ = dir.Close()
	}
}

// tidy removes the empty folders that contained p, if p was in the undo folder. It is called after
// the entry was moved to another place.
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

// pair returns the source and the destination of a call that moves or copies, and the metadata of
// the source. If follow is true and the source is a symlink, from is the target of the symlink.
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
	if !follow && isUndo(from.rel) {
		return fail(refuse("move one of the files in it", "%s is the undo folder of the root", quote(from.name)))
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

// free checks whether the source may replace the file at the destination. It returns the metadata
// of this file, or nil if the destination does not exist. The result is reliable only while the
// caller holds root.changing.
func (s *Server) free(to slot, source fs.FileInfo) (fs.FileInfo, error) {
	old, err := to.dir.Lstat(to.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, s.failed("write", to.at, err)
	case os.SameFile(old, source):
		return nil, refuse("choose another destination", "the source and %s are two names of the same %s", quote(to.at.name), typeOf(old.Mode()))
	case old.IsDir():
		return nil, refuse("give the whole new path, such as "+to.at.name+"/NAME", "%s is a folder", quote(to.at.name))
	case !to.overwrite:
		return nil, refuse("choose another destination, or set overwrite to true", "%s exists already", quote(to.at.name))
	case source.IsDir():
		return nil, refuse("choose another destination", "%s is a file, and a folder cannot replace it", quote(to.at.name))
	case !old.Mode().IsRegular():
		return nil, refuse("delete it first", "%s is not a regular file, so it is not replaced", quote(to.at.name))
	}
	return old, nil
}
