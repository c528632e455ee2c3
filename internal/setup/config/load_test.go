package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.yaml")
	if s, ps := Load(missing); s != nil || !strings.HasPrefix(listing(ps), missing+": file not found") {
		t.Errorf("missing: %v %s", s, listing(ps))
	}
	if s, ps := Load(dir); s != nil || !strings.Contains(listing(ps), "it is a folder, not a regular file") {
		t.Errorf("a folder: %v %s", s, listing(ps))
	}
	t.Setenv("CONFIG_TEST_TOKEN", "hunter2")
	literal := "mcpServers: {a: {command: x, env: {GH_TOKEN: hunter2}}}"
	referred := "mcpServers: {a: {command: x, env: {GH_TOKEN: '${CONFIG_TEST_TOKEN}'}}}"
	for _, tt := range []struct {
		text string
		mode os.FileMode
		warn bool
	}{{literal, 0o644, true}, {literal, 0o600, false}, {referred, 0o644, false}} {
		s, ps := Load(write(t, filepath.Join(dir, "c.yaml"), tt.text, tt.mode))
		if s == nil || strings.Contains(listing(ps), "other users of this machine") != tt.warn {
			t.Errorf("%s %o: %s", tt.text, tt.mode, listing(ps))
		}
	}
}

func TestFind(t *testing.T) {
	t.Chdir(t.TempDir())
	home := t.TempDir()
	if p, ok := Find(env("HOME=" + home)); ok {
		t.Errorf("found %s, which does not exist", p)
	}
	inHome := write(t, filepath.Join(home, ".config", "dragoman", "config.yaml"), "", 0o600)
	xdg := t.TempDir()
	inXDG := write(t, filepath.Join(xdg, "dragoman", "config.yaml"), "", 0o600)
	for _, tt := range []struct{ vars, want string }{
		{"HOME=" + home, inHome}, {"XDG_CONFIG_HOME=" + xdg, inXDG}, {"XDG_CONFIG_HOME=relative", ""},
	} {
		if p, _ := Find(env(tt.vars)); p != tt.want {
			t.Errorf("%s: found %q, want %q", tt.vars, p, tt.want)
		}
	}
	last := func(vars ...string) string {
		all := places(env(vars...), true)
		return all[len(all)-1]
	}
	if got, want := last("APPDATA=/Roaming", "HOME=/home"), filepath.Join("/Roaming", "dragoman", "config.yaml"); got != want {
		t.Errorf("on Windows: %s, want %s", got, want)
	}
	if got, want := last("APPDATA=/Roaming", "XDG_CONFIG_HOME="+xdg), inXDG; got != want {
		t.Errorf("on Windows with XDG_CONFIG_HOME: %s, want %s", got, want)
	}
	if got := last("HOME=/home"); got != "dragoman.json" {
		t.Errorf("on Windows without %%AppData%%: %s", got)
	}
	for _, here := range []string{"dragoman.json", "dragoman.yml", "dragoman.yaml"} {
		write(t, here, "", 0o600)
		if p, _ := Find(env("HOME=" + home)); p != here {
			t.Errorf("found %q, want %q", p, here)
		}
	}
}

// watching runs Watch on path while body runs, and passes body the reported contents.
func watching(t *testing.T, path string, body func(changes <-chan string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan string, 100)
	ended := make(chan error, 1)
	go func() { ended <- Watch(ctx, path, nil, func(b []byte) { changes <- string(b) }) }()
	body(changes)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Watch: %v", err)
	}
}

// until writes new contents until Watch reports one of them. Usually one write is enough. until
// repeats the write because the test cannot know when Watch has started.
func until(t *testing.T, changes <-chan string, appear func(text string)) {
	t.Helper()
	for i := range 100 {
		text := fmt.Sprintf("content %d of %s", i, t.Name())
		appear(text)
		select {
		case got := <-changes:
			if !strings.HasSuffix(got, t.Name()) {
				t.Fatalf("reported %q", got)
			}
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
	t.Fatal("no change was reported")
}

func TestWatch(t *testing.T) {
	for name, appear := range map[string]func(path, text string) error{
		"written in place": func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) },
		"replaced as editors do": func(path, text string) error {
			if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
		"removed and created": func(path, text string) error {
			_ = os.Remove(path)
			return os.WriteFile(path, []byte(text), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "c.yaml"), "start", 0o600)
			watching(t, path, func(changes <-chan string) {
				for range 2 {
					until(t, changes, func(text string) {
						if err := appear(path, text+t.Name()); err != nil {
							t.Fatal(err)
						}
					})
				}
			})
		})
	}
}

