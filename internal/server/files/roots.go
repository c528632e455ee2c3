package files

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Limits of paths.
const (
	maxPath      = 4096 // the maximum length of a path in an argument, in bytes
	maxLinkSteps = 40   // the maximum number of symlinks that the server follows for one path; Linux has the same limit
)

// root is a folder that the user allows the server to use.
type root struct {
	name string   // on a server with several roots, the first element of each path in this root
	abs  string   // the path that the user gave, made absolute
	real string   // abs without symlinks
	dir  *os.Root // confines every access

	number int // the position in Server.roots; a call that changes two roots locks them in this order

	changing chan struct{} // a lock: contains one value while a call changes files in the root
}

// place is a path within a root.
type place struct {
	*root
	rel  string // the path relative to the root, with slashes; "." is the root itself
	name string // the path in the form that clients use
}

// openRoots opens the folders as roots. If it returns an error, it has closed all roots again.
func openRoots(folders []string) (_ []*root, err error) {
	var roots []*root
	defer func() {
		if err != nil {
			for _, r := range roots {
				_ = r.dir.Close()
			}
		}
	}()
	for _, f := range folders {
		abs, err := filepath.Abs(f)
		if err != nil {
			return roots, fmt.Errorf("find %s: %w", f, err)
		}
		real, err := filepath.EvalSymlinks(abs)
		if err != nil {
			return roots, err
		}
		if fi, err := os.Stat(real); err != nil {
			return roots, err
		} else if !fi.IsDir() {
			return roots, &fs.PathError{Op: "open", Path: f, Err: errNotFolder}
		}
		dir, err := os.OpenRoot(real)
		if err != nil {
			return roots, err
		}
		r := &root{abs: abs, real: real, dir: dir, number: len(roots), changing: make(chan struct{}, 1)}
		roots = append(roots, r)
		for _, other := range roots[:len(roots)-1] {
			if err := apart(r, other); err != nil {
				return roots, err
			}
		}
		r.name = freeName(roots[:len(roots)-1], filepath.Base(abs))
	}
	return roots, nil
}

var errNotFolder = errors.New("not a folder")

// apart returns an error if two roots are the same folder, or if one contains the other. Otherwise,
// one file could have two paths, and a move from one path to the other would delete the file.
func apart(a, b *root) error {
	same := func(dir string, r *root) bool {
		x, err1 := os.Stat(dir)
		y, err2 := r.dir.Stat(".")
		return err1 == nil && err2 == nil && os.SameFile(x, y)
	}
	if same(a.real, b) {
		return fmt.Errorf("the folder %s is named twice (also as %s)", a.abs, b.abs)
	}
	for _, pair := range [][2]*root{{a, b}, {b, a}} {
		inner, outer := pair[0], pair[1]
		for dir := inner.real; ; {
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			if dir = up; same(dir, outer) {
				return fmt.Errorf("the folder %s is inside %s, and roots must not contain each other", inner.abs, outer.abs)
			}
		}
	}
	return nil
}

// gone reports whether somebody deleted the root: its path does not exist any more, and the open
// folder has no entries. A root that was only moved still has its entries.
func (r *root) gone() bool {
	if _, err := os.Stat(r.real); !errors.Is(err, fs.ErrNotExist) || r.real == "" {
		return false
	}
	empty := true
	_ = eachName(r.dir, func([]string) error {
		empty = false
		return fs.SkipAll
	})
	return empty
}

// freeName returns a name that no root in roots has: base, or base with a number.
func freeName(roots []*root, base string) string {
	if base == string(filepath.Separator) || base == "." || strings.ContainsRune(base, filepath.Separator) {
		base = "root" // the top folder of a volume has no name
	}
	name := base
	for n := 2; ; n++ {
		taken := false
		for _, r := range roots {
			taken = taken || strings.EqualFold(r.name, name)
		}
		if !taken {
			return name
		}
		name = base + "-" + strconv.Itoa(n)
	}
}

