//go:build unix

package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// prompts has Olga, an operator, write a prompt, publish it, look at what clients would get as instructions, and make it
// active: then the handshake of a client of each era has exactly that text. Ben, a viewer, sees all of it and can do none
// of it. An admin keeps a secret and replaces it; its value is on no page.
func (r *rig) prompts(t *testing.T) {
	h := r.serve(t, "dragoman: {server: {instructions: {text: \"Be kind, {{client.name}}. {{revision}}\"}}}\nmcpServers:\n  unset: {command: sh, args: [-c, \"exit 0\"], env: {TOKEN: \"${secret:gh}\"}}\n")
	olga, ben, local := r.invite(t, h, "Olga", "operator"), r.invite(t, h, "Ben", "viewer"), r.enter(t, h)
	at := func(p *tab, path string) {
		t.Helper()
		p.size(1440, 900)
		p.open(p.origin + "/console" + path)
	}
	looks := func(p *tab) {
		t.Helper()
		(&visit{tab: p, t: t, axe: r.axe}).looks()
		p.size(1440, 900)
	}
	set := func(p *tab, id, text string) {
		t.Helper()
		p.try(fmt.Sprintf(`document.getElementById(%q).value = %q`, id, text), nil)
	}

	at(olga, "/prompts")
	olga.click(button("New prompt"))
	olga.wait("the editor", `document.getElementById("p-text")`)
	set(olga, "p-name", "style")
	set(olga, "p-text", "Prices are in {{unit}}.")
	olga.click(button("Write the prompt"))
	olga.wait("the undeclared argument", `document.getElementById("p-errors")?.textContent.includes("unit isn't declared")`)
	looks(olga)
	set(olga, "p-text", "Prices are in cents.\n\nNames \u200bare short.")
	olga.click(button("Preview"))
	olga.wait("the preview", `document.querySelector("[aria-labelledby=preview] .inv")`)
	olga.click(button("Write the prompt"))
	olga.wait("the prompt", `document.querySelector("h1")?.textContent === "style" && document.querySelector("button[value=publish]")`)
	looks(olga)
	olga.click(button("Publish"))
	olga.wait("the published version", `document.querySelector("main .chip")?.textContent === "published"`)
	olga.click(button("Make active"))
	olga.wait("the instructions", `document.querySelectorAll("main pre").length === 5`)
	looks(olga)
	shown := eval[map[string]string](olga, `Object.fromEntries([...document.querySelectorAll("main section")].map((s) => [s.querySelector("h2").textContent.replace("Clients of ", ""), s.querySelector("pre").textContent.replace("U+200B", "\u200b")]))`)
	olga.click(button("Make active"))
	olga.wait("the active prompt", `document.querySelector("main .st")?.textContent === "active"`)
	olga.clean("Olga", "422 (Unprocessable Entity)")
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		if got := h.instructions(t, revision); got == "" || got != shown[revision] {
			t.Errorf("a client of %s gets %q, and the page said %q", revision, got, shown[revision])
		}
	}

	h.runWith("Prices are in cents, without a sign.", "prompts", "add", "style", "--listen", h.address())
	for _, path := range []string{"/prompts", "/prompts/style", "/prompts/style/instructions", "/prompts/style/1..2"} {
		at(ben, path)
		if eval[int](ben, `document.querySelectorAll('main form[method=post], main a[href$="/edit"]').length`) > 0 || !strings.Contains(eval[string](ben, `document.querySelector("main").textContent`), "style") {
			t.Errorf("%s: a viewer can't look, or may act", path)
		}
	}
	looks(ben)
	ben.clean("Ben")

	at(local, "/secrets")
	set(local, "s-name", "gh")
	set(local, "s-value", "canary-1")
	local.click(button("Set"))
	local.wait("the secret", `document.querySelector("main tbody .lead a")?.textContent === "gh"`)
	looks(local)
	if text := eval[string](local, `document.querySelector("main tbody").textContent`); !strings.Contains(text, "unset") {
		t.Errorf("the secret is used by %s", text)
	}
	at(local, "/secrets/gh")
	set(local, "s-value", "canary-2")
	local.click(button("Replace"))
	local.wait("the new value", `document.getElementById("toast")?.textContent.includes("another value") && document.getElementById("s-value").value === ""`)
	looks(local)
	if strings.Contains(eval[string](local, `document.documentElement.outerHTML + location.href`), "canary") {
		t.Error("the page has the value")
	}
	local.clean("the local user")
}

// instructions returns what a client of a revision gets as instructions.
func (h *serveRun) instructions(t *testing.T, revision string) string {
	t.Helper()
	method, body := "initialize", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+revision+`","capabilities":{},"clientInfo":{"name":"","version":""}}}`
	if revision == "2026-07-28" {
		method, body = "server/discover", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"","version":""},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.origin+"/mcp", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", revision)
	if method != "initialize" {
		req.Header.Set("Mcp-Method", method)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if _, data, stream := bytes.Cut(b, []byte("data: ")); stream {
		b, _, _ = bytes.Cut(data, []byte("\n"))
	}
	var answer struct{ Result struct{ Instructions string } }
	if err != nil || json.Unmarshal(b, &answer) != nil {
		t.Fatalf("%v %s", err, b)
	}
	return answer.Result.Instructions
}
