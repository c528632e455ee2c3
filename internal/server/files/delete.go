package files

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type deleteIn struct {
	Path      string `json:"path" jsonschema:"The file, folder or symlink. A symlink is deleted itself, not what it points to."`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"Delete a folder with everything in it. Without it only an empty folder is deleted."`
	Permanent bool   `json:"permanent,omitempty" jsonschema:"Delete for good, without keeping it in the undo folder."`
}

type deleteOut struct {
	Path string  `json:"path"`
	Type string  `json:"type"`
	Undo *undone `json:"undo,omitempty"`
}

func (s *Server) addDelete() {
	add(s, tool{
		name: "delete_file", title: "Delete",
		description: "Delete a file, a folder or a symlink. It goes to the undo folder, and the answer says how to bring it back. To delete a folder that is not empty, set recursive to true.",
		writes:      true, destroys: true, confirm: true, undo: true,
		restrictOut: func(p map[string]*jsonschema.Schema) {
			words(p["type"], typeFile, typeFolder, typeSymlink, typeOther)
			restrictUndo(p)
		},
	}, s.delete)
}

func (s *Server) delete(ctx context.Context, _ *mcp.CallToolRequest, in deleteIn) (*mcp.CallToolResult, deleteOut, error) {
	var none deleteOut
	at, err := s.target(in.Path)
	if err != nil {
		return nil, none, err
	}
	if at, err = s.resolve(at, false); err != nil {
		return nil, none, err
	}
	if at.inUndo() && !in.Permanent {
		return nil, none, refuse("set permanent to true to delete it for good", "%s is in the undo folder", quote(at.name))
	}
	out := deleteOut{Path: at.name}
	err = at.change(ctx, func() error {
		rel := filepath.FromSlash(at.rel)
		fi, err := at.dir.Lstat(rel)
		if err != nil {
			return s.failed("delete", at, err)
		}
		out.Type = typeOf(fi.Mode())
		if out.Type == typeFolder && !in.Recursive {
			// Remove fails if the folder is not empty.
			return s.failed("delete", at, at.dir.Remove(rel))
		}
		if in.Permanent || s.o.Undo.Size <= 0 {
			if out.Type == typeFolder {
				return s.failed("delete", at, at.dir.RemoveAll(rel))
			}
			return s.failed("delete", at, at.dir.Remove(rel))
		}
		k, err := s.putAway(ctx, at, out.Type)
		if err != nil {
			return err
		}
		out.Undo = k.told(s, at)
		s.syncParent(at)
		return nil
	})
	if err != nil {
		return nil, none, err
	}
	return nil, out, nil
}

// putAway moves an entry to the undo folder. typ is its type.
func (s *Server) putAway(ctx context.Context, at place, typ string) (*keep, error) {
	rel := filepath.FromSlash(at.rel)
	size, _, err := treeSize(ctx, at.dir, rel)
	if errors.Is(err, errTooMany) {
		return nil, refuse("delete its parts one by one, or set permanent to true to delete it for good", "%s has more than %d entries", quote(at.name), treeMost)
	}
	if err != nil {
		return nil, s.failed("delete", at, err)
	}
	k, err := s.newKeep(at, size)
	if err != nil {
		return nil, err
	}
	err = at.dir.Rename(rel, filepath.FromSlash(k.at.rel))
	if isCrossDevice(err) && typ == typeFile {
		var was fs.FileInfo
		if was, err = s.copyBytes(ctx, at, k.at); err == nil {
			if is, e := at.dir.Lstat(rel); e != nil || markOf(is) != markOf(was) {
				k.drop()
				return nil, refuse("try again", "%s changed during the call, so it was not deleted", quote(at.name))
			}
			err = at.dir.Remove(rel)
		}
	}
	if err != nil {
		k.drop()
		if isCrossDevice(err) {
			return nil, refuse("set permanent to true to delete it for good", "%s is on another disk than the undo folder, so it cannot be kept", quote(at.name))
		}
		return nil, s.failed("delete", at, err)
	}
	return k, nil
}
