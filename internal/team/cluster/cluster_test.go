package cluster

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
	"github.com/dragoman-mcp/dragoman/internal/testkit/dbtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// TestBuries checks that nobody is buried without three witnesses.
func TestBuries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		silence, steady time.Duration
		finding         finding
		state           State
		want            bool
	}{
		{11 * time.Second, time.Minute, silent, Ready, true},
		{11 * time.Second, time.Minute, answered, Ready, false},
		{11 * time.Second, 9 * time.Second, silent, Ready, false},
		{6 * time.Second, time.Minute, silent, Ready, false},
		{6 * time.Second, time.Minute, refused, Draining, true},
		{4 * time.Second, time.Minute, refused, Ready, false},
		{time.Hour, time.Minute, refused, Gone, false},
		{time.Hour, time.Minute, refused, Dead, false},
	} {
		if got := buries(&Member{State: c.state, Silence: c.silence}, c.steady, c.finding); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

// TestHomes checks that only what a replica has marked has a home, and that nothing else does.
func TestHomes(t *testing.T) {
	t.Parallel()
	const inc = "ABCDEFGHIJ234"
	for id, want := range map[string]string{
		mark("r-1", inc) + ".x": inc, mark("a", inc) + ".": inc, mark(strings.Repeat("a", 32), inc) + ".x": inc,
		mark(strings.Repeat("a", 33), inc) + ".x": "", mark("", inc) + ".x": "", mark("R", inc) + ".x": "", "r1" + inc + ".x": "",
		mark("r1", inc): "", mark("r1", strings.ToLower(inc)) + ".x": "", mark("r1", "ABCDEFGHIJ21") + ".x": "", "": "", ".": "", "-.": "", inc + ".x": "", "drgs2.r1-" + inc: "",
	} {
		if got := homeOf(id); got != want {
			t.Errorf("%q: %q", id, got)
		}
	}
	for host, want := range map[string]string{"Web-1.example.org": "web-1", "_": "replica", "": "replica", "ä b": "b", strings.Repeat("x", 40): strings.Repeat("x", 32)} {
		if got := NameOf(host); got != want {
			t.Errorf("%q: %q", host, got)
		}
	}
}

// writeTimeout is how long the server in front of a pair lets a whole answer take that doesn't ask for more.
const writeTimeout = 200 * time.Millisecond

// pair returns two replicas of one world that answer each other, and a server in front of the first one, which passes
// on what home says.
func pair(t *testing.T, handler http.Handler) (front *httptest.Server, near, far *Cluster) {
	t.Helper()
	w := &world{rows: map[string]*Member{}, seen: map[string]time.Time{}, seats: map[seatKey]*seat{}}
	var all [2]*Cluster
	for i := range all {
		c, err := Join(t.Context(), Options{Name: fmt.Sprint("r", i), Listen: "127.0.0.1:0", Advertise: "127.0.0.1:0", rows: &replica{w: w}})
		if err != nil {
			t.Fatal(err)
		}
		c.Serve(context.Background(), handler)
		t.Cleanup(c.Close)
		all[i] = c
	}
	near, far = all[0], all[1]
	front = httptest.NewUnstartedServer(Outside(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		to := &transport.Elsewhere{Home: near.Of(r.Header.Get("Mcp-Session-Id"))}
		if to.Home == "" || !near.Reaches(r, to) {
			http.Error(patient{w}, "not elsewhere"+transport.WhyAway(to), 404) // a look at the rows may take longer than writeTimeout
			return
		}
		near.Forward(w, r, body, to)
	})))
	front.Config.WriteTimeout = writeTimeout
	front.Start()
	t.Cleanup(front.Close)
	return front, near, far
}

