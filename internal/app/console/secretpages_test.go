package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// TestSecretPages lets an operator see what uses secrets, and an admin set, replace and remove them. No response has a
// value, whatever is wrong with the form, and what is in use isn't removed by a click.
func TestSecretPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, role := stageWith(t, "kept", &event.Publisher{}), identity.Viewer
		h.graded(&role)
		h.has("/console/secrets", 403)
		role = identity.Operator
		h.has("/console/secrets", 200, `href="/console/secrets/gh"`, `href="/console/servers/files"`, ">nothing<", "!password")
		h.has("/console/secrets/gh", 200, `href="/console/servers/files"`, `!method="post"`)
		h.has("/console/secrets/none", 404)
		for _, page := range []string{"/secrets", "/secrets/gh"} {
			if resp, _ := h.submit("/console"+page, url.Values{"value": {"canary"}, "name": {"x"}, "number": {"N"}}); resp.StatusCode != 403 {
				t.Errorf("%s as an operator: %d", page, resp.StatusCode)
			}
		}

		role = identity.Admin
		w := watch(t, h, "/console/secrets", "")
		defer w.stop()
		h.has("/console/secrets", 200, `type="password" autocomplete="new-password"`, "!canary")
		n := 0
		send := func(page string, status int, says string, form url.Values) {
			t.Helper()
			if n++; form.Get("number") == "" {
				form.Set("number", "N"+number(n))
			}
			resp, body := h.submit("/console"+page, form)
			text := body
			for _, values := range resp.Header {
				text += strings.Join(values, " ")
			}
			if resp.StatusCode != status || !strings.Contains(body, says) || strings.Contains(text, "canary") {
				t.Errorf("%s %v: %d\n%s", page, form, resp.StatusCode, mainOf(body))
			}
		}
		send("/secrets", 422, "secret&#39;s name has", url.Values{"name": {".x"}, "value": {"canary-1"}})
		send("/secrets", 422, "The value is empty", url.Values{"name": {"x"}})
		send("/secrets", 422, `value="big"`, url.Values{"name": {"big"}, "value": {strings.Repeat("canary-2", 9000)}})
		send("/secrets", 409, "There is a secret gh already", url.Values{"name": {"gh"}, "value": {"canary-3"}})
		h.source.keeps.bad = &admin.Problem{Status: 503, Title: "The vault cannot be used", Detail: "It's locked."}
		send("/secrets", 503, "It&#39;s locked.", url.Values{"name": {"new"}, "value": {"canary-4"}})
		twice := url.Values{"name": {"new"}, "value": {"canary-5"}, "number": {"twice"}}
		send("/secrets", 303, "", twice)
		send("/secrets", 303, "", twice)
		time.Sleep(3 * time.Minute)
		send("/secrets", 409, "This form was sent before", twice)
		send("/secrets/new", 303, "", url.Values{"do": {"set"}, "value": {"canary-6"}})
		send("/secrets/gone", 404, "There is no secret", url.Values{"do": {"set"}, "value": {"canary-7"}})
		if h.source.values["new"] != "canary-6" {
			t.Errorf("the value is %q", h.source.values["new"])
		}

		h.has("/console/secrets/gh", 200, "this server can't be used", "Type <b>remove the secret</b>")
		h.has("/console/secrets/unused", 200, "Nothing in the configuration refers to it", "!to confirm")
		send("/secrets/gh", 403, "the secret is in use", url.Values{"do": {"remove"}})
		send("/secrets/gh", 303, "", url.Values{"do": {"remove"}, "sure": {" Remove  the secret"}})
		send("/secrets/unused", 303, "", url.Values{"do": {"remove"}})
		time.Sleep(15 * time.Minute)
		send("/secrets/new", 403, "more than 10 minutes ago", url.Values{"do": {"remove"}})
		send("/secrets/new", 400, "", url.Values{"do": {"look"}})
		if want := []string{"local set new", "local set new", "local removed gh", "local removed unused"}; !slices.Equal(h.source.acts, want) {
			t.Errorf("got %q", h.source.acts)
		}
		synctest.Wait()
		if text := fmt.Sprint(w.take()); strings.Contains(text, "canary") {
			t.Errorf("the stream has %s", text)
		}
	})
}
