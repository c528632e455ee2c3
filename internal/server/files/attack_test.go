package files

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// canary is a text in every file outside the root. No answer may contain it.
const canary = "the-canary-of-the-filesystem-server"

// attack reports whether `make attack` runs the tests.
func attack() bool { return attackTime() > 0 }

// attackTime is the time for each attack in `make attack`. Without `make attack` it is zero, and
// the attacks make a fixed number of calls.
func attackTime() time.Duration {
	n, _ := strconv.Atoi(os.Getenv("DRAGOMAN_ATTACK"))
	return time.Duration(n) * time.Second
}

// trap is a root with secrets in the folders around it.
type trap struct {
	t              *testing.T
	base, root     string
	outside, other string
}

// newTrap makes a root, a folder outside the root, and another folder whose path begins with the
// path of the root.
func newTrap(t *testing.T) *trap {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &trap{t: t, base: base, root: filepath.Join(base, "root"), outside: filepath.Join(base, "outside"), other: filepath.Join(base, "root-other")}
	for _, dir := range []string{p.outside, p.other, filepath.Join(p.outside, "sub"), filepath.Join(p.root, "sub")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(dir, p.root+string(filepath.Separator)) {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(canary), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// around returns a text that describes everything outside the root: names, modes, times and contents.
func (p *trap) around() string {
	p.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(p.base, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == p.root {
			return fs.SkipDir
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %d", path, fi.Mode(), fi.Size())
		if path != p.base { // the time of this folder changes with the root
			fmt.Fprintf(&b, " %v", fi.ModTime())
		}
		if fi.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.Write(content)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return b.String()
}

// fill makes the entries that are missing in the root: files, and symlinks that lead outside.
func (p *trap) fill() {
	_ = os.MkdirAll(filepath.Join(p.root, "sub", "deep"), 0o755)
	_ = os.WriteFile(filepath.Join(p.root, "file"), []byte("inside"), 0o644)
	for name, target := range map[string]string{
		"abs": p.outside, "absfile": filepath.Join(p.outside, "secret"),
		"rel": "../outside", "relfile": "../outside/secret",
		"up": "..", "upup": "../..", "top": "/", "self": ".", "loop": "loop", "ping": "pong", "pong": "ping",
		"sub/rel": "../../outside", "sub/relfile": "../../outside/secret", "sub/deep/rel": "../../../outside",
		"chain": "sub/rel", "chain2": "chain", "viaself": "self/../../outside",
		"newabs": filepath.Join(p.outside, "made"), "newrel": "../outside/made", "newsub": "sub/../../outside/made",
		"back": "../root/../outside", "proc": "/proc/self/root", "cwd": "/proc/self/cwd", "fd": "/dev/fd",
	} {
		_ = os.Symlink(filepath.FromSlash(target), filepath.Join(p.root, filepath.FromSlash(name)))
	}
	p.special()
}

// tricks returns paths that try to lead outside the root.
func (p *trap) tricks() (all []string) {
	slash := filepath.ToSlash
	heads := []string{
		"..", "./..", "../.", "sub/../..", "sub/./../..", "sub//..//..", "sub/deep/../../..", "none/../..", "file/../..", "self/../..", "self/self/..",
		"../../" + filepath.Base(p.base), strings.Repeat("../", 60), strings.Repeat("sub/../", 200) + "..", slash(p.base), slash(p.root) + "/..", slash(p.root) + "/sub/../..",
		"/" + slash(p.base), "//" + slash(p.base), "/./" + slash(p.base), "/proc/self/root" + slash(p.base), "/proc/self/cwd/" + slash(p.base),
		"%2e%2e", "..%2f", "%2e%2e%2f", "..%c0%af", "..\\", "sub\\..\\..", "....//", ".../", "‥", "．．", "..;", "..\u2215", "..\u0000", "\u0000/..", "..\n", " ..", ".. ", "~/..", "~", "~root", "$HOME", "${HOME}", "file://" + slash(p.base), "file:" + slash(p.base), "root/..", "\\\\?\\", "C:", "C:/", "C:..", "\\\\localhost\\c$",
		"abs", "rel", "up", "upup", "top", "chain", "chain2", "viaself", "back", "proc", "cwd", "fd", "loop", "ping", "sub/rel", "sub/deep/rel", "self/rel", "self/self/abs", "sub/../rel", "ABS", "up/root/up", "up/root/rel",
		undoFolder + "/..", undoFolder + "/../..", undoFolder + "/../rel",
	}
	tails := []string{"/outside/secret", "/secret"}
	for _, h := range heads {
		for _, t := range tails {
			all = append(all, h+t)
		}
	}
	all = append(all,
		"..", "../", "/", "//", "", ".", "/.", "...", "../..", "../outside", "../root-other", "../root-other/secret", slash(p.other)+"/secret", slash(p.root)+"-other/secret",
		"absfile", "relfile", "sub/relfile", "newabs", "newrel", "newsub", "absfile/", "absfile/.", "newabs/.", "newrel/x", "abs/", "abs/.", "abs/made", "rel/made/made", "top/etc/passwd", "proc/etc/passwd", "/etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/environ", "fd/0", "fd/1",
		"pipe", "socket", "device", "sub/pipe", "pipe/.", "device/x",
		"loop", "ping/pong", "self/self/self/self/file", strings.Repeat("self/", 100)+"file", strings.Repeat("a/", 2100), strings.Repeat("x", 5000), strings.Repeat("../", 1400),
	)
	return all
}

// hostile calls every tool with the path p in every argument that takes a path.
func (r *rig) hostile(p string, check func(call, answer string)) {
	calls := []struct {
		tool string
		args args
	}{
		{"list_dir", args{"path": p, "hidden": true}},
		{"read_file", args{"path": p}},
		{"get_metadata", args{"path": p}},
		{"search_files", args{"path": p, "content": "canary", "hidden": true}},
		{"watch_folder", args{"path": p}},
		{"write_file", args{"path": p, "content": "written"}},
		{"write_file", args{"path": p, "content": "written", "append": true}},
		{"copy_file", args{"source": p, "destination": "got"}},
		{"copy_file", args{"source": "file", "destination": p, "overwrite": true}},
		{"copy_file", args{"source": "sub", "destination": p + "/copy"}},
		{"move_file", args{"source": p, "destination": "got2"}},
		{"move_file", args{"source": "file", "destination": p, "overwrite": true}},
		{"delete_file", args{"path": p, "recursive": true}},
		{"delete_file", args{"path": p, "recursive": true, "permanent": true}},
	}
	for _, c := range calls {
		text, _ := r.Call(c.tool, c.args, nil)
		check(fmt.Sprintf("%s %v", c.tool, c.args), text)
	}
	uri := "file://" + p
	if res, err := r.Client.ReadResource(r.T.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
		for _, c := range res.Contents {
			check("resources/read "+uri, c.Text+string(c.Blob))
		}
	}
	_ = r.Client.Subscribe(r.T.Context(), &mcp.SubscribeParams{URI: uri})
	_ = r.Client.Unsubscribe(r.T.Context(), &mcp.UnsubscribeParams{URI: uri})
}

// leaks reports whether an answer has the canary, also as base64.
func leaks(answer string) bool {
	coded := base64.StdEncoding.EncodeToString([]byte(canary))
	return strings.Contains(answer, canary) || strings.Contains(answer, strings.TrimRight(coded, "="))
}

// TestAttackPaths calls every tool with more than 200 paths that try to lead outside.
func TestAttackPaths(t *testing.T) {
	t.Parallel()
	p := newTrap(t)
	p.fill()
	r := openWith(t, Options{Roots: []string{p.root}}, func(s *Server) { s.volatile = true })
	before := p.around()
	tricks := p.tricks()
	if len(tricks) < 200 {
		t.Errorf("only %d paths", len(tricks))
	}
	for _, trick := range tricks {
		p.fill()
		r.hostile(trick, func(call, answer string) {
			if leaks(answer) {
				t.Errorf("%s returns a file outside the root: %s", call, answer)
			}
		})
		_ = os.RemoveAll(filepath.Join(p.root, "got"))
		_ = os.RemoveAll(filepath.Join(p.root, "got2"))
		if _, err := os.Stat(p.root); err != nil {
			t.Fatalf("after %q the root is gone: %v", trick, err)
		}
	}
	if after := p.around(); after != before {
		t.Errorf("something outside the root changed. Before:\n%s\nafter:\n%s", before, after)
	}
	r.noTemps()
}

// TestAttackSwaps exchanges folders and files for symlinks that lead outside, while all tools use
// these paths.
func TestAttackSwaps(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]bool{"one disk": false, "several disks": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attackSwaps(t, apart)
		})
	}
}

// attackSwaps makes the swaps and the calls. If apart is true, a move copies a file and deletes the
// original, as between two disks.
func attackSwaps(t *testing.T, apart bool) {
	p := newTrap(t)
	r := openWith(t, Options{Roots: []string{p.root}, Poll: time.Millisecond}, func(s *Server) { s.volatile, s.apart = true, apart })
	before := p.around()
	// The test also makes its own changes through an os.Root, so that it does not change files
	// outside the root.
	root, err := os.OpenRoot(p.root)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	fresh := func() {
		_ = root.MkdirAll("d/sub", 0o755)
		for _, name := range []string{"d/secret", "d/sub/secret", "f"} {
			if f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); err == nil {
				_, _ = f.WriteString("inside")
				_ = f.Close()
			}
		}
	}
	fresh()
	if err := root.Symlink("x", "try"); err != nil {
		skipUnsupported(t, "this system makes no symlinks", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var swapping, calling sync.WaitGroup
	var swaps, answers atomic.Int64
	for i, s := range []struct{ name, target string }{
		{"d", "../outside"}, {"d", p.outside}, {"d/sub", "../../outside/sub"}, {"f", "../outside/secret"}, {"f", filepath.Join(p.outside, "secret")},
	} {
		swapping.Go(func() {
			aside := "aside-" + strconv.Itoa(i)
			for ctx.Err() == nil {
				if root.Rename(s.name, aside) == nil {
					_ = root.Symlink(s.target, s.name)
					_ = root.Remove(s.name)
					_ = root.Rename(aside, s.name)
				} else {
					fresh()
				}
				_ = root.RemoveAll(aside)
				swaps.Add(1)
				time.Sleep(100 * time.Microsecond) // without a pause, the swaps leave little time for the calls
			}
		})
	}
	swapping.Go(func() {
		for ctx.Err() == nil {
			p.pipe(filepath.Join(p.root, "f"))
			_ = root.Remove("f")
			fresh()
			time.Sleep(100 * time.Microsecond)
		}
	})
	end := time.Now().Add(attackTime())
	for w := range 4 {
		calling.Go(func() {
			for i := 0; i < 8 || time.Now().Before(end); i++ {
				for _, c := range []struct {
					tool string
					args args
				}{
					{"read_file", args{"path": "d/secret"}},
					{"read_file", args{"path": "f"}},
					{"write_file", args{"path": "d/secret", "content": "written"}},
					{"write_file", args{"path": "f", "content": "written", "append": true}},
					{"write_file", args{"path": fmt.Sprintf("d/sub/new-%d", w), "content": "written"}},
					{"list_dir", args{"path": "d"}},
					{"search_files", args{"path": "d", "content": "canary", "hidden": true}},
					{"copy_file", args{"source": "d", "destination": fmt.Sprintf("copy-%d", w)}},
					{"copy_file", args{"source": "f", "destination": "d/sub/f", "overwrite": true}},
					{"move_file", args{"source": "d/secret", "destination": "d/sub/secret", "overwrite": true}},
					{"move_file", args{"source": "d/sub", "destination": fmt.Sprintf("moved-%d", w)}},
					{"move_file", args{"source": fmt.Sprintf("copy-%d", w), "destination": "d/sub/copy"}},
					{"move_file", args{"source": "f", "destination": fmt.Sprintf("moved-%d/f", w)}},
					{"move_file", args{"source": fmt.Sprintf("moved-%d/secret", w), "destination": "f", "overwrite": true}},
					{"move_file", args{"source": fmt.Sprintf("moved-%d", w), "destination": "d/moved"}},
					{"move_file", args{"source": "d", "destination": fmt.Sprintf("copy-%d/d", w)}},
					{"delete_file", args{"path": fmt.Sprintf("moved-%d", w), "recursive": true, "permanent": true}},
					{"delete_file", args{"path": fmt.Sprintf("copy-%d", w), "recursive": true, "permanent": true}},
					{"delete_file", args{"path": "d/sub", "recursive": true}},
					{"delete_file", args{"path": "d", "recursive": true, "permanent": true}},
					{"watch_folder", args{"path": "."}},
				} {
					text, _ := r.Call(c.tool, c.args, nil)
					if answers.Add(1); leaks(text) {
						t.Errorf("%s %v returns a file outside the root: %s", c.tool, c.args, text)
					}
				}
			}
		})
	}
	calling.Wait()
	stop()
	swapping.Wait()
	t.Logf("%d calls during %d swaps", answers.Load(), swaps.Load())
	if after := p.around(); after != before {
		t.Errorf("something outside the root changed. Before:\n%s\nafter:\n%s", before, after)
	}
	r.noTemps()
	_ = filepath.WalkDir(p.root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != ".gitignore" {
			b, _ := os.ReadFile(path)
			if strings.Trim(strings.ReplaceAll(strings.ReplaceAll(string(b), "inside", ""), "written", ""), "\n") != "" {
				t.Errorf("%s has %q", path, b)
			}
		}
		return nil
	})
}

// TestAttackMoves moves files and folders with several calls at the same time, also onto each other.
// Every file must exist in the end, in the root or in its undo folder. Between disks a call copies
// without a lock, so the copy of a folder may have a file that another call has moved meanwhile.
func TestAttackMoves(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]bool{"one disk": false, "several disks": true} {
		t.Run(name, func(t *testing.T) {
			r := openWith(t, Options{Poll: time.Millisecond}, func(s *Server) { s.volatile, s.apart = true, apart })
			const files = 12
			for i := range files {
				r.put(fmt.Sprintf("a/%d", i), fmt.Sprintf("content %d", i))
				r.put(fmt.Sprintf("folder/%d/x", i), fmt.Sprintf("below %d", i))
			}
			var calling sync.WaitGroup
			var moves atomic.Int64
			end := time.Now().Add(attackTime())
			for w := range 4 {
				calling.Go(func() {
					choose := rand.New(rand.NewPCG(uint64(w), 1))
					pick := func(list ...string) string { return list[choose.IntN(len(list))] }
					for i := 0; i < 60 || time.Now().Before(end); i++ {
						number := strconv.Itoa(choose.IntN(files))
						from, to := pick("a", "b", "folder/1", "c/d"), pick("a", "b", "folder/2", "c/d")
						call := args{"source": from + "/" + number, "destination": to + "/" + pick(number, number, strconv.Itoa(choose.IntN(files))), "overwrite": choose.IntN(3) == 0}
						switch choose.IntN(6) {
						case 0:
							call = args{"source": "folder/" + number, "destination": "c/folder-" + number}
						case 1:
							call = args{"source": "c/folder-" + number, "destination": "folder/" + number}
						case 2:
							call = args{"source": pick("b", "c", "folder"), "destination": pick("b", "c", "folder")}
						}
						if _, failed := r.Call("move_file", call, nil); !failed {
							moves.Add(1)
						}
					}
				})
			}
			calling.Wait()
			var all strings.Builder
			if err := filepath.WalkDir(r.root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					var b []byte
					b, err = os.ReadFile(path)
					fmt.Fprintf(&all, "%s;", b)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for i := range files {
				for _, content := range []string{fmt.Sprintf("content %d;", i), fmt.Sprintf("below %d;", i)} {
					if n := strings.Count(all.String(), content); n < 1 || n > 1 && !apart {
						t.Errorf("%d files have %q", n, content)
					}
				}
			}
			r.noTemps()
			t.Logf("%d moves", moves.Load())
		})
	}
}

// TestAttackLargeFile uses a file of 1 GB, most of which is a hole.
func TestAttackLargeFile(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	const size = 1 << 30
	r.put("big", strings.Repeat("a line of text\n", 1000))
	if err := os.Truncate(r.path("big"), size-4); err != nil {
		t.Skip("the file system has no files with holes: ", err)
	}
	f, err := os.OpenFile(r.path("big"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("\nend")
	_ = f.Close()
	var out readOut
	r.OK("read_file", args{"path": "big"}, &out)
	if out.Size != size-0 || out.End || out.Bytes > readUsual {
		t.Errorf("%d bytes of %d", out.Bytes, out.Size)
	}
	out = readOut{}
	r.OK("read_file", args{"path": "big", "line": -1}, &out)
	if out.Text != "end" || !out.End {
		t.Errorf("the last line: %+v", out)
	}
	out = readOut{}
	r.OK("read_file", args{"path": "big", "offset": size - 3}, &out)
	if out.Text != "end" || !out.End {
		t.Errorf("the last bytes: %+v", out)
	}
	if attack() { // these calls read the whole file
		r.wholeFile()
	}
	r.Refused("write_file", args{"path": "big", "content": "x", "append": true}, "append works up to")
	uri := "file://" + filepath.ToSlash(r.path("big"))
	if _, err := r.Client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil || !strings.Contains(err.Error(), "read_file") {
		t.Errorf("resources/read: %v", err)
	}
	r.OK("move_file", args{"source": "big", "destination": "sub/big"}, nil)
	r.OK("delete_file", args{"path": "sub/big"}, nil)
}

// wholeFile makes calls that read all of the large file.
func (r *rig) wholeFile() {
	t := r.T
	var out readOut
	r.OK("read_file", args{"path": "big", "line": 1002}, &out)
	if out.Text != "end" {
		t.Errorf("the last line by its number: %+v", out)
	}
	r.Refused("read_file", args{"path": "big", "line": 1003}, "1002 lines")
	var found searchOut
	r.OK("search_files", args{"content": "^end$", "regex": true}, &found)
	if len(found.Results) != 1 || found.Results[0].Lines[0].Line != 1002 {
		t.Errorf("the search: %+v", found)
	}
}

// FuzzPaths calls tools with any path. Nothing outside the root may be read or changed.
func FuzzPaths(f *testing.F) {
	for _, seed := range []string{"", ".", "..", "../outside/secret", "abs/secret", "rel/secret", "sub/../../outside", "/etc/passwd", "~", "a\x00b", "file:///x", "sub\\..\\..", "up/outside/secret", "newrel", strings.Repeat("../", 50), "chain/secret", undoFolder} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, p string) {
		trap := newTrap(t)
		trap.fill()
		s, err := Open(Options{Roots: []string{trap.root}, Undo: Undo{Size: 1 << 20}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		s.volatile = true
		before := trap.around()
		_, read, _ := s.read(t.Context(), nil, readIn{Path: p})
		raw, _ := base64.StdEncoding.DecodeString(read.Base64)
		if leaks(read.Text + string(raw)) {
			t.Errorf("read_file %q returns a file outside the root", p)
		}
		_, _, _ = s.write(t.Context(), nil, writeIn{Path: p, Content: "written"})
		_, _, _ = s.delete(t.Context(), nil, deleteIn{Path: p, Recursive: true})
		if at, err := s.ofURI("file://" + p); err == nil {
			if rel, err := filepath.Rel(trap.root, at.local()); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
				t.Errorf("the URI of %q is %s", p, at.local())
			}
		}
		if after := trap.around(); after != before {
			t.Errorf("%q changed something outside the root", p)
		}
	})
}
