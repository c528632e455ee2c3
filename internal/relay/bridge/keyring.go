package bridge

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"sync"
	"time"
)

// Use says what a key is for. A key has one use, so that what is made for one can't stand in for the
// other.
type Use uint8

const (
	ForStates Use = iota + 1 // seals requestStates: 32 bytes, for AES-256-GCM
	ForTasks                 // signs the ids of tasks
)

// keyIDLen is the length of a Key's ID in bytes.
const keyIDLen = 4

// Key is a secret with the ID by which a Keyring finds it again.
type Key struct {
	ID     [keyIDLen]byte
	Secret []byte
	aead   cipher.AEAD // nil if it has not been made from Secret yet
}

// sealer returns the cipher of a key for states.
func (k Key) sealer() (cipher.AEAD, error) {
	if k.aead != nil {
		return k.aead, nil
	}
	block, err := aes.NewCipher(k.Secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Keyring has the keys of a Bridge. [Keys] makes them for one process. Processes that serve the same
// clients must share theirs ([Roots]), or a state sealed by one is lost at the other. A Keyring is safe for
// concurrent use, and doesn't block.
type Keyring interface {
	// Newest returns the key that seals or signs now.
	Newest(use Use) (Key, error)
	// ByID returns the key with this ID. It is false if there is none: the key has expired,
	// or the ID is made up.
	ByID(use Use, id [keyIDLen]byte) (Key, bool)
}

// keyLife is how long a key of Keys seals states. It is kept as long again to open them.
const keyLife = 24 * time.Hour

// Keys is the Keyring of one process: each day it makes a new key for states and forgets the one
// before the last. The key for tasks stays the same. The zero value is ready to use.
type Keys struct {
	mu     sync.Mutex
	states []stateKey // newest first, at most two
	task   []byte
}

type stateKey struct {
	Key
	created time.Time
}

// NewKeys returns Keys that sign the ids of tasks with task. It must be secret, and the same after a
// restart for the ids to stay valid. If it is nil, Keys makes one for the life of the process.
func NewKeys(task []byte) *Keys { return &Keys{task: task} }

// Newest implements Keyring.
func (s *Keys) Newest(use Use) (Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if use == ForTasks {
		if s.task == nil {
			s.task = newSecret()
		}
		return Key{Secret: s.task}, nil
	}
	if len(s.states) > 0 && time.Since(s.states[0].created) < keyLife {
		return s.states[0].Key, nil
	}
	k := Key{Secret: newSecret()}
	var err error
	if k.aead, err = k.sealer(); err != nil {
		return Key{}, err
	}
	_, _ = rand.Read(k.ID[:])
	s.states = append([]stateKey{{k, time.Now()}}, s.states[:min(len(s.states), 1)]...)
	return k, nil
}

// ByID implements Keyring. The key for tasks has the zero ID.
func (s *Keys) ByID(use Use, id [keyIDLen]byte) (Key, bool) {
	if use == ForTasks {
		k, err := s.Newest(use)
		return k, err == nil && id == k.ID
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.states {
		if k.ID == id {
			return k.Key, true
		}
	}
	return Key{}, false
}

func newSecret() []byte {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails since Go 1.24
	return secret
}

// keyring returns the keys of the Bridge.
func (b *Bridge) keyring() Keyring {
	if b.Keys != nil {
		return b.Keys
	}
	return &b.own
}
