package console

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// TestExamine starts and cancels an examination with the buttons of the page.
func TestExamine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "busy")
		h.source.exam = nil
		const page = "/console/servers/files/findings"
		post := func(body string) (location string) {
			t.Helper()
			r := h.request("POST", page, "Cookie", h.cookie, "Content-Type", "application/x-www-form-urlencoded")
			r.Body = readCloser{strings.NewReader(body)}
			w := newRecorder(h, r)
			if w.StatusCode != 303 {
				t.Fatalf("%d", w.StatusCode)
			}
			return w.Header.Get("Location")
		}
		if _, body := h.ask("GET", page); !strings.Contains(body, "Not examined yet") || h.source.exam != nil {
			t.Error("opening the page has examined the server")
		}
		if to := post("do=start&deep=1"); to != page || h.source.exam == nil || !h.source.exam.Deep {
			t.Fatalf("%s %+v", to, h.source.exam)
		}
		time.Sleep(3 * time.Second)
		if _, body := h.ask("GET", page); !strings.Contains(body, `id="step">opening the server<`) || !strings.Contains(body, `id="elapsed" class="faint">3.0 s<`) || strings.Contains(body, "Examine again") {
			t.Errorf("the page of a running examination:\n%s", mainOf(body))
		}
		post("do=cancel")
		if _, body := h.ask("GET", page); !strings.Contains(textOf(body), "The last examination has no result: the examination was cancelled.") || !strings.Contains(body, "Examine again") {
			t.Errorf("the page of a cancelled examination:\n%s", mainOf(body))
		}
		// The button of a server that needs attention sends no form values.
		if post(""); h.source.exam.State != "running" || h.source.exam.Deep {
			t.Errorf("%+v", h.source.exam)
		}
		post("do=start")
		if resp, _ := h.ask("POST", page, "Sec-Fetch-Site", "cross-site"); resp.StatusCode != 403 {
			t.Errorf("a post of another site: %d", resp.StatusCode)
		}
	})
}

// TestVerdict checks the words of a verdict, which dragoman doctor also uses.
func TestVerdict(t *testing.T) {
	t.Parallel()
	revisions := []admin.ExamRevision{{Revision: "2025-06-18", Works: true, Through: true}, {Revision: "2026-07-28", Through: true}}
	finding := func(level string) []admin.Finding { return []admin.Finding{{Level: level}} }
	for _, x := range []struct {
		exam          admin.Examination
		word, through string
	}{
		{admin.Examination{Verdict: &admin.ExamVerdict{}}, "does not respond", "no revision"},
		{admin.Examination{Verdict: &admin.ExamVerdict{Reached: true, Through: true, Revisions: revisions}}, "works", "all revisions"},
		{admin.Examination{Verdict: &admin.ExamVerdict{Reached: true, Through: true, Revisions: revisions, Dialect: "manifest"}, Findings: finding("warning")}, "works, with 1 warning", "all revisions, in the dialect manifest"},
		{admin.Examination{Verdict: &admin.ExamVerdict{Reached: true, Through: true, Revisions: []admin.ExamRevision{{Revision: "2025-06-18", Through: true}, {Revision: "x"}}}, Findings: finding("error")}, "has 1 error", "all revisions but x"},
		{admin.Examination{Verdict: &admin.ExamVerdict{Reached: true, SignIn: true}}, "wants sign-in", ""},
		{admin.Examination{State: "failed"}, "failed", ""},
	} {
		v := &findingsView{Server: &admin.Server{}}
		if v.verdict(&x.exam); v.Word != x.word || v.Through != x.through {
			t.Errorf("%+v: %q %q", x.exam, v.Word, v.Through)
		}
	}
}
