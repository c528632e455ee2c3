//go:build unix

package browser

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// pictures is the folder of the screenshots.
var pictures = filepath.Join("..", "..", "docs", "pictures", "console")

// mostOfOne and mostOfAll are the maximum sizes, in bytes, of one screenshot and of all
// screenshots together.
const (
	mostOfOne = 120_000
	mostOfAll = 2_000_000
)

// screenshots takes screenshots of a fixed scene: the demo, with one more server that fails.
func (r *rig) screenshots(t *testing.T) {
	h := r.serve(t, "mcpServers:\n  tickets: {command: sh, args: [-c, \"echo 'TICKETS_TOKEN is not set' >&2; exit 1\"]}\ndragoman:\n  audit: {calls: names}\n",
		"--demo", "--listen", "127.0.0.1:7300") // the pages show the address, so use the usual address
	p := r.enter(t, h)
	if err := os.RemoveAll(pictures); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		t.Fatal(err)
	}

	// Wait for the first rounds of the demo, which contain calls of every kind.
	p.open(p.origin + "/console/calls")
	p.wait("25 calls", `fetch(location.href).then((a) => a.text()).then((text) => new DOMParser().parseFromString(text, "text/html").querySelectorAll("main tbody tr").length >= 25)`)
	shot := func(name, path string, height int, before func()) {
		t.Helper()
		for _, s := range []struct {
			kind, theme   string
			width, height int
			scale         float64
		}{{"light", "light", 1440, height, 1}, {"dark", "dark", 1440, height, 1}, {"phone", "light", 390, 844, 2}} {
			if s.kind == "phone" && name != "overview" && name != "call" {
				continue
			}
			p.media("prefers-color-scheme=" + s.theme)
			p.do("Emulation.setDeviceMetricsOverride", object{"width": s.width, "height": s.height, "deviceScaleFactor": s.scale, "mobile": false}, nil)
			if path != "" {
				p.open(p.origin + path)
				p.wait("live updates", `["live", "waiting for a client"].includes(document.getElementById("live").textContent)`)
			}
			if before != nil {
				before()
			}
			p.save(name + "-" + s.kind)
		}
	}

	shot("overview", "/console/", 940, nil)
	shot("tools", "/console/tools", 760, nil)
	shot("server", "/console/servers/legacy", 1000, nil)
	shot("failed", "/console/servers/tickets", 760, nil)

	// Show the page about oneself, with a second browser.
	r.enter(t, h)
	shot("me", "/console/me", 700, nil)

	// Show a new server after its test.
	p.open(p.origin + "/console/servers/add")
	p.paste(fmt.Sprintf("%s fake strict-2025-11-25", filepath.Base(r.dragoman)))
	p.click(button("Start and test"))
	p.wait("the handshake", `document.querySelector(".trace .end")`)
	shot("add", eval[string](p, `location.pathname + location.search`), 900, nil)

	// Show a translated call with a loss.
	p.open(p.origin + "/console/calls?q=forecast")
	p.wait("the calls", `document.querySelectorAll("main tbody tr").length > 0`)
	call := eval[string](p, `([...document.querySelectorAll("main tbody tr")].find((row) => row.textContent.includes("lost")) ?? document.querySelector("main tbody tr")).querySelector(".lead a").pathname`)
	shot("call", call, 1180, nil)

	// Show a run that waits for the answer to a question.
	p.open(p.origin + "/console/servers/legacy/tools/ask_name")
	p.click(button("Run ask_name"))
	p.wait("the question", `document.getElementById("questions")?.textContent.includes("What is your name?")`)
	p.fill("Name", "Ada")
	shot("run", eval[string](p, `location.pathname`), 900, func() { p.fill("Name", "Ada") })

	// Show the audit with some acts.
	h.run("people", "invite", "Grace", "--role", "viewer", "--listen", h.address())
	h.run("people", "role", "Grace", "caller", "operator", "--listen", h.address())
	p.open(p.origin + "/console/audit")
	p.wait("the last look at the chains", `document.querySelector("#chain .st").textContent.startsWith("verified to ")`)
	shot("audit", "/console/audit", 760, nil)
	shot("act", eval[string](p, `[...document.querySelectorAll("main .lead a")].find((a) => a.textContent.includes("set roles")).pathname`), 420, nil)
	p.clean("screenshots")

	// Show a changed definition.
	p = r.enter(t, r.serve(t, "dragoman: {pins: hold}\nmcpServers:\n"+changing(t, "mildly")))
	p.held("/console")
	shot("review", eval[string](p, `document.querySelector("main tbody .lead a").pathname`), 700, nil)
	p.clean("the review")
}

// save writes a screenshot of what the page shows without scrolling.
func (p *tab) save(name string) {
	p.t.Helper()
	if err := p.try(`scrollTo(0, 0); document.activeElement?.blur(); document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))))`, nil); err != nil {
		p.t.Fatal(err)
	}
	for _, quality := range []int{90, 80, 70, 60} {
		var got struct{ Data string }
		p.do("Page.captureScreenshot", object{"format": "webp", "quality": quality}, &got)
		b, err := base64.StdEncoding.DecodeString(got.Data)
		if err != nil {
			p.t.Fatal(err)
		}
		if len(b) > mostOfOne {
			continue
		}
		if err := os.WriteFile(filepath.Join(pictures, name+".webp"), b, 0o644); err != nil {
			p.t.Fatal(err)
		}
		p.t.Logf("%-16s %6d bytes, quality %d", name, len(b), quality)
		return
	}
	p.t.Errorf("%s has more than %d bytes", name, mostOfOne)
}

// TestScreenshots checks that docs/console.md shows each screenshot, that each screenshot on that
// page exists, and that all of them are small. It does not look at the pixels.
func TestScreenshots(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "console.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`pictures/console/([\w.-]+)`).FindAllStringSubmatch(string(page), -1) {
		shown[m[1]] = true
	}
	files, err := os.ReadDir(pictures)
	if err != nil {
		t.Fatal(err)
	}
	all := int64(0)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		all += info.Size()
		if !strings.HasSuffix(f.Name(), ".webp") || info.Size() > mostOfOne {
			t.Errorf("%s has %d bytes, want a WebP of at most %d", f.Name(), info.Size(), mostOfOne)
		}
		if !shown[f.Name()] {
			t.Errorf("docs/console.md does not show %s", f.Name())
		}
		delete(shown, f.Name())
	}
	for name := range shown {
		t.Errorf("docs/console.md shows %s, which does not exist: make screenshots", name)
	}
	if all > mostOfAll {
		t.Errorf("all screenshots together have %d bytes, want at most %d", all, mostOfAll)
	}
}
