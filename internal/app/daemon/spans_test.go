//go:build unix

package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// cable is a way to an address, which a test can cut.
type cable struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	open     []net.Conn
	running  sync.WaitGroup
}

// newCable returns a way to an address. If that is "", it's one at which nobody listens yet.
func newCable(t *testing.T, to string) *cable {
	t.Helper()
	if to == "" {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		to = free.Addr().String()
		_ = free.Close()
	}
	c := &cable{to: to}
	var err error
	if c.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	c.running.Go(c.serve)
	t.Cleanup(c.cut)
	return c
}

func (c *cable) serve() {
	for {
		in, err := c.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		c.mu.Lock()
		c.open = append(c.open, in, out)
		c.mu.Unlock()
		for _, x := range [][2]net.Conn{{in, out}, {out, in}} {
			c.running.Go(func() {
				_, _ = io.Copy(x[0], x[1])
				_ = x[0].Close()
			})
		}
	}
}

func (c *cable) cut() {
	_ = c.listener.Close()
	c.mu.Lock()
	for _, x := range c.open {
		_ = x.Close()
	}
	c.mu.Unlock()
	c.running.Wait()
}

// deskOfCluster returns a desk with the store of newCluster.
func deskOfCluster(t *testing.T) *access.Desk {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Database: dbtest.URL(t), Schema: "test_" + strings.ToLower(t.Name())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return access.NewDesk(store.NewSafe(s, vault.New(vault.Options{Key: "env:VAULT", Getenv: func(string) (string, bool) { return strings.TrimSpace(sealingKey(7)), true }})))
}

// read gets JSON from the admin API.
func read[T any](r *rig, path string, header ...string) (x T) {
	r.t.Helper()
	a := r.do(r.t.Context(), "GET", "/api/v1"+path, nil, header...)
	if a.status != http.StatusOK || json.Unmarshal([]byte(a.body), &x) != nil {
		r.t.Fatalf("%s: %d %.300s", path, a.status, a.body)
	}
	return x
}

