package vault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

func file(t *testing.T) string { return filepath.Join(t.TempDir(), "data", "vault.key") }

func TestSealAndOpen(t *testing.T) {
	path := file(t)
	v := New(Options{File: path})
	if _, err := v.Seal(t.Context(), "shop", "gh", nil); err == nil {
		t.Error("a vault seals before it knows whether there are sealed values")
	}
	if _, err := v.Open("shop", "gh", nil); err == nil || v.Fingerprint() != nil {
		t.Error("a vault opens before it knows its key")
	}
	if err := v.Use(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Use made something: %v", err)
	}
	values := map[string][]byte{}
	for _, plain := range []string{"", "x", "s3cr3t\x00\xff", strings.Repeat("y", MaxValue)} {
		sealed, err := v.Seal(t.Context(), "shop", "gh", []byte(plain))
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := v.Seal(t.Context(), "shop", "gh", []byte(plain)); bytes.Equal(again, sealed) {
			t.Error("two seals of one value are the same")
		}
		opens(t, v, "shop", "gh", sealed, plain)
		values[plain] = sealed
	}
	if _, err := v.Seal(t.Context(), "shop", "gh", make([]byte, MaxValue+1)); err == nil {
		t.Error("a value that is too long was sealed")
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Dir(path)); err != nil || st.Mode().Perm() != 0o700 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if err := v.Use(t.Context(), nil); err != nil || v.Fingerprint() == nil {
		t.Errorf("the vault has forgotten its key (%v)", err)
	}
	next := New(Options{File: path}) // after a restart
	if err := next.Use(t.Context(), v.Fingerprint()); err != nil {
		t.Fatal(err)
	}
	for plain, sealed := range values {
		opens(t, next, "shop", "gh", sealed, plain)
		if !SealedBy(v.Fingerprint(), sealed) || SealedBy(make([]byte, fingerprintSize), sealed) || SealedBy(nil, sealed) {
			t.Error("SealedBy is wrong")
		}
	}
}

