//go:build unix

package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// safeAt returns a safe with the same database and the same key as a serve, as another process would have it.
func safeAt(t *testing.T, database string, key ...string) *store.Safe {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Database: database})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return store.NewSafe(s, vault.New(vault.Options{Key: strings.Join(key, ""), File: filepath.Join(filepath.Dir(database), "vault.key")}))
}

// put stores a secret.
func put(t *testing.T, s *store.Safe, project, name, value string) {
	t.Helper()
	if err := s.SetSecret(t.Context(), "ada", project, name, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// TestVaultRefused starts serve with sealed values and a key that can't open them. It must fail before it
// listens, and change nothing. With the key back, it starts.
func TestVaultRefused(t *testing.T) {
	const inVariable = "DAEMON_TEST_VAULT"
	for _, c := range []struct {
		name  string
		key   string // dragoman.vault.key
		spoil func(t *testing.T, file string) error
		want  string
	}{
		{"missing", "", func(_ *testing.T, file string) error { return os.Remove(file) }, "the vault's key is missing: FILE does not exist"},
		{"readable by others", "", func(_ *testing.T, file string) error { return os.Chmod(file, 0o644) }, "other users of this machine can read the vault's key FILE"},
		{"another one", "", func(t *testing.T, file string) error {
			put(t, safeAt(t, filepath.Join(t.TempDir(), "other", "dragoman.db"), "env:OTHER_VAULT"), "default", "x", "")
			return os.WriteFile(file, []byte(os.Getenv("OTHER_VAULT")), 0o600)
		}, "is not the one that the secrets in the database were sealed with"},
		{"variable that isn't set", "env:" + inVariable, func(*testing.T, string) error { return os.Unsetenv(inVariable) }, "the vault's key is missing: the variable " + inVariable + " does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("OTHER_VAULT", "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=")
			t.Setenv(inVariable, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
			database := filepath.Join(t.TempDir(), "house", "dragoman.db")
			file := filepath.Join(filepath.Dir(database), "vault.key")
			put(t, safeAt(t, database, c.key), "default", "gh", "hunter2-canary")
			s := *config.Default()
			s.VaultKey = c.key
			before, _ := os.ReadFile(file)
			if (before == nil) != (c.key != "") {
				t.Errorf("the key file: %q", before)
			}
			if err := c.spoil(t, file); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := Serve(ctx, ServeOptions{Config: &s, Listen: "127.0.0.1:0", Database: database, Ready: func(string) { cancel() }})
			var e *vault.Error
			if !errors.As(err, &e) || !strings.Contains(e.Text, strings.ReplaceAll(c.want, "FILE", file)) || e.Next == "" {
				t.Fatalf("%v", err)
			}
			if _, err := os.Stat(file); c.name == "missing" && err == nil {
				t.Error("the key was made anew")
			}
			if c.key != "" {
				t.Setenv(inVariable, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
			} else if err := errors.Join(os.WriteFile(file, before, 0o600), os.Chmod(file, 0o600)); err != nil {
				t.Fatal(err)
			}
			serve(t, &s, func(o *ServeOptions) { o.Database = database })
		})
	}
}
