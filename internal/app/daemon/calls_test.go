//go:build unix

package daemon

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// calls returns the response of /api/v1/calls.
func (r *rig) calls(query string, header ...string) admin.Calls {
	r.t.Helper()
	a := r.do(r.t.Context(), "GET", "/api/v1/calls"+query, nil, header...)
	var all admin.Calls
	if err := json.Unmarshal([]byte(a.body), &all); err != nil || a.status != 200 || a.header.Get("Cache-Control") != "no-store" {
		r.t.Fatalf("calls%s: %d %v %v %s", query, a.status, a.header, err, a.body)
	}
	return all
}

// awaitCalls waits until n calls that a query selects have ended, and returns them.
func (r *rig) awaitCalls(query string, n int) (ended []admin.Call) {
	r.t.Helper()
	await(r.t, "the ends of the calls", time.Minute, func() bool {
		ended = nil
		for _, c := range r.calls(query).Calls {
			if c.Outcome != admin.OutcomeRunning {
				ended = append(ended, c)
			}
		}
		return len(ended) >= n
	})
	return ended
}

// TestCalls checks that the API has a call of each kind, selects calls, and returns them in
// pages. A parked call and its retry count as one call. No call shows an argument or a secret, and why one
// failed is only for the user.
func TestCalls(t *testing.T) {
	t.Parallel()
	option, keyOf := withKey(t)
	r := serve(t, snapshot(child(t, "old", "legacy"), child(t, "young", "modern")), option)
	session := []string{"Mcp-Session-Id", r.initialize("/mcp", "2025-06-18", "{}")}
	const token = "ghp_0123456789abcdefghijABCDEFGHIJ"
	r.post("/mcp", toolCall("1", "old__echo", `{"v":"argument"}`), session...).wantText(t, `{"v":"argument"}`)
	r.call("/mcp", "young__echo", `{"v":2}`).wantText(t, `{"v":2}`)
	r.post("/mcp", toolCall("2", token, `{}`), session...)
	const params = `"name":"old__ask","arguments":{"v":1}`
	send := func(id, params string) answer {
		return r.post("/mcp", canElicit(modernBody(id, "tools/call", params)), modernHeader("tools/call", "old__ask")...)
	}
	state, key := inputRequestOf(t, send("1", params).message(t))
	parked := r.awaitCalls("?outcome=parked", 1)
	if len(parked) != 1 || parked[0].Requests != 1 {
		t.Fatalf("parked: %+v", parked)
	}
	send("2", retryOf(params, state, key, `{"who":"me"}`)).wantText(t, `{"v":1} {"who":"me"}`)

	all := r.awaitCalls("?method=tools/call", 4)
	if len(all) != 4 {
		t.Fatalf("%d calls: %+v", len(all), all)
	}
	byName := map[string]admin.Call{}
	for i, c := range all {
		if c.Seconds <= 0 || c.In == 0 || c.Out == 0 || c.Started.IsZero() || c.Client.Name != "t" || c.Client.Version != "1" || i > 0 && c.Number >= all[i-1].Number {
			t.Errorf("call %+v", c)
		}
		if c.Reason != "" {
			t.Errorf("without the key, the list says about %s: %s", c.Name, c.Reason)
		}
		byName[c.Name] = c
	}
	for name, want := range map[string]admin.Call{
		"old__echo":   {Outcome: "ok", Server: "old", Target: "echo", Revision: "2025-11-25", Requests: 1, Client: admin.CallClient{Revision: "2025-06-18"}},
		"young__echo": {Outcome: "ok", Server: "young", Target: "echo", Revision: "2026-07-28", Requests: 1, Client: admin.CallClient{Revision: "2026-07-28"}},
		"old__ask":    {Outcome: "ok", Server: "old", Target: "ask", Revision: "2025-11-25", Requests: 2, Client: admin.CallClient{Revision: "2026-07-28"}},
		"***":         {Outcome: "refused", Target: "***", Requests: 1, Client: admin.CallClient{Revision: "2025-06-18"}, Code: -32602},
	} {
		c := byName[name]
		if c.Outcome != want.Outcome || c.Server != want.Server || c.Target != want.Target || c.Revision != want.Revision || c.Requests != want.Requests || c.Client.Revision != want.Client.Revision || c.Code != want.Code {
			t.Errorf("%s: %+v, want %+v", name, c, want)
		}
	}
	if c := byName["old__ask"]; c.Number != parked[0].Number || c.In <= parked[0].In {
		t.Errorf("parked as %+v, then %+v", parked[0], c)
	}
	for _, c := range r.calls("?method=tools/call", keyOf(r)...).Calls {
		if failed := c.Outcome == "refused"; failed != (c.Reason != "") || strings.Contains(c.Reason, token) {
			t.Errorf("with the key, the list says about %s: %q", c.Name, c.Reason)
		}
	}
	for _, header := range [][]string{nil, keyOf(r)} {
		resp, err := r.request(t.Context(), "GET", "/api/v1/calls/stream?outcome=refused", nil, header...)
		if err != nil {
			t.Fatal(err)
		}
		e, err := eventstream.NewReader(resp.Body, eventstream.Limits{}).Next()
		_ = resp.Body.Close()
		if err != nil || !strings.Contains(string(e.Data), `"outcome":"refused"`) || strings.Contains(string(e.Data), `"reason"`) != (header != nil) || strings.Contains(string(e.Data), token) {
			t.Errorf("the stream for %d headers: %s, %v", len(header), e.Data, err)
		}
	}
	for query, want := range map[string]int{
		"?server=old": 2, "?client=T&method=tools/call": 4, "?client=nobody": 0, "?outcome=refused": 1, "?q=YOUNG&method=tools/call": 1,
		"?q=ghp_": 0, "?outcome=running": 0, "?outcome=loss": 0,
	} {
		if got := r.calls(query); len(got.Calls) != want {
			t.Errorf("%s: %d calls, not %d: %+v", query, len(got.Calls), want, got.Calls)
		}
	}
	first := r.calls("?method=tools/call&limit=3")
	if len(first.Calls) != 3 || first.Before != first.Calls[2].Number {
		t.Errorf("the first page: %+v", first)
	}
	second := r.calls("?method=tools/call&limit=3&before=" + decimal(first.Before))
	if len(second.Calls) != 1 || second.Before != 0 || second.Calls[0].Number != all[3].Number {
		t.Errorf("the second page: %+v", second)
	}
	for _, query := range []string{"?limit=-1", "?limit=x", "?limit=9999", "?before=0", "?before=x"} {
		if a := r.do(t.Context(), "GET", "/api/v1/calls"+query, nil); a.status != 400 {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	for _, path := range []string{"/api/v1/calls", "/api/v1/calls/stream"} {
		if a := r.do(t.Context(), "GET", path, nil, "X-Forwarded-For", "192.0.2.1"); a.status != 403 {
			t.Errorf("%s by a proxy: %d", path, a.status)
		}
	}
}

// TestCallStream checks that the stream has each call that ends, and continues after the last call
// that a reader has got.
func TestCallStream(t *testing.T) {
	t.Parallel()
	r := serve(t, snapshot(child(t, "young", "modern")))
	open := func(query string, header ...string) *eventstream.Reader {
		t.Helper()
		resp, err := r.request(t.Context(), "GET", "/api/v1/calls/stream"+query, nil, header...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return eventstream.NewReader(resp.Body, eventstream.Limits{})
	}
	next := func(in *eventstream.Reader) (id string, c admin.Call) {
		t.Helper()
		for {
			e, err := in.Next()
			if err != nil {
				t.Fatal(err)
			}
			if e.Name == admin.EventCall {
				if err := json.Unmarshal(e.Data, &c); err != nil {
					t.Fatal(err)
				}
				return e.ID, c
			}
		}
	}
	live := open("?limit=0&method=tools/call")
	for i := range 3 {
		r.call("/mcp", "young__echo", `{"v":`+decimal(uint64(i))+`}`)
	}
	var ids []string
	var numbers []uint64
	for range 3 {
		id, c := next(live)
		if c.Outcome != "ok" || c.Name != "young__echo" || c.Missed {
			t.Errorf("call %+v", c)
		}
		ids, numbers = append(ids, id), append(numbers, c.Number)
	}
	again := open("?method=tools/call", "Last-Event-ID", ids[0])
	for i := 1; i < 3; i++ {
		if id, c := next(again); id != ids[i] || c.Number != numbers[i] {
			t.Errorf("%s is call %d, not %d", id, c.Number, numbers[i])
		}
	}
	if _, c := next(open("?method=tools/call", "Last-Event-ID", "other-1")); c.Number != numbers[0] {
		t.Errorf("for the reader of another process: call %d", c.Number)
	}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
