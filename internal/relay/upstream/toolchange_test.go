package upstream

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestToolMemory compares pairs of lists. The second list may be a page only.
func TestToolMemory(t *testing.T) {
	const a = `{"name":"a","description":"old","inputSchema":{"type":"object","required":["x","y"]}}`
	for name, c := range map[string]struct {
		before, after []string
		page          bool
		want          string // counts, and the parts of the changed tools
	}{
		"the same":       {before: []string{a}, after: []string{a}},
		"another order":  {before: []string{a, `{"name":"b"}`}, after: []string{`{"name":"b"}`, a}},
		"other writing":  {before: []string{a}, after: []string{`{ "inputSchema":{"required":["x","\u0079"] ,"type":"object"},"description":"\u006fld","name":"a"}`}},
		"an old name":    {before: []string{a}, after: []string{a, `{"name":"a","description":"shadowed"}`}},
		"description":    {before: []string{a}, after: []string{strings.Replace(a, "old", "new", 1)}, want: "1 0 0 description"},
		"schema":         {before: []string{a}, after: []string{strings.Replace(a, `"x","y"`, `"y","x"`, 1)}, want: "1 0 0 inputSchema"},
		"new member":     {before: []string{a}, after: []string{`{"outputSchema":{},"annotations":{},"title":"t","icons":[],` + a[1:]}, want: "1 0 0 title,outputSchema,annotations,other members"},
		"number":         {before: []string{`{"name":"a","_meta":{"n":1}}`}, after: []string{`{"name":"a","_meta":{"n":1.0}}`}, want: "1 0 0 other members"},
		"another name":   {before: []string{a}, after: []string{strings.Replace(a, `"a"`, `"b"`, 1)}, want: "0 1 1 "},
		"all gone":       {before: []string{a, `{"name":"b"}`}, want: "0 0 2 "},
		"a page":         {before: []string{a, `{"name":"b"}`}, after: []string{a, `{"name":"c"}`}, page: true, want: "0 1 0 "},
		"a changed page": {before: []string{a, `{"name":"b"}`}, after: []string{`{"name":"b","title":"x"}`}, page: true, want: "1 0 0 title"},
		"nameless":       {before: []string{a}, after: []string{a, `{"name":7}`, `{}`, `{"name":""}`}},
		"half a pair":    {before: []string{`{"name":"\ud800"}`}, after: []string{`{"name":"\ud801"}`}, want: "0 1 1 "},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			var m toolMemory
			if c := m.compare("", time.Time{}, bytesOf(c.before), true); c != nil {
				t.Errorf("the first list is a change: %v", c)
			}
			got, change := "", m.compare("", time.Time{}, bytesOf(c.after), !c.page)
			if change != nil {
				var parts []string
				for _, x := range change.Changed {
					parts = append(parts, strings.Join(x.Parts, ","))
					if len(x.Before) != 71 || len(x.After) != 71 || x.Before == x.After || !strings.HasPrefix(x.Before, "sha256:") {
						t.Errorf("the hashes are %s and %s", x.Before, x.After)
					}
				}
				got = fmt.Sprintf("%d %d %d %s", change.Changes, change.Additions, change.Removals, strings.Join(parts, " "))
			}
			if got != c.want {
				t.Errorf("got %q (%v), want %q", got, change, c.want)
			}
			if c := m.compare("", time.Time{}, bytesOf(c.after), !c.page); c != nil {
				t.Errorf("the same list again is a change: %v", c)
			}
		})
	}
}

func bytesOf(all []string) (out [][]byte) {
	for _, s := range all {
		out = append(out, []byte(s))
	}
	return out
}

