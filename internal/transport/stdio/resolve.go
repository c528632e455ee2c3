package stdio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// StartError says why a command could not be started.
type StartError struct {
	Command string
	Err     error
	Hint    string // what to check, as a sentence; "" if unknown
}

func (e *StartError) Error() string { return fmt.Sprintf("exec: %q: %v", e.Command, e.Err) }

// Unwrap lets errors.Is find exec.ErrNotFound and the errors of package fs.
func (e *StartError) Unwrap() error { return e.Err }

// resolve finds the file of the command in the PATH of the child, which the
// configuration sets, and relative to its working directory. The current directory is
// never searched.
func resolve(spec *Spec) (string, error) {
	fail := func(err error, hint string) (string, error) {
		return "", &StartError{Command: spec.Command, Err: err, Hint: hint}
	}
	if spec.Command == "" {
		return fail(errors.New("no command"), "")
	}
	if spec.Dir != "" {
		if st, err := os.Stat(spec.Dir); err != nil {
			return fail(err, "its working directory cannot be used")
		} else if !st.IsDir() {
			return fail(fmt.Errorf("%s: %w", spec.Dir, syscall.ENOTDIR), "its working directory is not a directory")
		}
	}
	if strings.ContainsRune(spec.Command, '/') || strings.ContainsRune(spec.Command, filepath.Separator) {
		path := spec.Command
		if !filepath.IsAbs(path) {
			path = filepath.Join(spec.Dir, path)
			abs, err := filepath.Abs(path)
			if err != nil {
				return fail(err, "")
			}
			path = abs
		}
		found, err := exec.LookPath(path)
		if err != nil {
			err = cause(err)
			return fail(err, hintFor(err, path))
		}
		return found, nil
	}
	list, _ := lookupEnv(spec.Env, "PATH", runtime.GOOS == "windows")
	var denied error
	for _, dir := range filepath.SplitList(list) {
		if !filepath.IsAbs(dir) {
			continue
		}
		path := filepath.Join(dir, spec.Command)
		found, err := exec.LookPath(path)
		if err == nil {
			return found, nil
		}
		if denied == nil && errors.Is(err, fs.ErrPermission) {
			if _, err := os.Stat(path); err == nil {
				denied = fs.ErrPermission
			}
		}
	}
	if denied != nil {
		return fail(denied, "a file of this name is in PATH but is not executable")
	}
	if list == "" {
		return fail(exec.ErrNotFound, "its environment has no PATH")
	}
	return fail(exec.ErrNotFound, "searched PATH="+list)
}

// startFailed returns a StartError for an error of the operating system.
func startFailed(spec *Spec, path string, err error) error {
	err = cause(err)
	return &StartError{Command: spec.Command, Err: err, Hint: hintFor(err, path)}
}

// cause removes the parts of an error that StartError repeats.
func cause(err error) error {
	var e *exec.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return err
}

func hintFor(err error, path string) string {
	_, missing := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, exec.ErrNotFound):
		if missing == nil {
			return path + " exists, but its interpreter or loader does not"
		}
		return path + " does not exist"
	case errors.Is(err, fs.ErrPermission):
		return path + " is not executable"
	case errors.Is(err, errExecFormat):
		return path + " is for another machine, or a script without a #! line"
	}
	return ""
}