// TestSwappedKey replaces and removes the key of a running vault. It goes on opening what there is, but seals nothing
// until the key is back.
func TestSwappedKey(t *testing.T) {
	path := file(t)
	v, sealed := opened(t, Options{File: path})
	mine, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	another := file(t)
	opened(t, Options{File: another})
	theirs, err := os.ReadFile(another)
	if err != nil {
		t.Fatal(err)
	}
	for what, swap := range map[string]func() error{
		"is not the one": func() error { return os.WriteFile(path, theirs, 0o600) },
		"is missing":     func() error { return os.Remove(path) },
		"has no key":     func() error { return os.WriteFile(path, nil, 0o600) },
	} {
		if err := swap(); err != nil {
			t.Fatal(err)
		}
		var said *Error
		if _, err := v.Seal(t.Context(), "shop", "gh", []byte("new")); !errors.As(err, &said) || said.Next == "" || !strings.Contains(said.Text, what) {
			t.Errorf("the key %s: %v", what, err)
		}
		opens(t, v, "shop", "gh", sealed, "value")
		if err := os.WriteFile(path, mine, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Seal(t.Context(), "shop", "gh", []byte("new")); err != nil {
			t.Errorf("the key is back, after %s: %v", what, err)
		}
	}
}

// TestTM20_OneErrorForWhatWasChanged checks that nothing but the sealed value itself can be opened, and
// that the error doesn't say why.
func TestTM20_OneErrorForWhatWasChanged(t *testing.T) {
	v, sealed := opened(t, Options{File: file(t)})
	other, foreign := opened(t, Options{File: file(t)})
	want := errSealed("shop", "gh")
	refused := func(what string, v *Vault, owner, name string, sealed []byte) {
		t.Helper()
		got, err := v.Open(owner, name, sealed)
		if !errors.Is(err, ErrSealed) || got != (Secret{}) {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil && owner == "shop" && name == "gh" && err.Error() != want.Error() {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
	}
	for i := range sealed {
		for bit := range 8 {
			changed := slices.Clone(sealed)
			changed[i] ^= 1 << bit
			refused(fmt.Sprintf("byte %d", i), v, "shop", "gh", changed)
		}
		refused(fmt.Sprintf("cut at %d", i), v, "shop", "gh", sealed[:i])
		refused(fmt.Sprintf("cut before %d", i), v, "shop", "gh", sealed[i+1:])
	}
	refused("nil", v, "shop", "gh", nil)
	refused("longer", v, "shop", "gh", append(slices.Clone(sealed), 0))
	refused("much longer", v, "shop", "gh", append(slices.Clone(sealed), make([]byte, MaxValue+1)...))
	refused("another key", v, "shop", "gh", foreign)
	refused("another key", other, "shop", "gh", sealed)
	for _, o := range [][2]string{{"", ""}, {"gh", "shop"}, {"shopg", "h"}, {"sho", "pgh"}, {"shopgh", ""}, {"", "shopgh"}, {"shop", "gh "}, {"Shop", "gh"}, {"bank", "gh"}} {
		refused("another owner", v, o[0], o[1], sealed)
	}
	opens(t, v, "shop", "gh", sealed, "value") // the innocent one
}

// refusal is a key that the vault refuses. KEY in want stands for the path.
type refusal struct {
	name   string
	before func(t *testing.T, path string) // what happens to the key of the sealed values
	want   string
	is     error
}

func (r refusal) refuse(t *testing.T) {
	path := file(t)
	v, sealed := opened(t, Options{File: path})
	key, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r.before(t, path)
	was := contents(t, filepath.Dir(path))
	next := New(Options{File: path})
	err = next.Use(t.Context(), v.Fingerprint())
	says(t, err, path, r.want, key)
	if r.is != nil && !errors.Is(err, r.is) {
		t.Errorf("the error isn't %v", r.is)
	}
	if _, err := next.Seal(t.Context(), "shop", "gh", nil); err == nil {
		t.Error("it seals with a key that it refuses")
	}
	if _, err := v.Rotate(t.Context()); err == nil {
		t.Error("it rotates a key that it refuses")
	}
	if now := contents(t, filepath.Dir(path)); now != was {
		t.Errorf("the folder was %q and is %q", was, now)
	}
	opens(t, v, "shop", "gh", sealed, "value") // who runs already isn't disturbed
}

// says checks the sentence and the next step of an error.
func says(t *testing.T, err error, path, want string, key []byte) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want %s", err, want)
	}
	got := strings.NewReplacer(path, "KEY", filepath.Dir(path), "FOLDER").Replace(e.Text + " / " + e.Next)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, word := range strings.Fields(string(key)) {
		if len(word) == 44 && strings.Contains(got, word[:20]) {
			t.Errorf("the error has a part of the key: %s", got)
		}
	}
}

// contents describes a folder.
func contents(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, e := range entries {
		var text []byte
		st, err := e.Info()
		if err == nil && st.Mode().IsRegular() {
			text, err = os.ReadFile(filepath.Join(folder, e.Name()))
		}
		fmt.Fprintln(&b, e, string(text), err)
	}
	return b.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestRefuse(t *testing.T) {
	writes := func(text string) func(*testing.T, string) {
		return func(t *testing.T, path string) { write(t, path, text) }
	}
	must := func(f func(path string) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := f(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	another := strings.Repeat("Abcd", 10) + "Abc="
	for _, r := range []refusal{
		{name: "missing", is: fs.ErrNotExist, before: must(os.Remove), want: "the vault's key is missing: KEY does not exist, but the database has sealed secrets / restore it from a backup; a new key cannot open the secrets"},
		{name: "no folder", is: fs.ErrNotExist, before: must(func(path string) error { return os.RemoveAll(filepath.Dir(path)) }), want: "the vault's key is missing: KEY does not exist, but the database has sealed secrets / restore it from a backup; a new key cannot open the secrets"},
		{name: "another", before: writes(another), want: "the vault's key in KEY is not the one that the secrets in the database were sealed with / restore the key that belongs to this database"},
		{name: "empty", before: writes(""), want: "the vault's key in KEY is malformed: it has no key / restore it from a backup"},
		{name: "comments", before: writes(keyFileHead), want: "the vault's key in KEY is malformed: it has no key / restore it from a backup"},
		{name: "short", before: writes("# key\nAbcdAbcd\n"), want: "the vault's key in KEY is malformed: line 2 has a key of 6 bytes, and a key has 32 / restore it from a backup"},
		{name: "long", before: writes(strings.Repeat("Abcd", 20)), want: "the vault's key in KEY is malformed: line 1 has a key of 60 bytes, and a key has 32 / restore it from a backup"},
		{name: "text", before: writes("correct horse battery staple"), want: "the vault's key in KEY is malformed: line 1 is not base64 / restore it from a backup"},
		{name: "binary", before: writes("\x00\xff\x00\xff"), want: "the vault's key in KEY is malformed: line 1 is not base64 / restore it from a backup"},
		{name: "zeros", before: writes(strings.Repeat("A", 43)), want: "the vault's key in KEY is malformed: line 1 has 32 times the same byte, which is not a key / restore it from a backup"},
		{name: "twice", before: writes(another + "\n" + another), want: "the vault's key in KEY is malformed: line 2 has a key for the second time / restore it from a backup"},
		{name: "huge", before: writes(strings.Repeat("#", mostText+1)), want: "the vault's key in KEY is malformed: it is longer than 16 KiB / restore it from a backup"},
		{name: "folder", before: must(func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }), want: "the vault's key KEY is not a regular file / save the key as a regular file"},
	} {
		t.Run(r.name, r.refuse)
	}
}

// TestTM20_KeyOfOthers checks what makes a key readable for others, or lets them replace it.
func TestTM20_KeyOfOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	mode := func(m fs.FileMode) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.Chmod(path, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	readable := "other users of this machine can read the vault's key KEY / run `chmod 600 KEY`"
	for _, r := range []refusal{
		{name: "0644", before: mode(0o644), want: readable, is: fs.ErrPermission},
		{name: "0640", before: mode(0o640), want: readable, is: fs.ErrPermission},
		{name: "0602", before: mode(0o602), want: readable, is: fs.ErrPermission},
		{name: "0601", before: mode(0o601), want: readable, is: fs.ErrPermission},
		{name: "folder 0777", is: fs.ErrPermission, want: "other users of this machine can replace the vault's key KEY / run `chmod go-w FOLDER`", before: func(t *testing.T, path string) { mode(0o777)(t, filepath.Dir(path)) }},
		{name: "another user", is: fs.ErrPermission, want: "the vault's key KEY belongs to another user / change its owner with chown to the user that dragoman runs as", before: func(t *testing.T, path string) {
			if err := os.Chown(path, 12345, -1); err != nil {
				t.Skip("only root can give files away")
			}
		}},
		{name: "link to 0644", want: readable, is: fs.ErrPermission, before: func(t *testing.T, path string) {
			to := filepath.Join(filepath.Dir(path), "real")
			if err := errors.Join(os.Rename(path, to), os.Chmod(to, 0o644), os.Symlink(to, path)); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "link to nothing", want: "the vault's key KEY is a link that leads to no file / create what it leads to, or remove the link", before: func(t *testing.T, path string) {
			if err := errors.Join(os.Remove(path), os.Symlink(filepath.Join(filepath.Dir(path), "none"), path)); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "pipe", want: "the vault's key KEY is not a regular file / save the key as a regular file", before: func(t *testing.T, path string) {
			if out, err := exec.Command("sh", "-c", `rm "$1" && mkfifo -m 600 "$1"`, "sh", path).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}},
	} {
		t.Run(r.name, r.refuse)
	}
}

// TestRefuseAtFirst checks a key that is there before anything is sealed.
func TestRefuseAtFirst(t *testing.T) {
	path := file(t)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "short")
	v := New(Options{File: path})
	if err := v.Use(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	_, err := v.Seal(t.Context(), "shop", "gh", nil)
	says(t, err, path, "the vault's key in KEY is malformed: line 1 is not base64 / correct it, or remove it: nothing is sealed with it yet", nil)
	_, err = v.Rotate(t.Context())
	says(t, err, path, "the vault has no key to rotate, because nothing is sealed yet / store a secret first", nil)
	write(t, path, "# mine\r\n"+strings.Repeat("Ab_-", 10)+"Abc\r\n")
	if _, err := v.Seal(t.Context(), "shop", "gh", nil); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"keyrng", "env:", "env", strings.Repeat("Abcd", 10) + "Abc="} {
		err := New(Options{Key: key, File: path}).Use(t.Context(), v.Fingerprint())
		says(t, err, path, "the setting for the vault's key does not name a place / write keyring or env:NAME, or remove it to use a file", []byte(key))
	}
}

// TestLink checks that a rotation keeps a link, and changes what it leads to.
func TestLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links need a privilege")
	}
	path := file(t)
	v, sealed := opened(t, Options{File: path})
	to := filepath.Join(t.TempDir(), "elsewhere")
	if err := errors.Join(os.Chmod(filepath.Dir(to), 0o700), os.Rename(path, to), os.Symlink(to, path)); err != nil {
		t.Fatal(err)
	}
	r, err := v.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Lstat(path); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", st, err)
	}
	next := New(Options{File: path})
	if err := next.Use(t.Context(), r.To); err != nil {
		t.Error(err)
	}
	opens(t, next, "shop", "gh", sealed, "value")
}

// TestOneKeyForAll lets many processes and many goroutines make the key at the same time.
func TestOneKeyForAll(t *testing.T) {
	const processes, goroutines = 20, 20
	path := file(t)
	outputs := make([]bytes.Buffer, processes)
	commands := make([]*exec.Cmd, processes)
	for i := range commands {
		commands[i] = peertest.Command(t, peer{Folder: filepath.Dir(path)})
		commands[i].Stdout = &outputs[i]
		if err := commands[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	shared := New(Options{File: path})
	if err := shared.Use(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	sealed := make([][]byte, goroutines)
	for i := range sealed {
		group.Go(func() {
			v := shared
			if i%2 == 0 {
				v = New(Options{File: path})
				if err := v.Use(t.Context(), nil); err != nil {
					t.Error(err)
				}
			}
			var err error
			if sealed[i], err = v.Seal(t.Context(), "shop", "gh", []byte("value")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for i, c := range commands {
		var d database
		if err := errors.Join(c.Wait(), json.Unmarshal(outputs[i].Bytes(), &d)); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(d.Fingerprint, shared.Fingerprint()) {
			t.Errorf("process %d has another key", i)
		}
		sealed = append(sealed, d.Values["gh"])
	}
	for _, s := range sealed {
		opens(t, shared, "shop", "gh", s, "value")
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestFailedWrite lets each step of a write fail. Nothing may be left over, and the next try succeeds.
func TestFailedWrite(t *testing.T) {
	for cause, want := range map[error]string{
		fs.ErrPermission: "this user has no permission to write the vault's key KEY / change the permissions of the file and its folder",
		errReadOnly:      "the vault's key KEY cannot be written, because its file system is read-only / mount its file system for writing, or give the key in a variable",
		errFull:          "the disk is full, so the vault's key KEY was not changed / free space and try again",
		errors.New("x"):  "dragoman cannot write the vault's key KEY: x / check the disk and the path",
	} {
		for _, at := range []string{"create", "write", "sync", "rename"} {
			fails := true
			path := file(t)
			v := New(Options{File: path, step: func(step string) error {
				if fails && step == at {
					return cause
				}
				return nil
			}})
			if err := v.Use(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			_, err := v.Seal(t.Context(), "shop", "gh", nil)
			says(t, err, path, want, nil)
			if now := contents(t, filepath.Dir(path)); now != "" {
				t.Errorf("%s left %s", at, now)
			}
			fails = false
			if _, err := v.Seal(t.Context(), "shop", "gh", nil); err != nil {
				t.Errorf("%s: the second try: %v", at, err)
			}
			fails = true
			was := contents(t, filepath.Dir(path))
			_, err = v.Rotate(t.Context())
			says(t, err, path, want, nil)
			if now := contents(t, filepath.Dir(path)); now != was {
				t.Errorf("%s changed %s to %s", at, was, now)
			}
		}
	}
}

// TestReadOnlyFolder does the same with a folder in which nobody can write.
func TestReadOnlyFolder(t *testing.T) {
	if os.Geteuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("a folder without permissions is none for root and Windows")
	}
	path := file(t)
	if err := os.Mkdir(filepath.Dir(path), 0o500); err != nil {
		t.Fatal(err)
	}
	v := New(Options{File: path})
	if err := v.Use(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	_, err := v.Seal(t.Context(), "shop", "gh", nil)
	says(t, err, path, "this user has no permission to write the vault's key KEY / change the permissions of the file and its folder", nil)
}

// TestLateLock waits for the lock of somebody else until the context ends.
func TestLateLock(t *testing.T) {
	path := file(t)
	f := &keyFile{path: path}
	unlock, err := f.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := contextWithTimeout(t, 20*time.Millisecond)
	defer cancel()
	v := New(Options{File: path})
	if err := v.Use(ctx, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Seal(ctx, "shop", "gh", nil); !errors.Is(err, ctx.Err()) {
		t.Errorf("%v", err)
	}
}
