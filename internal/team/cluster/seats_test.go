package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
)

// TestIDs checks that an id opens for whom it was sealed, and that every other text is refused.
func TestIDs(t *testing.T) {
	t.Parallel()
	s, err := newSealer([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	other, _ := newSealer([]byte("another secret"))
	at, now := mark("r1", "ABCDEFGHIJ234"), time.Now()
	id := s.seal(at, "use", digestOf([]byte("facts")), now)
	home, d, born, ok := s.open(id, "use")
	if !ok || home != "ABCDEFGHIJ234" || d != digestOf([]byte("facts")) || now.Sub(born) < 0 || now.Sub(born) > time.Minute {
		t.Errorf("%s: %t %s %v", id, ok, home, born)
	}
	if strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != "" || len(id) > 130 {
		t.Errorf("the id is %q", id)
	}
	for i := range len(id) {
		for _, x := range []string{id[:i], id[:i] + string(id[i]^1) + id[i+1:], id[:i] + id[i+1:]} {
			if _, _, _, ok := s.open(x, "use"); ok {
				t.Errorf("%q opens", x)
			}
		}
	}
	if _, _, _, ok := s.open(id, "another use"); ok {
		t.Error("it opens for somebody else")
	}
	if _, _, _, ok := other.open(id, "use"); ok {
		t.Error("it opens with another secret")
	}
	hidden := s.hide(keyOf("a seat"), []byte("what it needs"))
	if string(s.show(keyOf("a seat"), hidden)) != "what it needs" {
		t.Error("what belongs to a seat doesn't open")
	}
	for i := range len(hidden) {
		if s.show(keyOf("a seat"), hidden[:i]) != nil || s.show(keyOf("another seat"), hidden) != nil || other.show(keyOf("a seat"), hidden) != nil {
			t.Error("what belongs to a seat opens for others, or in part")
		}
	}
	if s.seal(at, "use", d, now) == id {
		t.Error("two sessions have one id")
	}
}

// TestExcuses checks when a replica without the database may go on.
func TestExcuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words []word
		want  bool
	}{
		{nil, true}, // it's alone
		{[]word{away, away}, true},
		{[]word{away, noAnswer}, true},
		{[]word{nobody, nobody}, true},
		{[]word{noAnswer, nobody}, false},
		{[]word{noAnswer}, false},
		{[]word{away, reaches}, false},
	} {
		if got := excuses(c.words); got != c.want {
			t.Errorf("%v: %t", c.words, got)
		}
	}
}

