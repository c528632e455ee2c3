package audit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
)

// rig is a trail in a folder of its own.
type rig struct {
	t *testing.T
	*Trail
	o    Options
	set  Settings
	fail atomic.Pointer[error] // the next writes fail with it
}

func newRig(t *testing.T, s *store.Store, set Settings) *rig {
	r := &rig{t: t, set: set}
	r.o = Options{
		Folder: filepath.Join(t.TempDir(), "audit"), Settings: func() Settings { return r.set }, Store: s,
		Clean: func(string) func(string) string {
			return func(text string) string { return strings.ReplaceAll(text, "s3cret", "***") }
		},
		Masker: func(string) func([]byte) []byte {
			return func(raw []byte) []byte { return bytes.ReplaceAll(raw, []byte("s3cret"), []byte("******")) }
		},
		sync: func() error {
			if err := r.fail.Load(); err != nil {
				return *err
			}
			return nil
		},
	}
	r.Trail = New(r.o)
	t.Cleanup(func() { r.Trail.Close() })
	return r
}

// again closes the trail and opens it again, as another process would.
func (r *rig) again() {
	r.Trail.Close()
	time.Sleep(2 * time.Millisecond) // the names of the files have the time
	r.Trail = New(r.o)
}

func (r *rig) flush() error { return r.Flush(r.t.Context()) }

// call records a call of a tool, or nothing if the trail refuses it.
func (r *rig) call(who *identity.Principal, tool, args string, outcome mcp.Outcome) error {
	c := &policy.Call{Who: who, Project: "default", Request: request(who)}
	if err := r.Begin(r.t.Context(), c); err != nil {
		return err
	}
	if c.Server, c.Name, c.Args = "gh", tool, jsonrpc.ValueOf([]byte(args)); tool == "fork" {
		c.Request.Name = "gh__fork" // as clients of all servers call it
	}
	if tool == "call_tool" { // a server's own tool with this name, called through ours
		c.Request.Name, c.Via = tool, tool
	}
	if tool == "asked" {
		c.Elsewhere = []policy.Heard{{Kind: "confirmation", Action: "accept", By: bob}, {Kind: "form", Action: "decline", By: identity.Local}}
	}
	a := &policy.Answer{Outcome: outcome, Took: 1500 * time.Microsecond}
	if outcome == event.Refused {
		a.Err = fmt.Errorf("a step says: %w", &mcp.Error{Cause: "declined"})
	}
	r.End(r.t.Context(), c, a)
	return nil
}

