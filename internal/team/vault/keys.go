package vault

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

const (
	keySize         = 32
	fingerprintSize = 16
	idSize          = 4 // a key's id is the beginning of its fingerprint
	// mostKeys is how many keys may be in one place. Each rotation adds one.
	mostKeys = 64
	// mostText is the maximum size, in bytes, of the text with the keys.
	mostText = 16 << 10
)

// key is one key of the vault. What seals and what names the key are derived from it, so neither tells
// anything about it or about the other.
type key struct {
	text        string // 32 bytes in base64
	fingerprint []byte
	aead        cipher.AEAD
}

func (k *key) id() []byte { return k.fingerprint[:idSize] }

func newKey(raw []byte) (*key, error) {
	derive := func(use string, size int) ([]byte, error) {
		return hkdf.Key(sha256.New, raw, nil, "dragoman vault "+use, size)
	}
	fingerprint, err := derive("fingerprint", fingerprintSize)
	if err != nil {
		return nil, err
	}
	seal, err := derive("seal", keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(seal)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &key{base64.StdEncoding.EncodeToString(raw), fingerprint, aead}, nil
}

// freshKey returns a new key whose id none of the others has.
func freshKey(others []*key) (*key, error) {
	for {
		raw := make([]byte, keySize)
		_, _ = rand.Read(raw) // never fails since Go 1.24
		k, err := newKey(raw)
		if err != nil || withID(others, k.id()) == nil {
			return k, err
		}
	}
}

func withID(keys []*key, id []byte) *key {
	for _, k := range keys {
		if bytes.Equal(k.id(), id) {
			return k
		}
	}
	return nil
}

func withFingerprint(keys []*key, fingerprint []byte) *key {
	if k := withID(keys, fingerprint[:min(idSize, len(fingerprint))]); k != nil && bytes.Equal(k.fingerprint, fingerprint) {
		return k
	}
	return nil
}

// formatKeys returns the text that parseKeys reads.
func formatKeys(keys []*key) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteString(k.text + "\n")
	}
	return b.String()
}

// parseKeys reads the keys in a text, the newest first: 32 bytes in base64 each, as
// `openssl rand -base64 32` prints them, with white space between. Lines that begin with # are comments.
// The error says what is wrong with which line, and has no part of the text.
func parseKeys(text string) ([]*key, error) {
	if len(text) > mostText {
		return nil, fmt.Errorf("it is longer than %d KiB", mostText>>10)
	}
	var keys []*key
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, word := range strings.Fields(line) {
			raw, err := decodeKey(word)
			if err != nil {
				return nil, fmt.Errorf("line %d %w", i+1, err)
			}
			k, err := newKey(raw)
			switch {
			case err != nil:
				return nil, err
			case withID(keys, k.id()) != nil:
				return nil, fmt.Errorf("line %d has a key for the second time", i+1)
			case len(keys) == mostKeys:
				return nil, fmt.Errorf("it has more than %d keys", mostKeys)
			}
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no key")
	}
	return keys, nil
}

// decodeKey reads base64 with either alphabet, with or without padding.
func decodeKey(word string) ([]byte, error) {
	word = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(word, "="))
	raw, err := base64.RawStdEncoding.Strict().DecodeString(word)
	switch {
	case err != nil:
		return nil, errors.New("is not base64")
	case len(raw) != keySize:
		return nil, fmt.Errorf("has a key of %d bytes, and a key has %d", len(raw), keySize)
	case bytes.Count(raw, raw[:1]) == keySize:
		return nil, errors.New("has 32 times the same byte, which is not a key")
	}
	return raw, nil
}
