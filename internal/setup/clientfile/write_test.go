package clientfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	now := time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.json")
	if err := os.Symlink("a.json", link); err != nil {
		t.Fatal(err)
	}
	backup, err := Change{Path: link, Before: []byte("old"), After: []byte("new"), Backup: true}.Write(now)
	if err != nil || filepath.Base(backup) != "a.json.dragoman-backup-20261122-010203" {
		t.Fatalf("%q, %v", backup, err)
	}
	check := func(path, want string, mode os.FileMode) {
		t.Helper()
		b, err := os.ReadFile(path)
		st, _ := os.Stat(path)
		if err != nil || string(b) != want || runtime.GOOS != "windows" && st.Mode().Perm() != mode {
			t.Errorf("%s: %q, %v, %v", path, b, st.Mode(), err)
		}
	}
	check(path, "new", 0o644)
	check(backup, "old", 0o600)
	if to, err := os.Readlink(link); err != nil || to != "a.json" {
		t.Errorf("the link is %q, %v", to, err)
	}
	if _, err := (Change{Path: path, Before: []byte("old"), After: []byte("x"), Backup: true}).Write(now); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that changed: %v", err)
	}
	if backup, err = (Change{Path: path, Before: []byte("new"), After: []byte("newer"), Private: true, Backup: true}).Write(now); err != nil || !strings.HasSuffix(backup, "-010203-2") {
		t.Errorf("%q, %v", backup, err)
	}
	check(path, "newer", 0o600)
	if got := Backups(link); len(got) != 2 || string(got[0]) != "new" || string(got[1]) != "old" {
		t.Errorf("backups %q", got)
	}
	fresh := filepath.Join(dir, "sub", "b.json")
	if backup, err = (Change{Path: fresh, After: []byte("x"), Backup: true}).Write(now); err != nil || backup != "" {
		t.Errorf("%q, %v", backup, err)
	}
	check(fresh, "x", 0o600)
	if _, err = (Change{Path: fresh, Before: []byte("x")}).Write(now); err != nil {
		t.Error(err)
	}
	if b, err := Load(fresh); b != nil || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("a folder was read")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestBackupsAreBounded checks that the oldest and the newest backups of a file stay, and everything that only