// lines returns what the files have, without what differs each time.
func (r *rig) lines() string {
	var all []string
	names, err := filesOf(r.o.Folder)
	for _, name := range names {
		b, readErr := os.ReadFile(filepath.Join(r.o.Folder, name))
		err = errors.Join(err, readErr)
		all = append(all, string(b))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return regexp.MustCompile(`"(at|sum|prev|actSum|trail)":"[^"]*",?`).ReplaceAllString(strings.Join(all, ""), "")
}

var (
	ada = &identity.Principal{Subject: "p:1", Seat: "p:1/k:2", Name: "Ada", Via: "key"}
	bob = &identity.Principal{Subject: "k:3", Seat: "k:3", Name: "ci", Via: "key"}
)

// TestTrail checks what a line has: who, through what, which item, what became of it, and arguments only if they
// are wanted. Secrets are masked, line breaks stay within the line, and what is too long is left out.
func TestTrail(t *testing.T) {
	r := newRig(t, nil, Settings{Level: Names, Size: 1 << 20, Files: 4})
	do := func(who *identity.Principal, tool, args string, outcome mcp.Outcome) {
		if err := r.call(who, tool, args, outcome); err != nil {
			t.Error(err)
		}
	}
	do(ada, "star", `{"n":1}`, "ok")
	do(nil, "s3cret\n\x07\"é", `{}`, event.Refused)
	do(nil, "fork", `{}`, "ok")
	do(ada, "asked", `{}`, "ok")
	do(ada, "call_tool", `{}`, "ok")
	r.set.Level = Arguments
	do(bob, "star", "{\n\"token\": \"s3cret\"}", "ok")
	do(bob, strings.Repeat("x", 2000), `{"n":"`+strings.Repeat("y", mostArgs)+`"}`, "failed")
	r.set.Level = Off
	do(bob, "unseen", `{}`, "ok")
	r.set.Level = Names
	r.Deny("a wrong credential", "192.0.2.9", nil)
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	want := `{"seq":1,"kind":"file","file":1,}
{"seq":2,"who":"p:1","name":"Ada","seat":"p:1/k:2","via":"key","from":"192.0.2.7:4711","project":"default","server":"gh","method":"tools/call","item":"star","outcome":"ok","ms":1.5,}
{"seq":3,"from":"192.0.2.7:4711","project":"default","server":"gh","method":"tools/call","item":"***\n\u0007\"é","outcome":"refused","cause":"declined","ms":1.5,}
{"seq":4,"from":"192.0.2.7:4711","project":"default","server":"gh","method":"tools/call","item":"fork","as":"gh__fork","outcome":"ok","ms":1.5,}
{"seq":5,"who":"p:1","name":"Ada","seat":"p:1/k:2","via":"key","from":"192.0.2.7:4711","project":"default","server":"gh","method":"tools/call","item":"asked","outcome":"ok","ms":1.5,"answers":"confirmation accept k:3, form decline local",}
{"seq":6,"who":"p:1","name":"Ada","seat":"p:1/k:2","via":"key","from":"192.0.2.7:4711","project":"default","server":"gh","method":"tools/call","item":"call_tool","as":"call_tool","outcome":"ok","ms":1.5,}
{"seq":7,"who":"k:3","name":"ci","via":"key","from":"192.0.2.7:4711","project":"default","server":"gh","method":"tools/call","item":"star","args":{ "token": "******"},"outcome":"ok","ms":1.5,}
{"seq":8,"who":"k:3","name":"ci","via":"key","from":"192.0.2.7:4711","project":"default","server":"gh","method":"tools/call","item":"` + strings.Repeat("x", 509) + `…","argsBytes":65544,"outcome":"failed","ms":1.5,}
{"seq":9,"kind":"denied","from":"192.0.2.9","method":"a wrong credential",}
{"seq":10,"kind":"end","why":"closed",}
`
	if got := r.lines(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, path := range []string{r.o.Folder, r.State().File} {
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, fi, err)
		}
	}
	if v := r.verify(); len(v.Chains) != 1 || v.Chains[0].Broken != "" || !v.Chains[0].Ended || v.Chains[0].Lines != 10 {
		t.Errorf("%+v", v)
	}
}

// TestNothingToRecord checks that no file is made without need, although people look.
func TestNothingToRecord(t *testing.T) {
	r := newRig(t, nil, Settings{Level: Names, Refuse: true, Size: 1 << 20, Files: 4})
	r.verify()
	if _, _, err := r.Read(t.Context(), Query{Most: 10}); err != nil {
		t.Error(err)
	}
	r.Close()
	if _, err := os.Stat(r.o.Folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a folder: %v", err)
	}
}

// TestUnwritable checks what becomes of requests whose lines can't be written: they're refused or go on, as
// configured, the state says so, and afterwards the trail says how many there were. Nothing that was let through
// before is missing.
func TestUnwritable(t *testing.T) {
	for _, refuse := range []bool{true, false} {
		t.Run(fmt.Sprint("refuse ", refuse), func(t *testing.T) {
			r := newRig(t, nil, Settings{Level: Names, Refuse: refuse, Size: 1 << 20, Files: 4})
			if err := r.call(ada, "one", `{}`, "ok"); err != nil {
				t.Fatal(err)
			}
			full := errors.New("no space left")
			r.fail.Store(&full)
			if err := r.call(ada, "two", `{}`, "ok"); err != nil {
				t.Fatal(err) // nobody knows yet
			}
			if err := r.flush(); err == nil {
				t.Fatal("it was written")
			}
			if got := r.call(ada, "three", `{}`, "ok"); (got != nil) != refuse || r.State().Problem == nil {
				t.Errorf("%v, %+v", got, r.State())
			}
			r.fail.Store(nil)
			if err := r.flush(); err != nil {
				t.Fatal(err)
			}
			if err := r.call(ada, "four", `{}`, "ok"); err != nil || r.State().Problem != nil {
				t.Errorf("%v, %+v", err, r.State())
			}
			r.Close()
			got := regexp.MustCompile(`"item":"\w+"|"refused":\d`).FindAllString(r.lines(), -1)
			want := map[bool][]string{true: {`"item":"one"`, `"item":"two"`, `"refused":1`, `"item":"four"`}, false: {`"item":"one"`, `"item":"two"`, `"item":"three"`, `"item":"four"`}}[refuse]
			if !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if v := r.verify(); v.Chains[0].Broken != "" {
				t.Errorf("%+v", v)
			}
		})
	}
}

