package vault

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// ErrSealed is wrapped by the error for a value that can't be opened. It's the same whatever the reason
// is, since a reason would help whoever tries out changes.
var ErrSealed = errors.New("the sealed value cannot be opened")

func errSealed(owner, name string) error {
	return fail("store it again, or restore the database and the vault's key from the same backup", ErrSealed,
		"the sealed value %q of %q cannot be opened: it was changed, or it was sealed with another key or for another name", name, owner)
}

// Error is an error that people can do something about. It wraps fs.ErrNotExist if there is no key,
// fs.ErrPermission if a permission is wrong, and syscall.ENOSPC if the disk is full. Neither Text nor
// Next has any part of a key or of a value.
type Error struct {
	Text string // what is wrong: a sentence without a full stop that begins with a small letter
	Next string // what to do: an instruction in the same form as Text

	cause error
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.cause }

func fail(next string, cause error, format string, args ...any) error {
	return &Error{Text: fmt.Sprintf(format, args...), Next: next, cause: cause}
}

// explainFile returns what an error of the file system means for the key file with this name. does is "read" or "write".
func explainFile(err error, does, name string) error {
	var own *Error
	var p *fs.PathError
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(err, syscall.EROFS):
		return fail("mount its file system for writing, or give the key in a variable", fs.ErrPermission, "%s cannot be written, because its file system is read-only", name)
	case errors.Is(err, fs.ErrPermission):
		return fail("change the permissions of the file and its folder", fs.ErrPermission, "this user has no permission to %s %s", does, name)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fail("free space and try again", syscall.ENOSPC, "the disk is full, so %s was not changed", name)
	case errors.As(err, &p):
		err = p.Err
	}
	return fail("check the disk and the path", err, "dragoman cannot %s %s: %v", does, name, err)
}
