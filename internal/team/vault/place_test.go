package vault

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zalando/go-keyring"
)

func TestVariable(t *testing.T) {
	env := map[string]string{}
	o := Options{Key: "env:VAULT_KEY", Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	v := New(o)
	if err := v.Use(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	_, err := v.Seal(t.Context(), "shop", "gh", nil)
	says(t, err, "/none/vault.key", "the variable VAULT_KEY has no key for the vault / set VAULT_KEY to the output of `openssl rand -base64 32`", nil)
	old, fresh := strings.Repeat("Abcd", 10)+"Abc=", strings.Repeat("Efgh", 10)+"Efg="
	env["VAULT_KEY"] = old
	sealed, err := v.Seal(t.Context(), "shop", "gh", []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Rotate(t.Context())
	says(t, err, "/none/vault.key", "dragoman cannot change the variable VAULT_KEY / put a new key and a space in front of the key in VAULT_KEY, start again, and then rotate", []byte(old))
	for _, tt := range []struct{ value, want string }{
		{" \n", "the vault's key is missing: the variable VAULT_KEY does not exist, but the database has sealed secrets / restore it from a backup; a new key cannot open the secrets"},
		{fresh, "the vault's key in the variable VAULT_KEY is not the one that the secrets in the database were sealed with / restore the key that belongs to this database"},
		{old[:40], "the vault's key in the variable VAULT_KEY is malformed: line 1 has a key of 30 bytes, and a key has 32 / restore it from a backup"},
	} {
		env["VAULT_KEY"] = tt.value
		says(t, New(o).Use(t.Context(), v.Fingerprint()), "/none/vault.key", tt.want, []byte(old))
	}
	env["VAULT_KEY"] = fresh + " " + old
	next := New(o)
	if err := next.Use(t.Context(), v.Fingerprint()); err != nil {
		t.Fatal(err)
	}
	r, err := next.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	moved, err := r.Reseal("shop", "gh", sealed)
	if err != nil {
		t.Fatal(err)
	}
	env["VAULT_KEY"] = fresh // the old one isn't needed any more
	last := New(o)
	if err := last.Use(t.Context(), r.To); err != nil {
		t.Fatal(err)
	}
	opens(t, last, "shop", "gh", moved, "value")
}

// TestKeyring uses a keyring in memory.
func TestKeyring(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent") // never asked, because of the mock
	keyring.MockInit()
	o := Options{Key: "keyring", File: file(t)}
	v, sealed := opened(t, o)
	other, _ := opened(t, Options{Key: "keyring", File: file(t)})
	if bytes.Equal(v.Fingerprint(), other.Fingerprint()) {
		t.Error("two databases have one key")
	}
	if _, err := os.Stat(o.File); err == nil {
		t.Error("a key file was made")
	}
	r, err := v.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	moved, err := r.Reseal("shop", "gh", sealed)
	if err != nil {
		t.Fatal(err)
	}
	next := New(o)
	if err := next.Use(t.Context(), r.To); err != nil {
		t.Fatal(err)
	}
	opens(t, next, "shop", "gh", moved, "value")
	if err := keyring.Delete(keyringService, o.File); err != nil {
		t.Fatal(err)
	}
	says(t, New(o).Use(t.Context(), r.To), o.File, "the vault's key is missing: the entry dragoman (KEY) of the operating system's keyring does not exist, but the database has sealed secrets / restore it from a backup; a new key cannot open the secrets", nil)
	keyring.MockInitWithError(errors.New("locked"))
	says(t, New(o).Use(t.Context(), r.To), "/none/vault.key", "the operating system's keyring cannot be used: locked / unlock the keyring in a desktop session, or keep the key in a file or a variable", nil)
}

// TestOddKeyring uses keyrings that never answer and that make the library panic.
func TestOddKeyring(t *testing.T) {
	end := make(chan bool)
	done := make(chan bool)
	for want, get := range map[string]func(string, string) (string, error){
		"it has not answered for 10ms":           func(string, string) (string, error) { <-end; close(done); return "", nil },
		"it gave an answer that cannot be read":  func(string, string) (string, error) { panic("nil signal") },
		"line 1 has a key of 3 bytes, and a key": func(string, string) (string, error) { return "Abcd", nil },
	} {
		k := &osKeyring{account: filepath.Join(t.TempDir(), "vault.key"), wait: 10 * time.Millisecond, get: get}
		if want[0] == 'l' {
			k.wait = time.Minute
		}
		if _, err := keysIn(t.Context(), k, "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	close(end)
	<-done
}

// TestMemory checks that a key in memory seals, opens and rotates, is no other vault's, and leaves no file.
func TestMemory(t *testing.T) {
	folder := t.TempDir()
	o := Options{Memory: true, File: filepath.Join(folder, "vault.key")}
	v, other := New(o), New(o)
	for _, x := range []*Vault{v, other} {
		if err := x.Use(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	sealed, err := v.Seal(t.Context(), "shop", "gh", []byte("value"))
	if err == nil {
		_, err = other.Seal(t.Context(), "shop", "gh", []byte("value"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Open("shop", "gh", sealed); !errors.Is(err, ErrSealed) {
		t.Errorf("another vault: %v", err)
	}
	r, err := v.Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	moved, err := r.Reseal("shop", "gh", sealed)
	if err == nil {
		err = v.Use(t.Context(), r.To)
	}
	if err != nil || bytes.Equal(r.From, r.To) {
		t.Fatal(err)
	}
	opens(t, v, "shop", "gh", moved, "value")
	if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
		t.Errorf("%v %v", files, err)
	}
}
