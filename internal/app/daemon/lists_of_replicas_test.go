//go:build unix

package daemon

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// listServer is a server of one era whose list of tools and whose resources change. It knows which replica sends a
// request from the path.
type listServer struct {
	name   string // begins the URIs of its resources
	modern bool
	uris   []string
	web    *httptest.Server

	mu     sync.Mutex
	tools  int
	opened int
	counts map[string]int  // requests, by replica and method
	ears   map[string]*ear // by the id of the session, or of the listen
}

// ear is what hears of changes: a session, while it has a stream, or a listen.
type ear struct {
	replica string
	listen  []byte // the id of the listen; nil for a session
	uris    map[string]bool
	say     chan string
	streams int
}

func newListServer(t *testing.T, name string, modern bool, resources int) *listServer {
	s := &listServer{name: name, modern: modern, tools: 1, counts: map[string]int{}, ears: map[string]*ear{}}
	for i := range resources {
		s.uris = append(s.uris, fmt.Sprintf("%s://files/%s/%04d", name, strings.Repeat("a-long-way/", 12), i))
	}
	s.web = httptest.NewServer(s)
	t.Cleanup(func() {
		s.web.CloseClientConnections()
		s.web.Close()
	})
	return s
}

// withListServers gives each replica the servers.
func withListServers(t *testing.T, all ...*listServer) func(int, *ServeOptions) {
	return func(i int, o *ServeOptions) {
		for _, s := range all {
			c, problem := config.Complete(config.Server{Name: s.name, URL: fmt.Sprintf("%s/r%d", s.web.URL, i)})
			if problem != nil {
				t.Fatal(problem)
			}
			o.Config.Servers = append(o.Config.Servers, c)
		}
	}
}

// grow adds a tool to the list, and shout says that a resource has changed.
func (s *listServer) grow() {
	s.mu.Lock()
	s.tools++
	s.mu.Unlock()
	s.shout(mcp.NoteToolsChanged, "")
}

func (s *listServer) touch(uri string) { s.shout(mcp.NoteResourceUpdated, uri) }

func (s *listServer) shout(method, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.ears {
		if e.streams == 0 || uri != "" && !e.uris[uri] {
			continue
		}
		params := ""
		if uri != "" {
			params = `,"uri":"` + uri + `"`
		}
		if e.listen != nil {
			params += `,"_meta":{"` + mcp.KeySubscriptionID + `":` + string(e.listen) + `}`
		}
		if params != "" {
			params = `{` + params[1:] + `}`
		}
		e.say <- string(jsonrpc.AppendNotification(nil, method, []byte(params)))
	}
}

// took returns how often each replica has sent a request of a method since the last call of forget.
func (s *listServer) took(method string) (out [3]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range out {
		out[i] = s.counts[fmt.Sprintf("r%d %s", i, method)]
	}
	return out
}

func (s *listServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counts)
}

// hears returns how many streams each replica has, and how many resources are watched through them.
func (s *listServer) hears() (streams, uris [3]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.ears {
		for i := range streams {
			if e.replica == fmt.Sprint("r", i) && e.streams > 0 {
				streams[i]++
				uris[i] = max(uris[i], len(e.uris)) // a listen that replaces another one has the same, and more
			}
		}
	}
	return streams, uris
}