// TestToolThatComesBackIsCompared checks a server that removes a tool before it lists the tool with
// another description.
func TestToolThatComesBackIsCompared(t *testing.T) {
	var m toolMemory
	list := func(all ...string) string {
		if c := m.compare("", time.Time{}, bytesOf(all), true); c != nil {
			return fmt.Sprintf("%d %d %d", c.Changes, c.Additions, c.Removals)
		}
		return ""
	}
	const nice, evil = `{"name":"a","description":"nice"}`, `{"name":"a","description":"evil"}`
	for i, step := range []struct{ tool, want string }{
		{nice, ""}, {"", "0 0 1"}, {evil, "1 0 0"}, {"", "0 0 1"}, {evil, "0 1 0"}, {nice, "1 0 0"}, {evil, "1 0 0"},
	} {
		all := []string{step.tool}
		if step.tool == "" {
			all = nil
		}
		if got := list(all...); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

// TestToolMemoryIsBounded checks a server that replaces ten thousand tools again and again, in whole
// lists and in pages, and tools with long names.
func TestToolMemoryIsBounded(t *testing.T) {
	var m toolMemory
	long := strings.Repeat("x", 1000)
	for round := range 5 {
		var all [][]byte
		for i := range maxKnownTools + 10 {
			all = append(all, fmt.Appendf(nil, `{"name":"%s%d-%d"}`, long[:500*(i%3)], round, i))
		}
		c := m.compare("", time.Time{}, all, round != 3)
		if round == 0 || round == 3 {
			continue
		}
		if c == nil || c.Additions < maxKnownTools/2 || len(c.Added) != maxShownChanges || len(c.Removed) != maxShownChanges || len(c.String()) > 4000 {
			t.Errorf("round %d: %.300v", round, c)
		}
	}
	for key := range 100 {
		m.compare(fmt.Sprint(key), time.Time{}, nil, true)
	}
	if n := len(m.lists.all); n > maxToolSpecs {
		t.Errorf("%d lists are remembered", n)
	}
	for _, r := range m.lists.all {
		if l := r.value; len(l.tools) > 2*maxKnownTools {
			t.Errorf("%d tools of one list are remembered", len(l.tools))
		}
	}
	if len(m.logged) > maxKnownTools {
		t.Errorf("%d changes are remembered", len(m.logged))
	}
}

// TestOldAnswerIsNoChange checks two lists that were requested at about the same time, whose answers
// are handled in the wrong order.
func TestOldAnswerIsNoChange(t *testing.T) {
	var m toolMemory
	now := time.Now()
	m.compare("", now, bytesOf([]string{`{"name":"a"}`}), true)
	m.compare("", now.Add(2), bytesOf([]string{`{"name":"a","title":"new"}`}), true)
	if c := m.compare("", now.Add(1), bytesOf([]string{`{"name":"a"}`}), true); c != nil {
		t.Errorf("the old answer is a change: %v", c)
	}
}

// TestTM22_ChangedToolIsAnEvent checks that a changed tool is one event, whoever reads the list: Dragoman
// or a client, also after a restart of the server, and also if several clients read it. A tool that
// only some clients see is no change.
func TestTM22_ChangedToolIsAnEvent(t *testing.T) {
	for _, era := range []string{"legacy", "modern", "both"} {
		t.Run(era, func(t *testing.T) {
			h := &program{legacy: era != "modern", modern: era != "legacy"}
			var text atomic.Value
			text.Store("first")
			h.on = func(l *process, m *jsonrpc.Message) []byte {
				switch m.Method {
				case mcp.MethodListen:
					return silent
				case mcp.MethodListTools:
					more, caps := "", string(m.Raw)
					if !strings.Contains(caps, mcp.KeyClientCaps) {
						caps = l.last(mcp.MethodInitialize)
					}
					if strings.Contains(caps, `"elicitation"`) {
						more = `,{"name":"form","description":"for some"}`
					}
					return ok(m, `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","description":"`+text.Load().(string)+`"}`+more+`]}`)
				}
				return nil
			}
			bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
				var got []string
				u.opts.Events = &event.Publisher{}
				u.opts.Events.Tap(event.Of(event.Changed), func(e event.Event) {
					got = append(got, fmt.Sprintf("%s %s %v %s", e.Server, e.Method, e.Level, e.Detail))
				})
				readers := map[string]func(){}
				for name, f := range map[string]*mcp.ClientInfo{
					"everybody": {}, "legacy": legacyClient, "asked": info(mcp.R20251125, "", canElicit, 2), "modern": info(mcp.R20260728, "", canElicit, 0),
				} {
					readers["Dragoman for "+name] = func() {
						if _, _, err := u.List(t.Context(), f, mcp.MethodListTools); err != nil {
							t.Fatal(err)
						}
					}
					if f.Revision == mcp.Unknown {
						continue
					}
					readers[name] = func() {
						reply, err := call(t, u, f, mcp.MethodListTools, `{"_meta":{"`+mcp.KeyVersion+`":"2026-07-28","`+mcp.KeyClientCaps+`":`+string(f.Capabilities)+`}}`)
						if err != nil || reply.Code() != 0 {
							t.Fatal(reply, err)
						}
					}
				}
				readAll := func() {
					for _, read := range readers {
						read()
					}
				}
				readAll()
				readAll()
				if len(got) != 0 {
					t.Fatalf("the first lists are events: %q", got)
				}
				for name, read := range readers {
					got = nil
					text.Store(name)
					read()
					if len(got) != 1 || !strings.HasPrefix(got[0], `h tools/list WARN 1 changed; changed: "t" (description) from sha256:`) {
						t.Errorf("%s: the events are %q", name, got)
					}
					readAll()
					if len(got) != 1 {
						t.Errorf("%s: the events for all are %q", name, got)
					}
				}
				got = nil
				h.kill()
				synctest.Wait()
				text.Store("after the restart")
				time.Sleep(time.Minute)
				readAll()
				if len(got) != 1 {
					t.Errorf("the events after a restart are %q", got)
				}
			})
		})
	}
}
