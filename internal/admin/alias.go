package admin

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// aliases are names of principals that tell them apart and nothing else about them. They
// stay the same for as long as the process runs. Nobody can find out whose an alias is by
// trying. The zero value is ready.
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
