//go:build unix

package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// The numbers of servers, tools and consoles in BenchmarkConsole.
const (
	benchServers  = 200
	benchTools    = 25 // per server
	benchConsoles = 50
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

// BenchmarkConsole runs serve with 200 servers, 5,000 tools, a full list of calls and 50 open
// consoles. It measures the time and the CPU time of one page request, and the CPU load of the idle
// process. The measured process also contains the servers and the consoles.
func BenchmarkConsole(b *testing.B) {
	web := httptest.NewServer(http.HandlerFunc(manyTools))
	defer web.Close()
	settings := snapshot()
	for i := range benchServers {
		c, problem := config.Complete(config.Server{Name: fmt.Sprintf("server%03d", i), URL: web.URL + "/mcp"})
		if problem != nil {
			b.Fatal(problem)
		}
		settings.Servers = append(settings.Servers, c)
	}
	settings.Record = config.RecordMemory
	var link string
	r := serve(b, settings, func(o *ServeOptions) { o.Log, o.Console = nil, func(c Console) { link = c.Link() } })
	browser := r.enter(link)
	page := func(path string) answer {
		a := r.do(b.Context(), "GET", path, nil, browser...)
		if a.status != http.StatusOK {
			b.Fatalf("%s: %d %.300s", path, a.status, a.body)
		}
		return a
	}
	await(b, "the tools of all servers", 2*time.Minute, func() bool {
		return strings.Contains(page("/console/tools").body, "<h1>5,000 tools")
	})
	header := modernHeader("tools/call", "server007__tool_7")
	for range calls.Kept {
		if a := r.post("/mcp", modernBody("1", "tools/call", `"name":"server007__tool_7","arguments":{"query":"x"}`), header...); a.status != http.StatusOK {
			b.Fatalf("%d %s", a.status, a.body)
		}
	}

	// Open the event streams of the consoles, which show different pages.
	ctx, cancel := context.WithCancel(b.Context())
	var open sync.WaitGroup
	defer open.Wait()
	defer cancel()
	pages := []string{"/console/", "/console/tools", "/console/calls", "/console/servers", "/console/clients"}
	began := make(chan error, benchConsoles)
	for i := range benchConsoles {
		open.Go(func() {
			q, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+"/console/events?"+url.Values{"page": {pages[i%len(pages)]}}.Encode(), nil)
			if err != nil {
				began <- err
				return
			}
			q.Host = browser[1]
			q.Header.Set("Cookie", browser[3])
			resp, err := http.DefaultTransport.RoundTrip(q)
			if err == nil && resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %d", resp.StatusCode)
			}
			began <- err
			if err == nil {
				_, _ = io.Copy(io.Discard, bufio.NewReader(resp.Body))
				_ = resp.Body.Close()
			}
		})
	}
	for range benchConsoles {
		if err := <-began; err != nil {
			b.Fatal(err)
		}
	}

	const pause = 10 * time.Second
	_ = work.Sleep(b.Context(), pause/2) // until the consoles have the values of the calls
	before, start := cpuTime(b), time.Now()
	_ = work.Sleep(b.Context(), pause)
	idle := 100 * float64(cpuTime(b)-before) / float64(time.Since(start))
	b.Run("idle", func(b *testing.B) {
		for b.Loop() { // the load was measured above
		}
		b.ReportMetric(idle, "%-of-a-core")
		b.ReportMetric(0, "ns/op")
	})
	for _, x := range []struct{ name, path string }{{"overview", "/console/"}, {"tools", "/console/tools"}, {"search", "/console/tools?q=tool_17"}, {"calls", "/console/calls"}, {"rules", "/console/rules"}, {"preview", "/console/rules/edit?match=*/tool_1*&what=deny"}, {"who", "/console/servers/server007/tools/tool_7"}} {
		b.Run(x.name, func(b *testing.B) {
			n, before := 0, cpuTime(b)
			for b.Loop() {
				page(x.path)
				n++
			}
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(n), "cpu-ms/op")
		})
	}
}