func (s *listServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	replica, session := strings.TrimPrefix(r.URL.Path, "/"), r.Header.Get(mcp.HeaderSession)
	s.mu.Lock()
	known := s.ears[session]
	s.mu.Unlock()
	if r.Method == http.MethodGet && known != nil && !s.modern {
		s.stream(w, r, known, "")
		return
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	if r.Method != http.MethodPost || err != nil {
		s.mu.Lock()
		delete(s.ears, session)
		s.mu.Unlock()
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s.mu.Lock()
	s.counts[replica+" "+m.Method]++
	s.mu.Unlock()
	switch {
	case s.modern:
		s.take(w, r, m, replica, nil)
	case m.Method == mcp.MethodInitialize:
		s.mu.Lock()
		s.opened++
		id := fmt.Sprint("s", s.opened)
		s.ears[id] = &ear{replica: replica, uris: map[string]bool{}, say: make(chan string, 1024)}
		s.mu.Unlock()
		w.Header().Set(mcp.HeaderSession, id)
		s.take(w, r, m, replica, nil)
	case session == "":
		sayWeb(w, 400, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`)
	case known == nil:
		w.WriteHeader(http.StatusNotFound)
	default:
		s.take(w, r, m, replica, known)
	}
}

func (s *listServer) take(w http.ResponseWriter, r *http.Request, m *jsonrpc.Message, replica string, e *ear) {
	if m.Kind != jsonrpc.Request {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	const able = `"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}}`
	result := func(members string) {
		if s.modern {
			members = `"resultType":"complete","ttlMs":0,"cacheScope":"private",` + members
		}
		sayWeb(w, 200, string(jsonrpc.AppendResult(nil, m.ID, []byte(`{`+strings.TrimSuffix(members, ",")+`}`))))
	}
	var items []string
	switch m.Method {
	case mcp.MethodDiscover:
		result(`"supportedVersions":["2026-07-28"],` + able)
	case mcp.MethodInitialize:
		result(`"protocolVersion":"2025-11-25","serverInfo":{"name":"s","version":"1"},` + able)
	case mcp.MethodListTools:
		s.mu.Lock()
		for i := range s.tools {
			items = append(items, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i))
		}
		s.mu.Unlock()
		result(`"tools":[` + strings.Join(items, ",") + `]`)
	case mcp.MethodListResources:
		for _, uri := range s.uris {
			items = append(items, `{"uri":"`+uri+`","name":"n"}`)
		}
		result(`"resources":[` + strings.Join(items, ",") + `]`)
	case mcp.MethodListTemplates:
		result(`"resourceTemplates":[]`)
	case mcp.MethodSubscribe:
		uri, _ := jsonrpc.Text(m.Raw, m.Param("uri"))
		s.mu.Lock()
		e.uris[uri] = true
		s.mu.Unlock()
		result("")
	case mcp.MethodListen:
		want := m.Param("notifications")
		filter, _ := mcp.ParseSubscriptionFilter(m.Raw, want)
		e = &ear{replica: replica, listen: []byte(m.ID), uris: filter.URIs, say: make(chan string, 1024)}
		s.mu.Lock()
		s.opened++
		id := fmt.Sprint("l", s.opened)
		s.ears[id] = e
		s.mu.Unlock()
		s.stream(w, r, e, `{"jsonrpc":"2.0","method":"`+mcp.NoteAcknowledged+`","params":{"_meta":{"`+mcp.KeySubscriptionID+`":`+string(m.ID)+`},"notifications":`+string(want.Of(m.Raw))+`}}`)
		s.mu.Lock()
		delete(s.ears, id)
		s.mu.Unlock()
	default:
		sayWeb(w, 200, webError(m, jsonrpc.CodeMethodNotFound, ""))
	}
}

// stream sends what an ear hears until the client hangs up.
func (s *listServer) stream(w http.ResponseWriter, r *http.Request, e *ear, first string) {
	w.Header().Set("Content-Type", "text/event-stream")
	s.mu.Lock()
	e.streams++
	if first != "" {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", first)
	}
	s.mu.Unlock()
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case text := <-e.say:
			_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			s.mu.Lock()
			e.streams--
			s.mu.Unlock()
			return
		}
	}
}

// listClient is a client that hears of changes.
type listClient struct {
	name    string
	at      *rig
	session []string // nil for a modern client
	*stream
}

// tools returns what the client gets for tools/list.
func (c *listClient) tools() string {
	body, header := `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, c.session
	if header == nil {
		body, header = modernBody("2", mcp.MethodListTools, ""), modernHeader(mcp.MethodListTools, "")
	}
	a, err := c.at.try(c.at.t.Context(), "POST", "/mcp", strings.NewReader(body), header...)
	if err != nil {
		return err.Error()
	}
	return a.body
}

// heard returns what has come until now, by method.
func (c *listClient) heard() (all []string) {
	for {
		select {
		case m := <-c.next:
			if m == nil {
				return append(all, "the end")
			}
			all = append(all, m.Method)
		default:
			return all
		}
	}
}

// listClients returns clients of both eras at each replica. They have all lists, and hear of changes.
func (f *fleet) listClients() (all []*listClient) {
	f.t.Helper()
	for i, r := range f.all {
		for _, revision := range []string{"2025-06-18", "2025-11-25"} {
			can := map[string]string{"2025-06-18": `{}`, "2025-11-25": `{"elicitation":{}}`}[revision]
			id := r.initialize("/mcp", revision, can)
			c := &listClient{fmt.Sprint("r", i, " ", revision), r, []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", revision}, nil}
			c.stream = r.open("GET", "/mcp", "", c.session...)
			all = append(all, c)
		}
		c := &listClient{fmt.Sprint("r", i, " modern"), r, nil, r.open("POST", "/mcp", modernBody("1", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`), modernHeader(mcp.MethodListen, "")...)}
		if m := c.event(); m.Method != mcp.NoteAcknowledged {
			f.t.Fatalf("%s: %s", c.name, m.Raw)
		}
		all = append(all, c)
	}
	return all
}

