package files

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
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

// Limits of write_file in bytes: for the content of one call, and for a file to which a call
// appends.
const (
	writeMost  = 16 << 20 // bytes of one call
	appendMost = 256 << 20
)

// tempPrefix is the beginning of the names of temporary files.
const tempPrefix = ".dragoman-tmp-"

type writeIn struct {
	Path      string `json:"path" jsonschema:"The file. Folders that do not exist are made."`
	Content   string `json:"content" jsonschema:"The whole new content of the file, or what to append."`
	Encoding  string `json:"encoding,omitempty" jsonschema:"keep (the default) uses the encoding of the existing file, with its byte order mark, or UTF-8 for a new one. base64 means that content is base64 of the bytes."`
	Newlines  string `json:"newlines,omitempty" jsonschema:"keep (the default) writes line ends as the existing file has them, if that file has CRLF only and content has LF only. as_is writes content as it is."`
	Append    bool   `json:"append,omitempty" jsonschema:"Add content to the end of the file instead of replacing it."`
	Overwrite *bool  `json:"overwrite,omitempty" jsonschema:"Whether to replace an existing file. The default is true."`
	IfVersion string `json:"if_version,omitempty" jsonschema:"Write only if the file still has this version, which read_file and get_metadata return."`
	Permanent bool   `json:"permanent,omitempty" jsonschema:"Do not keep the former content in the undo folder."`
}

type writeOut struct {
	Path     string  `json:"path"`
	Created  bool    `json:"created" jsonschema:"The file did not exist before."`
	Size     int64   `json:"size"`
	Encoding string  `json:"encoding,omitempty"`
	Newlines string  `json:"newlines,omitempty" jsonschema:"Line ends of what was written."`
	Version  string  `json:"version"`
	Undo     *undone `json:"undo,omitempty"`
}

func (s *Server) addWrite() {
	add(s, tool{
		name: "write_file", title: "Write a file",
		description: "Create a file, replace its content, or append to it. The change is atomic: readers see the old or the new file. Encoding, byte order mark, line ends and permissions of an existing file are kept. The former content goes to the undo folder.",
		writes:      true, destroys: true, confirm: true, undo: true,
		restrictIn: func(p map[string]*jsonschema.Schema) {
			words(p["encoding"], "keep", utf8Plain, utf8Marked, utf16Less, utf16More, "base64")
			words(p["newlines"], "keep", "as_is")
		},
		restrictOut: restrictUndo,
	}, s.write)
}

// restrictUndo sets the schema of the member undo to the schema of an object. The type of the Go
// field is a pointer, so its own schema would also allow null.
func restrictUndo(p map[string]*jsonschema.Schema) {
	p["undo"] = tools.Schema[undone](nil)
	p["undo"].Description = "How to undo the change."
}

func (s *Server) write(ctx context.Context, _ *mcp.CallToolRequest, in writeIn) (*mcp.CallToolResult, writeOut, error) {
	var none writeOut
	if len(in.Content) > writeMost {
		return nil, none, refuse("write the file in parts with append", "content has %d bytes, and the limit is %d", len(in.Content), writeMost)
	}
	at, err := s.target(in.Path)
	if err != nil {
		return nil, none, err
	}
	if at, err = s.resolve(at, true); err != nil { // a call that writes to a symlink changes the target of the symlink
		return nil, none, err
	}
	if err := notUndo(at); err != nil {
		return nil, none, err
	}
	var out writeOut
	err = s.inParent(at, func(dir *os.Root, base string) (err error) {
		out, err = s.writeIn(ctx, in, at, dir, base)
		return err
	})
	return nil, out, err
}

