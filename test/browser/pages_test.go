//go:build unix

package browser

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/app/console"
)

// failing is a configuration with servers that fail in different ways. It is used in addition to
// the servers of the demo.
const failing = `dragoman: {questions: console}
mcpServers:
  missing: {command: /no/such/program}
  broken: {command: sh, args: [-c, "echo starting; echo 'cannot read the settings' >&2; exit 3"]}
  refused: {url: "http://127.0.0.1:1/mcp"}
  unset: {command: sh, args: [-c, "exit 0"], env: {TOKEN: "${DRAGOMAN_BROWSER_TEST_UNSET}"}}
  disabled: {command: sh, disabled: true}
`

// perPage is the maximum number of pages to visit for each kind of page, such as the page of a
// server.
const perPage = 2

// pages visits every page of the console. It begins at the Overview and follows the links, so
// it also fails if no link leads to a page.
func (r *rig) pages(t *testing.T) {
	h := r.serve(t, failing+changing(t, "changes"), "--demo")
	p := r.enter(t, h)
	p.do("Network.setCacheDisabled", object{"cacheDisabled": true}, nil)

	h.run("people", "invite", "Grace", "--listen", h.address()) // the audit has an act
	h.runWith("Look at {{change}}.", "prompts", "add", "review", "--argument", "change", "--listen", h.address())
	h.run("prompts", "publish", "review", "--listen", h.address())
	h.runWith("Look well.", "prompts", "add", "review", "--listen", h.address())
	h.runWith("hunter2hunter2", "secrets", "set", "gh", "--listen", h.address())
	h.run("keys", "add", "nightly", "--owner", "Grace", "--listen", h.address())

	// The first round of the demo's calls contains a call of each kind.
	p.open(p.origin + "/console/calls")
	for _, kind := range []string{"failed", "cancelled", "lost"} {
		p.wait("a call that "+kind, fmt.Sprintf(`document.querySelector("main").textContent.includes(%q)`, kind))
	}
	// Start two runs: one that ends, and one that waits for an answer.
	p.open(p.origin + "/console/servers/legacy/tools/count")
	p.fill("to", "2")
	p.click(button("Run count"))
	p.wait("the result", `document.getElementById("result-box")?.textContent.includes("2")`)
	p.wait("the form", `document.querySelector("form[action$='/keep']")`)
	p.click(button("Keep as an example"))
	p.wait("the example", `location.pathname.startsWith("/console/playground/")`)
	p.open(p.origin + "/console/servers/legacy/tools/ask_name")
	p.click(button("Run ask_name"))
	p.wait("the question", `document.getElementById("questions")?.textContent.includes("What is your name?")`)
	waiting := eval[string](p, `location.pathname`)
	h.calls(t, "legacy", "ask_name", "{}") // waits on the page Questions
	p.wait("a question", `document.querySelector('.nav a[href="/console/questions"] .n').textContent !== ""`)
	p.held("/console")
	tour := newTour(t)
	check := func(address string, again bool) {
		t.Run(strings.TrimPrefix(address, p.origin), func(t *testing.T) {
			p.t = t
			v := &visit{tab: p, t: t, axe: r.axe, again: again}
			tour.add(v.check(address)...)
		})
		p.t = t
	}
	tour.begin(p.origin + "/console/servers/legacy/edit") // adding looks at it: no file has the servers of the demo
	for _, path := range []string{"/console/", "/console/none", "/console/servers/legacy", "/console/servers/missing", waiting} {
		tour.begin(p.origin + path)
		check(p.origin+path, false)
	}
	for address, again, ok := tour.next(); ok; address, again, ok = tour.next() {
		check(address, again)
	}
	tour.complete(t)

	t.Run("gate", func(t *testing.T) {
		gate := r.chrome.newTab(t, h.origin)
		gate.open(h.origin + "/console/servers")
		v := &visit{tab: gate, t: t, axe: r.axe}
		v.looks()
		gate.clean("the page without a session", "401 (Unauthorized)")
	})
}