// seatTables returns tables with replicas A and B that live, and D that is dead.
func seatTables(t *testing.T) (db tables, exec func(string)) {
	schema := "test_cluster_" + strings.ToLower(t.Name())
	url := dbtest.URL(t)
	drop := func() { dbtest.Exec(t, url, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") }
	drop()
	t.Cleanup(drop)
	x, err := open(t.Context(), url, schema, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	exec = func(statement string) { dbtest.Exec(t, url, "SET search_path TO "+schema+"; "+statement) }
	for _, name := range []string{"A", "B", "D"} {
		if err := x.join(t.Context(), &Member{Incarnation: name, Name: "r", Address: "x:1", Fingerprint: []byte{1}, Protocol: Protocol, State: Ready}); err != nil {
			t.Fatal(err)
		}
	}
	exec("UPDATE replicas SET state = 'dead' WHERE incarnation = 'D'")
	return x.(tables), exec
}

// TestSeatRows runs the statements about seats in PostgreSQL.
func TestSeatRows(t *testing.T) {
	t.Parallel()
	db, exec := seatTables(t)
	ctx := t.Context()
	key := func(s string) seatKey { return keyOf(s) }
	claim := func(id, home, me, want string) seat {
		t.Helper()
		s, err := db.claim(ctx, key(id), home, me)
		if err != nil || s.sitter != want {
			t.Errorf("%s claims %s of %s: %v %+v", me, id, home, err, s)
		}
		return s
	}
	claim("of A", "A", "B", "") // the home lives
	claim("of D", "D", "A", "A")
	claim("of D", "D", "B", "A") // somebody sits there
	claim("of nobody", "Z", "B", "B")
	if err := db.keep(ctx, []seat{{key("of A"), "A", []byte("x")}, {key("of D"), "B", []byte("y")}}); err != nil {
		t.Fatal(err)
	}
	if done, err := db.touch(ctx, "A", []seatKey{key("of A"), key("of D"), key("of nobody"), key("none")}); err != nil || len(done) != 2 {
		t.Errorf("touched: %v %d", err, len(done))
	}
	if s := claim("of A", "A", "B", "A"); string(s.extras) != "x" {
		t.Errorf("extras: %s", s.extras)
	}
	if s := claim("of D", "D", "B", "A"); s.extras != nil {
		t.Errorf("somebody else has written %s", s.extras)
	}
	done, err := db.give(ctx, "A", []seat{{key("of A"), "B", []byte("z")}, {key("new"), "B", nil}, {key("of nobody"), "A", nil}})
	if err != nil || len(done) != 2 {
		t.Errorf("given: %v %d", err, len(done))
	}
	if s := claim("of A", "A", "A", "B"); string(s.extras) != "z" {
		t.Errorf("what was given has %s", s.extras)
	}
	claim("new", "A", "A", "B")
	if err := db.free(ctx, "A", []seatKey{key("of A"), key("of D")}); err != nil {
		t.Fatal(err)
	}
	claim("of A", "A", "A", "B") // it isn't A's
	// Who writes the database gains nothing.
	exec("UPDATE seats SET extras = 'forged'")
	if _, err := db.claim(ctx, key("of A"), "A", "A"); !errors.Is(err, errForged) {
		t.Errorf("a forged row: %v", err)
	}
	exec("UPDATE replicas SET state = 'dead' WHERE incarnation = 'B'")
	if s := claim("of A", "A", "A", "A"); s.extras != nil {
		t.Errorf("forged extras: %s", s.extras)
	}
	if s := claim("of A", "A", "B", "A"); s.extras != nil {
		t.Errorf("forged extras: %s", s.extras)
	}

	if err := db.learn(ctx, [][]byte{[]byte("one"), []byte("two"), []byte("one")}); err != nil {
		t.Fatal(err)
	}
	if body, err := db.facts(ctx, digestOf([]byte("two"))); err != nil || string(body) != "two" {
		t.Errorf("%v %s", err, body)
	}
	exec("UPDATE facts SET body = 'three' WHERE body = 'two'")
	for _, x := range []string{"two", "three", "none"} {
		if body, err := db.facts(ctx, digestOf([]byte(x))); err != nil || body != nil {
			t.Errorf("%s: %v %s", x, err, body)
		}
	}
}

// TestTC35 lets sessions be adopted and end: no row is left. What a lost replica leaves is gone after a day.
func TestTC35(t *testing.T) {
	t.Parallel()
	db, exec := seatTables(t)
	c, err := newCluster(Options{Name: "a", rows: db})
	if err != nil {
		t.Fatal(err)
	}
	c.print = []byte{1}
	if err := c.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	rows := func() (n int) {
		if err := db.Read(t.Context(), func(tx *sqldb.Tx) (err error) { n, err = tx.Count("FROM seats"); return err }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const sessions = 1500
	for i := range sessions {
		id := c.sealer.seal(mark("d", "DDDDDDDDDDDDD"), fmt.Sprint(i%7), digestOf([]byte("facts")), time.Now())
		if i == 0 {
			_ = c.Seal("x", []byte("facts")) // so that they're known
		}
		if x, err := c.Find(t.Context(), id, fmt.Sprint(i%7), false); err != nil || string(x.Facts) != "facts" {
			t.Fatalf("%+v %v", x, err)
		}
		c.Release(id)
	}
	if n := rows(); n != sessions {
		t.Errorf("%d rows", n)
	}
	if err := c.writeDue(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := rows(); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	c.Keep("some id", func() []byte { return []byte("x") })
	if err := c.writeDue(context.Background()); err != nil || rows() != 1 {
		t.Fatalf("%d %v", rows(), err)
	}
	exec("UPDATE seats SET seen = seen - INTERVAL '27 hours'; UPDATE facts SET seen = seen - INTERVAL '27 hours'")
	if err := db.tidy(t.Context()); err != nil || rows() != 0 {
		t.Errorf("%d rows stay: %v", rows(), err)
	}
	if body, err := db.facts(t.Context(), digestOf([]byte("facts"))); body != nil || err != nil {
		t.Errorf("facts stay: %v", err)
	}
}
