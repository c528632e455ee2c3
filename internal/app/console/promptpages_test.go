package console

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// numberOn returns the number of the first form of a page whose number has an ending.
func numberOn(t *testing.T, h *testConsole, page, ending string) string {
	t.Helper()
	_, body := h.ask("GET", page)
	_, rest, ok := strings.Cut(body, `name="number" value="`)
	for ; ok; _, rest, ok = strings.Cut(rest, `name="number" value="`) {
		if n, _, _ := strings.Cut(rest, `"`); strings.HasSuffix(n, ending) {
			return n
		}
	}
	t.Fatalf("%s has no form %s:\n%s", page, ending, mainOf(body))
	return ""
}

// has asks for a page, whose main part has each of the parts, and none of those that begin with "!".
func (h *testConsole) has(page string, status int, parts ...string) string {
	h.t.Helper()
	resp, body := h.ask("GET", page)
	body = mainOf(body)
	if resp.StatusCode != status {
		h.t.Errorf("%s: %d, want %d", page, resp.StatusCode, status)
	}
	hasParts(h.t, page, body, parts...)
	return body
}

func hasParts(t testing.TB, page, body string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if text, not := strings.CutPrefix(part, "!"); strings.Contains(body, text) == not {
			t.Errorf("%s: %s:\n%s", page, part, body)
		}
	}
}

// TestPromptPages lets a viewer read prompts, and an operator publish one, make one active after a look at what clients
// would get, and put it off: once, also if a form is sent twice.
func TestPromptPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, role := stageWith(t, "kept", &event.Publisher{}), identity.Viewer
		h.graded(&role)
		h.has("/console/prompts", 200, `href="/console/prompts/review"`, "1 of 3", ">active<", "files__hello", "!_new")
		h.has("/console/prompts?q=STYLE", 200, ">style<", "!>review<")
		h.has("/console/prompts/review", 200, "Look at {{change}}.", "what clients get", `with 2</a>`, "!<form method=\"post\"", "Look at {{change}}.\nBe kind.")
		h.has("/console/prompts/review?version=2&value.tone=%3Cb%3E", 200, "and be &lt;b&gt;.", "U+200B", "nobody gets it")
		h.has("/console/prompts/review?version=9", 404, "has no version 9")
		h.has("/console/prompts/reviw", 404, `href="/console/prompts/review"`)
		h.has("/console/prompts/review/1..2", 200, "<ins>", `<span class="inv" title="zero width space">U+200B</span>`, "arguments[1].name", "1 invisible character")
		h.has("/console/prompts/review/2..1", 200, "<del>")
		h.has("/console/prompts/review/1..9", 404)
		h.has("/console/prompts/review/1-2", 404)
		h.has("/console/prompts/terms/instructions", 200, "For 2026-07-28: Say tool, and not function.", "Clients of 2025-11-25, 2025-06-18", "<bdi>search</bdi>", "!<form")
		h.has("/console/prompts/review/instructions", 200, "has the argument change", "!<form")
		for _, page := range []string{"/prompts/_new", "/prompts/review/edit"} {
			h.has("/console"+page, 403)
		}

		role = identity.Operator
		publish := url.Values{"do": {"publish"}, "version": {"3"}, "number": {numberOn(t, h, "/console/prompts/review", "-3")}}
		for range 2 {
			if resp, _ := h.submit("/console/prompts/review", publish); resp.StatusCode != 303 || resp.Header.Get("Location") != "/console/prompts/review" {
				t.Errorf("%d %v", resp.StatusCode, resp.Header)
			}
		}
		body := h.has("/console/prompts/terms/instructions", 200, "In place of <a href=\"/console/prompts/style\">")
		activate := url.Values{"version": {"1"}, "number": {numberField.FindStringSubmatch(body)[1]}}
		if resp, body := h.submit("/console/prompts/terms/instructions", activate); resp.StatusCode != 409 || !strings.Contains(body, "version 2 is published now") {
			t.Errorf("another version than the one on the page: %d", resp.StatusCode)
		}
		activate = url.Values{"version": {"2"}, "number": {"N"}}
		h.source.keeps.bad = &admin.Problem{Status: 503, Title: "The database cannot be used", Detail: "It's away."}
		if resp, body := h.submit("/console/prompts/terms/instructions", activate); resp.StatusCode != 503 || !strings.Contains(body, "It&#39;s away.") || !strings.Contains(body, "Make active") {
			t.Errorf("%d", resp.StatusCode)
		}
		activate.Set("number", "N2")
		if resp, _ := h.submit("/console/prompts/terms/instructions", activate); resp.StatusCode != 303 {
			t.Errorf("%d", resp.StatusCode)
		}
		if resp, _ := h.submit("/console/prompts/review", url.Values{"do": {"off"}, "number": {"N3"}}); resp.StatusCode != 303 {
			t.Errorf("%d", resp.StatusCode)
		}
		if want := []string{"local published review 3", "local activated terms", "local put off review"}; !slices.Equal(h.source.acts, want) {
			t.Errorf("got %q", h.source.acts)
		}
		for _, form := range []url.Values{{}, {"do": {"publish"}, "number": {"N4"}}, {"do": {"publish"}, "version": {"-1"}, "number": {"N5"}}, {"do": {"off"}}} {
			if resp, _ := h.submit("/console/prompts/review", form); resp.StatusCode != 400 {
				t.Errorf("%v: %d", form, resp.StatusCode)
			}
		}
	})
}

