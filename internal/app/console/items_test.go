package console

import (
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestReadResource presses the buttons of the pages of resources and prompts.
func TestReadResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "busy")
		post := func(page string, values url.Values) (status int, location, body string) {
			t.Helper()
			r := h.request("POST", "/console/servers/files/"+page, "Cookie", h.cookie, "Content-Type", "application/x-www-form-urlencoded")
			r.Body = readCloser{strings.NewReader(values.Encode())}
			w := newRecorder(h, r)
			b, err := io.ReadAll(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			return w.StatusCode, w.Header.Get("Location"), string(b)
		}
		did := func() string {
			t.Helper()
			out := strings.Join(h.source.did, "\n")
			h.source.did = nil
			return out
		}
		const run = "/console/runs/1-1"
		if _, to, _ := post("resources", url.Values{"uri": {"file:///notes/a b.txt"}}); to != run || did() != "run files file:///notes/a b.txt   0 false" {
			t.Error(to)
		}
		if _, to, _ := post("resources", url.Values{"uri": {"file:///{path}"}, "template": {"1"}}); to != "/console/servers/files/resources#templates" || did() != "" {
			t.Error(to)
		}
		if _, to, _ := post("resources", url.Values{"uri": {"file:///x"}, "template": {"1"}}); to != run || did() == "" {
			t.Error(to)
		}
		// Take the name of the form control from the page.
		_, page := h.ask("GET", "/console/servers/files/prompts")
		_, rest, _ := strings.Cut(page, `id="p0-h"`)
		_, rest, _ = strings.Cut(rest, "<textarea")
		_, rest, _ = strings.Cut(rest, ` name="`)
		control, _, _ := strings.Cut(rest, `"`)
		if _, to, _ := post("prompts", url.Values{"prompt": {"review"}, control: {"x = 1"}}); to != run {
			t.Errorf("%s with the control %q", to, control)
		}
		if got := did(); got != `run files review {"code":"x = 1"}  0 false` {
			t.Error(got)
		}
		if status, _, body := post("prompts", url.Values{"prompt": {"review"}}); status != 422 || did() != "" || !strings.Contains(body, `id="p0-errors"`) {
			t.Errorf("without a required argument: %d %s", status, mainOf(body))
		}
		if _, to, _ := post("prompts", url.Values{"prompt": {"hello"}}); to != run || did() != "run files hello {}  0 false" {
			t.Error(to)
		}
		if _, to, _ := post("prompts", url.Values{"prompt": {"gone"}}); to != "/console/servers/files/prompts" || did() != "" {
			t.Error(to)
		}
		h.source.refuse = &admin.Problem{Status: 429, Title: "Too many runs"}
		if _, to, _ := post("prompts", url.Values{"prompt": {"hello"}}); to != "/console/servers/files/prompts" {
			t.Error(to)
		}
	})
}

// TestListsAreRead checks that a page reads a list that Dragoman has not read yet. The page does so
// only if the server is ready, and never for live values.
func TestListsAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "busy")
		h.source.items = nil
		h.ask("GET", "/console/servers/browser/prompts")
		h.console.feeds.render("/console/servers/files/prompts", viewer{role: identity.Admin})
		if len(h.source.read) != 0 {
			t.Errorf("%v", h.source.read)
		}
		h.ask("GET", "/console/servers/files/prompts")
		h.ask("GET", "/console/servers/files/resources")
		if r := h.source.read; len(r) != 3 || !r[mcp.MethodListPrompts] || !r[mcp.MethodListTemplates] {
			t.Errorf("%v", r)
		}
	})
}
