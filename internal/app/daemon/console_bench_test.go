//go:build unix

package daemon

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/audit"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// How much there is in BenchmarkConsole.
const (
	benchServers  = 200
	benchTools    = 25 // per server
	benchConsoles = 50
	benchProjects = 50
	benchBusy     = 5 // projects with servers and people of their own
	benchKeys     = 10_000
	benchRows     = 1_000_000 // of the audit
)

// manyTools answers requests like a modern server with benchTools tools.
func manyTools(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m, err := jsonrpc.Scan(b, jsonrpc.Limits{})
	if err != nil || m.Kind != jsonrpc.Request {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	result := `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`
	switch m.Method {
	case "server/discover":
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":600000,"cacheScope":"private"}`
	case "tools/list":
		var tools []string
		for i := range benchTools {
			tools = append(tools, fmt.Sprintf(`{"name":"tool_%d","description":"Looks up number %d of a list and returns what it finds there.","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"What to look for."},"limit":{"type":"integer","minimum":1}},"required":["query"]}}`, i, i))
		}
		result = `{"resultType":"complete","ttlMs":600000,"cacheScope":"private","tools":[` + strings.Join(tools, ",") + `]}`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
}

// bigTeam is a serve with as much in it as BenchmarkConsole says.
type bigTeam struct {
	*rig
	b     *testing.B
	ada   *invited   // an admin of default, and an operator of each busy project
	staff []*invited // an operator and a viewer for each busy project
	keys  []string   // of clients: one of default, and one of each busy project
}

// busy returns the name of a project that has servers and people.
func busy(i int) string { return fmt.Sprintf("project%02d", i) }

// build fills a database and the files of the audit, each row as the program makes it, and starts serve with them.
func build(b *testing.B) *bigTeam {
	web := httptest.NewServer(http.HandlerFunc(manyTools))
	b.Cleanup(web.Close)
	servers := func(n int) (all []config.Server) {
		for i := range n {
			c, problem := config.Complete(config.Server{Name: fmt.Sprintf("server%03d", i), URL: web.URL + "/mcp"})
			if problem != nil {
				b.Fatal(problem)
			}
			all = append(all, c)
		}
		return all
	}
	settings := snapshot()
	settings.Servers, settings.Record, settings.Audit.Files = servers(benchServers), config.RecordMemory, 100
	for i := range benchProjects - 1 {
		of := snapshot()
		if i < benchBusy {
			of.Servers, of.Record = servers(4), config.RecordMemory
		}
		settings.Projects = append(settings.Projects, config.Project{Name: busy(i), Title: fmt.Sprint("Project ", i), Config: of})
	}
	settings.Policy = policy.Rules{
		{Match: []string{"server01*/tool_1*"}, Keys: []string{"key 7"}, Do: policy.Deny}, {Match: []string{"*/tool_24"}, Roles: []identity.Role{identity.Operator}, Do: policy.Confirm},
	}

	database := filepath.Join(b.TempDir(), "dragoman.db")
	desk := deskAt(b, database)
	t := &bigTeam{b: b}
	wishes := make([]access.Wish, benchKeys)
	for i := range wishes {
		wishes[i] = access.Wish{Name: fmt.Sprint("key ", i), Owner: fmt.Sprint("owner ", i%100), Project: "default", Role: identity.Caller, Life: access.DefaultLife}
		if 0 < i && i <= benchBusy {
			wishes[i].Project = busy(i - 1)
		}
		if i <= benchBusy {
			wishes[i].Owner = "" // it stands for itself
		}
	}
	texts, _, err := desk.MakeAll(b.Context(), "local", wishes)
	if err != nil {
		b.Fatal(err)
	}
	t.keys = texts[:1+benchBusy]
	roster := rosterAt(b, desk)
	t.ada = invites(b, roster, "Ada", identity.Admin)
	for i := range benchBusy {
		if err := roster.SetRoles(b.Context(), "local", t.ada.id, busy(i), []identity.Role{identity.Operator}); err != nil {
			b.Fatal(err)
		}
		t.staff = append(t.staff, invitesTo(b, roster, busy(i), fmt.Sprint("Operator ", i), identity.Operator), invitesTo(b, roster, busy(i), fmt.Sprint("Viewer ", i), identity.Viewer))
	}
	for i := range 40 {
		invites(b, roster, fmt.Sprint("Person ", i), identity.Viewer)
	}
	t.record(database)
	t.rig = serve(b, settings, behindProxy(database), func(o *ServeOptions) { o.Log = nil })
	for _, who := range append(t.staff, t.ada) {
		who.enters(t.rig)
	}
	return t
}

// record fills the files of the audit with calls, until there are benchRows rows with the acts.
func (t *bigTeam) record(database string) {
	s, err := store.Open(t.b.Context(), store.Options{Database: database})
	if err != nil {
		t.b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	size := int64(config.Default().Audit.FileSize)
	trail := audit.New(audit.Options{Folder: filepath.Join(filepath.Dir(database), "audit"), Store: s, Settings: func() audit.Settings { return audit.Settings{Level: audit.Names, Size: size, Files: 100} }})
	defer trail.Close()
	for i := range benchRows - benchKeys {
		who := &identity.Principal{Subject: fmt.Sprint("owner ", i%100), Seat: fmt.Sprint("k:", i%benchKeys), Via: "key"}
		name := fmt.Sprint("tool_", i%benchTools)
		trail.End(t.b.Context(), &policy.Call{
			Who: who, Project: "default", Server: fmt.Sprintf("server%03d", i%benchServers), Name: name,
			Request: &mcp.Call{Msg: &jsonrpc.Message{Method: mcp.MethodCallTool}, Name: name, Client: &mcp.ClientInfo{Who: who, Remote: "192.0.2.7:4711"}},
		}, &policy.Answer{Outcome: "ok", Took: time.Millisecond})
		if i%10_000 == 0 {
			if err := trail.Flush(t.b.Context()); err != nil {
				t.b.Fatal(err)
			}
		}
	}
	if state := trail.State(); state.Lost+state.Refused > 0 {
		t.b.Fatalf("%+v", state)
	}
}

// page returns a page as Ada gets it.
func (t *bigTeam) page(path string) answer {
	a := t.do(t.b.Context(), "GET", path, nil, t.ada.header...)
	if a.status != http.StatusOK {
		t.b.Fatalf("%s: %d %.300s", path, a.status, a.body)
	}
	return a
}

// call calls a tool as a client of default, or of a busy project.
func (t *bigTeam) call(i int) {
	path, name := "/mcp", "server007__tool_7"
	if i > 0 {
		path, name = "/p/"+busy(i-1)+"/mcp", "server003__tool_7"
	}
	if a := t.post(path, modernBody("1", "tools/call", `"name":"`+name+`","arguments":{"query":"x"}`), append(modernHeader("tools/call", name), bearer(t.keys[i])...)...); a.status != http.StatusOK {
		t.b.Errorf("%d %s", a.status, a.body)
	}
}

// openPage is the stream of live values of a page that somebody has open.
type openPage struct {
	who  *invited
	path string
}

// watch opens consoles, until the function that it returns is called.
func (t *bigTeam) watch(all []openPage) (end func()) {
	ctx, cancel := context.WithCancel(t.b.Context())
	var open sync.WaitGroup
	began := make(chan error, len(all))
	for _, x := range all {
		open.Go(func() {
			resp, err := t.request(ctx, http.MethodGet, "/console/events?"+url.Values{"page": {x.path}}.Encode(), nil, x.who.header...)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s: status %d", x.path, resp.StatusCode)
			}
			began <- err
			if err == nil {
				_, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body))
				_ = resp.Body.Close()
			}
		})
	}
	for range all {
		if err := <-began; err != nil {
			t.b.Error(err)
		}
	}
	return func() {
		cancel()
		open.Wait()
	}
}

