package vault

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
)

// Secret is what was sealed: a text that shows itself as ***.
type Secret = secret.Text

// Options say where the key is.
type Options struct {
	// Key is "" for File, "keyring" for the keyring of the operating system, or "env:NAME" for a variable.
	Key string
	// File is the path of vault.key. It's also needed for the keyring: it says which entry is ours, and
	// its folder has the lock.
	File string
	// Memory makes a key that nobody sees and that is gone with the vault, for a database that is gone too.
	Memory bool
	// Getenv looks up a variable. Nil is os.LookupEnv.
	Getenv func(string) (string, bool)

	step func(name string) error // of keyFile; for tests
}

// Vault seals and opens values. All methods are safe for concurrent use, and so are several vaults of
// several processes with the same key.
type Vault struct {
	options Options
	memory  *memory // used if Options.Memory
	state   atomic.Pointer[state]
}

// state never changes after it was stored.
type state struct {
	keys []*key // all that were in the place when we last looked; nil if we haven't yet
	now  *key   // the one that seals; nil if nothing is sealed yet
}

// New returns a vault. It does nothing yet, and refuses everything until Use has been called.
func New(o Options) *Vault {
	if o.Getenv == nil {
		o.Getenv = os.LookupEnv
	}
	return &Vault{options: o, memory: &memory{turn: make(chan struct{}, 1)}}
}

// Use says which key is in force: the one with the fingerprint that the database has. If the vault
// doesn't know it, Use reads the keys, and refuses a key that is missing, another one, malformed, or that
// others can read. A nil fingerprint means that nothing is sealed yet. Then Use reads nothing, and the
// first Seal makes a key if there is none. A key that is in force already stays.
//
// Call Use again when the database has another fingerprint, before you open what you have read with it.
func (v *Vault) Use(ctx context.Context, fingerprint []byte) error {
	if fingerprint == nil {
		v.state.CompareAndSwap(nil, &state{})
		return nil
	}
	if s := v.state.Load(); s != nil {
		if k := withFingerprint(s.keys, fingerprint); k != nil {
			v.state.Store(&state{s.keys, k})
			return nil
		}
	}
	p, keys, err := v.existing(ctx)
	if err != nil {
		return err
	}
	k := withFingerprint(keys, fingerprint)
	if k == nil {
		return errOther(p)
	}
	v.state.Store(&state{keys, k})
	return nil
}

// Fingerprint returns what names the key in force, and tells nothing about it. It returns nil if nothing
// has been sealed yet. The caller keeps it beside what was sealed.
func (v *Vault) Fingerprint() []byte {
	if s := v.state.Load(); s != nil && s.now != nil {
		return slices.Clone(s.now.fingerprint)
	}
	return nil
}

// Seal seals a value of at most MaxValue bytes for an owner and a name. At the first use, it reads the
// key, or makes it if there is none and nothing has been sealed yet. If the key isn't in its place any more, Seal
// refuses, although we still have it: after a restart, nobody could open the value.
//
// The caller stores the value only if the database has no fingerprint, and then stores that too, or if
// SealedBy says that it was sealed with the key of the database's fingerprint. Otherwise another process
// was faster: call Use and seal again.
func (v *Vault) Seal(ctx context.Context, owner, name string, plain []byte) ([]byte, error) {
	if len(plain) > MaxValue {
		return nil, fail("store a shorter one", nil, "the value %q has %d bytes, and the vault takes at most %d", name, len(plain), MaxValue)
	}
	for {
		s := v.state.Load()
		switch {
		case s == nil:
			return nil, errUnused
		case s.now != nil:
			if err := v.still(ctx, s.now); err != nil {
				return nil, err
			}
			return s.now.seal(owner, name, plain), nil
		}
		keys, err := v.first(ctx)
		if err != nil {
			return nil, err
		}
		v.state.CompareAndSwap(s, &state{keys, keys[0]}) // unless Use was called meanwhile
	}
}

// still returns an error if a key isn't in its place any more.
func (v *Vault) still(ctx context.Context, k *key) error {
	p, keys, err := v.existing(ctx)
	if err == nil && withFingerprint(keys, k.fingerprint) == nil {
		err = errOther(p)
	}
	return err
}

// existing returns the keys, which must be there because something is sealed.
func (v *Vault) existing(ctx context.Context) (place, []*key, error) {
	p, err := v.place()
	if err != nil {
		return nil, nil, err
	}
	keys, err := keysIn(ctx, p, restoreKey)
	if errors.Is(err, fs.ErrNotExist) {
		err = fail(restoreKey+"; a new key cannot open the secrets", fs.ErrNotExist, "the vault's key is missing: %s does not exist, but the database has sealed secrets", p)
	}
	return p, keys, err
}

func errOther(p place) error {
	return fail("restore the key that belongs to this database", nil, "the vault's key in %s is not the one that the secrets in the database were sealed with", p)
}

var errUnused = errors.New("vault: Use has not been called")

// first returns the keys, and makes one if there is none. Processes that do this at the same time all
// get the same key.
func (v *Vault) first(ctx context.Context) ([]*key, error) {
	p, err := v.place()
	if err != nil {
		return nil, err
	}
	keys, err := keysIn(ctx, p, correctKey)
	if errors.Is(err, fs.ErrNotExist) {
		if do := p.make(); do != "" {
			return nil, fail(do, fs.ErrNotExist, "%s has no key for the vault", p)
		}
		keys, err = change(ctx, p, correctKey, func(keys []*key) ([]*key, error) {
			if len(keys) > 0 {
				return keys, nil // another process made it
			}
			k, err := freshKey(nil)
			return []*key{k}, err
		})
	}
	return keys, err
}

// Open opens what Seal has sealed for the owner and the name. Every other value gets the same error,
// which wraps ErrSealed.
func (v *Vault) Open(owner, name string, sealed []byte) (Secret, error) {
	s := v.state.Load()
	if s == nil {
		return Secret{}, errUnused
	}
	plain, ok := open(s.keys, owner, name, sealed)
	if !ok {
		return Secret{}, errSealed(owner, name)
	}
	return secret.New(string(plain)), nil
}
