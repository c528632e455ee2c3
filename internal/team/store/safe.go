package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// Safe is a store with the vault that seals what it keeps. Its methods need the vault's key, so they may
// be slow, and fail if the key is missing or another one; everything else in the store works without it.
// A Safe is safe for concurrent use.
type Safe struct {
	store *Store
	vault *vault.Vault
}

// NewSafe returns a Safe. It does nothing yet.
func NewSafe(s *Store, v *vault.Vault) *Safe { return &Safe{s, v} }

// Store returns the store.
func (s *Safe) Store() *Store { return s.store }

const (
	// fingerprint is the value of the house that says which key of the vault is in force.
	fingerprint = "vault"
	// ofHouse is the owner of sealed values of the house. No project has this name: it is empty.
	ofHouse = ""
)

// errOther is the error of a transaction that finds another key of the vault in force.
var errOther = errors.New("the vault's key was changed meanwhile")

// Check returns an error if something is sealed and the vault's key is missing, another one, or one that
// others can read.
func (s *Safe) Check(ctx context.Context) error {
	return s.vault.Use(ctx, s.store.Snapshot().House(fingerprint))
}

// Secret opens a secret of a project. If there is none, ok is false.
func (s *Safe) Secret(ctx context.Context, project, name string) (value vault.Secret, ok bool, err error) {
	now := s.store.Snapshot()
	x, ok := now.Secret(project, name)
	if !ok {
		return vault.Secret{}, false, nil
	}
	value, err = s.open(ctx, now, project, name, x.Sealed)
	return value, true, err
}

func (s *Safe) open(ctx context.Context, now *Snapshot, owner, name string, sealed []byte) (vault.Secret, error) {
	if err := s.vault.Use(ctx, now.House(fingerprint)); err != nil {
		return vault.Secret{}, err
	}
	return s.vault.Open(owner, name, sealed)
}

// SetSecret seals and adds or replaces a secret of a project.
func (s *Safe) SetSecret(ctx context.Context, actor, project, name string, value []byte) error {
	return s.seal(ctx, actor, plain{project, name, value}, func(t *Tx, sealed []byte) error {
		return t.SetSecret(Secret{Project: project, Name: name, Sealed: sealed})
	})
}

// OfHouse opens a sealed value of the house. If there is none, ok is false.
func (s *Safe) OfHouse(ctx context.Context, name string) (value vault.Secret, ok bool, err error) {
	now := s.store.Snapshot()
	sealed := now.House(name)
	if sealed == nil {
		return vault.Secret{}, false, nil
	}
	value, err = s.open(ctx, now, ofHouse, name, sealed)
	return value, true, err
}

// Begin seals and keeps a value of the house, unless there is one already.
func (s *Safe) Begin(ctx context.Context, actor, name string, value []byte) error {
	return s.seal(ctx, actor, plain{ofHouse, name, value}, func(t *Tx, sealed []byte) error {
		if have, err := t.House(name); err != nil || have != nil {
			return err
		}
		return t.SetHouse(name, sealed)
	})
}

// Replace seals a value of the house and keeps it in the place of another one, which was read as sealed. If
// that one is no longer there, nothing happens.
func (s *Safe) Replace(ctx context.Context, actor, name string, was, value []byte) error {
	return s.seal(ctx, actor, plain{ofHouse, name, value}, func(t *Tx, sealed []byte) error {
		if have, err := t.House(name); err != nil || !bytes.Equal(have, was) {
			return err
		}
		return t.SetHouse(name, sealed)
	})
}

// Sealable is a row with a value that the vault seals for the rest of it: a *Credential, a *Registration or a
// *Flow.
type Sealable interface{ sealedFor() string }

// ofSignIn is the owner of what is sealed for a Sealable. No project has this name: it has a slash.
const ofSignIn = "/sign-in"

// Keep seals a value for a row, and keeps it in a transaction.
func (s *Safe) Keep(ctx context.Context, actor string, row Sealable, value []byte, keep func(t *Tx, sealed []byte) error) error {
	return s.seal(ctx, actor, plain{ofSignIn, row.sealedFor(), value}, keep)
}

// Reveal opens what Keep has sealed for a row of the snapshot.
func (s *Safe) Reveal(ctx context.Context, row Sealable, sealed []byte) (vault.Secret, error) {
	return s.open(ctx, s.store.Snapshot(), ofSignIn, row.sealedFor(), sealed)
}

