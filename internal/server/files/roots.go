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

// Bounds of paths.
const (
	maxPath      = 4096 // bytes of a path in an argument
	maxLinkSteps = 40   // symlinks that one path may follow, as Linux does
)

// root is one folder that the user named.
type root struct {
	name string   // the beginning of paths on a server with several roots
	abs  string   // the absolute path that the user named
	real string   // abs without symlinks
	dir  *os.Root // confines every access

	number int // the position among the roots; locks are taken in this order

	changing chan struct{} // holds one value while a call changes files in the root
}

// place is a path within a root.
type place struct {
	*root
	rel  string // with slashes; "." is the root itself
	name string // the path as the client writes it
}

// openRoots opens the folders. It closes them again if one of them cannot be opened.
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

// apart refuses two roots if one contains the other. A file in both would have two paths, and a
// move from one path to the other would remove the file.
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

// gone reports whether somebody deleted the root. A root that was moved still works.
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

// freeName returns a name for a root that no other root has.
func freeName(roots []*root, base string) string {
	if base == string(filepath.Separator) || base == "." || strings.ContainsRune(base, filepath.Separator) {
		base = "root" // the top of a volume
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

// find returns the place that a path of a client names. If a server has several roots and the path
// names the list of these roots, all is true and the place is empty. find does not use the disk.
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

// absolute returns the place of an absolute path. If several roots contain the path as it is
// written, absolute uses the root with the longest path.
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

// below returns the path of p relative to base, if p is base or below it. base and p are clean, and
// their separator is a slash, on Windows too.
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

// clean returns a relative path without empty, "." and ".." elements. It returns false if the
// path leads above its beginning at any point.
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

// checkNames refuses paths that the system would not treat as paths below a folder: on
// Windows, names of devices, of streams and of volumes.
func checkNames(rel string) error {
	if filepath.IsLocal(filepath.FromSlash(rel)) {
		return nil
	}
	return refuse("use another name", "%s contains a name that this system reserves", quote(rel))
}

// display returns a place as clients write it.
func (s *Server) display(r *root, rel string) string {
	switch {
	case len(s.roots) == 1:
		return rel
	case rel == ".":
		return r.name
	}
	return r.name + "/" + rel
}

// one returns the place of a path that must not name the list of roots.
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

// child returns the place of an entry of a folder.
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

// local returns the path of p on this machine.
func (p place) local() string { return filepath.Join(p.abs, filepath.FromSlash(p.rel)) }

// uri returns the file URI of p.
func (p place) uri() string {
	l := filepath.ToSlash(p.local())
	if !strings.HasPrefix(l, "/") {
		l = "/" + l // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: l}).String()
}

// ofURI returns the place of a file URI.
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

// resolve follows the symlinks of a place as far as the place exists, and returns the place without
// them. If last is false, it does not follow the last element. It refuses symlinks that lead
// outside. This check alone protects nothing, because somebody may replace a folder at any time.
// os.Root confines every access.
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