// TestPromptEditor writes versions: what is new in the text has to be seen before it's declared, a mistake is at its
// field with everything that was typed, and what somebody else has written meanwhile isn't lost.
func TestPromptEditor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "kept")
		form := url.Values{"do": {"save"}, "name": {"new"}, "text": {"Say {{hi}} to\r\n{{who}}."}, "description": {"A greeting"}, "number": {"N1"}, "argument": {"hi"}, "about.hi": {"the word"}, "value.hi": {"<moin>"}}
		resp, body := h.submit("/console/prompts/_new", form)
		hasParts(t, "the form", mainOf(body), "the argument who isn&#39;t declared", `href="#p-text"`, `aria-invalid="true"`, `value="the word"`, `name="argument" value="who"`, "&lt;moin&gt; to", "\nA greeting</textarea>", "\nSay {{hi}} to")
		form["argument"], form["number"], form["values.who"] = []string{"hi", "who"}, []string{"N2"}, []string{"Ada,  Ben ,"}
		if resp.StatusCode != 422 || len(h.source.acts) != 0 {
			t.Errorf("%d %q", resp.StatusCode, h.source.acts)
		}
		for range 2 {
			if resp, _ := h.submit("/console/prompts/_new", form); resp.StatusCode != 303 || resp.Header.Get("Location") != "/console/prompts/new?version=1" {
				t.Errorf("%d %v", resp.StatusCode, resp.Header)
			}
		}
		if v := h.source.find("new").Versions; len(v) != 1 || v[0].Text != "Say {{hi}} to\n{{who}}." || !slices.Equal(v[0].Arguments[1].Values, []string{"Ada", "Ben"}) {
			t.Errorf("got %+v", v)
		}

		form.Set("number", "N3")
		resp, body = h.submit("/console/prompts/_new", form)
		if hasParts(t, "a name twice", mainOf(body), "there is a prompt new already", `href="#p-name"`); resp.StatusCode != 409 {
			t.Errorf("%d", resp.StatusCode)
		}
		body = h.has("/console/prompts/new/edit", 200, "\nSay {{hi}} to", `value="Ada, Ben"`, `name="base" value="1"`)
		edit := url.Values{"do": {"save"}, "base": {"1"}, "text": {"Bye."}, "number": {numberField.FindStringSubmatch(body)[1]}, "argument": {"hi"}}
		_, body = h.submit("/console/prompts/new/edit", edit)
		hasParts(t, "an argument that's gone", mainOf(body), "the argument hi is declared, but", "!value=\"hi\"")
		h.source.find("new").Newest++
		h.source.find("new").By = "Ben"
		edit["argument"], edit["number"] = nil, []string{"N5"}
		resp, body = h.submit("/console/prompts/new/edit", edit)
		hasParts(t, "a version of somebody else", mainOf(body), "Ben has written version 2", `href="/console/prompts/new/1..2"`, "\nBye.</textarea>", `name="base" value="2"`)
		edit["base"], edit["number"] = []string{"2"}, []string{"N6"}
		if again, _ := h.submit("/console/prompts/new/edit", edit); resp.StatusCode != 409 || again.StatusCode != 303 || h.source.find("new").Newest != 3 {
			t.Errorf("%d, then %d", resp.StatusCode, again.StatusCode)
		}
		_, body = h.submit("/console/prompts/new/edit", url.Values{"do": {"preview"}, "text": {"{{a}} {{b}}"}, "value.a": {"1"}})
		hasParts(t, "the preview", mainOf(body), "1 {{b}}", `name="argument" value="b"`, "!errs")
		h.has("/console/prompts/review/edit?from=1", 200, "\nLook at {{change}}.")
		h.has("/console/prompts/none/edit", 404)
	})
}

// TestStale looks at the pages while the database is away: they show what was read last and say so, and there are no
// buttons that write.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "kept")
		h.source.away = "The database can't be read."
		for page, want := range map[string]string{"/prompts": ">review<", "/prompts/review": "Look at {{change}}.", "/prompts/terms/instructions": "Say tool, and not function.", "/secrets": ">gh<", "/secrets/gh": ">files<"} {
			h.has("/console"+page, 200, "stale", "The database can&#39;t be read.", want, `!method="post"`, "!/edit", "!_new")
		}
		h.has("/console/prompts/review/1..2", 503, "The database can&#39;t be read.")
		if _, body := h.ask("GET", "/console/prompts/review?version=2"); !strings.Contains(body, "stale") || strings.Contains(body, "and be") {
			t.Errorf("a version that can't be read:\n%s", mainOf(body))
		}
	})
}
