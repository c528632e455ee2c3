package identity

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// VoucherVariable is the environment variable in which a built-in server gets its VoucherKey.
const VoucherVariable = "DRAGOMAN_VOUCHER_KEY"

// Voucher tells a built-in server who has sent a request. The server believes it because Dragoman has
// signed it with a key that only the two know.
type Voucher struct {
	Subject string `json:"subject"` // see Principal
	Name    string `json:"name"`    // what people call the subject; never ""
	Proof   string `json:"proof"`
}

// VoucherKey signs the vouchers for one process of a built-in server. A nil key signs and accepts none.
type VoucherKey []byte

// NewVoucherKey returns a random key.
func NewVoucherKey() VoucherKey {
	k := make(VoucherKey, sha256.Size)
	_, _ = rand.Read(k) // never fails
	return k
}

// ParseVoucherKey returns the key with a text, or nil if the text isn't that of a key.
func ParseVoucherKey(text string) VoucherKey {
	k, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(k) != sha256.Size {
		return nil
	}
	return k
}

func (k VoucherKey) String() string { return base64.RawURLEncoding.EncodeToString(k) }

// Vouch returns a voucher for p. It returns false for nobody and for Local: without authentication, we
// know no more of a client than what it says itself.
func (k VoucherKey) Vouch(p *Principal) (v Voucher, ok bool) {
	if k == nil || p.Key() == "" {
		return Voucher{}, false
	}
	v = Voucher{Subject: p.Subject, Name: strings.ToValidUTF8(cmp.Or(p.Name, p.Subject), "\uFFFD")} // as JSON has it
	v.Proof = base64.RawURLEncoding.EncodeToString(k.proof(&v))
	return v, true
}

// Accepts reports whether a voucher was signed with the key.
func (k VoucherKey) Accepts(v Voucher) bool {
	proof, err := base64.RawURLEncoding.DecodeString(v.Proof)
	return k != nil && err == nil && hmac.Equal(proof, k.proof(&v))
}

func (k VoucherKey) proof(v *Voucher) []byte {
	mac := hmac.New(sha256.New, k)
	for _, part := range [...]string{v.Subject, v.Name} {
		mac.Write(binary.AppendUvarint(nil, uint64(len(part))))
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}