// writeIn writes the file base in the folder dir.
func (s *Server) writeIn(ctx context.Context, in writeIn, at place, dir *os.Root, base string) (writeOut, error) {
	inDir := place{root: &root{dir: dir}, rel: base, name: at.name} // the place of the existing file
	var out writeOut
	err := at.change(ctx, func() error {
		fi, former, err := s.existing(in, inDir, at)
		if err != nil {
			return err
		}
		content, enc, ends, err := encoded(in, former, fi)
		if err != nil {
			return err
		}
		out.Encoding, out.Newlines, out.Created = enc, ends, fi == nil
		var k *keep
		written, err := s.replace(ctx, change{
			dir: dir, base: base, old: fi, like: fi,
			overwrite: in.Overwrite == nil || *in.Overwrite || in.Append,
			fill: func(w *os.File) error {
				if in.Append && fi != nil {
					f, _, err := s.regular(inDir)
					if err != nil {
						return err
					}
					defer func() { _ = f.Close() }()
					if err := s.copyTo(ctx, w, f, nil); err != nil {
						return err
					}
				}
				return s.copyTo(ctx, w, bytes.NewReader(content), nil)
			},
			before: func() (err error) {
				if fi != nil && (in.Append || in.IfVersion != "") {
					// Programs that know nothing of our locks may have written meanwhile.
					if is, err := dir.Lstat(base); err != nil || markOf(is) != markOf(fi) {
						return refuse("read the file again and repeat the change", "%s has changed during the call, so it was not written", quote(at.name))
					}
				}
				if fi != nil && !in.Permanent {
					k, err = s.keepCopy(ctx, at, fi)
				}
				return err
			},
		})
		if err != nil {
			k.drop()
			return s.failed("write", at, err)
		}
		out.Path, out.Size, out.Version, out.Undo = at.name, written.Size(), version(written), k.told(s, at)
		return nil
	})
	return out, err
}