// plain is a value before it is sealed for an owner and a name.
type plain struct {
	owner, name string
	value       []byte
}

// seal seals a value and keeps it in a transaction that also finds, or notes, which key has sealed it.
func (s *Safe) seal(ctx context.Context, actor string, x plain, keep func(t *Tx, sealed []byte) error) error {
	inForce := s.store.Snapshot().House(fingerprint)
	for range 10 { // each round, another process has rotated the key
		if err := s.vault.Use(ctx, inForce); err != nil {
			return err
		}
		sealed, err := s.vault.Seal(ctx, x.owner, x.name, x.value)
		if err != nil {
			return err
		}
		err = s.store.Write(ctx, actor, func(t *Tx) (err error) {
			if inForce, err = t.House(fingerprint); err != nil {
				return err
			}
			switch {
			case inForce == nil:
				err = t.SetHouse(fingerprint, s.vault.Fingerprint())
			case !vault.SealedBy(inForce, sealed):
				err = errOther
			}
			if err != nil {
				return err
			}
			return keep(t, sealed)
		})
		if !errors.Is(err, errOther) {
			return err
		}
	}
	return errOther
}

// RotateKey seals everything with a new key of the vault, in one transaction. It returns the number of
// values. Whoever is interrupted can begin again.
func (s *Safe) RotateKey(ctx context.Context, actor string) (n int, err error) {
	inForce := s.store.Snapshot().House(fingerprint)
	if inForce == nil {
		return 0, nil
	}
	if err := s.vault.Use(ctx, inForce); err != nil {
		return 0, err
	}
	r, err := s.vault.Rotate(ctx)
	if err != nil {
		return 0, err
	}
	err = s.store.Write(ctx, actor, func(t *Tx) error {
		if n, err = t.reseal(r); err != nil {
			return err
		}
		return t.SetHouse(fingerprint, r.To)
	})
	if err != nil {
		return 0, err
	}
	return n, s.vault.Use(ctx, r.To)
}

func (t *Tx) reseal(r *vault.Rotation) (n int, err error) {
	house, err := allOfHouse(t.t)
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(house[fingerprint], r.From) {
		return 0, errOther
	}
	delete(house, fingerprint)
	for name, sealed := range house {
		if sealed, err = r.Reseal(ofHouse, name, sealed); err != nil {
			return 0, fmt.Errorf("the value %s of the house: %w", name, err)
		}
		if err := t.SetHouse(name, sealed); err != nil {
			return 0, err
		}
	}
	list, err := t.Secrets()
	for _, x := range list {
		if x.Sealed, err = r.Reseal(x.Project, x.Name, x.Sealed); err != nil {
			return 0, fmt.Errorf("the secret %s of the project %s: %w", x.Name, x.Project, err)
		}
		if err := t.SetSecret(x); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	more, err := t.resealSignIns(r)
	return len(house) + len(list) + more, err
}

// resealSignIns seals again what belongs to sign-ins, and leaves the rest of each row as it is. A credential keeps
// its generation, since its tokens are the same.
func (t *Tx) resealSignIns(r *vault.Rotation) (n int, err error) {
	again := func(kind string, row Sealable, id string, sealed []byte) error {
		fresh, err := r.Reseal(ofSignIn, row.sealedFor(), sealed)
		if err != nil {
			return fmt.Errorf("a %s of a sign-in: %w", kind, err)
		}
		n++
		if err := t.t.Exec("UPDATE "+kind+"s SET sealed = ? WHERE id = ?", fresh, id); err != nil {
			return err
		}
		return t.changed("sealed", kind, id)
	}
	credentials, err := allCredentials(t.t)
	for i := 0; i < len(credentials) && err == nil; i++ {
		x := &credentials[i]
		err = again(credentialKind, x, x.sealedFor(), x.Sealed)
	}
	if err != nil {
		return 0, err
	}
	registrations, err := allRegistrations(t.t)
	for i := 0; i < len(registrations) && err == nil; i++ {
		x := &registrations[i]
		err = again(registrationKind, x, x.sealedFor(), x.Sealed)
	}
	if err != nil {
		return 0, err
	}
	flows, err := allFlows(t.t)
	for i := 0; i < len(flows) && err == nil; i++ {
		if !flows[i].Ready() {
			continue
		}
		err = again(flowKind, &flows[i], flows[i].ID, flows[i].Sealed)
	}
	return n, err
}
