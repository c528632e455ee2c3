package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// TestIndex compares an index with the rules that it's made of, which are looked at one after the other.
func TestIndex(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	for range 3000 {
		var rules Rules
		for range random.IntN(12) {
			r := Rule{Do: Do(random.IntN(3))}
			for range 1 + random.IntN(3) {
				r.Match = append(r.Match, pick("git/", "g", "", "other/", "*/", "*t/")+pick("a", "ab", "b", "prompt:a", "resource:x://a/b", "")+pick("", "*", "*b", "b*"))
			}
			switch random.IntN(4) {
			case 0:
				r.Keys = []string{pick("ci", "x")}
			case 1:
				r.People, r.Roles = []string{pick("Ada", "bob")}, []identity.Role{identity.Admin}
			}
			rules = append(rules, r)
		}
		rules, _ = rules.Concern("git", "default")
		who := Caller{Key: pick("", "ci"), Person: pick("", "ada", "bob")}
		v := NewIndex("git", rules).For(who)
		if v.AllowServer() != rules.AllowServer(who, "git") {
			t.Fatalf("%+v: the server for %+v", rules, who)
		}
		for _, item := range []string{"", "a", "b", "ab", "abb", "bab", Prompt("a"), Prompt("b"), Resource("x://a/b"), Resource("x://a/bb")} {
			if got, want := v.Say(item), rules.Say(who, "git", item); got != want {
				t.Fatalf("%+v: of %q for %+v, the index says %+v, not %+v", rules, item, who, got, want)
			}
		}
	}
}