// route collects the addresses to visit.
type route struct {
	mux   *http.ServeMux // maps an address to the pattern of its page
	paths []string
	queue []string
	seen  map[string]bool
	count map[string]int // the number of visits, by pattern
}

func newTour(t *testing.T) *route {
	c := console.New(console.Options{Off: "the test needs only its paths"})
	t.Cleanup(c.Close)
	r := &route{mux: http.NewServeMux(), paths: c.Paths(), seen: map[string]bool{}, count: map[string]int{}}
	for _, path := range r.paths {
		if strings.HasSuffix(path, "/") {
			path += "{$}"
		}
		r.mux.Handle("GET "+path, http.NotFoundHandler())
	}
	return r
}

func (r *route) add(addresses ...string) {
	for _, a := range addresses {
		a, _, _ = strings.Cut(a, "#")
		if !r.seen[a] {
			r.seen[a] = true
			r.queue = append(r.queue, a)
		}
	}
}

// begin records that an address is visited.
func (r *route) begin(address string) {
	r.seen[address] = true
	r.count[r.pattern(address)]++
}

// pattern returns the pattern of the console's paths that matches an address, or "".
func (r *route) pattern(address string) string {
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return ""
	}
	_, pattern := r.mux.Handler(req)
	return strings.TrimSuffix(strings.TrimPrefix(pattern, "GET "), "{$}")
}

// next returns the next address, and whether a page of its kind has been visited. It prefers the
// kinds with the fewest visits.
func (r *route) next() (address string, again, ok bool) {
	slices.SortStableFunc(r.queue, func(a, b string) int { return cmp.Compare(r.count[r.pattern(a)], r.count[r.pattern(b)]) })
	for len(r.queue) > 0 {
		address, r.queue = r.queue[0], r.queue[1:]
		if n := r.count[r.pattern(address)]; n < perPage {
			r.begin(address)
			return address, n > 0, true
		}
	}
	return "", false, false
}

func (r *route) complete(t *testing.T) {
	for _, path := range r.paths {
		if r.count[path] == 0 {
			t.Errorf("no link leads to the page %s", path)
		}
	}
}

// visit checks one page.
type visit struct {
	*tab
	t     *testing.T
	axe   string
	again bool // all checks have already been made on a page of this kind
}

// check opens a page, checks it, and returns the addresses of its links.
func (v *visit) check(address string) (links []string) {
	v.size(1440, 900)
	v.media("prefers-color-scheme=light")
	v.loaded()
	v.open(address)
	v.weight(address)
	// Pause the live updates, so that nothing changes during the checks.
	v.wait("live updates", `document.getElementById("live").textContent !== ""`)
	v.pause()
	v.looks()
	v.size(1440, 900)
	if !v.again {
		v.tabs()
	}
	v.clean(address, "404 (Not Found)")
	list := eval[[]string](v.tab, `[...document.querySelectorAll("a[href]")].filter((a) => !a.hasAttribute("download")).map((a) => a.href)`)
	for _, l := range list {
		if u, err := url.Parse(l); err == nil && strings.HasPrefix(l, v.origin+"/console") && !strings.HasSuffix(u.Path, ".json") {
			links = append(links, l)
		}
	}
	return links
}

// weight checks the size of what a page loads in addition to its data: the HTML outside of main,
// the styles and the modules.
func (v *visit) weight(address string) {
	beside := eval[int](v.tab, `fetch(location.href).then((a) => a.text()).then((text) => {
		const from = text.indexOf("<main"), to = text.indexOf("</main>");
		return new TextEncoder().encode(text.slice(0, from) + text.slice(to)).length;
	})`)
	count := 0
	for _, l := range v.loaded() {
		if strings.HasPrefix(l.URL, "data:") {
			continue // nothing is loaded: Chromium draws the sign of a calendar so
		}
		switch l.Kind {
		case "Document":
			count++
		case "Stylesheet", "Script":
			count++
			beside += l.Bytes
			if l.Status != 200 || l.Bytes == 0 {
				v.t.Errorf("%s has the status %d and %d bytes", l.URL, l.Status, l.Bytes)
			}
		case "Fetch", "EventSource", "Other":
		default:
			v.t.Errorf("%s loads %s (%s)", address, l.URL, l.Kind)
		}
	}
	if beside > 60<<10 || count > 5 {
		v.t.Errorf("%s: %d bytes beside the data in %d requests", address, beside, count)
	}
}

