package catalog

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestT19_NamesThatNeedNoCareStayReadable(t *testing.T) {
	var n Names
	for _, x := range []struct{ server, item, want string }{
		{"github", "create_issue", "github__create_issue"},
		{"a", "b__c", "a__b__c"},
		{"a-b", "x/y.z", "a-b__x/y.z"},
		{"a_b", "c", "a_b__c"},
		{"s", strings.Repeat("x", 61), "s__" + strings.Repeat("x", 61)},
	} {
		if got := n.Join(x.server, x.item); got != x.want {
			t.Errorf("%q, %q: got %q, want %q", x.server, x.item, got, x.want)
		}
	}
}

func TestT19_NamesThatClientsRefuseGetAHash(t *testing.T) {
	var n Names
	for _, x := range [][2]string{
		{"s", strings.Repeat("x", 62)}, {"s", strings.Repeat("x", 300)}, {"s", "größe"}, {"s", "a b"},
		{"s", "\u202eabc"}, {"s", "a\u200db"}, {"s", "_x"}, {"s_", "x"}, {"a__b", "c"}, {"s", "x_h0123456789"}, {"日本", "x"},
	} {
		got := n.Join(x[0], x[1])
		if len(got) > maxName || !safe(got) || !hashed(got) {
			t.Errorf("%q, %q: got %q", x[0], x[1], got)
		}
		if !n.mayBe(x[0], got) {
			t.Errorf("the name %q is not recognised as one of server %q", got, x[0])
		}
	}
}

func TestTM23_TwoSplitsOfOneNameAreTwoNames(t *testing.T) {
	pairs := [][4]string{
		{"a", "b__c", "a__b", "c"}, {"a", "_b", "a_", "b"}, {"a", "__b", "a__", "b"}, {"a_", "_b", "a", "__b"},
		{"a", "b c", "a", "b_c"}, {"a", "ä", "a", "ö"},
		{"a", strings.Repeat("x", 100) + "1", "a", strings.Repeat("x", 100) + "2"},
	}
	for _, p := range pairs {
		if x, y := (Names{}).Join(p[0], p[1]), (Names{}).Join(p[2], p[3]); x == y {
			t.Errorf("%q and %q both get the name %q", p[:2], p[2:], x)
		}
	}
	// No item's plain name may be equal to another item's name with a hash.
	hash := (Names{}).Join("a", "b c")
	if got := (Names{}).Join("a", strings.TrimPrefix(hash, "a__")); got == hash {
		t.Errorf("two items get the name %q", got)
	}
}

func TestNamesAreInjectiveBoundedAndPure(t *testing.T) {
	for _, sep := range []string{"", "_", "-", ".", "aba", "/", "_-_", "-_"} {
		n := Names{Separator: sep}
		r := rand.New(rand.NewPCG(1, 2))
		word := func() string {
			// The alphabet is small, so that equal words occur.
			const letters = "aab__-./ä"
			b := make([]rune, 1+r.IntN(6))
			for i := range b {
				all := []rune(letters)
				b[i] = all[r.IntN(len(all))]
			}
			if r.IntN(20) == 0 {
				return strings.Repeat(string(b), 20)
			}
			return string(b)
		}
		from := map[string][2]string{}
		for range 50_000 {
			pair := [2]string{word(), word()}
			got := n.Join(pair[0], pair[1])
			if old, ok := from[got]; ok && old != pair {
				t.Fatalf("separator %q: %q and %q both get the name %q", sep, old, pair, got)
			}
			from[got] = pair
			if len(got) > maxName || !safe(got) || got != n.Join(pair[0], pair[1]) || !n.mayBe(pair[0], got) {
				t.Fatalf("separator %q: %q gets the name %q", sep, pair, got)
			}
		}
	}
}

// TestNoPrefix checks that the items of a server without a prefix keep their names, except for
// names that clients refuse.
func TestNoPrefix(t *testing.T) {
	var n Names
	for item, plain := range map[string]bool{
		"filesystem.move_file": true, "a__b": true, "_x": true, "white space": false, strings.Repeat("x", 65): false,
	} {
		got := n.Join("", item)
		if (got == item) != plain || len(got) > maxName || !safe(got) {
			t.Errorf("%q becomes %q", item, got)
		}
		if !n.mayBe("", got) {
			t.Errorf("%q is not expected", got)
		}
	}
	if n.Join("", "white space") == n.Join("", "white_space") || n.Join("", "a b") == n.Join("a", " b") {
		t.Error("two items have one name")
	}
}