// TestTC38 asks each replica for what only the others know: calls, their messages, records, questions and how they are.
// A question at one is answered at another. Then one of them can't be reached, and the others say so by its name.
func TestTC38(t *testing.T) {
	t.Parallel()
	way := newCable(t, "")
	links := make([]func() string, 3)
	f := newCluster(t, fleetServers(t)+`
dragoman:
  record: memory
  questions: console
  policy: [{match: new/add, do: confirm}]
`, func(i int, o *ServeOptions) {
		o.Console = func(c Console) { links[i] = c.Link }
		if i == 2 {
			o.Config.Cluster.Listen, o.Config.Cluster.Advertise = way.to, way.listener.Addr().String()
		}
	})
	desk := deskOfCluster(t)
	operator, _ := makeKey(t, desk, access.Wish{Name: "op", Project: "default", Role: identity.Operator})
	viewer, _ := makeKey(t, desk, access.Wish{Name: "view", Project: "default", Role: identity.Viewer})
	caller, _ := makeKey(t, desk, access.Wish{Name: "call", Project: "default", Role: identity.Caller})
	for _, r := range f.all {
		soon(t, "each knows the others and the keys", func() bool {
			all := r.statusOnly().Replicas
			a := r.do(t.Context(), "GET", "/api/v1/status", nil, viewer...)
			return len(all) == 3 && a.status == 200
		})
	}
	sessions := make([]string, 3)
	for i, r := range f.all {
		sessions[i] = r.initialize("/mcp", "2025-11-25", "{}")
		for range i + 1 {
			if a := r.post("/mcp", toolCall("1", "old__add", `{"a":1,"b":2}`), "Mcp-Session-Id", sessions[i]); toolText(a.message(t)) != "3" {
				t.Fatalf("%d %s", a.status, a.body)
			}
		}
	}
	names := func(all []admin.Call) (out []string) {
		for i := range all {
			out = append(out, all[i].ID())
		}
		return out
	}
	const called = "/calls?method=tools/call"
	for i, r := range f.all {
		for _, who := range [][]string{nil, viewer} { // the local user, who shows nothing, and somebody with a key
			all := read[admin.Calls](r, called, who...)
			sorted := slices.IsSortedFunc(all.Calls, func(x, y admin.Call) int { return y.Started.Compare(x.Started) })
			if len(all.Calls) != 6 || !sorted || all.Missing != nil || all.Before != 0 {
				t.Errorf("r%d says %v, and misses %v", i, names(all.Calls), all.Missing)
			}
			var pages []string
			for next := ""; ; {
				page := read[admin.Calls](r, called+"&limit=4"+next, who...)
				pages = append(pages, names(page.Calls)...)
				if next = fmt.Sprint("&before=", page.Before); page.Before == 0 {
					break
				}
			}
			if !slices.Equal(pages, names(all.Calls)) {
				t.Errorf("the pages have %v", pages)
			}
		}
		last := read[admin.Calls](r, called+"&limit=1").Calls[0]
		if story := read[admin.Story](r, "/calls/"+last.ID(), viewer...); last.Replica != "r2" || story.Call.ID() != last.ID() || len(story.Messages) == 0 {
			t.Errorf("r%d tells %+v", i, story.Call)
		}
		if a := r.do(t.Context(), "GET", "/api/v1/calls/"+last.ID()+"/transcript", nil, viewer...); a.status != 200 || !strings.Contains(a.body, "old__add") {
			t.Errorf("the transcript: %d %.300s", a.status, a.body)
		}
		if a := r.do(t.Context(), "GET", "/api/v1/calls/r9.1", nil, viewer...); a.status != 404 || !strings.Contains(a.body, `named \"r9\"`) {
			t.Errorf("a replica that isn't there: %d %s", a.status, a.body)
		}
		from := map[string]bool{}
		for _, x := range read[admin.Logs](r, "/logs?limit=1000").Records {
			from[x.Replica] = true
		}
		if len(from) != 3 {
			t.Errorf("r%d has records of %v", i, from)
		}
		status := read[admin.Report](r, "/status", viewer...)
		for _, x := range status.Replicas {
			if x.Sessions != 1 || len(x.Servers) != 2 || x.Digest == "" || x.Digest != status.Digest || x.Problem != "" {
				t.Errorf("r%d says of %s: %+v", i, x.Name, x)
			}
		}
		if s := status.Servers[slices.IndexFunc(status.Servers, func(s admin.Server) bool { return s.Name == "old" })]; true {
			if ended, _ := status.CallsOf(&s); ended < 6 {
				t.Errorf("%d calls", ended)
			}
		}
		if a := r.do(t.Context(), "GET", "/api/v1"+called, nil, caller...); a.status != 403 {
			t.Errorf("a caller's key: %d %s", a.status, a.body)
		}
		if a := r.do(t.Context(), "GET", "/api/v1/status", nil, "Dragoman-Local", "1"); a.status != 400 {
			t.Errorf("a header from outside: %d %s", a.status, a.body)
		}
	}

	// Who follows one follows all.
	events := make(chan string, 64)
	resp, err := f.all[0].request(t.Context(), "GET", "/api/v1/calls/stream?method=tools/call&limit=0", nil, viewer...)
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	t.Cleanup(reading.Wait)
	t.Cleanup(func() { _ = resp.Body.Close() })
	reading.Go(func() {
		for in := eventstream.NewReader(resp.Body, eventstream.Limits{}); ; {
			e, err := in.Next()
			if err != nil {
				return
			}
			select {
			case events <- e.Name + " " + string(e.Data):
			default: // nobody looks any more
			}
		}
	})
	follows := func(what, event, replica string) {
		soon(t, what, func() bool {
			select {
			case e := <-events:
				return strings.HasPrefix(e, event) && strings.Contains(e, `"replica":"`+replica+`"`)
			default:
				f.all[1].post("/mcp", toolCall("1", "old__add", `{"a":1,"b":2}`), "Mcp-Session-Id", sessions[1])
				return false
			}
		})
	}
	follows("a call of another replica", "call", "r1")

	// A client of r1 can't be asked, so its call waits for a person.
	waits := make(chan answer, 1)
	go func() {
		a, _ := f.all[1].try(t.Context(), "POST", "/mcp", strings.NewReader(toolCall("9", "new__add", `{"a":4,"b":5}`)), "Mcp-Session-Id", sessions[1])
		waits <- a
	}()
	var id string
	soon(t, "the question is everywhere", func() bool {
		for _, r := range f.all {
			q := read[admin.Questions](r, "/questions", operator...)
			if len(q.Questions) != 1 || q.Questions[0].Replica != "r1" {
				return false
			}
			id = q.Questions[0].ID
		}
		return true
	})
	if q := read[admin.Questions](f.all[0], "/questions", viewer...); len(q.Questions) != 0 {
		t.Errorf("a viewer sees %+v", q.Questions)
	}
	if a := f.all[0].do(t.Context(), "GET", "/api/v1/questions/"+id, nil, viewer...); a.status != 404 {
		t.Errorf("a viewer gets %d %s", a.status, a.body)
	}
	// The console of the local user, whose session is only at r0.
	browser := f.all[0].enter(links[0]())
	for path, text := range map[string]string{"/console/calls": "/console/calls/r1.", "/console/questions": "/console/questions/" + id, "/console/questions/" + id: "Confirm a call", "/console/calls/r1.2": "old__add"} {
		if a := f.all[0].do(t.Context(), "GET", path, nil, browser...); a.status != 200 || !strings.Contains(a.body, text) {
			t.Errorf("%s: %d without %q", path, a.status, text)
		}
	}
	if a := f.all[2].post("/api/v1/questions/"+id+"/answer", `{"action":"accept"}`, operator...); a.status != 200 {
		t.Errorf("the answer at r2: %d %s", a.status, a.body)
	}
	if a := <-waits; toolText(a.message(t)) != "9" {
		t.Errorf("the call that waited: %s", a.body)
	}
	if a := f.all[0].post("/api/v1/questions/"+id+"/answer", `{"action":"accept"}`, operator...); a.status != 409 {
		t.Errorf("another answer: %d %s", a.status, a.body)
	}

	way.cut()
	follows("the end of r2's calls", "missing", "r2")
	for _, r := range f.all[:2] {
		began := time.Now()
		all := read[admin.Calls](r, called, viewer...)
		if slices.ContainsFunc(all.Calls, func(c admin.Call) bool { return c.Replica == "r2" }) || len(all.Missing) != 1 || all.Missing[0].Replica != "r2" || time.Since(began) > patience(3*time.Second) {
			t.Errorf("%d calls without %v after %v", len(all.Calls), all.Missing, time.Since(began))
		}
		lines := strings.Join(append(admin.ReplicaLines(read[admin.Report](r, "/status", viewer...).Replicas), admin.ReplicasLine(read[admin.Report](r, "/status", viewer...).Replicas)), " ")
		if !strings.Contains(lines, "r2 ready (it can't be reached)") {
			t.Error(lines)
		}
		if a := r.do(t.Context(), "GET", "/api/v1/questions/UNKNOWN2", nil, operator...); a.status != 404 || !strings.Contains(a.body, "r2, which can't be reached") {
			t.Errorf("%d %s", a.status, a.body)
		}
		if a := r.do(t.Context(), "GET", "/api/v1/calls/r2.1", nil, operator...); a.status != 502 || !strings.Contains(a.body, "r2") {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if a := f.all[0].do(t.Context(), "GET", "/console/calls", nil, browser...); !strings.Contains(a.body, "The replica r2 has not said what it has") {
		t.Error("the console doesn't name r2")
	}
}

// TestReadyWithoutDatabase cuts one replica off from the database. It stays ready, since calls go on, and says so; the
// others have nothing to say.
func TestReadyWithoutDatabase(t *testing.T) {
	t.Parallel()
	database, err := url.Parse(dbtest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	way := newCable(t, database.Host)
	database.Host = way.listener.Addr().String()
	f := newCluster(t, fleetServers(t), func(i int, o *ServeOptions) {
		if i == 0 {
			o.Config.Database = database.String()
		}
	})
	session := f.all[0].initialize("/mcp", "2025-11-25", "{}")
	way.cut()
	const away = "the database of the replicas can't be reached, and calls go on"
	soon(t, "it says so", func() bool {
		a := f.all[0].do(t.Context(), "GET", "/readyz", nil)
		return a.status == 200 && strings.Contains(a.body, away)
	})
	if a := f.all[0].post("/mcp", toolCall("1", "old__add", `{"a":1,"b":2}`), "Mcp-Session-Id", session); toolText(a.message(t)) != "3" {
		t.Errorf("a call: %d %s", a.status, a.body)
	}
	if a := f.all[1].do(t.Context(), "GET", "/readyz", nil); a.status != 200 || strings.Contains(a.body, away) {
		t.Errorf("another one: %d %s", a.status, a.body)
	}
}

// TestTC26 looks at the audit of one replica at another, as if it were dead: first whole, then with its last line cut off,
// and then with a head in the database that somebody has written there.
func TestTC26(t *testing.T) {
	t.Parallel()
	var folders [3]string
	f := newCluster(t, fleetServers(t)+"dragoman: {audit: {calls: names}}\n", func(i int, o *ServeOptions) {
		o.anchorEvery = 50 * time.Millisecond
		folders[i] = filepath.Join(filepath.Dir(o.Database), "audit")
	})
	admins, _ := makeKey(t, deskOfCluster(t), access.Wish{Name: "adm", Project: "default", Role: identity.Admin})
	verify := func() admin.AuditVerified {
		t.Helper()
		return read[admin.AuditVerified](f.all[0], "/audit/verify", admins...)
	}
	soon(t, "the key counts", func() bool {
		return f.all[0].do(t.Context(), "GET", "/api/v1/audit/verify", nil, admins...).status == 200
	})
	session := f.all[1].initialize("/mcp", "2025-11-25", "{}")
	for range 3 {
		f.all[1].post("/mcp", toolCall("1", "old__add", `{"a":1,"b":2}`), "Mcp-Session-Id", session)
	}
	var name string
	var whole []byte
	soon(t, "the calls are recorded", func() bool {
		files, _ := filepath.Glob(filepath.Join(folders[1], "calls-*"))
		if len(files) == 1 {
			name = filepath.Base(files[0])
			whole, _ = os.ReadFile(files[0])
		}
		return bytes.Count(whole, []byte(`"item":"add"`)) == 3
	})
	place := filepath.Join(folders[0], name)
	broken := func(text []byte) (why string) {
		if err := os.MkdirAll(folders[0], 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(place, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, x := range verify().Files {
			if strings.Contains(name, x.Process) {
				return x.Broken
			}
		}
		t.Fatal("the file isn't looked at")
		return ""
	}
	if why := broken(whole); why != "" {
		t.Errorf("the whole chain: %s", why)
	}
	cut := whole[:bytes.LastIndexByte(whole[:len(whole)-1], '\n')+1]
	soon(t, "the cut is found", func() bool { return strings.Contains(broken(cut), "lines were deleted at its end") })
	if why := broken(whole); why != "" {
		t.Errorf("the whole chain again: %s", why)
	}
	dbtest.Exec(t, dbtest.URL(t), "UPDATE test_testtc26_cluster.heads SET seq = 1")
	if why := broken(cut); !strings.Contains(why, "was changed there") {
		t.Errorf("with a forged head: %s", why)
	}
}

// TestTC25 sends far more calls to three replicas than a limit allows. Together they let through what it says, and each
// a part.
func TestTC25(t *testing.T) {
	t.Parallel()
	const text = `
dragoman:
  limits: {traffic: [{per: server, servers: old, callsPerSecond: 6, burst: 6}]}
`
	f := newCluster(t, fleetServers(t)+text)
	var passed [3]atomic.Int64
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i, r := range f.all {
		soon(t, "each knows the others", func() bool { return len(r.statusOnly().Replicas) == 3 })
		session := r.initialize("/mcp", "2025-11-25", "{}")
		running.Go(func() {
			tick := time.NewTicker(time.Second / 30)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				a, err := r.try(t.Context(), "POST", "/mcp", strings.NewReader(toolCall("1", "old__add", `{"a":1,"b":2}`)), "Mcp-Session-Id", session)
				if err == nil && strings.Contains(a.body, `"content"`) {
					passed[i].Add(1)
				}
			}
		})
	}
	// A busy machine sends in fits and starts, so one good look of some is enough. Replicas that don't share let through
	// three times as much in each.
	var looks []string
	good := false
	for len(looks) < 8 && !good {
		before := [3]int64{passed[0].Load(), passed[1].Load(), passed[2].Load()}
		began := time.Now()
		time.Sleep(3 * time.Second)
		took, sum, least := time.Since(began).Seconds(), 0.0, 6.0
		for i := range passed {
			n := float64(passed[i].Load()-before[i]) / took
			sum, least = sum+n, min(least, n)
		}
		looks = append(looks, fmt.Sprintf("%.1f", sum))
		good = sum > 4.5 && sum < 7.5 && least > 0.5
	}
	close(stop)
	running.Wait()
	if !good {
		t.Errorf("together they let through %v calls/s", looks)
	}
}
