package admin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/server/demo"
)

// examined examines a server and waits until the examination has ended.
func (r *rig) examined(server, body string) (x Examination) {
	r.t.Helper()
	if a := r.do(http.MethodPost, "/api/v1/servers/"+server+"/doctor", body, "Content-Type", "application/json"); a.status != http.StatusAccepted {
		r.t.Fatalf("%d %s", a.status, a.body)
	}
	await(r.t, "the examination has ended", func() bool {
		x = Examination{}
		r.do(http.MethodGet, "/api/v1/servers/"+server+"/doctor", "").into(r.t, &x)
		return x.Ended != nil
	})
	return x
}

// TestExamination checks that the stream of an examination has the steps and the findings, that the
// server stays ready for clients, and that an examination can be cancelled.
func TestExamination(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy), demoServer(t, "new", demo.Modern))
	r.ready("old", "new")
	if a := r.do(http.MethodGet, "/api/v1/servers/old/doctor", ""); a.status != 404 || !strings.Contains(a.body, "not-examined") {
		t.Errorf("before: %d %s", a.status, a.body)
	}
	if a := r.do(http.MethodPost, "/api/v1/servers/old/doctor", ""); a.status != http.StatusAccepted {
		t.Fatalf("%d %s", a.status, a.body)
	}
	next := r.events("/api/v1/servers/old/doctor/stream")
	steps, findings := 0, 0
	var end Examination
	for e := next(); e.Name != EventEnd; e = next() {
		switch e.Name {
		case EventStep:
			steps++
		case EventFinding:
			findings++
		case EventVerdict:
			if err := json.Unmarshal(e.Data, &end); err != nil {
				t.Error(err)
			}
		}
	}
	if steps == 0 || findings != len(end.Findings) || end.State != "ended" || end.Verdict == nil || !end.Verdict.Reached || len(end.Verdict.Revisions) != 5 || len(end.Passed) == 0 || len(end.Verdict.Offer.Lists) == 0 || end.Verdict.Offer.Name == "" {
		t.Errorf("%d steps, %d findings, %+v", steps, findings, end)
	}
	if s := r.state("old"); s != "ready" {
		t.Errorf("the server of the clients is %s", s)
	}
	await(t, "the next may begin", func() bool {
		return r.do(http.MethodPost, "/api/v1/servers/new/doctor", `{"deep":true}`, "Content-Type", "application/json").status == http.StatusAccepted
	})
	r.do(http.MethodDelete, "/api/v1/servers/new/doctor", "")
	var x Examination
	await(t, "it is cancelled", func() bool {
		r.do(http.MethodGet, "/api/v1/servers/new/doctor", "").into(t, &x)
		return x.Ended != nil
	})
	if x.State != "cancelled" || x.Verdict != nil {
		t.Errorf("%+v", x)
	}
	if a := r.do(http.MethodPost, "/api/v1/servers/old/doctor", `{"x":1}`, "Content-Type", "application/json"); a.status != 400 {
		t.Errorf("an unknown member: %d", a.status)
	}
}

// TestOneExamination checks that the API refuses a second examination while one is running.
func TestOneExamination(t *testing.T) {
	t.Parallel()
	r := serving(t, demoServer(t, "old", demo.Legacy))
	x := &exam{cancel: func(error) {}, events: NewRing[runEvent](1, 1), show: Examination{Server: "other"}}
	if bad := r.api.exams.begin(x); bad != nil {
		t.Fatal(bad)
	}
	if a := r.do(http.MethodPost, "/api/v1/servers/old/doctor", ""); a.status != 409 || !strings.Contains(a.body, `\"other\"`) {
		t.Errorf("a second one: %d %s", a.status, a.body)
	}
	r.api.exams.ended(x)
	if a := r.do(http.MethodPost, "/api/v1/servers/old/doctor", ""); a.status != http.StatusAccepted {
		t.Errorf("after the end: %d %s", a.status, a.body)
	}
}

// TestMatrixRoute checks that the route returns all pairs of revisions, with the losses that
// docs/compatibility.md lists.
func TestMatrixRoute(t *testing.T) {
	t.Parallel()
	r := serving(t)
	var m Matrix
	r.get("/api/v1/matrix", &m)
	if len(m.Revisions) != 5 || m.Revisions[0] != "2024-11-05" || len(m.Pairs) != 25 || len(m.Features) < 17 {
		t.Fatalf("%+v", m)
	}
	letters := func(client, server string) (out string) {
		for _, p := range m.Pairs {
			if p.Client == client && p.Server == server {
				for _, l := range p.Losses {
					out += " " + l.Letter
					if !l.Always || l.Why == "" || len(l.Transports) == 0 {
						t.Errorf("%+v", l)
					}
				}
			}
		}
		return strings.TrimSpace(out)
	}
	for pair, want := range map[[2]string]string{
		{"2024-11-05", "2024-11-05"}: "", {"2024-11-05", "2025-11-25"}: "F L U T", {"2025-06-18", "2025-11-25"}: "L U T",
		{"2025-11-25", "2026-07-28"}: "", {"2026-07-28", "2026-07-28"}: "",
	} {
		if got := letters(pair[0], pair[1]); got != want {
			t.Errorf("%v: %q, not %q", pair, got, want)
		}
	}
}
