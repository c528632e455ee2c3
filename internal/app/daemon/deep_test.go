//go:build unix

package daemon

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// deepItem is a tool, a prompt or a resource that is nested one level deeper than a message may be.
var deepItem = `{"name":"deep","uri":"x:deep","inputSchema":{"type":"object","properties":` + strings.Repeat(`{"a":`, 123) + `{}` + strings.Repeat("}", 123) + `}}`

// deepItems is a list with a good item on each side of deepItem.
var deepItems = `{"name":"one","uri":"x:one","inputSchema":{"type":"object"}},` + deepItem + `,{"name":"two","uri":"x:two","inputSchema":{"type":"object"}}`

// runAsDeepServer runs a server on stdio whose lists are deepItems. kind is "legacy", "modern" or
// "manifest".
func runAsDeepServer(kind string) {
	s := &fakeServer{mode: kind, out: os.Stdout}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		m, err := jsonrpc.Scan(line, jsonrpc.Limits{Bytes: len(line) + 1})
		if err != nil || m.Kind != jsonrpc.Request {
			continue
		}
		const caps = `"capabilities":{"tools":{},"prompts":{},"resources":{}}`
		switch {
		case m.Method == mcp.MethodDiscover && kind == "modern":
			s.result(m, `{"supportedVersions":["2026-07-28"],`+caps+`,"ttlMs":0,"cacheScope":"private"}`)
		case m.Method == mcp.MethodInitialize && kind == "legacy":
			s.result(m, `{"protocolVersion":"2025-11-25",`+caps+`,"serverInfo":{"name":"d","version":"1"}}`)
		case m.Method == mcp.MethodInitialize && kind == "manifest":
			s.result(m, `{"name":"d","version":"1","tools":[`+deepItems+`]}`)
		case kind == "manifest" && m.Method != mcp.MethodCallTool:
			s.write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}))
		case m.Method == mcp.MethodListTools, m.Method == mcp.MethodListPrompts, m.Method == mcp.MethodListResources:
			s.result(m, `{"ttlMs":0,"cacheScope":"private","`+mcp.LookupMethod(m.Method).ListKey+`":[`+deepItems+`]}`)
		case m.Method == mcp.MethodCallTool:
			s.result(m, `{"content":[{"type":"text","text":"done"}]}`)
		default:
			s.write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}))
		}
	}
}

// TestDeepItems checks that an item that is nested too deep hides only itself, at both kinds of
// endpoints, for clients of both eras, with servers of both eras and over each transport. The status
// and the log say what is left out, and why.
func TestDeepItems(t *testing.T) {
	t.Parallel()
	deep := func(s *webServer) { s.tools = deepItems }
	all := map[string]*upstreamUnderTest{
		"legacy": child(t, "legacy", "deep legacy"), "modern": child(t, "modern", "deep modern"), "manifest": child(t, "manifest", "deep manifest"),
		"weblegacy": newWeb(t, false, deep).as(t, "weblegacy"), "webmodern": newWeb(t, true, deep).as(t, "webmodern"),
	}
	r := serve(t, snapshot(all["legacy"], all["modern"], all["manifest"], all["weblegacy"], all["webmodern"]))
	session := map[string]string{}
	// list returns the names in a list, for a client of each era.
	list := func(path, method string) (legacy, modern []string) {
		if session[path] == "" {
			session[path] = r.initialize(path, "2025-06-18", "{}")
		}
		a := r.post(path, `{"jsonrpc":"2.0","id":2,"method":"`+method+`"}`, "Mcp-Session-Id", session[path], "MCP-Protocol-Version", "2025-06-18")
		return itemNames(a.message(t), method), itemNames(r.modern(path, "1", method, "", "").message(t), method)
	}
	var want []string
	for name := range all {
		want = append(want, name+"__one", name+"__two")
	}
	slices.Sort(want)
	await(t, "all tools are in the merged list", time.Minute, func() bool {
		legacy, modern := list("/mcp", mcp.MethodListTools)
		slices.Sort(legacy)
		slices.Sort(modern)
		return slices.Equal(legacy, want) && slices.Equal(modern, want)
	})
	for name := range all {
		methods := []string{mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources}
		if name != "legacy" && name != "modern" {
			methods = methods[:1]
		}
		for _, method := range methods {
			legacy, modern := list("/s/"+name+"/mcp", method)
			if got := strings.Join(slices.Concat(legacy, modern), " "); got != "one two one two" {
				t.Errorf("%s of %s: %s", method, name, got)
			}
		}
	}
	report, _ := r.status()
	for _, s := range report.Servers {
		odd := 0
		for _, l := range s.Lists {
			for _, x := range l.Odd {
				if x.Name == "deep" && strings.Contains(x.Why, "nested deeper than 125 levels") {
					odd++
				}
			}
		}
		if odd == 0 {
			t.Errorf("the status of %s does not say that an item is left out: %+v", s.Name, s.Lists)
		}
		if n := strings.Count(r.log.String(), `msg="an item of a list is left out" server=`+s.Name+" list=tools/list name=deep"); n != 1 {
			t.Errorf("%d records about the tool of %s", n, s.Name)
		}
	}
	if text := string(report.Text(time.Now())); !strings.Contains(text, `"deep": "it is nested deeper than 125 levels"`) {
		t.Errorf("the table does not say what is left out:\n%s", text)
	}
	r.call("/mcp", "legacy__two", "{}").wantText(t, "done")
	r.call("/s/modern/mcp", "one", "{}").wantText(t, "done")
}

// itemNames returns the names of the items in a list.
func itemNames(m *jsonrpc.Message, method string) (names []string) {
	for e := range jsonrpc.Elements(m.Raw, m.ResultMember(mcp.LookupMethod(method).ListKey)) {
		name, _ := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, e, "name"))
		names = append(names, name)
	}
	return names
}