// looks checks a page in both themes and several widths, with forced colours and with reduced
// motion.
func (v *visit) looks() {
	if v.try("axe.version", nil) != nil {
		if err := v.try(v.axe, nil); err != nil {
			v.t.Fatal(err)
		}
	}
	for _, width := range []int{1440, 390} {
		v.size(width, 900)
		v.fits(width)
		for _, theme := range []string{"light", "dark"} {
			if v.again && theme == "dark" {
				continue
			}
			v.media("prefers-color-scheme=" + theme)
			only := ""
			if theme == "dark" {
				only = `runOnly: ["color-contrast", "link-in-text-block"],`
			}
			v.examine(fmt.Sprintf("%d px, %s", width, theme), only)
		}
	}
	v.size(320, 900)
	v.fits(320)
	if v.again {
		return
	}
	for _, width := range []int{390, 768, 900, 1024} {
		v.size(width, 900)
		v.states(width)
	}
	v.size(1440, 900)
	v.media("forced-colors=active", "prefers-color-scheme=light")
	v.examine("forced colours", `runOnly: ["color-contrast"],`)
	for _, f := range eval[[]string](v.tab, invisibleMarks) {
		v.t.Errorf("forced colours: %s cannot be seen", f)
	}
	v.media("prefers-color-scheme=light", "prefers-reduced-motion=reduce")
	for _, f := range eval[[]string](v.tab, moving) {
		v.t.Errorf("reduced motion: %s", f)
	}
	v.media("prefers-color-scheme=light")
}

// invisibleMarks is a JavaScript expression that lists the marks that have the colour of what is
// behind them. A mark is a pseudo-element without text that is drawn with a background or borders.
const invisibleMarks = `(() => {
	const found = new Set(), clear = /^(transparent|rgba\(.*, 0\))$/;
	for (const e of document.querySelectorAll("body *")) {
		if (!e.checkVisibility({ visibilityProperty: true })) continue;
		for (const part of ["::before", "::after"]) {
			const s = getComputedStyle(e, part);
			if (s.content === "none" || s.content === "normal" || s.display === "none" || s.content !== '""' || !parseFloat(s.width) || !parseFloat(s.height)) continue;
			let behind = e, color = "rgba(0, 0, 0, 0)";
			for (; behind && clear.test(color); behind = behind.parentElement) color = getComputedStyle(behind).backgroundColor;
			const drawn = [s.backgroundColor, ...["Top", "Right", "Bottom", "Left"].filter((x) => parseFloat(s["border" + x + "Width"])).map((x) => s["border" + x + "Color"])];
			if (drawn.every((c) => clear.test(c) || c === color)) found.add(e.tagName + "." + e.getAttribute("class") + part);
		}
	}
	return [...found];
})()`

// moving is a JavaScript expression that lists what moves: animations, transitions and smooth
// scrolling.
const moving = `(() => {
	const found = new Set();
	for (const a of document.getAnimations()) found.add("an animation runs: " + (a.animationName ?? a.transitionProperty));
	for (const e of document.querySelectorAll("*")) for (const part of [undefined, "::before", "::after"]) {
		const s = getComputedStyle(e, part), name = e.tagName + "." + e.getAttribute("class") + (part ?? "");
		if (s.animationName !== "none") found.add(name + " has the animation " + s.animationName);
		if (s.transitionDuration.split(", ").some((d) => parseFloat(d) > 0)) found.add(name + " has a transition of " + s.transitionDuration);
		if (s.scrollBehavior === "smooth") found.add(name + " scrolls smoothly");
	}
	return [...found];
})()`

