package cluster

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"
)

// The id of a session is its mark, a dot, and sealed when the session began and the digest of its facts. The mark, and
// who may use the session where, are bound to the seal. So nobody can make an id up, and somebody else's id is as good
// as made up.

// digest identifies facts. The zero value means that there are none, so that nobody can go on with the session.
type digest [16]byte

func digestOf(facts []byte) (d digest) {
	if facts != nil {
		sum := sha256.Sum256(facts)
		copy(d[:], sum[:])
	}
	return d
}

// These are the parts of a seal.
const (
	idForm     = 1 // the first byte
	nonceSize  = 12
	insideSize = 4 + len(digest{})
	sealSize   = 1 + nonceSize + insideSize + 16
)

// sealer seals ids.
type sealer struct{ cipher.AEAD }

func newSealer(secret []byte) (s sealer, err error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "dragoman cluster sessions", 32)
	if err != nil {
		return s, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return s, err
	}
	s.AEAD, err = cipher.NewGCM(block)
	return s, err
}

var idEncoding = base64.RawURLEncoding.Strict() // one text for one seal

// bound is what an id is good for.
func bound(at, use string) []byte { return []byte(at + "\n" + use) }

// seal returns an id with a mark.
func (s sealer) seal(at, use string, d digest, now time.Time) string {
	b := make([]byte, 1+nonceSize, sealSize)
	b[0] = idForm
	_, _ = rand.Read(b[1:]) // never fails
	inside := binary.BigEndian.AppendUint32(make([]byte, 0, insideSize), uint32(now.Unix()/60))
	b = s.Seal(b, b[1:], append(inside, d[:]...), bound(at, use))
	return at + "." + idEncoding.EncodeToString(b)
}

// open returns what is in an id. born is right to the minute.
func (s sealer) open(id, use string) (home string, d digest, born time.Time, ok bool) {
	at, text, _ := strings.Cut(id, ".")
	home = homeOf(id)
	b, err := idEncoding.DecodeString(text)
	if home == "" || err != nil || len(b) != sealSize || b[0] != idForm {
		return "", d, born, false
	}
	inside, err := s.Open(nil, b[1:1+nonceSize], b[1+nonceSize:], bound(at, use))
	if err != nil {
		return "", d, born, false
	}
	copy(d[:], inside[4:])
	return home, d, time.Unix(60*int64(binary.BigEndian.Uint32(inside)), 0), true
}

// seatKey is what stands for an id in the database. Whoever reads it there can't use it.
type seatKey [sha256.Size]byte

func keyOf(id string) seatKey { return sha256.Sum256([]byte(id)) }

// hide seals what belongs to a seat, for other replicas, and show opens it again. show returns nil for what isn't that.
func (s sealer) hide(key seatKey, b []byte) []byte {
	if b == nil {
		return nil
	}
	nonce := make([]byte, nonceSize, nonceSize+len(b)+16)
	_, _ = rand.Read(nonce) // never fails
	return s.Seal(nonce, nonce, b, bound("seat", string(key[:])))
}

func (s sealer) show(key seatKey, b []byte) []byte {
	if len(b) < nonceSize {
		return nil
	}
	b, err := s.Open(nil, b[:nonceSize], b[nonceSize:], bound("seat", string(key[:])))
	if err != nil {
		return nil
	}
	return b
}
