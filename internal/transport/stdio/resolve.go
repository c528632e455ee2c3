package stdio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// StartError is the reason why a command could not be started.
type StartError struct {
	Command string
	Err     error
	Hint    string // one sentence that says what to check; "" if unknown

	path string   // the PATH that was searched; "" if PATH was not searched
	near []string // programs in PATH with a similar name
}

func (e *StartError) Error() string { return fmt.Sprintf("exec: %q: %v", e.Command, e.Err) }

// DescribeFailure implements failure.Source.
func (e *StartError) DescribeFailure(f *failure.Facts) {
	if f.Command == "" {
		f.Command = e.Command
	}
	if f.Start != "" {
		return
	}
	f.Start, f.Hint, f.PATH, f.Near = e.Err.Error(), e.Hint, e.path, e.near
	if e.path != "" {
		f.Hint = "" // the hint would repeat PATH
	}
	missing := errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, fs.ErrNotExist)
	switch {
	case f.Class != "" || errors.Is(e.Err, syscall.EMFILE) || errors.Is(e.Err, syscall.ENFILE):
	case strings.HasPrefix(e.Hint, "the working directory "):
		f.Class = failure.CannotStart
	case missing && (e.Hint == "" || e.path != "" || strings.HasSuffix(e.Hint, " does not exist") || e.Hint == noPATH):
		f.Class = failure.CommandNotFound
	default:
		f.Class = failure.CannotStart
	}
}

const noPATH = "the environment of the server has no PATH"

// Unwrap lets errors.Is find exec.ErrNotFound and the errors of package fs.
func (e *StartError) Unwrap() error { return e.Err }

// Check returns a *StartError if the working directory or the program of spec cannot be used. It
// does not start the program.
func Check(spec Spec) error {
	_, err := resolve(&spec)
	return err
}

// Starts reports whether spec starts the program in a file. It's false if the file can't be found.
func Starts(spec Spec, file string) bool {
	path, err := resolve(&spec)
	if err != nil {
		return false
	}
	started, err := os.Stat(path)
	if err != nil {
		return false
	}
	wanted, err := os.Stat(file)
	return err == nil && os.SameFile(started, wanted)
}

// resolve finds the file of the command. It searches the PATH of the child's environment, and
// resolves relative paths from the child's working directory. It never searches the current
// directory.
func resolve(spec *Spec) (string, error) {
	fail := func(err error, hint string) (string, error) {
		return "", &StartError{Command: spec.Command, Err: err, Hint: hint}
	}
	if spec.Command == "" {
		return fail(errors.New("no command"), "")
	}
	if spec.Dir != "" {
		if st, err := os.Stat(spec.Dir); err != nil {
			hint := "the working directory " + spec.Dir + " cannot be used"
			if errors.Is(err, fs.ErrNotExist) {
				hint = "the working directory " + spec.Dir + " does not exist"
			}
			return fail(cause(err), hint)
		} else if !st.IsDir() {
			return fail(fmt.Errorf("%s: %w", spec.Dir, syscall.ENOTDIR), "the working directory "+spec.Dir+" is not a directory")
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
		return fail(exec.ErrNotFound, noPATH)
	}
	return "", &StartError{
		Command: spec.Command, Err: exec.ErrNotFound, Hint: "searched PATH=" + list,
		path: list, near: nearIn(list, spec.Command),
	}
}

// These constants limit the work of nearIn.
const (
	maxNear     = 3    // number of names in the result
	maxNearDirs = 64   // number of directories
	maxNearList = 4096 // maximum number of names to read from one directory
)

// nearIn returns the names of programs in PATH that differ from the command by one edit. It returns
// each name once.
func nearIn(list, command string) (near []string) {
	if len(command) < 3 || len(command) > 64 {
		return nil
	}
	dirs := filepath.SplitList(list)
	for _, dir := range dirs[:min(len(dirs), maxNearDirs)] {
		if !filepath.IsAbs(dir) {
			continue
		}
		f, err := os.Open(dir)
		if err != nil {
			continue
		}
		names, _ := f.Readdirnames(maxNearList)
		_ = f.Close()
		slices.Sort(names)
		for _, name := range names {
			if len(near) == maxNear {
				return near
			}
			if !oneEdit(name, command) || slices.Contains(near, name) {
				continue
			}
			if _, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				near = append(near, name)
			}
		}
	}
	return near
}

// oneEdit reports whether a becomes b when one character is inserted, removed or replaced, or
// two neighbouring characters are swapped.
func oneEdit(a, b string) bool {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	x, y := a[i:], b[i:]
	switch {
	case len(x) == 0 && len(y) == 0:
		return false
	case len(x) == len(y):
		return x[1:] == y[1:] || len(x) > 1 && x[0] == y[1] && x[1] == y[0] && x[2:] == y[2:]
	case len(x) == len(y)+1:
		return x[1:] == y
	case len(y) == len(x)+1:
		return y[1:] == x
	}
	return false
}

// startFailed returns a StartError for an error of the operating system.
func startFailed(spec *Spec, path string, err error) error {
	err = cause(err)
	return &StartError{Command: spec.Command, Err: err, Hint: hintFor(err, path)}
}

// cause unwraps an *exec.Error and an *fs.PathError, because StartError itself contains the
// command.
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
			return path + " exists, but its interpreter or loader does not exist"
		}
		return path + " does not exist"
	case errors.Is(err, fs.ErrPermission):
		return path + " is not executable"
	case errors.Is(err, errExecFormat):
		return path + " is a program for another machine, or a script without a #! line"
	}
	return ""
}
