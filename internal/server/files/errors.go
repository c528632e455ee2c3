package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

// refusal is an error for the client. text names the problem, and next is what the client can do.
type refusal struct{ text, next string }

func (r *refusal) Error() string { return tools.Upper(r.text) + ". " + tools.Upper(r.next) + "." }

// refuse returns a refusal. next is an instruction for the client; format and args make a sentence
// that names the problem. Both texts begin with a small letter and have no full stop.
func refuse(next, format string, args ...any) error {
	return &refusal{text: fmt.Sprintf(format, args...), next: next}
}

// quote quotes a path or a URI for an error message, and shortens it if it is long.
func quote(p string) string { return excerpt.Quote(p, 200) }

// failed turns an error of the operating system into a refusal. doing is what the server tried to
// do, such as "read". failed returns nil for nil, and returns refusals and context errors
// unchanged.
func (s *Server) failed(doing string, at place, err error) error {
	var r *refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &r), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if _, outside := s.resolve(at, true); outside != nil {
		return outside
	}
	name := quote(at.name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && at.gone():
		return refuse("make the folder again and restart the server", "the root %s does not exist any more", quote(at.abs))
	case errors.Is(err, fs.ErrNotExist):
		return refuse("list its folder with list_dir, or search for the name with search_files", "%s does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return refuse("change its permissions, or use another path", "the server has no permission to %s %s", doing, name)
	case isFull(err):
		return refuse("free space on the disk and try again", "the disk is full, so the server could not %s %s; the file is unchanged", doing, name)
	case errors.Is(err, syscall.EROFS):
		return refuse("use another folder", "%s is on a file system that is mounted read-only", name)
	case errors.Is(err, syscall.ENOTDIR):
		return refuse("check each folder of the path with get_metadata", "a part of the path %s is not a folder", name)
	case errors.Is(err, syscall.EISDIR):
		return refuse("use the path of a file", "%s is a folder", name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return refuse("use a shorter name", "%s is too long for this file system", name)
	case errors.Is(err, syscall.ENOTEMPTY):
		return refuse("use an empty folder, or another path", "%s is a folder that is not empty", name)
	case errors.Is(err, fs.ErrExist):
		return refuse("choose another path, or set overwrite to true", "%s exists already", name)
	}
	return refuse("check the path with get_metadata", "the server could not %s %s: %s", doing, name, excerpt.Line(cause(err).Error(), 200))
}

// isFull reports whether err means that the disk is full or a disk quota is used up.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || isQuota(err) }

// cause returns the error of the operating system without the operation and the paths that package
// os adds.
func cause(err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}
