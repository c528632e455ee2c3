package files

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

// The default size and the maximum size of a page of list_dir, in entries.
const (
	pageUsual = 200
	pageMost  = 2000
)

type listIn struct {
	Path   string `json:"path,omitempty" jsonschema:"The folder. The default is the root, or the list of roots if there are several."`
	Hidden bool   `json:"hidden,omitempty" jsonschema:"Also list names that begin with a dot."`
	Limit  int    `json:"limit,omitempty" jsonschema:"The most entries in the answer. The default is 200."`
	Cursor string `json:"cursor,omitempty" jsonschema:"The next_cursor of the previous answer, to get the next page."`
}

type listOut struct {
	Path       string  `json:"path" jsonschema:"The folder, as other tools take it."`
	Entries    []entry `json:"entries" jsonschema:"The entries of this page, ordered by name."`
	Total      int     `json:"total" jsonschema:"How many entries the folder has, on all pages."`
	NextCursor string  `json:"next_cursor,omitempty" jsonschema:"Present if there are more entries. Pass it as cursor."`
}

// entry describes one entry of a folder.
type entry struct {
	Name     string `json:"name"`
	Type     string `json:"type" jsonschema:"file, folder, symlink or other. Nothing of type other can be opened."`
	Size     int64  `json:"size,omitempty" jsonschema:"Bytes of a file."`
	Modified string `json:"modified,omitempty" jsonschema:"When the entry was changed last (UTC)."`
	Target   string `json:"target,omitempty" jsonschema:"Where a symlink points."`
	Unusable bool   `json:"unusable,omitempty" jsonschema:"The name is not valid UTF-8, so no path can name the entry."`
}

func (s *Server) addList() {
	add(s, tool{
		name: "list_dir", title: "List a folder",
		description: "List the entries of one folder, in pages ordered by name, with type, size and time. Symlinks are listed, not followed. To search in subfolders, use search_files.",
		restrictIn:  func(p map[string]*jsonschema.Schema) { tools.Range(p["limit"], 1, pageMost) },
	}, s.list)
}

func (s *Server) list(ctx context.Context, _ *mcp.CallToolRequest, in listIn) (*mcp.CallToolResult, listOut, error) {
	at, all, err := s.find(in.Path)
	if err != nil {
		return nil, listOut{}, err
	}
	if all {
		out := listOut{Path: ".", Total: len(s.roots)}
		for _, r := range s.roots {
			out.Entries = append(out.Entries, entry{Name: r.name, Type: typeFolder})
		}
		return nil, out, nil
	}
	after, err := base64.RawURLEncoding.DecodeString(in.Cursor)
	if err != nil {
		return nil, listOut{}, refuse("pass the next_cursor of the previous answer, or leave cursor out", "this server did not return the cursor")
	}
	if in.Limit == 0 {
		in.Limit = pageUsual
	}
	dir, err := s.folder(at)
	if err != nil {
		return nil, listOut{}, err
	}
	defer func() { _ = dir.Close() }()
	names, total, err := page(ctx, dir, string(after), in.Limit, func(name string) bool {
		return (in.Hidden || name[0] != '.') && !(at.rel == "." && !in.Hidden && isUndo(name))
	})
	if err != nil {
		return nil, listOut{}, s.failed("list", at, err)
	}
	out := listOut{Path: at.name, Total: total, Entries: []entry{}}
	if len(names) > in.Limit {
		names = names[:in.Limit]
		out.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(names[in.Limit-1]))
	}
	for _, n := range names {
		e, err := describe(dir, n)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the entry was deleted meanwhile
		}
		if err != nil {
			return nil, listOut{}, s.failed("list", at, err)
		}
		out.Entries = append(out.Entries, e)
	}
	return nil, out, nil
}

// page returns the first limit+1 names in dir that sort after the name after, in order. total is
// the number of all names in dir. page ignores names for which wanted returns false. It holds at
// most 2*(limit+1) names and one group of eachName in memory, however large the folder is.
func page(ctx context.Context, dir *os.Root, after string, limit int, wanted func(string) bool) (names []string, total int, err error) {
	keep := limit + 1
	bound := "" // if not "", only names before bound can be in the result
	err = eachName(dir, func(group []string) error {
		for _, n := range group {
			if n == "" || !wanted(n) {
				continue
			}
			total++
			if n <= after || bound != "" && n >= bound {
				continue
			}
			if names = append(names, n); len(names) >= 2*keep {
				slices.Sort(names)
				names = names[:keep]
				bound = names[keep-1]
			}
		}
		return ctx.Err()
	})
	slices.Sort(names)
	if len(names) > keep {
		names = names[:keep]
	}
	return names, total, err
}

// describe returns the entry for one name in dir.
func describe(dir *os.Root, name string) (entry, error) {
	fi, err := dir.Lstat(name)
	if err != nil {
		return entry{}, err
	}
	e := entry{Name: name, Type: typeOf(fi.Mode()), Modified: stamp(fi.ModTime())}
	switch e.Type {
	case typeFile:
		e.Size = fi.Size()
	case typeSymlink:
		if t, err := dir.Readlink(name); err == nil {
			e.Target = strings.ToValidUTF8(filepath.ToSlash(t), "\uFFFD")
		}
	}
	if !utf8.ValidString(name) {
		e.Name, e.Unusable = strings.ToValidUTF8(name, "\uFFFD"), true
	}
	return e, nil
}