// TestTC27 changes the lists of a server of each era. Each client of each replica hears of it once, and gets the new
// list. Each replica reads the list once for all clients that can do the same. So it does when two changes
// come at once.
func TestTC27(t *testing.T) {
	t.Parallel()
	servers := []*listServer{newListServer(t, "old", false, 1), newListServer(t, "new", true, 1)}
	f := newCluster(t, "mcpServers: {}\n", withListServers(t, servers...))
	clients := f.listClients()
	has := func(server string, tools int) {
		t.Helper()
		var asking sync.WaitGroup
		for _, c := range clients {
			asking.Go(func() {
				if got := c.tools(); strings.Count(got, `"`+server+`__t`) != tools {
					t.Errorf("%s gets %.300s", c.name, got)
				}
			})
		}
		asking.Wait()
	}
	for _, s := range servers {
		soon(t, "each replica hears of changes", func() bool { streams, _ := s.hears(); return slices.Min(streams[:]) > 0 })
		has(s.name, 1)
		s.mu.Lock()
		t.Logf("until now, %s got %v", s.name, s.counts)
		s.mu.Unlock()
	}
	time.Sleep(1200 * time.Millisecond) // until nobody holds anything back
	for _, c := range clients {
		c.heard()
	}
	for _, s := range servers {
		// A session on a legacy server is for those who can do the same, and a listen is for all.
		want := map[bool][3]int{false: {2, 2, 2}, true: {1, 1, 1}}[s.modern]
		if streams, _ := s.hears(); streams != want {
			t.Errorf("%s has %v streams", s.name, streams)
		}
		s.forget()
		s.grow()
		for _, c := range clients {
			if m := c.event(); m.Method != mcp.NoteToolsChanged {
				t.Errorf("%s: %s", c.name, m.Raw)
			}
		}
		for range 2 {
			has(s.name, 2)
		}
		if got := s.took(mcp.MethodListTools); got != [3]int{2, 2, 2} {
			t.Errorf("%s was read %v times", s.name, got)
		}
		time.Sleep(1200 * time.Millisecond)
		for _, c := range clients {
			if got := c.heard(); got != nil {
				t.Errorf("%s hears of the change again: %v", c.name, got)
			}
		}

		s.forget()
		s.grow()
		s.grow()
		time.Sleep(1200 * time.Millisecond)
		for _, c := range clients {
			if got := c.heard(); len(got) < 1 || len(got) > 2 || strings.Join(slices.Compact(got), "") != mcp.NoteToolsChanged {
				t.Errorf("%s hears of two changes: %v", c.name, got)
			}
		}
		has(s.name, 4)
		if got := s.took(mcp.MethodListTools); got != [3]int{2, 2, 2} {
			t.Errorf("after two changes, %s was read %v times", s.name, got)
		}
		s.mu.Lock()
		t.Logf("for two changes, %s got %v", s.name, s.counts)
		s.mu.Unlock()
	}
}

// watchAll subscribes a session to all resources of a server.
func (f *fleet) watchAll(s *listServer, session []string) {
	f.t.Helper()
	var asking sync.WaitGroup
	for part := range slices.Chunk(s.uris, max(1, len(s.uris)/50)) {
		asking.Go(func() {
			for _, uri := range part {
				body := `{"jsonrpc":"2.0","id":"` + uri + `","method":"resources/subscribe","params":{"uri":"` + uri + `"}}`
				if a := f.all[0].post("/mcp", body, session...); a.status != 200 || a.code(f.t) != 0 {
					f.t.Errorf("%s: %d %s", uri, a.status, a.body)
					return
				}
			}
		})
	}
	asking.Wait()
}