func send(t *testing.T, front *httptest.Server, session, body string, header ...string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", front.URL+"/mcp?x=1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Mcp-Session-Id", session)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := front.Client().Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

const request = `{"jsonrpc":"2.0","id":"a-1","method":"tools/call","params":{"name":"x"}}`

// TestPassesOn checks that a request comes to its home as the client sent it, and the answer back.
func TestPassesOn(t *testing.T) {
	t.Parallel()
	front, near, far := pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Mcp-Session-Id", r.Header.Get("Mcp-Session-Id"))
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s %v %s %q %q", r.Method, r.RequestURI, body, r.Header["Authorization"], strings.Split(r.RemoteAddr, ":")[0], r.Header.Get(hopHeader), r.Header.Get("X-Gone"))
	}))
	want := "POST /mcp?x=1 " + request + ` [Bearer k] 127.0.0.1 "" ""`
	if status, text := send(t, front, far.Mark("s"), request, "Authorization", "Bearer k", "Connection", "X-Gone, authorization", "X-Gone", "1"); status != http.StatusTeapot || text != want {
		t.Errorf("%d %s", status, text)
	}
	if home := far.Of(far.Mark("s")); home != "" {
		t.Errorf("what a replica has is at %q", home)
	}
	for id, want := range map[string]string{near.Mark("s"): "not elsewhere", mark("r9", "ABCDEFGHIJ234") + ".s": "has ended"} {
		if status, text := send(t, front, id, request); status != 404 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", id, status, text)
		}
	}
	if status, text := send(t, front, far.Mark("s"), request, hopHeader, far.me.Load().Incarnation); status != 400 || !strings.Contains(text, "between replicas") {
		t.Errorf("a header from outside: %d %s", status, text)
	}
}

// TestLongAnswers checks that an answer may take longer than the server's limit for writing, before it begins and while
// it's a stream.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	front, _, far := pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * writeTimeout)
		if r.Header.Get("X-Kind") == "events" {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 2 {
				_, _ = io.WriteString(w, "data: {}\n\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(2 * writeTimeout)
			}
		}
		_, _ = io.WriteString(w, "data: the end\n\n")
	}))
	for kind, want := range map[string]int{"plain": 1, "events": 3} {
		if status, text := send(t, front, far.Mark("s"), request, "X-Kind", kind); status != 200 || strings.Count(text, "data: ") != want || !strings.HasSuffix(text, "the end\n\n") {
			t.Errorf("%s: %d %q", kind, status, text)
		}
	}
}

// TestTC30 breaks answers at different moments, and events after each byte. The client always gets an answer to its own request, or an error of
// the connection, and never a part as if it were the whole.
func TestTC30(t *testing.T) {
	t.Parallel()
	cut := func(w http.ResponseWriter) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	kinds := map[string]func(w http.ResponseWriter){
		"nothing": cut,
		"json": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"a-1","resul`)
			cut(w)
		},
		"long": func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, strings.Repeat("x", 2*wholeBelow))
			cut(w)
		},
	}
	events := ": hello\n\ndata: {\"n\":1}\n\nid: 2\ndata: {\"n\":2}\n\n"
	for i := range len(events) {
		kinds[fmt.Sprintf("events %02d", i)] = func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, events[:i])
			cut(w)
		}
	}
	front, _, far := pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { kinds[r.Header.Get("X-Kind")](w) }))
	for kind := range kinds {
		status, text := send(t, front, far.Mark("s"), request, "X-Kind", kind)
		switch {
		case kind == "long":
			if status != 0 {
				t.Errorf("%s: %d, %d bytes", kind, status, len(text))
			}
		case strings.HasPrefix(kind, "events"):
			head, last, _ := strings.Cut(text, `data: {"jsonrpc"`)
			if status != 200 || !strings.HasPrefix(events, head) || head != "" && !strings.HasSuffix(head, "\n\n") || !strings.Contains(last, `"id":"a-1"`) || !strings.Contains(last, "replica_lost") {
				t.Errorf("%s: %d %q", kind, status, text)
			}
		case status != 200 || !strings.Contains(text, `"id":"a-1"`) || !strings.Contains(text, `"outcome":"unknown"`):
			t.Errorf("%s: %d %q", kind, status, text)
		}
	}
}