// finding is a violation that axe found.
type finding struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// examine runs axe and fails the test for each finding.
func (v *visit) examine(where, only string) {
	v.t.Helper()
	var found []finding
	text := eval[string](v.tab, `axe.run(document, {`+only+`resultTypes: ["violations"]}).then((r) => JSON.stringify(r.violations))`)
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		v.t.Fatal(err)
	}
	for _, f := range found {
		v.t.Errorf("axe, %s: %s (%s): %s, %d times; first:\n%.600s\n%s", where, f.ID, f.Impact, f.Help, len(f.Nodes), f.Nodes[0].HTML, f.Nodes[0].FailureSummary)
	}
}

// fits checks that a page does not scroll sideways, and that nothing is cut off at its right edge.
func (v *visit) fits(width int) {
	v.t.Helper()
	over := eval[[]string](v.tab, `(() => {
		const wide = document.documentElement.clientWidth, found = [];
		if (document.documentElement.scrollWidth > wide || document.body.scrollWidth > wide) found.push("the page is " + Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) + " wide: " + [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > wide && !e.parentElement.closest(".scroll, pre")).slice(-3).map((e) => e.outerHTML.slice(0, 200)).join(" … "));
		next: for (const e of document.querySelectorAll("main *, header *")) {
			const r = e.getBoundingClientRect();
			if (r.right <= wide + 1 || !r.width || !e.checkVisibility({ visibilityProperty: true })) continue;
			for (let p = e.parentElement; p && p !== document.body; p = p.parentElement) if (getComputedStyle(p).overflowX !== "visible" && p.id !== "main") continue next;
			if (e.closest(".vh")) continue;
			found.push(e.outerHTML.slice(0, 200) + " ends at " + Math.round(r.right));
		}
		return found.slice(0, 4);
	})()`)
	for _, o := range over {
		v.t.Errorf("%d px: %s", width, o)
	}
}

// states checks that the states in the tables can be seen without scrolling sideways.
func (v *visit) states(width int) {
	v.t.Helper()
	hidden := eval[[]string](v.tab, `[...document.querySelectorAll("td .st")].filter((e) => {
		const box = e.closest(".scroll");
		return box && e.checkVisibility({ visibilityProperty: true }) && e.getBoundingClientRect().right > box.getBoundingClientRect().right;
	}).map((e) => e.closest("tr").textContent.slice(0, 120)).slice(0, 4)`)
	for _, row := range hidden {
		v.t.Errorf("%d px: the state is outside the table in the row %s", width, row)
	}
}

// tabs presses Tab through the page. Each link, button and field must get the focus and be marked
// as focused.
func (v *visit) tabs() {
	v.t.Helper()
	count := eval[int](v.tab, `(() => {
		window.reached = new Set(); window.dull = new Set();
		window.stops = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")].filter((e) =>
			e.tabIndex >= 0 && !e.disabled && e.type !== "hidden" && e.checkVisibility({ visibilityProperty: true }) && !(e.type === "radio" && !e.checked));
		document.addEventListener("focusin", (e) => {
			reached.add(e.target);
			const s = getComputedStyle(e.target), label = e.target.closest("label") && getComputedStyle(e.target.closest("label"));
			if (![s, label].some((s) => s && s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2)) dull.add(e.target);
		});
		document.activeElement?.blur();
		getSelection().removeAllRanges();
		scrollTo(0, 0);
		return stops.length;
	})()`)
	var bad struct{ Missed, Dull []string }
	// A page that moves the focus while we press, such as by a late autofocus, has us begin in the middle.
	// A second time around reaches the rest, unless Tab really doesn't get there.
	for range 2 {
		v.press(slices.Repeat([]string{"Tab"}, count+8)...)
		bad = eval[struct{ Missed, Dull []string }](v.tab, `(() => {
			const name = (e) => e.outerHTML.slice(0, 160);
			return { missed: stops.filter((e) => !reached.has(e)).map(name), dull: [...dull].map(name) };
		})()`)
		if len(bad.Missed) == 0 {
			break
		}
	}
	for _, m := range bad.Missed {
		v.t.Errorf("Tab does not reach %s", m)
	}
	for _, d := range bad.Dull {
		v.t.Errorf("the focus is not visible at %s", d)
	}
}