// looks like one.
func TestBackupsAreBounded(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.json")
	start := time.Date(2026, 11, 22, 1, 2, 3, 0, time.UTC)
	foreign := []string{
		"a.json.dragoman-backup-20200101-000000.mine", "a.json.dragoman-backup-20200101-000000-1", "a.json.dragoman-backup-20200101-000000-02",
		"a.json.dragoman-backup-20201301-000000", "a.json.dragoman-backup-old", "a.json.bak", "b.json.dragoman-backup-20200101-000000",
	}
	for _, name := range append(foreign, "a.json") {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(dir, "a.json.dragoman-backup-20200102-000000")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	change := func(n int, at time.Time) string {
		t.Helper()
		backup, err := Change{Path: path, Before: fmt.Append(nil, n), After: fmt.Append(nil, n+1), Backup: true}.Write(at)
		if err != nil {
			t.Fatal(err)
		}
		return backup
	}
	for n := range 25 {
		change(n, start.Add(time.Duration(n/12)*time.Second)) // 12 of one second, so that number 10 comes after number 9
	}
	var got []string
	for _, b := range Backups(path) {
		got = append(got, string(b))
	}
	if want := "24 23 22 21 20 19 18 17 16 0"; strings.Join(got, " ") != want {
		t.Errorf("the backups are %v, not %s", got, want)
	}
	early := change(25, start.Add(-time.Hour))
	again := change(26, start.Add(-time.Minute))
	for _, name := range append(foreign, filepath.Base(folder), filepath.Base(again), filepath.Base(early)) {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	if n := len(Backups(path)); n != mostBackups+1 {
		t.Errorf("%d backups after the clock was set back", n)
	}
}

func TestPlaces(t *testing.T) {
	unset := func(string) (string, bool) { return "", false }
	windows := func(name string) (string, bool) {
		v, ok := map[string]string{"APPDATA": `C:\Users\me\AppData\Roaming`, "LOCALAPPDATA": `C:\Users\me\AppData\Local`, "CODEX_HOME": `D:\codex`}[name]
		return v, ok
	}
	machines := map[string]Machine{
		"linux":   {OS: "linux", Home: "/home/me", Folder: "/work", Env: unset},
		"darwin":  {OS: "darwin", Home: "/Users/me", Folder: "/work", Env: unset},
		"windows": {OS: "windows", Home: `C:\Users\me`, Folder: `C:\work`, Env: windows, Glob: func(p string) []string { return []string{strings.Replace(p, "*", "x", 1)} }},
	}
	for _, c := range []struct{ os, id, want string }{
		{"linux", "claude", "/home/me/.config/Claude/claude_desktop_config.json"},
		{"darwin", "claude", "/Users/me/Library/Application Support/Claude/claude_desktop_config.json"},
		{"windows", "claude", `C:\Users\me\AppData\Roaming\Claude\claude_desktop_config.json C:\Users\me\AppData\Local\Packages\Claude_x\LocalCache\Roaming\Claude\claude_desktop_config.json`},
		{"linux", "claude-code", "/home/me/.claude.json project:/work/.mcp.json"},
		{"windows", "cursor", `C:\Users\me\.cursor\mcp.json project:C:\work\.cursor\mcp.json`},
		{"linux", "vscode", "/home/me/.config/Code/User/mcp.json /home/me/.config/Code - Insiders/User/mcp.json /home/me/.config/VSCodium/User/mcp.json project:/work/.vscode/mcp.json"},
		{"darwin", "vscode", "/Users/me/Library/Application Support/Code/User/mcp.json /Users/me/Library/Application Support/Code - Insiders/User/mcp.json /Users/me/Library/Application Support/VSCodium/User/mcp.json project:/work/.vscode/mcp.json"},
		{"windows", "codex", `D:\codex\config.toml project:C:\work\.codex\config.toml`},
		{"darwin", "gemini", "/Users/me/.gemini/settings.json project:/work/.gemini/settings.json"},
		{"darwin", "opencode", "/Users/me/.config/opencode/opencode.jsonc /Users/me/.config/opencode/opencode.json /Users/me/.config/opencode/config.json project:/work/opencode.json project:/work/opencode.jsonc project:/work/.opencode/opencode.json project:/work/.opencode/opencode.jsonc"},
	} {
		var got []string
		for _, p := range machines[c.os].Places(client(t, c.id)) {
			if !Named(p.Path) && !strings.HasPrefix(p.Path, `D:\codex`) { // CODEX_HOME can be any folder
				t.Errorf("%s is not named", p.Path)
			}
			if p.Project != "" {
				p.Path = "project:" + p.Path
			}
			got = append(got, p.Path)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s on %s:\ngot  %s\nwant %s", c.id, c.os, strings.Join(got, " "), c.want)
		}
	}
	home := machines["linux"]
	home.Folder = home.Home
	if got := home.Places(client(t, "cursor")); len(got) != 1 {
		t.Errorf("in the home directory: %v", got)
	}
}

// TestWriteThroughADeadLink checks that a link whose target does not exist stays as it is.
func TestWriteThroughADeadLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(filepath.Join(t.TempDir(), "nothing.json"), path); err != nil {
		t.Skip(err)
	}
	if _, err := (Change{Path: path, After: []byte("{}")}).Write(time.Now()); err == nil || !strings.Contains(err.Error(), "leads to no file") {
		t.Errorf("the error is %v", err)
	}
	if st, err := os.Lstat(path); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v", err)
	}
}

// TestWritersLoseNothing checks that each change that Write reports as made stays, although others
// change the same file at the same time. Locks belong to open files, so goroutines stand for processes.
func TestWritersLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	var made [8]int
	var all sync.WaitGroup
	for w := range made {
		all.Go(func() {
			for made[w] < 25 {
				before, err := Load(path)
				if err != nil {
					t.Error(err)
					return
				}
				line := fmt.Sprintf("%d-%d\n", w, made[w])
				switch _, err := (Change{Path: path, Before: before, After: append(slices.Clip(before), line...)}).Write(time.Now()); {
				case err == nil:
					made[w]++
				case !errors.Is(err, ErrChanged):
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b, _ := Load(path)
	if n := bytes.Count(b, []byte("\n")); n != 25*len(made) {
		t.Errorf("%d of %d acknowledged changes are in the file", n, 25*len(made))
	}
}