// TestTC29 passes 16 MiB on in both directions, and long answers to a client that doesn't read for a while: whoever writes
// them has to wait.
func TestTC29(t *testing.T) {
	t.Parallel()
	const size, long = 16 << 20, 64 << 20
	var written atomic.Int64
	front, _, far := pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w = patient{w}
		kind := r.Header.Get("X-Kind")
		if kind == "echo" {
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(body)
			return
		}
		w.Header().Set("Content-Type", kind)
		part := []byte("data: " + strings.Repeat("x", 1<<16-8) + "\n\n")
		for range long / len(part) {
			if _, err := w.Write(part); err != nil {
				return
			}
			written.Add(int64(len(part)))
		}
	}))
	body := strings.Repeat("0123456789abcdef", size/16)
	if status, text := send(t, front, far.Mark("s"), body, "X-Kind", "echo"); status != 200 || text != body {
		t.Errorf("status %d, and %d bytes of %d", status, len(text), len(body))
	}
	for _, kind := range []string{"application/json", "text/event-stream"} {
		written.Store(0)
		r, err := http.NewRequestWithContext(t.Context(), "POST", front.URL+"/mcp", strings.NewReader(request))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Mcp-Session-Id", far.Mark("s"))
		r.Header.Set("X-Kind", kind)
		resp, err := front.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		before := int64(-1)
		for now := written.Load(); now != before; now = written.Load() {
			before = now
			time.Sleep(time.Second)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if before == long || n != long || err != nil {
			t.Errorf("%s: %d bytes were written before somebody read, and then %d were read: %v", kind, before, n, err)
		}
	}
}

// TestTC19 has a replica whose clock is wrong, and jumps. It says so each time, and finds the sessions that others have
// begun by theirs. Nothing else asks its clock.
func TestTC19(t *testing.T) {
	t.Parallel()
	var log logtest.Buffer
	r := &replica{w: &world{rows: map[string]*Member{}, seen: map[string]time.Time{}, seats: map[seatKey]*seat{}}}
	c, err := newCluster(Options{Name: "r1", rows: r, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, x := range []struct {
		ahead time.Duration
		said  int
	}{{0, 0}, {clockLimit / 2, 0}, {time.Hour, 1}, {2 * time.Hour, 1}, {0, 1}, {-time.Hour, 2}, {-clockLimit / 2, 2}, {time.Hour, 3}} {
		r.ahead = x.ahead
		if err := c.look(t.Context()); err != nil || log.Count("the clocks of this machine and of the database differ") != x.said {
			t.Errorf("look %d: %v\n%s", i, err, log.String())
		}
	}
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Hour} {
		id := c.sealer.seal(mark("r9", "ABCDEFGHIJ234"), "use", digestOf([]byte("facts")), time.Now().Add(ahead))
		x, err := c.Find(t.Context(), id, "use", false)
		if err != nil || string(x.Facts) != "facts" || x.Age < 0 || x.Age > time.Hour+2*time.Minute {
			t.Errorf("a session of a replica that is %s ahead: %+v, %v", ahead, x, err)
		}
	}
}

// TestNewcomer lets a replica pass a request on that the home doesn't know yet, and that looked a moment ago. It's served
// once.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	front, _, far := pair(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		_, _ = io.WriteString(w, "done")
	}))
	far.looking <- struct{}{}
	far.view.Store(&view{})
	far.forced = time.Now()
	<-far.looking
	if status, text := send(t, front, far.Mark("s"), request); status != 200 || text != "done" || served.Load() != 1 {
		t.Errorf("%d %s, served %d times", status, text, served.Load())
	}
}

// TestUnreachable checks that a request for a replica that can't be reached isn't sent, and says so.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	front, _, far := pair(t, http.NotFoundHandler())
	id := far.Mark("s")
	_ = far.listener.Close()
	if status, text := send(t, front, id, request); status != 200 || !strings.Contains(text, `"outcome":"not_sent"`) || !strings.Contains(text, `"retryable":true`) {
		t.Errorf("%d %s", status, text)
	}
	far.Close()
	_ = front
	if status, text := send(t, front, id, request); status != 404 && !strings.Contains(text, "not_sent") {
		t.Errorf("after it has gone: %d %s", status, text)
	}
}

