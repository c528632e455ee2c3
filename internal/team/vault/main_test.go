package vault

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// killed is the exit code of a peer that was killed at the step it was told.
const killed = 3

// peer is another process: it seals a value if Kill is "", or else rotates the key of the database and
// ends like somebody who is killed at a step.
type peer struct{ Folder, Kill string }

func TestMain(m *testing.M) { peertest.Main(m, peer.run) }

func (p peer) run(ctx context.Context) error {
	if p.Kill == "" {
		v := New(Options{File: filepath.Join(p.Folder, "vault.key")})
		if err := v.Use(ctx, nil); err != nil {
			return err
		}
		sealed, err := v.Seal(ctx, "shop", "gh", []byte("value"))
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(database{v.Fingerprint(), map[string][]byte{"gh": sealed}})
		}
		return err
	}
	return rotate(ctx, p.Folder, func(step string) error {
		if step == p.Kill {
			os.Exit(killed)
		}
		return nil
	})
}

// database is the database of the tests. Its commit is a rename.
type database struct {
	Fingerprint []byte
	Values      map[string][]byte
}

func load(folder string) (d database, err error) {
	b, err := os.ReadFile(filepath.Join(folder, "db"))
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	return d, err
}

func (d database) commit(folder string, step func(string) error) error {
	b, err := json.Marshal(d)
	part := filepath.Join(folder, "db.new")
	if err = errors.Join(err, os.WriteFile(part, b, 0o600)); err == nil {
		err = step("commit")
	}
	if err == nil {
		err = os.Rename(part, filepath.Join(folder, "db"))
	}
	return err
}

// rotate does what `dragoman secrets rotate-key` does.
func rotate(ctx context.Context, folder string, step func(string) error) error {
	d, err := load(folder)
	if err != nil {
		return err
	}
	v := New(Options{File: filepath.Join(folder, "vault.key"), step: step})
	if err := v.Use(ctx, d.Fingerprint); err != nil {
		return err
	}
	r, err := v.Rotate(ctx)
	if err != nil {
		return err
	}
	after := database{r.To, map[string][]byte{}}
	for name, sealed := range d.Values {
		if err := step("reseal " + name); err != nil {
			return err
		}
		if after.Values[name], err = r.Reseal("shop", name, sealed); err != nil {
			return err
		}
	}
	if err := after.commit(folder, step); err != nil {
		return err
	}
	if err := step("committed"); err != nil {
		return err
	}
	return v.Use(ctx, r.To)
}

// opened returns a vault in which a value is sealed.
func opened(t *testing.T, o Options) (*Vault, []byte) {
	t.Helper()
	v := New(o)
	if err := v.Use(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	sealed, err := v.Seal(t.Context(), "shop", "gh", []byte("value"))
	if err != nil {
		t.Fatal(err)
	}
	return v, sealed
}

// opens checks that a value can be opened.
func opens(t *testing.T, v *Vault, owner, name string, sealed []byte, want string) {
	t.Helper()
	if got, err := v.Open(owner, name, sealed); err != nil || got.Reveal() != want {
		t.Errorf("%s of %s: %q, %v; want %q", name, owner, got.Reveal(), err, want)
	}
}
