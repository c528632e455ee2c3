package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// opened is a configuration file as a command has read it, once. Consent is about this content and no
// other: the file may be replaced while the question is open.
type opened struct {
	*config.Snapshot
	usedMark
}

// open reads a configuration file. It returns nil exactly when the file cannot be used.
func (e environment) open(path string) (*opened, config.Problems) {
	s, content, problems := config.LoadContent(path)
	if s == nil {
		return nil, problems
	}
	return &opened{s, e.usedMark(path, content)}, problems
}

// foundHere reports whether the user did not name the file, and it is in the working directory. Whoever
// wrote this folder, such as the author of a repository, chose what the file starts. The string named
// is the value of -c.
func (o *opened) foundHere(named string) bool {
	return named == "" && slices.Contains(config.Here(), o.path)
}

// consent returns nil if a command may start the servers of a configuration file. A file that was
// named with -c, or that is at the user's own place, may be used. A file that was found in the working
// directory must have been used before with the same content, or the user agrees at the terminal.
func (w *world) consent(ctx context.Context, named string, o *opened) error {
	path := o.path
	switch {
	case !o.foundHere(named):
		o.markUsed()
		return nil
	case o.used():
		return nil
	case ofOther(path):
		return errOfOther(path)
	}
	starts := startedBy(o.Snapshot)
	if !w.interactive {
		return usagef("read the file; if you trust it, add -c "+path+", which is needed only once",
			"%s is in this folder and has never been used, or has changed since; it starts %s", path, strings.Join(starts, "; "))
	}
	agreed := false
	k := &asker{world: w}
	k.converse(ctx, func(t *terminal) string {
		t.say(t.bold(fullName(path)) + " has never been used, or has changed since. It starts:")
		for _, s := range starts {
			t.say("  " + s)
		}
		line, _ := t.prompt("Use it? [y/N]")
		agreed = slices.Contains([]string{"y", "yes"}, strings.ToLower(line))
		return ""
	})
	if !agreed {
		return signalOr(ctx, fmt.Errorf("nothing was started, because you did not agree to use %s", path))
	}
	o.markUsed()
	return nil
}

// consentToServe is consent for `dragoman serve`, which is a request to run the file of this folder. So
// it does not ask, but says at the first use what it starts. At a terminal it refuses the file of another
// user, who may have put it where this user happens to be. A service or a container has a working
// directory that its administrator chose.
func (w *world) consentToServe(named string, o *opened) error {
	if o.foundHere(named) && !o.used() {
		if w.keyboard && ofOther(o.path) {
			return errOfOther(o.path)
		}
		if !w.quiet {
			w.status.Printf("first use of %s; it starts %s", fullName(o.path), strings.Join(startedBy(o.Snapshot), "; "))
		}
	}
	o.markUsed()
	return nil
}

// errOfOther refuses a file that belongs to another user.
func errOfOther(path string) error {
	return usagef("if you trust it, add -c "+path, "%s is in this folder, but belongs to another user", path)
}

// usedMark remembers that the user has used a configuration file with this content.
type usedMark struct {
	path string // of the configuration file
	file string // exists if it was used; "" if there is no folder for such files
}

func (e environment) usedMark(path string, content []byte) usedMark {
	dir := e.cacheDir()
	if dir == "" {
		return usedMark{path: path}
	}
	sum := sha256.Sum256([]byte(fullName(path) + "\x00" + string(content)))
	return usedMark{path, filepath.Join(dir, "dragoman", "used", hex.EncodeToString(sum[:16]))}
}

// used reports whether the configuration file was used with this content.
func (m usedMark) used() bool {
	_, err := os.Stat(m.file)
	return m.file != "" && err == nil
}

// markUsed remembers only a file that would be found in its folder. It ignores errors: the next command
// asks again.
func (m usedMark) markUsed() {
	if m.file != "" && slices.Contains(config.Here(), filepath.Base(m.path)) && os.MkdirAll(filepath.Dir(m.file), 0o700) == nil {
		_ = os.WriteFile(m.file, []byte(fullName(m.path)+"\n"), 0o600)
	}
}

// fullName returns the full path of a file without symlinks, or as much of that as is known.
func fullName(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}
