package vault

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
)

// sealingKeys is what errors call the file that ReadSealing reads.
const sealingKeys = "the file of sealing keys"

// SealingKey is a key that several processes share to seal what clients bring back.
type SealingKey struct {
	ID     [idSize]byte // tells nothing about Secret
	Secret []byte
}

// ReadSealing reads the keys in a file, newest first. The file has the same form as vault.key, and must be as private,
// but nothing here writes it. The error is an *Error.
func ReadSealing(path string) ([]SealingKey, error) {
	f := &keyFile{path: path, what: sealingKeys}
	text, err := f.read(context.Background())
	var own *Error
	switch {
	case errors.As(err, &own):
		return nil, err
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail("make it with `(umask 077; openssl rand -base64 32 > "+path+")`, and copy it to every replica", fs.ErrNotExist, "%s does not exist", f.name())
	case err != nil:
		return nil, err
	}
	all, err := parseKeys(text)
	if err != nil {
		return nil, fail("write one line of `openssl rand -base64 32` for each key, the newest first", err, "%s is malformed: %v", f.name(), err)
	}
	keys := make([]SealingKey, len(all))
	for i, k := range all {
		if keys[i].Secret, err = base64.StdEncoding.DecodeString(k.text); err != nil {
			return nil, err
		}
		keys[i].ID = [idSize]byte(k.id())
	}
	return keys, nil
}

// Sealing returns the key that a secret of 32 bytes is.
func Sealing(secret []byte) (SealingKey, error) {
	k, err := newKey(secret)
	if err != nil {
		return SealingKey{}, err
	}
	return SealingKey{[idSize]byte(k.id()), secret}, nil
}