// load returns how much of a core the process needs in some seconds with these consoles, and with some calls each second.
func (t *bigTeam) load(calls int, consoles []openPage) (percent float64) {
	const pause = 10 * time.Second
	end := t.watch(consoles)
	defer end()
	_ = work.Sleep(t.b.Context(), 3*time.Second) // until all have what there was
	before, start := cpuTime(t.b), time.Now()
	for i := 0; time.Since(start) < pause; i++ {
		if calls == 0 {
			_ = work.Sleep(t.b.Context(), pause)
			continue
		}
		t.call(1 + i%benchBusy)
		_ = work.Sleep(t.b.Context(), time.Until(start.Add(time.Duration(i+1)*time.Second/time.Duration(calls))))
	}
	return 100 * float64(cpuTime(t.b)-before) / float64(time.Since(start))
}

// measure measures requests for pages, each of which next returns, and what is said of them.
func measure(b *testing.B, name string, next func() string, get func(path string) answer) {
	b.Run(name, func(b *testing.B) {
		var took []time.Duration
		before := cpuTime(b)
		for b.Loop() {
			path, began := next(), time.Now()
			get(path)
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(ms(took[len(took)/2]), "ms-median")
		b.ReportMetric(ms(took[len(took)*95/100]), "ms-p95")
		b.ReportMetric(ms(cpuTime(b)-before)/float64(len(took)), "cpu-ms/op")
	})
}

// benchPages are the pages of BenchmarkConsole, with what is searched on them.
var benchPages = []struct{ name, path string }{
	{"overview", "/console/"}, {"calls", "/console/calls"}, {"calls-search", "/console/calls?q=tool_7"}, {"clients", "/console/clients"},
	{"servers", "/console/servers"}, {"server", "/console/servers/server007"}, {"tool-and-who", "/console/servers/server007/tools/tool_7"},
	{"tools", "/console/tools"}, {"tools-search", "/console/tools?q=tool_17"}, {"reviews", "/console/tools/held"}, {"palette", "/console/palette.json"},
	{"rules", "/console/rules"}, {"rules-preview", "/console/rules/edit?match=*/tool_1*&what=deny"}, {"rules-sees", "/console/rules/sees"},
	{"keys", "/console/keys"}, {"keys-search", "/console/keys?q=key+77"}, {"keys-sorted", "/console/keys?sort=-used&page=50"}, {"key-new", "/console/keys/new"},
	{"people", "/console/people"}, {"projects", "/console/projects"}, {"project", "/console/projects/" + busy(1)}, {"of-a-project", "/console/p/" + busy(1) + "/tools"},
	{"prompts", "/console/prompts"}, {"playground", "/console/playground"}, {"playground-tool", "/console/playground?server=server007&tool=tool_7"},
	{"questions", "/console/questions"}, {"connections", "/console/connections"}, {"connect", "/console/connect"}, {"secrets", "/console/secrets"},
	{"events", "/console/events"}, {"compatibility", "/console/compatibility"}, {"settings", "/console/settings"}, {"me", "/console/me"},
	{"audit", "/console/audit"}, {"audit-filter", "/console/audit?what=tool_7"}, {"act", "/console/audit/7"},
}

var olderLink = regexp.MustCompile(`href="([^"]*)">Older<`)

// older returns the path of the page of the audit that comes after another one.
func older(a answer) string {
	return "/console/audit" + html.UnescapeString(olderLink.FindStringSubmatch(a.body)[1])
}

// BenchmarkConsole measures every page of the console of a large team: 200 servers with 5,000 tools, 50 projects, 10,000
// keys, 1,000,000 rows of the audit and a full list of calls. It compares the CPU time of the process with 50 consoles of
// ten people in five projects with that of the same pages of one person, and measures it while nothing happens. The
// process also has the servers, the clients and the consoles.
func BenchmarkConsole(b *testing.B) {
	began := time.Now()
	t := build(b)
	await(b, "the tools of all servers", 2*time.Minute, func() bool {
		return strings.Contains(t.page("/console/tools").body, "<h1>5,000 tools")
	})
	for i := range calls.Kept {
		t.call(i % (1 + benchBusy))
	}
	b.Logf("there after %.0f s", time.Since(began).Seconds())
	began = time.Now()
	await(b, "a look at the chains", 5*time.Minute, func() bool { return strings.Contains(t.page("/console/audit").body, "verified to ") })
	b.Logf("verified after %.1f s", time.Since(began).Seconds())

	var busyPages, ofOne []openPage
	for i, who := range t.staff {
		for _, page := range []string{"", "tools", "calls", "servers", "clients"} {
			path := "/console/p/" + busy(i/2) + "/" + page
			busyPages, ofOne = append(busyPages, openPage{who, path}), append(ofOne, openPage{t.ada, path})
		}
	}
	if len(ofOne) != benchConsoles {
		b.Fatalf("%d consoles", len(ofOne))
	}
	report := func(name string, unit string, value float64) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() { // it was measured before
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(value, unit)
		})
	}
	report("idle", "%-of-a-core", t.load(0, busyPages))
	none, one, ten := t.load(20, nil), t.load(20, ofOne), t.load(20, busyPages)
	none, one, ten = (none+t.load(20, nil))/2, (one+t.load(20, ofOne))/2, (ten+t.load(20, busyPages))/2
	report("calls-no-console", "%-of-a-core", none)
	report("calls-one-person", "%-of-a-core", one)
	report("calls-ten-people", "%-of-a-core", ten)
	report("ten-people-to-one", "ratio", ten/one)

	for _, x := range benchPages {
		measure(b, x.name, func() string { return x.path }, t.page)
	}
	for list, link := range map[string]string{"calls": `/console/calls/[0-9]+`, "keys": `/console/keys/[^"?/]{12}`, "people": `/console/people/[^"?/]{12}`} {
		path := regexp.MustCompile(`href="(` + link + `)"`).FindStringSubmatch(t.page("/console/" + list).body)
		measure(b, "one-of-"+list, func() string { return path[1] }, t.page)
	}
	began = time.Now()
	t.page("/console/audit?what=set+roles")
	b.Logf("a search that reads all of the audit takes %.1f s", time.Since(began).Seconds())
	next := older(t.page("/console/audit"))
	measure(b, "audit-next", func() string { return next }, func(path string) answer {
		a := t.page(path)
		next = older(a)
		return a
	})
}