// hearsOf changes the first, the last and another resource of a server, and checks that a client hears of each once.
func hearsOf(t *testing.T, s *listServer, stream *stream) {
	t.Helper()
	last := len(s.uris) - 1
	got, want := map[string]int{}, map[string]int{}
	for _, i := range []int{0, last, last / 2, 1} {
		s.touch(s.uris[i])
		want[s.uris[i]] = 1
		for got[s.uris[i]] == 0 {
			m := stream.event()
			if m == nil {
				t.Fatalf("%s: the stream ends", s.name)
			}
			if m.Method == mcp.NoteResourceUpdated {
				uri, _ := jsonrpc.Text(m.Raw, m.Param("uri"))
				got[uri]++
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: the client hears of %v", s.name, got)
	}
}

// TestTC28 lets clients watch a thousand resources of a server of each era, at one replica. When it stops, another one goes
// on with the sessions, and the clients hear of each resource once. Clients of the others hear of the next change.
func TestTC28(t *testing.T) {
	t.Parallel()
	servers := []*listServer{newListServer(t, "old", false, mcp.MaxWatched), newListServer(t, "new", true, mcp.MaxWatched)}
	f := newCluster(t, "mcpServers: {}\n", withListServers(t, servers...))
	sessions := f.watching(servers)
	began := time.Now()
	if err := f.all[0].stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("it stopped within %s", time.Since(began))
	f.all = f.all[1:]
	f.goOn(servers, sessions)
}

// TestTC28Lost does the same with a replica that is lost: nobody can call it, and it can't reach the database. What its
// clients had set is in the database.
func TestTC28Lost(t *testing.T) {
	t.Parallel()
	servers := []*listServer{newListServer(t, "old", false, mcp.MaxWatched), newListServer(t, "new", true, mcp.MaxWatched)}
	database, through := newRelay(t)
	way, to := newRelay(t)
	with := withListServers(t, servers...)
	f := newCluster(t, "mcpServers: {}\n", with, func(i int, o *ServeOptions) {
		if i > 0 {
			return
		}
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		o.Config.Cluster.Listen = free.Addr().String()
		_ = free.Close()
		o.Config.Cluster.Advertise = strings.TrimPrefix(to("tcp://"+o.Config.Cluster.Listen), "tcp://")
		o.Config.Database = through(o.Config.Database)
	})
	sessions := f.watching(servers)
	time.Sleep(time.Second) // so that it's written down
	lost := f.all[0]
	f.all = f.all[1:]
	way.cut(true)
	database.cut(true)
	defer func() {
		way.cut(false)
		database.cut(false)
		_ = lost.stop()
	}()
	f.goOn(servers, sessions)
}

// watching returns sessions at the first replica that watch all resources of a server each.
func (f *fleet) watching(servers []*listServer) (sessions [][]string) {
	f.t.Helper()
	for _, r := range f.all {
		soon(f.t, "each knows the others", func() bool { return len(r.statusOnly().Replicas) == 3 })
	}
	for _, s := range servers {
		id := f.all[0].initialize("/mcp", "2025-06-18", "{}")
		session := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-06-18"}
		began := time.Now()
		f.watchAll(s, session)
		f.t.Logf("%s: %d resources were subscribed to within %s", s.name, len(s.uris), time.Since(began))
		stream := f.all[0].open("GET", "/mcp", "", session...)
		hearsOf(f.t, s, stream)
		stream.stop()
		sessions = append(sessions, session)
	}
	return sessions
}

// goOn checks that the replicas that are left go on with the sessions of the one that isn't there any more.
func (f *fleet) goOn(servers []*listServer, sessions [][]string) {
	t := f.t
	t.Helper()
	clients := f.listClients()
	for _, c := range clients {
		c.tools()
	}
	for _, s := range servers {
		began := time.Now()
		s.grow()
		for _, c := range clients {
			for m := c.event(); m.Method != mcp.NoteToolsChanged; m = c.event() {
			}
			if !strings.Contains(c.tools(), s.name+"__t1") {
				t.Errorf("%s doesn't get the new list", c.name)
			}
		}
		t.Logf("the others heard of a change within %s", time.Since(began))
	}
	for i, s := range servers {
		var stream *stream
		began := time.Now()
		await(t, "a replica goes on with the session", 20*time.Second, func() bool {
			stream = f.next().open("GET", "/mcp", "", sessions[i]...)
			if stream.resp.StatusCode != 200 {
				stream.stop()
			}
			return stream.resp.StatusCode == 200
		})
		t.Logf("%s: the session goes on after %s", s.name, time.Since(began))
		await(t, "the resources are watched again", 20*time.Second, func() bool {
			_, uris := s.hears()
			return max(uris[1], uris[2]) == len(s.uris)
		})
		t.Logf("%s: its resources are watched again after %s", s.name, time.Since(began))
		hearsOf(t, s, stream)
	}
}
