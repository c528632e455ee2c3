package bridge

import (
	"crypto/hkdf"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

// Root is a secret that several processes have. Their Keyrings derive the keys from it, so that what one process
// has sealed or signed, the others can open.
type Root struct {
	ID     [keyIDLen]byte // never zero, which names the key of a single process
	Secret []byte
	From   time.Time // before, nothing is sealed with it, because the others may not have it yet
}

// Roots are the secrets that a process shares with others now, and may be replaced at any time. The zero value has
// none. A Roots is safe for concurrent use.
type Roots struct {
	now atomic.Pointer[[]Root]
}

// Set replaces the secrets. The newest comes first; there must be at least one.
func (r *Roots) Set(all []Root) { r.now.Store(&all) }

// Keyring returns the keys of the project with this name.
func (r *Roots) Keyring(project string) Keyring { return &sharedKeys{roots: r, project: project} }

// sharedKeys is the Keyring that Roots.Keyring returns.
type sharedKeys struct {
	roots   *Roots
	project string

	mu   sync.Mutex
	seen *[]Root // keys are those of it
	keys map[Use][]Key
}

// all returns the secrets, and the key for this use that is derived from each.
func (s *sharedKeys) all(use Use) ([]Root, []Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.roots.now.Load(); now != s.seen {
		s.seen, s.keys = now, map[Use][]Key{}
	}
	keys := s.keys[use]
	if keys == nil {
		for _, r := range *s.seen {
			k, err := r.derive(use, s.project)
			if err != nil {
				return nil, nil, err
			}
			keys = append(keys, k)
		}
		s.keys[use] = keys
	}
	return *s.seen, keys, nil
}

// derive returns the key of a project. The processes must agree on it, so the text never changes.
func (r Root) derive(use Use, project string) (Key, error) {
	text := "dragoman states of project "
	if use == ForTasks {
		text = "dragoman tasks of project "
	}
	k := Key{ID: r.ID}
	var err error
	if k.Secret, err = hkdf.Key(sha256.New, r.Secret, nil, text+project, 32); err == nil && use == ForStates {
		k.aead, err = k.sealer()
	}
	return k, err
}

// Newest implements Keyring. If it's too early for all keys, it's the oldest one that the others have, if any.
func (s *sharedKeys) Newest(use Use) (Key, error) {
	roots, keys, err := s.all(use)
	if err != nil {
		return Key{}, err
	}
	now := time.Now()
	for i, r := range roots {
		if !now.Before(r.From) {
			return keys[i], nil
		}
	}
	return keys[len(keys)-1], nil
}

// ByID implements Keyring.
func (s *sharedKeys) ByID(use Use, id [keyIDLen]byte) (Key, bool) {
	_, keys, err := s.all(use)
	if err != nil {
		return Key{}, false
	}
	for _, k := range keys {
		if k.ID == id {
			return k, true
		}
	}
	return Key{}, false
}