// find returns the place for a path from a client. If the server has several roots and the path is
// ".", the client means the list of roots. find then returns an empty place, and all is true. find
// does not access the disk.
func (s *Server) find(p string) (_ place, all bool, err error) {
	if len(p) > maxPath {
		return place{}, false, refuse("use a shorter path", "the path has %d bytes, and the limit is %d", len(p), maxPath)
	}
	if strings.ContainsRune(p, 0) {
		return place{}, false, refuse("remove the character", "the path %s contains a NUL character", quote(p))
	}
	if p == "~" || strings.HasPrefix(p, "~/") {
		if home, err := os.UserHomeDir(); err == nil {
			p = home + p[1:]
		}
	}
	if runtime.GOOS == "windows" {
		p = filepath.ToSlash(p)
	}
	if filepath.IsAbs(filepath.FromSlash(p)) || strings.HasPrefix(p, "/") {
		return s.absolute(p)
	}
	rel, ok := clean(p)
	if !ok {
		return place{}, false, s.outside(p)
	}
	if len(s.roots) == 1 {
		r := s.roots[0]
		if err := checkNames(rel); err != nil {
			return place{}, false, err
		}
		return place{root: r, rel: rel, name: s.display(r, rel)}, false, nil
	}
	if rel == "." {
		return place{}, true, nil
	}
	first, rest, _ := strings.Cut(rel, "/")
	for _, r := range s.roots {
		if r.name == first {
			rel := path.Clean(rest)
			if err := checkNames(rel); err != nil {
				return place{}, false, err
			}
			return place{root: r, rel: rel, name: s.display(r, rel)}, false, nil
		}
	}
	return place{}, false, refuse("begin the path with the name of a root: "+s.rootNames(), "%s does not begin with the name of a root", quote(p))
}

// absolute returns the place for an absolute path. It compares the text of the path with the paths
// of the roots, and does not follow symlinks. If the paths of several roots match, absolute uses
// the longest.
func (s *Server) absolute(p string) (place, bool, error) {
	p = path.Clean(p)
	var found *root
	var rel string
	longest := -1
	for _, r := range s.roots {
		for _, base := range []string{r.abs, r.real} {
			if rest, ok := below(filepath.ToSlash(base), p); ok && len(base) > longest {
				found, rel, longest = r, rest, len(base)
			}
		}
	}
	if found == nil {
		return place{}, false, s.outside(p)
	}
	if err := checkNames(rel); err != nil {
		return place{}, false, err
	}
	return place{root: found, rel: rel, name: s.display(found, rel)}, false, nil
}

// below returns the path of p relative to base. It returns false if p is neither base nor a path
// below base. Both paths must be clean and use slashes, even on Windows.
func below(base, p string) (string, bool) {
	same := func(a, b string) bool { return a == b }
	if runtime.GOOS == "windows" {
		same = strings.EqualFold
	}
	base = strings.TrimSuffix(base, "/")
	switch {
	case same(p, base) || base == "" && p == "/":
		return ".", true
	case len(p) > len(base)+1 && p[len(base)] == '/' && same(p[:len(base)], base):
		return p[len(base)+1:], true
	}
	return "", false
}

