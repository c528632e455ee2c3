package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
)

// refusal is a failure for the client. It names the problem and the next step.
type refusal struct{ text, next string }

func (r *refusal) Error() string { return upper(r.text) + ". " + upper(r.next) + "." }

// refuse returns a failure. next is an instruction, and the other arguments make a sentence. Both
// begin with a small letter and have no full stop.
func refuse(next, format string, args ...any) error {
	return &refusal{text: fmt.Sprintf(format, args...), next: next}
}

// upper capitalizes the first letter of a sentence, unless the sentence begins with the name of a
// tool or of an argument.
func upper(s string) string {
	word, _, _ := strings.Cut(s, " ")
	if s == "" || strings.ContainsAny(word, "_.") {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// quote returns a path or a URI for an error.
func quote(p string) string { return excerpt.Quote(p, 200) }

// failed turns an error of the system into a sentence. doing is what the server did, such as
// "read". It returns nil for nil, and returns refusals and context errors unchanged.
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
		return refuse("list its folder with list_dir, or find it with search_files", "%s does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return refuse("change its permissions, or use another path", "the server has no permission to %s %s", doing, name)
	case isFull(err):
		return refuse("free space on the disk and try again", "the disk is full, so the server could not %s %s; the file is unchanged", doing, name)
	case errors.Is(err, syscall.EROFS):
		return refuse("use another folder", "%s is on a file system that is mounted read-only", name)
	case errors.Is(err, syscall.ENOTDIR):
		return refuse("check each folder of the path with get_metadata", "%s has a part that is not a folder", name)
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

// isFull reports whether an error means that the disk or the quota is full.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || isQuota(err) }

// cause returns the error of the system without the paths that the os package adds.
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