// existing returns the metadata and the beginning of the file that a call changes, or nil if there is
// none. It checks whether the call may change it. inDir is the place of the file in its folder, and at is
// the place that the call names.
func (s *Server) existing(in writeIn, inDir, at place) (fi fs.FileInfo, former []byte, err error) {
	fi, err = inDir.dir.Lstat(inDir.rel)
	switch {
	case errors.Is(err, fs.ErrNotExist) && in.IfVersion != "":
		return nil, nil, refuse("list its folder again with list_dir", "%s does not exist any more", quote(at.name))
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, s.failed("write", at, err)
	}
	if err := onlyFile(at, fi); err != nil {
		return nil, nil, err
	}
	switch {
	case in.Overwrite != nil && !*in.Overwrite && !in.Append:
		return nil, nil, refuse("choose another path, or leave out overwrite", "%s exists already", quote(at.name))
	case in.IfVersion != "" && in.IfVersion != version(fi):
		return nil, nil, refuse("read the file again and repeat the change", "%s has changed since the version in if_version", quote(at.name))
	case in.Append && fi.Size() > appendMost:
		return nil, nil, refuse("write to another file", "%s has %d bytes, and append works up to %d", quote(at.name), fi.Size(), appendMost)
	}
	f, _, err := s.regular(inDir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	if former, err = headOf(f); err != nil {
		return nil, nil, s.failed("read", at, err)
	}
	return fi, former, nil
}

// encoded returns the bytes to write, the name of their encoding, and the kind of their line ends.
// former is the beginning of the existing file. fi is the metadata of this file, or nil if the file
// does not exist.
func encoded(in writeIn, former []byte, fi fs.FileInfo) (content []byte, enc, ends string, err error) {
	if in.Encoding == "base64" {
		content, err = base64.StdEncoding.DecodeString(strings.TrimSpace(in.Content))
		if err != nil {
			return nil, "", "", refuse("encode the bytes with the standard alphabet and padding", "content is not base64")
		}
		if in.Append && len(content)%2 != 0 && len(former) > 0 && charsetOf(former, fi.Size() < headSize).unit() == 2 {
			return nil, "", "", refuse("append an even number of bytes, or text with the encoding keep", "the existing file is UTF-16, and content has %d bytes", len(content))
		}
		return content, "", "", nil
	}
	old := charset{}
	if len(former) > 0 {
		old = charsetOf(former, fi.Size() < headSize)
	}
	cs := charset{name: in.Encoding}
	if in.Encoding == "" || in.Encoding == "keep" {
		if cs = old; cs.name == "" {
			cs.name = utf8Plain
		}
	}
	if in.Append && len(former) > 0 && cs.name != old.name {
		return nil, "", "", refuse("use the encoding keep or base64", "the encoding of the existing file is not %s, so text in %s cannot be appended", cs.name, cs.name)
	}
	text := in.Content
	if in.Newlines != "as_is" && old.name != "" {
		from, to := old.trim(former, 0, len(former), false)
		was, _ := old.decode(former[from:to])
		if endsOf(was) == endsCRLF && endsOf(text) == endsLF {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
	}
	content = cs.encode(text)
	if !in.Append || len(former) == 0 {
		if mark := cs.mark(); !bytes.HasPrefix(content, mark) || len(mark) == 0 {
			content = append(mark, content...)
		}
	}
	return content, cs.name, endsOf(text), nil
}

// target returns the place for a path that a call will change. It returns an error for a root.
func (s *Server) target(p string) (place, error) {
	at, err := s.one(p)
	switch {
	case err != nil:
		return at, err
	case at.rel == ".":
		return at, refuse("use a path below it", "%s is a root of this server", quote(at.name))
	}
	return at, validName(at)
}

// inParent calls f with the folder that contains a place, and with the last element of the place.
// It creates missing folders, and removes them again if f fails. f gets an open folder, which stays
// the same if somebody replaces the folder at this path.
func (s *Server) inParent(at place, f func(dir *os.Root, base string) error) (err error) {
	parent, base := at.parent(s)
	var missing []string // the deepest folder first
	for rel := parent.rel; rel != "."; rel = path.Dir(rel) {
		if _, err := at.dir.Lstat(filepath.FromSlash(rel)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, rel)
	}
	defer func() {
		for _, rel := range missing {
			if err == nil || at.dir.Remove(filepath.FromSlash(rel)) != nil {
				return
			}
		}
	}()
	if parent.rel != "." {
		if err := at.dir.MkdirAll(filepath.FromSlash(parent.rel), 0o777); errors.Is(err, fs.ErrExist) {
			return refuse("use the path of a folder", "a part of the path %s is not a folder", quote(parent.name))
		} else if err != nil {
			return s.failed("make", parent, err)
		}
	}
	dir, err := s.folder(parent)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return f(dir, base)
}

// change describes a file that replace writes.
type change struct {
	dir       *os.Root
	base      string
	old       fs.FileInfo // the existing file; nil if there is none
	like      fs.FileInfo // a file with the permissions to use; nil for the permissions of a new file
	overwrite bool        // if false, a file that somebody created at the target meanwhile is not replaced

	fill   func(*os.File) error
	before func() error // called right before the rename
}

// replace writes a file with a temporary name in the folder of the target, syncs it, and renames
// it. If replace fails, the target is unchanged and no temporary file remains.
func (s *Server) replace(ctx context.Context, c change) (fs.FileInfo, error) {
	temp, fi, err := s.temporary(c)
	if err != nil {
		return nil, err
	}
	if err = ctx.Err(); err == nil {
		err = c.before()
	}
	if err == nil {
		err = settle(c.dir, temp, c.base, c.overwrite)
	}
	if err != nil {
		_ = c.dir.Remove(temp)
		return nil, err
	}
	s.sync(c.dir)
	return fi, nil
}

// temporary writes and syncs a new file with a temporary name. If temporary fails, no file remains.
func (s *Server) temporary(c change) (_ string, fi fs.FileInfo, err error) {
	temp := tempPrefix + rand.Text()
	perm := fs.FileMode(0o666) // the operating system applies the umask
	if c.like != nil {
		perm = 0o600
	}
	f, err := c.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = c.dir.Remove(temp)
		}
	}()
	if err := c.fill(f); err != nil {
		return "", nil, err
	}
	if c.old != nil {
		keepOwner(f, c.old)
	}
	if err := s.finish(f, c.like); err != nil {
		return "", nil, err
	}
	if fi, err = f.Stat(); err != nil {
		return "", nil, err
	}
	return temp, fi, f.Close() // close f first, because Windows cannot rename an open file
}

// settle renames a temporary or moved file to its final name. Both names are relative to dir. If
// overwrite is false and the final name exists already, settle returns an error.
func settle(dir *os.Root, from, to string, overwrite bool) error {
	if !overwrite {
		switch err := dir.Link(from, to); {
		case err == nil:
			return dir.Remove(from)
		case errors.Is(err, fs.ErrExist):
			return err
		}
		// The file system may not support hard links.
		if _, err := dir.Lstat(to); err == nil {
			return fs.ErrExist
		}
	}
	return dir.Rename(from, to)
}

// sync writes the entries of a folder to the disk, so that they survive a crash. The change itself
// is already complete. Therefore sync ignores errors.
func (s *Server) sync(dir *os.Root) {
	if !s.volatile {
		_ = syncFolder(dir)
	}
}