// clean removes the empty elements, the "." elements and the ".." elements of a relative path. It
// returns false if a ".." leads above the start of the path.
func clean(p string) (string, bool) {
	var out []string
	for _, e := range strings.Split(p, "/") {
		switch e {
		case "", ".":
		case "..":
			if len(out) == 0 {
				return "", false
			}
			out = out[:len(out)-1]
		default:
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		return ".", true
	}
	return strings.Join(out, "/"), true
}

// checkNames returns an error if rel contains a reserved name. The operating system would not look
// for such a name below the root. Windows reserves the names of devices, streams and volumes.
func checkNames(rel string) error {
	if filepath.IsLocal(filepath.FromSlash(rel)) {
		return nil
	}
	return refuse("use another name", "%s contains a name that this system reserves", quote(rel))
}

// display returns the path that clients use for rel in the root r.
func (s *Server) display(r *root, rel string) string {
	switch {
	case len(s.roots) == 1:
		return rel
	case rel == ".":
		return r.name
	}
	return r.name + "/" + rel
}

// one returns the place for a path, and an error if the path means the list of roots.
func (s *Server) one(p string) (place, error) {
	at, all, err := s.find(p)
	if err == nil && all {
		err = refuse("begin the path with the name of a root: "+s.rootNames(), "the server has several roots, and the path names none")
	}
	return at, err
}

// outside returns the error for a path outside all roots.
func (s *Server) outside(p string) error {
	next := `use a path relative to the root; "." is the root itself`
	if len(s.roots) > 1 {
		next = "begin the path with the name of a root: " + s.rootNames()
	}
	return refuse(next, "%s is outside the folders that this server may use", quote(p))
}

func (s *Server) rootNames() string {
	var names []string
	for _, r := range s.roots {
		names = append(names, r.name)
	}
	return strings.Join(names, ", ")
}

// child returns the place of one entry of the folder p.
func (p place) child(s *Server, name string) place {
	rel := name
	if p.rel != "." {
		rel = p.rel + "/" + name
	}
	return place{root: p.root, rel: rel, name: s.display(p.root, rel)}
}

// parent returns the place of the folder that contains p, and the last element of p.
func (p place) parent(s *Server) (place, string) {
	rel := path.Dir(p.rel)
	return place{root: p.root, rel: rel, name: s.display(p.root, rel)}, path.Base(p.rel)
}

// local returns the absolute path of p in the form of the operating system.
func (p place) local() string { return filepath.Join(p.abs, filepath.FromSlash(p.rel)) }

// uri returns the file URI of p.
func (p place) uri() string {
	l := filepath.ToSlash(p.local())
	if !strings.HasPrefix(l, "/") {
		l = "/" + l // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: l}).String()
}

// ofURI returns the place for a file URI.
func (s *Server) ofURI(uri string) (place, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || u.Fragment != "" || u.Path == "" {
		return place{}, refuse("use file:// and an absolute path", "%s is not the URI of a local file", quote(uri))
	}
	p := u.Path
	if runtime.GOOS == "windows" {
		p = strings.TrimPrefix(p, "/")
	}
	if len(p) > maxPath || strings.ContainsRune(p, 0) {
		return place{}, s.outside(uri)
	}
	at, _, err := s.absolute(p)
	return at, err
}

// resolve returns a place in which the target of each symlink replaces the symlink. If last is
// false, a symlink in the last element stays. resolve returns an error for a symlink that is
// absolute or leads outside the root. Security does not depend on this check, because somebody may
// replace a folder at any time. os.Root confines every access to the root.
func (s *Server) resolve(at place, last bool) (place, error) {
	rest := strings.Split(at.rel, "/")
	done := "."
	steps := 0
	for len(rest) > 0 {
		e := rest[0]
		rest = rest[1:]
		if e == "." || e == "" {
			continue
		}
		if e == ".." {
			if done == "." {
				return place{}, s.leadsOutside(at)
			}
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, e)
		if len(rest) == 0 && !last {
			done = next
			break
		}
		target, err := at.dir.Readlink(filepath.FromSlash(next))
		if err != nil {
			done = next // the element is not a symlink, or does not exist
			continue
		}
		if steps++; steps > maxLinkSteps {
			return place{}, refuse("use the path of the file itself", "%s follows more than %d symlinks", quote(at.name), maxLinkSteps)
		}
		if filepath.IsAbs(target) || strings.HasPrefix(target, "/") {
			return place{}, s.leadsOutside(at)
		}
		rest = append(strings.Split(filepath.ToSlash(target), "/"), rest...)
	}
	return place{root: at.root, rel: done, name: s.display(at.root, done)}, nil
}

// leadsOutside returns the error for a path with a symlink that the server does not follow.
func (s *Server) leadsOutside(at place) error {
	return refuse("use a path without that symlink", "%s goes through a symlink that is absolute or leads outside the root", quote(at.name))
}
