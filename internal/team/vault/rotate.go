package vault

import (
	"context"
	"io/fs"
)

// Rotation moves the values of a database from one key to another.
type Rotation struct {
	// From is the fingerprint that the database must have when the transaction begins, and To is the one
	// that it has afterwards.
	From, To []byte

	to   *key
	keys []*key
}

// Rotate puts a new key in front of the key in force, or goes on with a newer one that is there already.
// Then the caller seals all values again, with [Rotation.Reseal], and sets the database's fingerprint
// from From to To, in one transaction that fails if the fingerprint isn't From. After the commit it calls
// Use. Whoever is killed on the way can begin again.
func (v *Vault) Rotate(ctx context.Context) (*Rotation, error) {
	s := v.state.Load()
	switch {
	case s == nil:
		return nil, errUnused
	case s.now == nil:
		return nil, fail("store a secret first", fs.ErrNotExist, "the vault has no key to rotate, because nothing is sealed yet")
	}
	p, _, err := v.existing(ctx)
	if err != nil {
		return nil, err
	}
	keys, err := change(ctx, p, restoreKey, func(keys []*key) ([]*key, error) {
		now := withFingerprint(keys, s.now.fingerprint)
		switch {
		case now == nil:
			return nil, errOther(p)
		case keys[0] != now:
			return keys, nil
		case len(keys) == mostKeys:
			return nil, fail("remove the last keys, which only old backups need", nil, "there are %d keys in %s", mostKeys, p)
		}
		fresh, err := freshKey(keys)
		return append([]*key{fresh}, keys...), err
	})
	if err != nil {
		return nil, err
	}
	// What the transaction seals can be opened here as soon as it's committed.
	for s := v.state.Load(); !v.state.CompareAndSwap(s, &state{keys, s.now}); s = v.state.Load() {
	}
	return &Rotation{From: s.now.fingerprint, To: keys[0].fingerprint, to: keys[0], keys: keys}, nil
}

// Reseal opens a value with any of the keys and seals it with the new one.
func (r *Rotation) Reseal(owner, name string, sealed []byte) ([]byte, error) {
	plain, ok := open(r.keys, owner, name, sealed)
	if !ok {
		return nil, errSealed(owner, name)
	}
	return r.to.seal(owner, name, plain), nil
}
