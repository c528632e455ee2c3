//go:build unix

package browser

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// audit has Ada, an admin, Olga, an operator, and Ben, a viewer, open the audit at the same time (TA49). Ada makes a
// person and a project; clients call tools with names that try to be more than names. Ada sees all of it, Olga what
// happened in her project, and Ben nothing. An act shows what was there before and after, and the export is a file.
func (r *rig) audit(t *testing.T) {
	h := r.serve(t, "dragoman:\n  audit: {calls: arguments}\n", "--demo", "--quiet-demo")
	ada, olga, ben := r.invite(t, h, "Ada", "viewer", "admin"), r.invite(t, h, "Olga", "operator"), r.invite(t, h, "Ben", "viewer")
	h.run("people", "role", "Ben", "viewer", "caller", "--listen", h.address())
	h.run("people", "invite", "Shopper", "--role", "viewer", "--project", "default", "--listen", h.address())
	for i := range 60 {
		h.callTool(t, fmt.Sprint("tool-", i))
	}
	h.callTool(t, `<script>alert(1)</script>\u202egnp\u200b<img src=x onerror=alert(2)>`)
	for name, p := range map[string]*tab{"Ada": ada, "Olga": olga} {
		p.open(p.origin + "/console/audit")
		p.wait("the last look at the chains", `document.querySelector("#chain .st").textContent.startsWith("verified to ")`)
		p.open(p.origin + "/console/audit")
		p.wait("the calls", `document.querySelectorAll("main tbody tr").length === 50`)
		if eval[int](p, `document.querySelectorAll("main form[method=post]:not([action$=audit]), main script, main img").length`) != 0 {
			t.Errorf("%s gets more than text and a filter", name)
		}
		v := &visit{tab: p, t: t, axe: r.axe}
		v.looks()
		p.size(1440, 900)
		v.tabs()
	}

	act := r.auditByKeyboard(t, h, ada)
	for _, page := range []string{"/console/audit", act} {
		ben.open(ben.origin + page)
		ben.wait("the refusal", `document.querySelector("h1").textContent === "This page needs the role operator"`)
		if text := eval[string](ben, `document.body.textContent`); strings.Contains(text, "tool-") || strings.Contains(text, "Shopper") || strings.Contains(text, "Audit") {
			t.Errorf("Ben sees %s", text)
		}
	}
	if got := eval[int](ben, `fetch("/api/v1/audit/lines").then((a) => a.status)`); got != http.StatusForbidden {
		t.Errorf("Ben's export: %d", got)
	}
	olga.open(olga.origin + "/console/audit?what=&project=")
	if text := eval[string](olga, `document.querySelector("main").textContent`); strings.Contains(text, "trail:") || strings.Contains(text, "session:") {
		t.Errorf("Olga sees what is of the whole house: %s", text)
	}
	ada.clean("Ada")
	olga.clean("Olga")
}

// auditByKeyboard goes from the filter to the older ones, to the file, and to an act, whose path it returns.
func (r *rig) auditByKeyboard(t *testing.T, h *serveRun, ada *tab) string {
	ada.open(ada.origin + "/console/audit")
	ada.settle()
	ada.press("g", "a")
	ada.settle()
	if err := ada.try(`document.getElementById("f-what").focus()`, nil); err != nil {
		t.Fatal(err)
	}
	ada.write("tool-")
	ada.press("Enter")
	ada.wait("the filter", `new URLSearchParams(location.search).get("what") === "tool-" && document.querySelectorAll("main tbody tr").length === 50`)
	newest := eval[string](ada, `document.querySelector("main tbody .lead").textContent`)
	h.callTool(t, "tool-new") // moves nothing
	if err := ada.try(`document.querySelector(".foot a").focus()`, nil); err != nil {
		t.Fatal(err)
	}
	ada.press("Enter")
	ada.wait("the older ones", `new URLSearchParams(location.search).has("before") && document.querySelectorAll("main tbody tr").length === 10`)
	if text := eval[string](ada, `document.querySelector("main tbody").textContent`); !strings.Contains(text, "tool-9") || strings.Contains(text, newest) {
		t.Errorf("the second page has %s", text)
	}
	if got := eval[string](ada, `fetch("/console/audit", { method: "POST", body: new URLSearchParams(new FormData(document.querySelector("main form[method=post]"))) }).then((a) => a.text()).then((t) => t.trim().split("\n").map((l) => JSON.parse(l).kind).join())`); got != strings.TrimSuffix(strings.Repeat("call,", 61), ",") {
		t.Errorf("the file has %s", got)
	}

	// An act with what was before and after.
	ada.open(ada.origin + "/console/audit?what=set+roles")
	ada.wait("the act", `document.querySelector("main .lead a")`)
	ada.press("j", "Enter")
	ada.wait("the page of the act", `/^[/]console[/]audit[/]\d+$/.test(location.pathname) && document.querySelector(".now")`)
	ada.settle()
	(&visit{tab: ada, t: t, axe: r.axe}).looks()
	ada.size(1440, 900)
	return eval[string](ada, `location.pathname`)
}

// callTool calls a tool that doesn't exist, as a client of 2026-07-28 does. name is the inside of a JSON string.
func (h *serveRun) callTool(t *testing.T, name string) {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":{"q":"` + name + `"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.origin+"/mcp", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
	} {
		req.Header.Set(key, value)
	}
	if !strings.ContainsAny(name, `<\`) {
		req.Header.Set("Mcp-Name", name)
	} else {
		req.Header.Set("Mcp-Name", "=?base64?PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0PuKArmducOKAizxpbWcgc3JjPXggb25lcnJvcj1hbGVydCgyKT4=?=")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}