// TestGoneStillAnswers lets a replica go while it answers a request. Whoever has passed it on sees that it has gone, and
// waits for the answer all the same.
func TestGoneStillAnswers(t *testing.T) {
	t.Parallel()
	begun, answers := make(chan bool), make(chan bool)
	front, near, far := pair(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-answers
		_, _ = io.WriteString(w, "late")
	}))
	var going sync.WaitGroup
	defer going.Wait()
	going.Go(func() {
		<-begun
		going.Go(far.Close)
		for m := near.view.Load().by[far.me.Load().Incarnation]; m == nil || m.State != Gone; m = near.view.Load().by[far.me.Load().Incarnation] {
			time.Sleep(10 * time.Millisecond) // the replicas use real time
		}
		close(answers)
	})
	if status, text := send(t, front, far.Mark("s"), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`); status != 200 || text != "late" {
		t.Errorf("%d %s", status, text)
	}
}

// TestTC22 checks that the internal listener talks to nobody but replicas that live, and that a replica talks to nobody
// else at the address of another one.
func TestTC22(t *testing.T) {
	t.Parallel()
	_, near, far := pair(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") }))
	stranger, _, err := newCertificate()
	if err != nil {
		t.Fatal(err)
	}
	for name, certs := range map[string][]tls.Certificate{"no key": nil, "a key of nobody": {stranger}} {
		conn, err := tls.Dial("tcp", far.address, &tls.Config{InsecureSkipVerify: true, Certificates: certs})
		if err != nil {
			continue
		}
		_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n%s: %s\r\n\r\n", pingPath, hopHeader, far.me.Load().Incarnation)
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
			t.Errorf("%s: %s", name, line)
		}
		_ = conn.Close()
	}
	if conn, err := net.Dial("tcp", far.address); err == nil {
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if b, _ := io.ReadAll(conn); strings.Contains(string(b), "secret") {
			t.Errorf("without TLS: %s", b)
		}
		_ = conn.Close()
	}
	if got := near.call(t.Context(), far.me.Load()); got != answered {
		t.Errorf("a replica gets %d", got)
	}
	impostor := *far.me.Load()
	impostor.Fingerprint = make([]byte, 32)
	if got := near.call(t.Context(), &impostor); got != silent {
		t.Errorf("a replica with another key gets %d", got)
	}
	wrong := &link{to: far.me.Load()}
	wrong.ctx, wrong.end = context.WithCancel(t.Context())
	wrong.origin = near.newLink(far.me.Load()).origin
	defer wrong.close()
	other := *wrong.to
	other.Incarnation = "ABCDEFGHIJ234"
	wrong.to = &other
	resp, _, err := wrong.pass(httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", nil), nil)
	if err != nil || resp.StatusCode != http.StatusMisdirectedRequest {
		t.Fatalf("another incarnation: %v %v", resp, err)
	}
	_ = resp.Body.Close()
}

// TestTakenAddress joins at an address at which another replica listens: the error names the setting.
func TestTakenAddress(t *testing.T) {
	t.Parallel()
	_, near, _ := pair(t, http.NotFoundHandler())
	_, err := Join(t.Context(), Options{Name: "r9", Listen: near.listener.Addr().String()})
	var own *sqldb.Error
	if !errors.As(err, &own) || !strings.Contains(own.Next, "dragoman.cluster.listen") {
		t.Errorf("%v", err)
	}
}

// TestTC20Members lets replicas of several versions of the protocol come while others run. Neighbours are let in, and are
// each other's heirs; who is further away is told why not, unless those replicas have stopped or are long silent.
func TestTC20Members(t *testing.T) {
	t.Parallel()
	w := &world{rows: map[string]*Member{}, seen: map[string]time.Time{}, seats: map[seatKey]*seat{}}
	join := func(name string, protocol int) (*Cluster, error) {
		return Join(t.Context(), Options{Name: name, Listen: "127.0.0.1:0", Advertise: "127.0.0.1:0", Version: "v" + fmt.Sprint(protocol), Protocol: protocol, rows: &replica{w: w}})
	}
	comes := func(name string, protocol int) *Cluster {
		t.Helper()
		c, err := join(name, protocol)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	refused := func(name string, protocol int, want string) {
		t.Helper()
		rows := len(w.rows)
		c, err := join(name, protocol)
		var own *sqldb.Error
		if err == nil {
			c.Close()
		}
		if !errors.As(err, &own) || own.Text+" / "+own.Next != want || len(w.rows) != rows {
			t.Errorf("%v, and %d rows more", err, len(w.rows)-rows)
		}
	}
	old := comes("r1", 4)
	refused("r2", 6, "dragoman v6 can't be a replica beside r1, which runs dragoman v4: they speak versions 6 and 4 of the protocol between replicas, which may differ by one / update to a version of dragoman in between first, or stop all replicas before you start this one")
	refused("r2", 2, "dragoman v2 can't be a replica beside r1, which runs dragoman v4: they speak versions 2 and 4 of the protocol between replicas, which may differ by one / use a newer dragoman, or stop all replicas before you start this one")
	next := comes("r2", 5)
	for _, c := range []*Cluster{old, next} {
		if err := c.look(t.Context()); err != nil || !c.HasHeirs() {
			t.Errorf("%s has nobody who goes on with what it has: %v", c.o.Name, err)
		}
	}
	refused("r3", 3, "dragoman v3 can't be a replica beside r2, which runs dragoman v5: they speak versions 3 and 5 of the protocol between replicas, which may differ by one / use a newer dragoman, or stop all replicas before you start this one")
	old.Close()
	comes("r3", 6)
	w.mu.Lock()
	for name := range w.seen { // all were killed
		w.seen[name] = time.Now().Add(-staleAfter)
	}
	w.mu.Unlock()
	comes("r4", 1)
}

// TestRows runs the statements in PostgreSQL.
func TestRows(t *testing.T) {
	t.Parallel()
	const schema = "test_cluster_rows"
	url := dbtest.URL(t)
	drop := func() { dbtest.Exec(t, url, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") }
	drop()
	t.Cleanup(drop)
	db, err := open(t.Context(), url, schema, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, name := range []string{"A", "B", "C"} {
		if err := db.join(t.Context(), &Member{Incarnation: name, Name: strings.ToLower(name), Address: "x:1", Fingerprint: []byte{1}, Protocol: Protocol, State: Ready}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := db.members(t.Context())
	if err != nil || len(list) != 3 || list[0].Incarnation != "A" || !list[0].Lives() || list[0].Silence < 0 || list[0].Silence > time.Minute || time.Since(list[0].Started).Abs() > time.Hour {
		t.Fatalf("%v %+v", err, list)
	}
	if alive, err := db.beat(t.Context(), "A", Draining, true); !alive || err != nil {
		t.Error(alive, err)
	}
	if done, err := db.bury(t.Context(), &list[0]); done || err != nil {
		t.Errorf("who has written meanwhile is buried: %v", err)
	}
	if done, err := db.bury(t.Context(), &list[1]); !done || err != nil {
		t.Errorf("the dead isn't buried: %v", err)
	}
	if alive, err := db.beat(t.Context(), "B", Ready, true); alive || err != nil {
		t.Error("the dead writes", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := db.beat(ctx, "A", Ready, true); err == nil {
		t.Error("a statement goes on after its time")
	}
	dbtest.Exec(t, url, "UPDATE "+schema+".replicas SET address = 'y:1' WHERE incarnation = 'C'")
	if list, err = db.members(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("a row that was changed counts: %v %+v", err, list)
	}
	dbtest.Exec(t, url, "UPDATE "+schema+".replicas SET address = 'x:1', seen = seen - INTERVAL '2 days'")
	if err := db.join(t.Context(), &Member{Incarnation: "D", State: Ready, Fingerprint: []byte{1}}); err != nil {
		t.Fatal(err)
	}
	if list, _ = db.members(t.Context()); len(list) != 3 {
		t.Errorf("%d rows are left", len(list))
	}
}

// TestFailed checks that whoever passes a request on hears what its client did, if that wasn't the home's answer.
func TestFailed(t *testing.T) {
	t.Parallel()
	_, near, far := pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("X-Kind") {
		case "json":
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0",`)
		case "long":
			_, _ = io.WriteString(w, strings.Repeat("x", 2*wholeBelow))
		case "events":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {}\n\n")
		case "done":
			return
		}
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	for kind, want := range map[string]error{"done": nil, "nothing": errLost, "json": errLost, "long": errLost, "events": errLost, "nowhere": errNotSent} {
		to := &transport.Elsewhere{Home: far.me.Load().Incarnation}
		if kind == "nowhere" {
			to.Home = ""
		}
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/mcp", nil)
		r.Header.Set("X-Kind", kind)
		func() {
			defer func() { _ = recover() }()
			near.Forward(httptest.NewRecorder(), r, []byte(request), to)
		}()
		if want == nil && to.Failed != nil || want != nil && to.Failed != want {
			t.Errorf("%s: %v", kind, to.Failed)
		}
	}
}
