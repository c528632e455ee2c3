package access

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// TestUses lets requests come with a key. Its use is in the database once for many of them, survives other changes of
// the keys, and costs a request no allocation. A key that was refused, and one that nobody sends, are never used.
func TestUses(t *testing.T) {
	where := filepath.Join(t.TempDir(), "dragoman.db")
	_, desk, gate := house(t, where)
	text, k, err := desk.Make(t.Context(), "local", Wish{Name: "ci", Project: "shop", Role: identity.Caller})
	if err != nil {
		t.Fatal(err)
	}
	_, idle, err := desk.Make(t.Context(), "local", Wish{Name: "idle", Project: "shop", Role: identity.Caller})
	if err != nil {
		t.Fatal(err)
	}
	use := func() {
		t.Helper()
		keys, err := desk.Keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		gate.Use(keys)
	}
	keep := func(want int) {
		t.Helper()
		if n, err := desk.KeepUses(t.Context()); n != want || err != nil {
			t.Errorf("%d keys are written, want %d (%v)", n, want, err)
		}
	}
	waiting := func() bool {
		select {
		case <-desk.Used():
			return true
		default:
			return false
		}
	}
	use()
	if _, err := gate.Principal(request("/mcp", "X-API-Key", text[:30]+"AAAA"+text[34:])); err == nil || waiting() {
		t.Error("a wrong key is used")
	}
	keep(0)
	r := request("/mcp", "X-API-Key", text)
	began := time.Now().Truncate(time.Minute)
	for range 100 {
		if _, err := gate.Principal(r); err != nil {
			t.Fatal(err)
		}
	}
	if !waiting() || waiting() {
		t.Error("many uses are not one")
	}
	use() // as after another change
	if at := desk.Uses(t.Context())[k.ID]; at.Before(began) || time.Since(at) > 2*time.Minute || at.Second() != 0 {
		t.Errorf("used at %v", at)
	}
	keep(1)
	keep(0)
	keys, now := gate.Keys(), time.Now()
	x := keys.find(text, now)
	if n := testing.AllocsPerRun(100, func() { keys.note(x, now) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	for minute := range 3 {
		keys.note(x, now.Add(time.Duration(minute)*time.Minute))
	}
	if !waiting() {
		t.Error("a use in another minute is not noticed")
	}
	keep(1)
	_, other, _ := house(t, where)
	for name, d := range map[string]*Desk{"here": desk, "another process": other} {
		all := d.Uses(t.Context())
		if _, used := all[idle.ID]; used || len(all) != 1 || all[k.ID].Before(now.Add(time.Minute)) {
			t.Errorf("%s: %v", name, all)
		}
	}
}
