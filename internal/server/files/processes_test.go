package files

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// process starts the test binary as a server of a folder, and connects a client.
func process(t *testing.T, root string) *mcp.ClientSession {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serveVariable+"="+root)
	cmd.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// at3 calls f for three processes at the same time. The third one serves a folder of the root that
// the others serve; f gets the path of this folder in each process.
func at3(t *testing.T) (root string, each func(f func(n int, s *mcp.ClientSession, sub string))) {
	t.Helper()
	root = t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	all := []*mcp.ClientSession{process(t, root), process(t, root), process(t, filepath.Join(root, "sub"))}
	subs := []string{"sub/", "sub/", ""}
	return root, func(f func(int, *mcp.ClientSession, string)) {
		var running sync.WaitGroup
		for n, s := range all {
			running.Go(func() { f(n, s, subs[n]) })
		}
		running.Wait()
	}
}

// done calls a tool, and reports whether it succeeded.
func done(t *testing.T, s *mcp.ClientSession, name string, a args) bool {
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: a})
	if err != nil {
		t.Error(err)
		return false
	}
	return !res.IsError
}

func TestProcessesLoseNoAppend(t *testing.T) {
	t.Parallel()
	root, each := at3(t)
	each(func(n int, s *mcp.ClientSession, sub string) {
		for i := range 30 {
			if !done(t, s, "write_file", args{"path": sub + "log", "content": fmt.Sprintf("%d/%d\n", n, i), "append": true}) {
				t.Errorf("append %d of process %d failed", i, n)
			}
		}
	})
	b, err := os.ReadFile(filepath.Join(root, "sub/log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(b))
	slices.Sort(lines)
	if got := len(slices.Compact(lines)); got != 90 {
		t.Errorf("90 appends were acknowledged, and the file has %d of them", got)
	}
}

func TestOneProcessWins(t *testing.T) {
	t.Parallel()
	root, each := at3(t)
	file := filepath.Join(root, "sub/f")
	for round := range 20 {
		for name, call := range map[string]func(n int, sub, version string) (string, args){
			"if_version": func(n int, sub, version string) (string, args) {
				return "write_file", args{"path": sub + "f", "content": fmt.Sprint("new", n), "if_version": version}
			},
			"new file": func(n int, sub, _ string) (string, args) {
				return "write_file", args{"path": sub + "new", "content": fmt.Sprint("new", n), "overwrite": false}
			},
			"copy": func(n int, sub, _ string) (string, args) {
				return "copy_file", args{"source": fmt.Sprint(sub, "from", n), "destination": sub + "new"}
			},
			"move": func(n int, sub, _ string) (string, args) {
				return "move_file", args{"source": fmt.Sprint(sub, "from", n), "destination": sub + "new"}
			},
			"move of one file": func(n int, sub, _ string) (string, args) {
				return "move_file", args{"source": sub + "f", "destination": fmt.Sprint(sub, "to", n)}
			},
			"delete": func(_ int, sub, _ string) (string, args) {
				return "delete_file", args{"path": sub + "f"}
			},
		} {
			for _, left := range []string{"new", "to0", "to1", "to2"} {
				_ = os.Remove(filepath.Join(root, "sub", left))
			}
			for _, n := range []string{"f", "from0", "from1", "from2"} {
				if err := os.WriteFile(filepath.Join(root, "sub", n), []byte(n), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			fi, err := os.Lstat(file)
			if err != nil {
				t.Fatal(err)
			}
			var won [3]bool
			each(func(n int, s *mcp.ClientSession, sub string) {
				tool, a := call(n, sub, version(fi))
				won[n] = done(t, s, tool, a)
			})
			if n := len(slices.DeleteFunc(won[:], func(w bool) bool { return !w })); n != 1 {
				t.Errorf("%s, round %d: %d processes won", name, round, n)
			}
		}
	}
}

// With overwrite, all processes win, and the file of each loser is in an undo folder.
func TestProcessesKeepWhatTheyReplace(t *testing.T) {
	t.Parallel()
	root, each := at3(t)
	for n := range 3 {
		for _, kind := range []string{"move", "copy"} {
			if err := os.WriteFile(filepath.Join(root, "sub", fmt.Sprint(kind, n)), []byte(fmt.Sprint(kind, n)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	each(func(n int, s *mcp.ClientSession, sub string) {
		for _, kind := range []string{"move", "copy"} {
			if !done(t, s, kind+"_file", args{"source": fmt.Sprint(sub, kind, n), "destination": sub + "to", "overwrite": true}) {
				t.Errorf("%s of process %d failed", kind, n)
			}
		}
	})
	found := map[string]bool{}
	for _, pattern := range []string{"sub/to", undoFolder + "/*/sub/to", "sub/" + undoFolder + "/*/to"} {
		names, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Error(err)
			}
			found[string(b)] = true
		}
	}
	if len(found) != 6 {
		t.Errorf("of six contents, these exist: %v", found)
	}
}

// A call waits while another process has the lock of a folder, and goes on when the lock is free.
func TestCallWaitsForLock(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	holder, s := openRootsOnce(t, root), process(t, root)
	unlock, err := lockFolders(t.Context(), []place{holder})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan bool)
	go func() { ended <- done(t, s, "write_file", args{"path": "a", "content": "x"}) }()
	select {
	case <-ended:
		t.Error("a call wrote while another process had the lock")
	case <-time.After(50 * time.Millisecond):
	}
	unlock()
	if !<-ended {
		t.Error("the call failed")
	}
}

func openRootsOnce(t *testing.T, folder string) place {
	t.Helper()
	roots, err := openRoots([]string{folder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = roots[0].dir.Close() })
	return place{root: roots[0], rel: "a", name: "a"}
}
