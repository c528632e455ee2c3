package vault

import (
	"bytes"
	"encoding/binary"
)

// A sealed value is one byte for the version of the format, the id of the key (4 bytes), the nonce
// (12 bytes), the encrypted value and a tag (16 bytes).
const (
	sealVersion = 1
	headSize    = 1 + idSize
	// MaxValue is the maximum size, in bytes, of a value.
	MaxValue = 64 << 10
)

// seal seals a value. Each one gets a random nonce of 96 bits, so a key may seal 2^32 values
// (NIST SP 800-38D, section 8.3).
func (k *key) seal(owner, name string, plain []byte) []byte {
	sealed := append(make([]byte, 0, headSize+len(plain)+k.aead.Overhead()), sealVersion)
	sealed = append(sealed, k.id()...)
	return k.aead.Seal(sealed, nil, plain, bound(sealed[:headSize], owner, name))
}

// open is the inverse of seal. ok is false if the value was changed, or sealed with another key or for
// another owner or name.
func open(keys []*key, owner, name string, sealed []byte) (plain []byte, ok bool) {
	if len(sealed) < headSize || sealed[0] != sealVersion {
		return nil, false
	}
	head, rest := sealed[:headSize], sealed[headSize:]
	k := withID(keys, head[1:])
	if k == nil || len(rest) < k.aead.Overhead() {
		return nil, false
	}
	plain, err := k.aead.Open(nil, nil, rest, bound(head, owner, name))
	return plain, err == nil
}

// bound returns the associated data, which binds a value to its owner and name. Each part is preceded
// by its length, so that the owner a with the name bc isn't the owner ab with the name c.
func bound(head []byte, owner, name string) []byte {
	data := append([]byte("dragoman vault\x00"), head...)
	for _, part := range []string{owner, name} {
		data = binary.BigEndian.AppendUint64(data, uint64(len(part)))
		data = append(data, part...)
	}
	return data
}

// SealedBy reports whether a value was sealed with the key that has this fingerprint. In the transaction
// that stores the value, the caller compares it with the fingerprint that the database has then:
// somebody may have rotated the key after the value was sealed.
func SealedBy(fingerprint, sealed []byte) bool {
	return len(fingerprint) == fingerprintSize && len(sealed) >= headSize && bytes.Equal(sealed[1:headSize], fingerprint[:idSize])
}