// TestWatchThroughLinks replaces a file through symbolic links, as Kubernetes does in a
// volume.
func TestWatchThroughLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "v0", "c.yaml"), "start", 0o600)
	link := func(to string) {
		tmp := filepath.Join(dir, "tmp")
		if err := os.Symlink(to, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	link("v0")
	path := filepath.Join(dir, "c.yaml")
	if err := os.Symlink(filepath.Join("data", "c.yaml"), path); err != nil {
		t.Fatal(err)
	}
	watching(t, path, func(changes <-chan string) {
		n := 0
		until(t, changes, func(text string) {
			n++
			v := fmt.Sprintf("v%d", n)
			write(t, filepath.Join(dir, v, "c.yaml"), text, 0o600)
			link(v)
		})
		// Overwrite the file in the folder to which the link now points.
		until(t, changes, func(text string) { write(t, filepath.Join(dir, fmt.Sprintf("v%d", n), "c.yaml"), "x"+text, 0o600) })
	})
}

// TestWatchAnotherFolder checks that a folder that takes the place of the watched one is noticed,
// whether it is renamed or a link on the path leads to it.
func TestWatchAnotherFolder(t *testing.T) {
	for _, name := range []string{"renamed", "linked"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			current := filepath.Join(dir, "current")
			put := func(text string) {
				fresh := filepath.Join(dir, text)
				write(t, filepath.Join(fresh, "c.yaml"), text, 0o600)
				old := filepath.Join(dir, "before-"+text)
				_ = os.Rename(current, old) // there is none at first
				if name == "linked" {
					if err := os.Symlink(fresh, current); err != nil {
						t.Fatal(err)
					}
				} else if err := os.Rename(fresh, current); err != nil {
					t.Fatal(err)
				}
			}
			put("start")
			path := filepath.Join(current, "c.yaml")
			watching(t, path, func(changes <-chan string) {
				// While the folders change places, there is none, and Watch couldn't begin.
				until(t, changes, func(text string) { write(t, path, text, 0o600) })
				put("v0")
				late := time.After(30 * time.Second)
				for {
					select {
					case got := <-changes:
						if got == "v0" {
							return
						}
					case <-late:
						t.Fatal("the other folder was not noticed")
					}
				}
			})
		})
	}
}

func TestWatchWithoutFolder(t *testing.T) {
	if err := Watch(t.Context(), filepath.Join(t.TempDir(), "none", "c.yaml"), nil, nil); err == nil {
		t.Error("no error")
	}
}

func TestProblemsErr(t *testing.T) {
	if err := (Problems{{Text: "x", Warning: true}}).Err(); err != nil {
		t.Error(err)
	}
	err := (Problems{{Text: "x"}, {Text: "y", Warning: true}, {Text: "z", File: "f"}}).Err()
	if got := strings.Split(err.Error(), "\n"); !reflect.DeepEqual(got, []string{"x", "f: z"}) {
		t.Errorf("%q", got)
	}
}

// TestWatchAfterLoad changes the file between Load and Watch, which must report the change, and nothing if there
// is none.
func TestWatchAfterLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, change := range []bool{false, true} {
		write("mcpServers: {a: {command: x}}")
		s, problems := Load(path)
		if s == nil {
			t.Fatal(problems)
		}
		if change {
			write("mcpServers: {b: {command: x}}")
		}
		ctx, stop := context.WithTimeout(t.Context(), 2*settle)
		reported := false
		if err := Watch(ctx, path, s, func([]byte) { reported = true; stop() }); err != nil {
			t.Fatal(err)
		}
		stop()
		if reported != change {
			t.Errorf("changed %t, reported %t", change, reported)
		}
	}
}
