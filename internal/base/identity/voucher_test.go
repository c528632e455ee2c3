package identity

import "testing"

// TestVoucher checks that a voucher counts as it was signed, with the key that signed it alone, and that
// nobody and the local user get none.
func TestVoucher(t *testing.T) {
	k := NewVoucherKey()
	ada := &Principal{Subject: "p:ada", Seat: "k:laptop", Name: "Ada"}
	v, ok := k.Vouch(ada)
	if again := ParseVoucherKey(k.String()); !ok || v.Subject != "p:ada" || v.Name != "Ada" || !again.Accepts(v) {
		t.Fatalf("%+v, %t", v, ok)
	}
	if x, _ := k.Vouch(&Principal{Subject: "k:ci", Seat: "k:ci"}); x.Name != "k:ci" || !k.Accepts(x) {
		t.Errorf("without a name: %+v", x)
	}
	for what, x := range map[string]Voucher{
		"another subject": {"p:bob", v.Name, v.Proof}, "another name": {v.Subject, "Bob", v.Proof}, "a moved letter": {"p:adaA", "da", v.Proof},
		"no proof": {v.Subject, v.Name, ""}, "odd proof": {v.Subject, v.Name, "?"},
	} {
		if k.Accepts(x) {
			t.Error(what)
		}
	}
	var none VoucherKey
	if NewVoucherKey().Accepts(v) || none.Accepts(v) || ParseVoucherKey("") != nil || ParseVoucherKey("eA") != nil {
		t.Error("another key accepts it")
	}
	for _, p := range []*Principal{nil, Local, {}} {
		if _, ok := k.Vouch(p); ok {
			t.Errorf("vouched for %+v", p)
		}
	}
	if _, ok := none.Vouch(ada); ok {
		t.Error("vouched without a key")
	}
}
