package vault

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// sealedOnce was sealed for the name gh of the owner shop. Databases have such values, so it must stay
// possible to open them.
const sealedOnce = "01ef3e7e6f0420ab3b1c91cc582ff483b9dfc7170331bc789864297ce44bcff424a0afdb457b"

// FuzzOpen checks that only what was sealed for an owner and a name can be opened for them.
func FuzzOpen(f *testing.F) {
	k, err := newKey(bytes.Repeat([]byte("key!"), 8))
	if err != nil {
		f.Fatal(err)
	}
	sealed, err := hex.DecodeString(sealedOnce)
	if err != nil {
		f.Fatal(err)
	}
	if plain, ok := open([]*key{k}, "shop", "gh", sealed); !ok || string(plain) != "value" {
		f.Errorf("%q, %v", plain, ok)
	}
	f.Add("shop", "gh", sealed)
	f.Add("shopg", "h", sealed)
	f.Add("", "", sealed[:headSize])
	f.Add("shop", "gh", append([]byte{sealVersion}, k.id()...))
	f.Add("", "", []byte{})
	f.Fuzz(func(t *testing.T, owner, name string, b []byte) {
		plain, ok := open([]*key{k}, owner, name, b)
		if ok && (owner != "shop" || name != "gh" || !bytes.Equal(b, sealed) || string(plain) != "value") {
			t.Errorf("%q of %q was opened: %q", name, owner, plain)
		}
		if len(b) > MaxValue {
			return
		}
		again := k.seal(owner, name, b)
		if plain, ok := open([]*key{k}, owner, name, again); !ok || !bytes.Equal(plain, b) {
			t.Errorf("%q of %q was not opened", name, owner)
		}
		if _, ok := open([]*key{k}, owner+"x", name, again); ok {
			t.Error("another owner opened it")
		}
		if _, ok := open([]*key{k}, name, owner, again); ok && owner != name {
			t.Error("owner and name are interchangeable")
		}
	})
}

// FuzzKeys checks that keys are read back as they were written, and that no error shows a part of them.
func FuzzKeys(f *testing.F) {
	key := strings.Repeat("Abcd", 10) + "Abc="
	for _, text := range []string{"", key, keyFileHead + key + "\n", key + " " + strings.Repeat("Ef_-", 10) + "Efg", "\ufeff" + key + "\r\n", key + key, key[1:], "#" + key, "\x00", "# x\n\n\n" + key + "!"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := parseKeys(text)
		if err != nil {
			for _, word := range strings.Fields(text) {
				if len(word) >= 20 && strings.Contains(err.Error(), word[:20]) {
					t.Errorf("the error shows the key: %v", err)
				}
			}
			return
		}
		again, err := parseKeys(formatKeys(keys))
		if err != nil || len(again) != len(keys) {
			t.Fatalf("%d keys became %d: %v", len(keys), len(again), err)
		}
		for i, k := range keys {
			if !bytes.Equal(k.fingerprint, again[i].fingerprint) || withFingerprint(keys, k.fingerprint) != k {
				t.Errorf("key %d is another one", i)
			}
		}
	})
}
