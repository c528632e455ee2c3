package admin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// aliases gives each principal a different alias. An alias stays the same while the process runs,
// and does not reveal the principal. The key is secret, so nobody can guess a principal and check
// the guess against an alias. The zero value is ready to use. aliases is safe for concurrent use.
type aliases struct {
	once sync.Once
	key  [32]byte
}

// newAliases returns aliases that are the same wherever the key is. Without one, each has its own.
func newAliases(key []byte) *aliases {
	a := &aliases{}
	if len(key) > 0 {
		a.once.Do(func() { copy(a.key[:], key) })
	}
	return a
}

func (a *aliases) of(principal string) string {
	if principal == "" {
		return ""
	}
	a.once.Do(func() { _, _ = rand.Read(a.key[:]) }) // rand.Read never fails since Go 1.24
	sum := hmac.New(sha256.New, a.key[:])
	sum.Write([]byte(principal))
	return "p-" + hex.EncodeToString(sum.Sum(nil)[:5])
}
