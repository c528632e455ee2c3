package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"hash/crc32"
	"strings"
)

// The text of a key is drgk_ID_SECRET_SUM. The sum is the CRC-32 of everything before its underscore: it
// finds typing errors without the database, and lets those who search texts for leaked secrets be sure.
const (
	mark      = "drgk_"
	idSize    = 12 // characters, base 62
	textSize  = 43 // characters of the secret, base64url without padding
	sumSize   = 6  // characters, base 62
	secretAt  = len(mark) + idSize + 1
	sumAt     = secretAt + textSize + 1
	totalSize = sumAt + sumSize
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// ID names a key. It is no secret.
type ID [idSize]byte

func (id ID) String() string { return string(id[:]) }

// ParseID returns the id of a key from its text. It returns false if no key can have this id.
func ParseID(s string) (id ID, ok bool) {
	if len(s) != idSize || strings.Trim(s, base62) != "" {
		return ID{}, false
	}
	copy(id[:], s)
	return id, true
}

// Secret is the random part of a key.
type Secret [sha256.Size]byte

// NewID returns a random id.
func NewID() (id ID) {
	for i := range id {
		id[i] = base62[below62()]
	}
	return id
}

// below62 returns a random number below 62, each with the same probability.
func below62() byte {
	for {
		var b [1]byte
		_, _ = rand.Read(b[:]) // never fails
		if b[0] < 4*62 {
			return b[0] % 62
		}
	}
}

// NewSecret returns a random secret.
func NewSecret() (s Secret) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}

// Text returns the key with an id and a secret, as clients send it.
func Text(id ID, s Secret) string { return textOf(mark, id, s) }

// textOf returns the key, or the token that begins with another mark.
func textOf(mark string, id ID, s Secret) string {
	b := make([]byte, 0, totalSize)
	b = append(b, mark...)
	b = append(b, id[:]...)
	b = append(b, '_')
	b = base64.RawURLEncoding.AppendEncode(b, s[:])
	sum := sumOf(b)
	return string(append(append(b, '_'), sum[:]...))
}

func sumOf[T string | []byte](text T) (sum [sumSize]byte) {
	n := ^uint32(0)
	for i := range len(text) { // as crc32.ChecksumIEEE, for which the text would have to be on the heap
		n = crc32.IEEETable[byte(n)^text[i]] ^ n>>8
	}
	n = ^n
	for i := range sum {
		sum[sumSize-1-i] = base62[n%62]
		n /= 62
	}
	return sum
}

// IsKey reports whether a text is an API key without typing errors, whoever may know it.
func IsKey(s string) bool {
	_, _, ok := parse(mark, s)
	return ok
}

// looksLikeKey reports whether a text is meant to be a key.
func looksLikeKey(s string) bool { return strings.HasPrefix(s, mark) }

// parse returns the parts of what begins with a mark. It returns false for everything that textOf doesn't return.
func parse(mark, s string) (id ID, secret Secret, ok bool) {
	if len(s) != totalSize || !strings.HasPrefix(s, mark) || s[secretAt-1] != '_' || s[sumAt-1] != '_' {
		return ID{}, Secret{}, false
	}
	if id, ok = ParseID(s[len(mark) : secretAt-1]); !ok {
		return ID{}, Secret{}, false
	}
	var text [textSize]byte
	copy(text[:], s[secretAt:])
	// Strict refuses a last character with bits that do not count, so each key has one text.
	if n, err := base64.RawURLEncoding.Strict().Decode(secret[:], text[:]); err != nil || n != len(secret) {
		return ID{}, Secret{}, false
	}
	sum := sumOf(s[:sumAt-1])
	return id, secret, string(sum[:]) == s[sumAt:]
}

// MACKey is the key of the HMACs that we keep of secrets.
type MACKey [sha256.Size]byte

// Sum returns the HMAC-SHA-256 (RFC 2104) of the secret of a key. It doesn't depend on the id: two keys
// never have the same secret. It is written out because package hmac allocates, and each request needs it.
func (m *MACKey) Sum(s *Secret) [sha256.Size]byte {
	var b [sha256.BlockSize + sha256.Size]byte
	for i := range sha256.BlockSize {
		b[i] = 0x36
	}
	for i, x := range m {
		b[i] ^= x
	}
	copy(b[sha256.BlockSize:], s[:])
	inner := sha256.Sum256(b[:])
	for i := range sha256.BlockSize {
		b[i] ^= 0x36 ^ 0x5c
	}
	copy(b[sha256.BlockSize:], inner[:])
	return sha256.Sum256(b[:])
}
