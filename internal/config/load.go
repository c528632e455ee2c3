package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
)

// Find returns the file to use when none is named: dragoman.yaml, .yml or .json
// in the working directory, else config.yaml in the folder dragoman of
// $XDG_CONFIG_HOME (of ~/.config when that is unset). ok is false when there is
// none of them.
func Find(env func(string) (string, bool)) (path string, ok bool) {
	for _, p := range Places(env) {
		if st, err := os.Stat(p); err == nil && !st.IsDir() {
			return p, true
		}
	}
	return "", false
}

// Places returns where Find looks, in order.
func Places(env func(string) (string, bool)) []string {
	places := []string{"dragoman.yaml", "dragoman.yml", "dragoman.json"}
	base, _ := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) { // the XDG base directory specification: relative ones are invalid
		home, _ := env("HOME")
		if home == "" {
			return places
		}
		base = filepath.Join(home, ".config")
	}
	return append(places, filepath.Join(base, "dragoman", "config.yaml"))
}

// Load reads and parses a file with the environment of this process. As with
// Parse, the Snapshot is nil exactly when the Problems have an error.
func Load(path string) (*Snapshot, Problems) {
	b, mode, err := read(path)
	if err != nil {
		return nil, Problems{unreadable(path, err)}
	}
	s, problems := Parse(path, b, os.LookupEnv)
	if s != nil && runtime.GOOS != "windows" && mode.Perm()&0o077 != 0 && holdsSecrets(b, s) {
		problems = append(problems, Problem{
			File: path, Warning: true,
			Text: "holds credentials, and other users of this machine may read it",
			Hint: "run `chmod 600 " + path + "`, or write ${NAME} in their place",
		})
	}
	return s, problems
}

// read returns at most one byte more than Parse accepts. It refuses anything but a
// regular file, and does not block: nothing may ever write to the other end of a named
// pipe.
func read(path string) ([]byte, fs.FileMode, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !st.Mode().IsRegular() {
		return nil, 0, &irregular{st.Mode()}
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	return b, st.Mode(), err
}

// irregular is the error for a path that is not a regular file.
type irregular struct{ mode fs.FileMode }

func (e *irregular) Error() string {
	what := "a device"
	switch {
	case e.mode.IsDir():
		what = "a folder"
	case e.mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case e.mode&fs.ModeSocket != 0:
		what = "a socket"
	}
	return "it is " + what + ", not a regular file"
}

func unreadable(path string, err error) Problem {
	p := Problem{File: path, Text: "cannot be read: " + err.Error()}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		p.Text = "cannot be read: " + pe.Err.Error()
	}
	var odd *irregular
	if errors.As(err, &odd) && !odd.mode.IsDir() {
		p.Hint = "save the configuration in a regular file; Dragoman reads it again after each change"
	}
	if errors.Is(err, fs.ErrNotExist) {
		p.Text, p.Hint = "there is no such file", "name another with -c FILE"
	}
	return p
}

// holdsSecrets reports whether the file itself, rather than the environment,
// holds what looks like credentials.
func holdsSecrets(b []byte, s *Snapshot) bool {
	literal := func(v Secret) bool {
		// What came from a reference is hardly in the file as well. A value that
		// is written with escapes is missed, which costs a warning.
		return v.Reveal() != "" && v.Reveal() != mask && strings.Contains(string(b), v.Reveal())
	}
	for _, srv := range s.Servers {
		for k, v := range srv.Env {
			if excerpt.SecretName(k) && literal(v) {
				return true
			}
		}
		for _, f := range srv.Header {
			if excerpt.SecretName(f.Name) && literal(f.Value) {
				return true
			}
		}
	}
	return false
}
