package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"
)

// TestText checks that a key is read as it was written, and that no other text of a single mistake is: a
// changed, missing, additional or swapped character.
func TestText(t *testing.T) {
	id, secret := NewID(), NewSecret()
	text := Text(id, secret)
	if gotID, gotSecret, ok := parse(mark, text); !ok || gotID != id || gotSecret != secret {
		t.Fatalf("%s is read as %s, %t", text, gotID, ok)
	}
	wrong := func(s string) {
		t.Helper()
		if _, _, ok := parse(mark, s); ok && s != text {
			t.Errorf("%s is accepted beside %s", s, text)
		}
	}
	for i := range len(text) {
		for _, c := range base62 + "-_= .\x00é" {
			wrong(text[:i] + string(c) + text[i+1:])
			wrong(text[:i] + string(c) + text[i:])
		}
		wrong(text[:i] + text[i+1:])
		if i > 0 {
			wrong(text[:i-1] + text[i:i+1] + text[i-1:i] + text[i+1:])
		}
	}
	wrong("")
	wrong(" " + text)
	wrong(strings.ToUpper(text))
	if sum := sumOf("123456789"); sum[5] != base62[crc32.ChecksumIEEE([]byte("123456789"))%62] {
		t.Errorf("another checksum: %s", sum)
	}
	if s, ok := ParseID(id.String()); !ok || s != id {
		t.Errorf("the id %s is read as %s", id, s)
	}
}

// TestSum checks our HMAC against that of the standard library, and that a request costs no allocation.
func TestSum(t *testing.T) {
	k, s := MACKey(NewSecret()), NewSecret()
	h := hmac.New(sha256.New, k[:])
	h.Write(s[:])
	if sum := k.Sum(&s); !hmac.Equal(sum[:], h.Sum(nil)) {
		t.Error("another HMAC")
	}
	id := NewID()
	keys := NewKeys(k, []Key{{ID: id, Sum: k.Sum(&s)}})
	text, now := Text(id, s), time.Now()
	if n := testing.AllocsPerRun(100, func() {
		if keys.find(text, now) == nil {
			t.Error("not found")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			mac := MACKey(NewSecret())
			list, texts := make([]Key, n), make([]string, n)
			for i := range list {
				id, s := NewID(), NewSecret()
				list[i], texts[i] = Key{ID: id, Sum: mac.Sum(&s)}, Text(id, s)
			}
			keys, now := NewKeys(mac, list), time.Now()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if keys.find(texts[i%n], now) == nil {
					b.Fatal("not found")
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Text(ID([]byte("0123456789ab")), Secret{1, 2, 3}))
	f.Add("drgk_0123456789ab_")
	f.Fuzz(func(t *testing.T, s string) {
		if id, secret, ok := parse(mark, s); ok && Text(id, secret) != s {
			t.Errorf("%q is %s", s, Text(id, secret))
		}
	})
}
