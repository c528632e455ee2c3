package admin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// aliases gives each principal an alias. Different principals get different aliases, which
// reveal nothing else about them and stay the same while the process runs. The key is
// secret, so guessing a principal does not confirm its alias. The zero value is ready to
// use. Safe for concurrent use.
type aliases struct {
	once sync.Once
	key  [32]byte
}

func (a *aliases) of(principal string) string {
	if principal == "" {
		return ""
	}
	a.once.Do(func() { _, _ = rand.Read(a.key[:]) }) // never fails since Go 1.24
	sum := hmac.New(sha256.New, a.key[:])
	sum.Write([]byte(principal))
	return "p-" + hex.EncodeToString(sum.Sum(nil)[:5])
}