// TestNoFolder checks that not even the first request gets through if there can be no file.
func TestNoFolder(t *testing.T) {
	r := newRig(t, nil, Settings{Level: Names, Refuse: true, Size: 1 << 20, Files: 4})
	if err := os.WriteFile(r.o.Folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.call(ada, "one", `{}`, "ok"); err == nil || r.State().Problem == nil {
		t.Errorf("%v, %+v", err, r.State())
	}
	if err := os.Remove(r.o.Folder); err != nil {
		t.Fatal(err)
	}
	_ = r.flush()
	if err := r.call(ada, "two", `{}`, "ok"); err != nil {
		t.Error(err)
	}
}

// TestBound checks that lines that can't be written fill only so much memory.
func TestBound(t *testing.T) {
	for _, refuse := range []bool{true, false} {
		r := newRig(t, nil, Settings{Level: Names, Refuse: refuse, Size: 1 << 30, Files: 4})
		if err := r.call(ada, "one", `{}`, "ok"); err != nil {
			t.Fatal(err)
		}
		full := errors.New("no space left")
		r.fail.Store(&full)
		refused := 0
		for range 3 * mostWaiting {
			if r.call(ada, "two", `{}`, "ok") != nil {
				refused++
			}
		}
		r.mu.Lock()
		n := len(r.waiting)
		r.mu.Unlock()
		if n > mostWaiting || refuse != (refused > 0) {
			t.Errorf("refuse %t: %d wait, %d were refused", refuse, n, refused)
		}
		r.fail.Store(nil)
		if err := errors.Join(r.flush(), r.flush()); err != nil || refuse != (r.State().Refused > 0) || refuse == (r.State().Lost > 0) {
			t.Errorf("refuse %t: %v, %+v", refuse, err, r.State())
		}
		if err := r.call(ada, "three", `{}`, "ok"); err != nil {
			t.Error(err)
		}
	}
}

// TestFiles checks that files have successors and that the oldest go, those of former processes too, and that
// nothing is lost if somebody moves the file away.
func TestFiles(t *testing.T) {
	r := newRig(t, nil, Settings{Level: Names, Size: 600, Files: 3})
	for range 2 {
		for i := range 9 {
			_ = r.call(ada, fmt.Sprint("t", i), `{}`, "ok")
			if err := r.flush(); err != nil {
				t.Fatal(err)
			}
		}
		r.again()
	}
	names, _ := filesOf(r.o.Folder)
	if v := r.verify(); len(names) != 3 || len(v.Chains) != 1 || v.Chains[0].Broken != "" {
		t.Errorf("%q, %+v", names, v)
	}
	r.set.Size = 1 << 20
	_ = r.call(ada, "before", `{}`, "ok")
	if err := r.flush(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.State().File, r.State().File+".old"); err != nil {
		t.Fatal(err)
	}
	_ = r.call(ada, "after", `{}`, "ok")
	if err := r.flush(); err != nil || !strings.Contains(r.lines(), `"after"`) {
		t.Errorf("%v, %s", err, r.lines())
	}
	if err := errors.Join(os.Rename(r.State().File, r.State().File+".old"), os.Symlink(r.State().File+".old", r.State().File)); err != nil {
		t.Skip(err) // Windows lets not everybody
	}
	_ = r.call(ada, "linked", `{}`, "ok")
	if err := r.flush(); err != nil || !strings.Contains(r.lines(), `"linked"`) {
		t.Errorf("%v, %s", err, r.lines())
	}
}

// TestFilesOfTwo checks that what a process has just written stays in the folder, although the files of another one,
// which began later, have filled it.
func TestFilesOfTwo(t *testing.T) {
	older := newRig(t, nil, Settings{Level: Names, Size: 300, Files: 3})
	time.Sleep(2 * time.Millisecond) // the names of the files have the time
	later := &rig{t: t, Trail: New(older.o)}
	t.Cleanup(later.Close)
	do := func(r *rig, tool string) {
		_ = r.call(ada, tool, `{}`, "ok")
		if err := r.flush(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // the files differ in when they were written
	}
	for i := range 6 {
		do(later, fmt.Sprint("later", i))
	}
	do(older, "older1")
	do(older, "older2")
	names, err := filesOf(older.o.Folder)
	if got := older.lines(); err != nil || len(names) != 3 || !strings.Contains(got, "older1") || !strings.Contains(got, "older2") || !strings.Contains(got, "later5") {
		t.Errorf("%q, %v\n%s", names, err, got)
	}
}

func (r *rig) verify() Verified {
	r.t.Helper()
	v, err := r.Verify(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// TestDenied checks that strangers can't fill the trail.
func TestDenied(t *testing.T) {
	r := newRig(t, nil, Settings{Level: Names, Size: 1 << 20, Files: 3})
	for range 10_000 {
		r.Deny("a wrong credential", "192.0.2.9", nil)
	}
	r.Close()
	if got := r.lines(); strings.Count(got, `"kind":"denied"`) != mostDenied || !strings.Contains(got, fmt.Sprintf(`"denied":%d`, 10_000-mostDenied)) {
		t.Error(got)
	}
}

// TestRead checks who sees what of acts and calls.
func TestRead(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "db"), "")
	r := newRig(t, s, Settings{Level: Names, Size: 1 << 20, Files: 3})
	if err := set(t, s, "one"); err != nil {
		t.Fatal(err)
	}
	_ = r.call(ada, "star", `{}`, "ok")
	_ = r.call(bob, "fork", `{}`, "refused")
	r.Deny("a wrong credential", "192.0.2.9", nil)
	for name, c := range map[string]struct {
		q    Query
		want string
	}{
		"all":         {Query{}, "denied, fork, star, began trail, set secret"},
		"newest":      {Query{Most: 2}, "denied, fork"},
		"a subject":   {Query{Who: "k:3"}, "fork"},
		"a seat":      {Query{Who: "p:1/k:2"}, "star"},
		"a name":      {Query{Who: "ADA"}, "star"},
		"an actor":    {Query{Who: "local"}, "set secret"},
		"a named one": {Query{Who: "Me", Name: func(s string) string { return strings.Replace(s, "local", "me", 1) }}, "set secret"},
		"a method":    {Query{What: "Tools/Call"}, "fork, star"},
		"an item":     {Query{What: "gh/star"}, "star"},
		"an outcome":  {Query{What: "refused"}, "fork"},
		"an act":      {Query{What: "set secret:shop"}, "set secret"},
		"a project":   {Query{Project: "shop"}, "set secret"},
		"none":        {Query{Project: "elsewhere"}, ""},
		"later":       {Query{Since: time.Now().Add(time.Hour)}, ""},
		"earlier":     {Query{Until: time.Now().Add(-time.Hour)}, ""},
		"by then":     {Query{Until: time.Now().Add(time.Hour), What: "gh/star"}, "star"},
	} {
		if c.q.Most == 0 {
			c.q.Most = 100
		}
		list, _, err := r.Read(t.Context(), c.q)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range list {
			switch {
			case e.Act != nil:
				kind, _, _ := strings.Cut(e.Act.Object, ":")
				got = append(got, e.Act.Action+" "+kind)
			case e.Line.Kind != "":
				got = append(got, e.Line.Kind)
			default:
				got = append(got, e.Line.Item)
			}
		}
		sortable := name == "all" || name == "newest" // several may have the same millisecond
		if text := strings.Join(got, ", "); text != c.want && (!sortable || len(got) != strings.Count(c.want, ",")+1) {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// TestPages reads everything in pages of each length: together they are the whole list, whatever is added meanwhile,
// also if several processes have lines of the same number, at the same time.
func TestPages(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "db"), "")
	r := newRig(t, s, Settings{Level: Names, Size: 4096, Files: 100})
	for process := range 3 {
		for i := range 20 {
			if err := set(t, s, fmt.Sprint("s", process, i%3)); err != nil {
				t.Fatal(err)
			}
			_ = r.call(ada, fmt.Sprint("t", i), `{}`, "ok")
			if i%7 == 0 {
				time.Sleep(2 * time.Millisecond)
			}
		}
		r.again()
	}
	text := func(e *Entry) string {
		p := e.place()
		return p.String()
	}
	for _, what := range []string{"", "secret", "gh/t1"} {
		whole, _, err := r.Read(t.Context(), Query{What: what, Most: 1000})
		if err != nil || len(whole) < 20 {
			t.Fatal(len(whole), err)
		}
		for _, most := range []int{1, 2, 7, 50, 500} {
			var got []Entry
			for at, more := (Place{}), true; more; {
				at, _ = ParsePlace(at.String())
				list, last, err := r.Read(t.Context(), Query{What: what, Before: at, Most: most})
				if err != nil {
					t.Fatal(err)
				}
				got, at, more = append(got, list...), last, len(list) == most
				if most > 2 && len(got) > most {
					_ = set(t, s, "later")
					_ = r.call(bob, "t1", `{}`, "ok")
				}
			}
			for i := range whole {
				if i >= len(got) || text(&got[i]) != text(&whole[i]) {
					t.Errorf("%q, pages of %d: entry %d of %d is another one; there are %d", what, most, i, len(whole), len(got))
					break
				}
			}
			if len(got) != len(whole) {
				t.Errorf("%q, pages of %d: %d entries of %d", what, most, len(got), len(whole))
			}
			whole, _, _ = r.Read(t.Context(), Query{What: what, Most: 1000})
		}
	}
	for _, text := range []string{"x", "1", "1.2.3", "1.2.x.", "1.2.-1.", ".2.3."} {
		if _, ok := ParsePlace(text); ok {
			t.Errorf("%q is a place", text)
		}
	}
}

// TestBackwards reads files of which lines begin, break and end at the borders of what is read at once.
func TestBackwards(t *testing.T) {
	for _, size := range []int{0, 1, 100, 256<<10 - 1, 256 << 10, 256<<10 + 1, 700 << 10} {
		for _, tail := range []string{"", "torn"} {
			want := []string{"first", strings.Repeat("x", size), "", "last"}
			b := []byte(strings.Join(want, "\n") + "\n" + tail)
			var got []string
			if err := backwards(bytes.NewReader(b), int64(len(b)), func(line []byte) error { got = append(got, string(line)); return nil }); err != nil {
				t.Fatal(err)
			}
			if slices.Reverse(got); !slices.Equal(got, want) {
				t.Errorf("%d bytes, then %q: %d lines", size, tail, len(got))
			}
		}
	}
}

func newStore(t *testing.T, where, schema string) *store.Store {
	s, err := store.Open(t.Context(), store.Options{Database: where, Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func set(t *testing.T, s *store.Store, name string) error {
	return s.Write(t.Context(), "local", func(x *store.Tx) error {
		return x.SetSecret(store.Secret{Project: "shop", Name: name, Sealed: []byte("x")})
	})
}

// forge writes a file whose hashes are right, and which begins with a line of a number after a sum.
func forge(path string, seq int64, at time.Time, prev string) {
	id, file, _ := parseName(filepath.Base(path))
	sum, _ := base64.RawURLEncoding.DecodeString(prev)
	when := at.UTC().Format(timeFormat)
	text, sum := chain(nil, seq, sum, appendText(fmt.Appendf(nil, `,"at":%q,"kind":"file","trail":%q,"file":%d`, when, id, file), "prev", prev))
	text, sum = chain(text, seq+1, sum, fmt.Appendf(nil, `,"at":%q,"who":"k:1","method":"tools/call","item":"star","outcome":"ok","ms":1`, when))
	text, _ = chain(text, seq+2, sum, fmt.Appendf(nil, `,"at":%q,"kind":"end","why":"closed"`, when))
	_ = os.WriteFile(path, text, 0o600)
}

// TestOlderThanActs checks that the acts get to know a file that began before there was a database, and that a file
// that ended before isn't taken for one of somebody else. Nobody can tell whose it is, which is said.
func TestOlderThanActs(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "db"), "")
	r := newRig(t, s, Settings{Level: Names, Size: 1 << 20, Files: 9})
	_ = r.call(ada, "star", `{}`, "ok")
	if v := r.verify(); len(v.Chains) != 1 || v.Chains[0].Unknown || v.Chains[0].Broken != "" {
		t.Errorf("without a database: %+v", v)
	}
	if err := set(t, s, "x"); err != nil {
		t.Fatal(err)
	}
	_ = r.call(ada, "star", `{}`, "ok")
	if v := r.verify(); len(v.Chains) != 1 || v.Chains[0].Unknown || v.Chains[0].Broken != "" || len(v.Acts.Trails) != 1 {
		t.Errorf("with a database: %+v", v)
	}
	forge(filepath.Join(r.o.Folder, nameOf("before", 1)), 1, time.Now().Add(-time.Hour), "")
	if v := r.verify(); len(v.Chains) != 2 || !v.Chains[1].Unknown || v.Chains[1].Broken != "" || v.Chains[0].Unknown {
		t.Errorf("with an older file: %+v", v)
	}
}

// TestTA56Lines changes the files of two processes, and rows of the acts, as somebody could who has the machine, and
// checks that the first thing that isn't as it was written is named. A line that a killed process has left torn is
// told apart.
func TestTA56Lines(t *testing.T) {
	type files = []string // their paths; those of the first process come first, and there are three
	edit := func(path string, f func(lines []string) []string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(f(strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")), "")
		if text != "" && !strings.HasSuffix(text, "\n") && !strings.HasSuffix(text, "torn") {
			text += "\n"
		}
		if err := os.WriteFile(path, []byte(strings.TrimSuffix(text, "torn")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		do   func(all files)
		want string // "" if nothing is broken
	}{
		"nothing": {func(files) {}, ""},
		"changed": {func(all files) {
			edit(all[1], func(l []string) []string { l[2] = strings.Replace(l[2], `"gh"`, `"gx"`, 1); return l })
		}, "line 3 of calls-1-2 was changed"},
		"its sum, too": {func(all files) {
			edit(all[1], func(l []string) []string {
				body, _, _ := cut([]byte(strings.TrimSuffix(l[2], "\n")))
				_, prev, _ := cut([]byte(strings.TrimSuffix(l[1], "\n")))
				i := bytes.IndexByte(body, ',')
				line, _ := chain(nil, 9, prev, bytes.Replace(body[i:], []byte(`"gh"`), []byte(`"gx"`), 1))
				l[2] = string(line)
				return l
			})
		}, "line 4 of calls-1-2 was changed, or replaced"},
		"deleted":         {func(all files) { edit(all[1], func(l []string) []string { return slices.Delete(l, 2, 3) }) }, "line 3 of calls-1-2 has number 10 and comes after number 8, so lines were deleted"},
		"moved":           {func(all files) { edit(all[1], func(l []string) []string { l[1], l[2] = l[2], l[1]; return l }) }, "line 2 of calls-1-2 has number 9 and comes after number 7, so lines were deleted"},
		"twice":           {func(all files) { edit(all[1], func(l []string) []string { return slices.Insert(l, 2, l[1]) }) }, "line 3 of calls-1-2 has number 8 and comes after number 8, so lines were moved"},
		"the first":       {func(all files) { edit(all[0], func(l []string) []string { return l[1:] }) }, "line 1 of calls-1-1 is not what it was"},
		"a file within":   {func(all files) { _ = os.Remove(all[1]) }, "the file calls-1-2 was deleted"},
		"the oldest file": {func(all files) { _ = os.Remove(all[0]) }, "the file calls-1-1 was deleted"},
		"the newest file": {func(all files) { _ = os.Remove(all[2]) }, "the file calls-1-3 was deleted"},
		"all files of one": {func(all files) {
			for _, path := range all[:3] {
				_ = os.Remove(path)
			}
		}, "all its files were deleted: calls-1-1, calls-1-2, calls-1-3"},
		"of a process that never ran": {func(all files) {
			forge(filepath.Join(filepath.Dir(all[0]), nameOf("x", 1)), 1, time.Now().Add(time.Hour), "")
		}, "no act knows of the file calls-x-000001.jsonl"},
		"one more of a process": {func(all files) {
			b, _ := os.ReadFile(all[2])
			_, sum, _ := cut(b[bytes.LastIndexByte(b[:len(b)-1], '\n')+1 : len(b)-1])
			forge(strings.Replace(all[2], "000003", "000004", 1), 1+int64(bytes.Count(b, []byte("\n")))+12, time.Now().Add(time.Hour), base64.RawURLEncoding.EncodeToString(sum))
		}, "no act knows of the file calls-1-4"},
		"the end of a file":   {func(all files) { edit(all[1], func(l []string) []string { return l[:2] }) }, "calls-1-2 ends with line 8"},
		"the end of the last": {func(all files) { edit(all[2], func(l []string) []string { return l[:2] }) }, "calls-1-3 ends with line"},
		"torn within":         {func(all files) { edit(all[1], func(l []string) []string { return append(l[:4], l[4][:20]+"torn") }) }, "calls-1-2 ends with line"},
		"no JSON":             {func(all files) { edit(all[1], func(l []string) []string { l[2] = "hello\n"; return l }) }, "line 3 of calls-1-2 was changed"},
		// The process of the last file was killed: a cut there looks as if it had been killed earlier.
		"torn at the end": {func(all files) {
			edit(all[len(all)-1], func(l []string) []string { l[len(l)-1] = l[len(l)-1][:30] + "torn"; return l })
		}, "torn"},
		"the end after a crash": {func(all files) { edit(all[len(all)-1], func(l []string) []string { return l[:len(l)-1] }) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, filepath.Join(t.TempDir(), "db"), "")
			if err := set(t, s, "x"); err != nil { // otherwise there is no database, and so no act
				t.Fatal(err)
			}
			r := newRig(t, s, Settings{Level: Names, Size: 500, Files: 9})
			for file := range 3 { // each with a beginning, four calls and an end
				for i := range 4 {
					_ = r.call(ada, fmt.Sprint(file, i), `{}`, "ok")
				}
				if err := r.flush(); err != nil {
					t.Fatal(err)
				}
			}
			r.set.Size = 1 << 20
			r.again()
			for i := range 3 {
				_ = r.call(bob, fmt.Sprint(i), `{}`, "ok")
			}
			if err := r.flush(); err != nil {
				t.Fatal(err)
			}
			names, err := filesOf(r.o.Folder)
			if err != nil || len(names) != 4 {
				t.Fatal(names, err)
			}
			first, _, _ := parseName(names[0])
			for i := range names {
				names[i] = filepath.Join(r.o.Folder, names[i])
			}
			c.do(names)
			v := r.verify()
			broken := v.Acts.Broken
			for _, x := range v.Chains {
				broken += x.Broken
				if x.Torn {
					broken += "torn"
				}
			}
			broken = regexp.MustCompile(`calls-`+first+`-00000(\d)\.jsonl`).ReplaceAllString(broken, "calls-1-$1")
			if (c.want == "") != (broken == "") || !strings.HasPrefix(broken, c.want) {
				t.Errorf("%q, want %q", broken, c.want)
			}
		})
	}
}

// TestTA56Both checks that a trail knows of acts that were deleted at the end, in both databases, when their counter
// was put back, too.
func TestTA56Both(t *testing.T) {
	dbtest.Both(t, func(t *testing.T, where, schema string) {
		s := newStore(t, where, schema)
		for i := range 5 {
			if err := set(t, s, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		r := newRig(t, s, Settings{Level: Names, Size: 1 << 20, Files: 9})
		_ = r.call(ada, "star", `{}`, "ok")
		if v := r.verify(); v.Acts.Broken != "" || v.Acts.Last != 6 || len(v.Elsewhere) != 0 {
			t.Fatalf("%+v", v)
		}
		r.Close()
		// A copy of the database from before. It has a shorter chain, which is whole.
		other := newStore(t, filepath.Join(t.TempDir(), "db"), "")
		for i := range 5 {
			if err := set(t, other, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		r.o.Store = other
		r.Trail = New(r.o)
		if v := r.verify(); !strings.Contains(v.Acts.Broken, "knows of act 6, so acts were deleted at the end") {
			t.Errorf("%+v", v)
		}
		// And acts that know of files, but in a folder without them.
		r.Close()
		r.o.Store, r.o.Folder = s, t.TempDir()
		r.Trail = New(r.o)
		v := r.verify()
		for _, x := range v.Chains { // of this machine
			v.Elsewhere = append(v.Elsewhere, x.Broken)
		}
		if v.Acts.Broken != "" || len(v.Elsewhere) != 1 || v.Elsewhere[0] == "" || (len(v.Chains) == 0) != (schema != "") {
			t.Errorf("%+v", v)
		}
	})
}
