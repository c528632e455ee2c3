//go:build unix

package browser

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// rules switches a tool off on Tools, which then leaves the list of clients, and moves a rule to the top with nothing
// but the keyboard. An operator tries a rule and learns no name of a key.
func (r *rig) rules(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := r.serve(t, fmt.Sprintf("mcpServers:\n  evil: {command: %q, env: {BROWSER_TEST_SERVER: hostile}}\ndragoman:\n  policy:\n    - {match: evil/one, do: deny}\n    - {match: evil/two, who: {keys: [nobody]}, do: deny}\n    - {match: evil/evil, do: confirm}\n", self))
	h.run("keys", "add", "nightly", "--listen", h.address())
	p := r.enter(t, h)
	looks := func(where string) {
		t.Helper()
		(&visit{tab: p, t: t, axe: r.axe}).looks()
		p.size(1440, 900)
		p.clean(where)
	}

	p.open(p.origin + "/console/rules")
	p.wait("three rules", `document.querySelectorAll("main tbody tr").length === 3`)
	looks("the rules")
	p.try(`document.querySelector('[aria-label="Move rule 3 up"]').focus()`, nil)
	for _, place := range []string{"2", "1"} {
		p.press("Enter")
		p.wait("place "+place, fmt.Sprintf(`document.activeElement.value?.includes(".") && document.activeElement.getAttribute("aria-label").startsWith("Move rule %s ") && document.querySelectorAll("main tbody tr")[%s - 1].textContent.includes("evil/evil")`, place, place))
	}
	looks("an order that isn't saved")
	p.click(button("Discard it"))
	p.wait("the order before", `!location.search && document.querySelectorAll("main tbody tr")[2].textContent.includes("evil/evil")`)

	if !strings.Contains(h.listTools(t), `"evil__evil"`) {
		t.Fatal("the tool isn't there")
	}
	p.open(p.origin + "/console/tools?server=evil")
	p.wait("the switch", `document.querySelector('[aria-label="Disable evil of evil"]')`)
	p.click(`document.querySelector('[aria-label="Disable evil of evil"]')`)
	p.wait("the change", `document.querySelector("button[name=save]")`)
	p.click(`document.querySelector("button[name=save]")`)
	p.wait("the server", `location.pathname === "/console/servers/evil"`)
	p.open(p.origin + "/console/servers/evil/tools/evil#who")
	p.wait("who sees it", `document.getElementById("who").parentElement.nextElementSibling.textContent.includes("nightly")`)
	if strings.Contains(h.listTools(t), `"evil__evil"`) {
		t.Error("the tool that was switched off is still in the list")
	}

	ann := r.invite(t, h, "Ann", "operator")
	ann.open(ann.origin + "/console/rules/edit?match=evil/*&what=deny")
	ann.wait("the effect", `document.getElementById("effect")`)
	if text := eval[string](ann, `document.body.textContent`); !strings.Contains(text, "1 key among them") || strings.Contains(text, "nightly") {
		t.Errorf("an operator reads %s", text)
	}
	p = ann
	looks("a rule that is tried")
}
