package config

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
)

// Find returns the default configuration file: dragoman.yaml, .yml or .json in the working
// directory, else dragoman/config.yaml under $XDG_CONFIG_HOME. If XDG_CONFIG_HOME is not an absolute
// path, Find looks under ~/.config, or under %AppData% on Windows. ok is false if none of these files
// exists.
func Find(env func(string) (string, bool)) (path string, ok bool) {
	for _, p := range Places(env) {
		if st, err := os.Stat(p); err == nil && !st.IsDir() {
			return p, true
		}
	}
	return "", false
}

// Places returns the paths that Find tries, in order.
func Places(env func(string) (string, bool)) []string { return places(env, runtime.GOOS == "windows") }

// Here returns the names of the files that Find tries in the working directory, in order.
func Here() []string { return []string{"dragoman.yaml", "dragoman.yml", "dragoman.json"} }

func places(env func(string) (string, bool), windows bool) []string {
	places := Here()
	base, _ := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) { // XDG Base Directory Specification: relative paths are invalid, so they are ignored
		home, below := "HOME", ".config"
		if windows {
			home, below = "APPDATA", "" // on Windows, %AppData% is the folder for settings
		}
		dir, _ := env(home)
		if dir == "" {
			return places
		}
		base = filepath.Join(dir, below)
	}
	return append(places, filepath.Join(base, "dragoman", "config.yaml"))
}

// Load reads and parses a configuration file. References in the file can use the environment of this
// process and the variables in the file that dragoman.envFile names. As with Parse, the Snapshot is
// nil exactly when the configuration file cannot be used.
func Load(path string) (*Snapshot, Problems) {
	return LoadWith(path, nil)
}

// LoadWith does the same as Load, and looks up secrets too.
func LoadWith(path string, secrets Secrets) (*Snapshot, Problems) {
	s, _, problems := loadContent(path, secrets)
	return s, problems
}

// LoadContent does the same as Load, and also returns the content that it has parsed. The file may
// have other content by now.
func LoadContent(path string) (*Snapshot, []byte, Problems) { return loadContent(path, nil) }

func loadContent(path string, secrets Secrets) (*Snapshot, []byte, Problems) {
	b, mode, err := read(path, clientfile.MaxFile+1)
	if err != nil {
		return nil, nil, Problems{unreadable(path, err)}
	}
	s, problems := parse(path, b, lookups{env: os.LookupEnv, secrets: secrets}, ReadEnv)
	if s != nil {
		s.content = sha256.Sum256(b)
	}
	if s != nil && runtime.GOOS != "windows" && mode.Perm()&0o077 != 0 && holdsSecrets(b, s) {
		problems = append(problems, Problem{
			File: path, Warning: true,
			Text: "contains credentials, and other users of this machine can read the file",
			Hint: "run `chmod 600 " + path + "`, or replace the credentials with ${NAME}",
		})
	}
	return s, b, problems
}

// read returns at most n bytes of a file, and the mode of the file. It accepts only regular files. It
// does not block on a named pipe that has no writer.
func read(path string, n int64) ([]byte, fs.FileMode, error) {
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
	b, err := io.ReadAll(io.LimitReader(f, n))
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
		p.Hint = "save the configuration as a regular file"
	}
	if errors.Is(err, fs.ErrNotExist) {
		p.Text, p.Hint = "file not found", "use -c FILE to choose another file"
	}
	return p
}

// holdsSecrets reports whether the file itself contains the value of an environment variable or
// header that has a name such as GITHUB_TOKEN. A reference instead of the value is allowed.
func holdsSecrets(b []byte, s *Snapshot) bool {
	literal := func(v Secret) bool {
		// A value that replaced a reference is usually not in the file. A value that is written with
		// escapes in the file is not found, so there is no warning about this value.
		return v.Reveal() != "" && v.Reveal() != mask && strings.Contains(string(b), v.Reveal())
	}
	servers := s.Servers
	for _, p := range s.Projects {
		if p.Config != nil {
			servers = append(slices.Clip(servers), p.Config.Servers...)
		}
	}
	for _, srv := range servers {
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
