package console

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// testRules are the rules of a test's source. A change makes a new version, as in the store.
type testRules struct {
	home    string
	version int
	own     []admin.RuleEntry
	house   []admin.RuleEntry
	effect  admin.RuleEffect
	text    string // stands in all names
	did     []string
	before  func(*testRules) // happens once before a change, as if somebody else had done it
}

var testRulesLock sync.Mutex

// someRules are rules of each kind.
func someRules(home, text string) testRules {
	t := testRules{home: home, version: 1, text: text, own: []admin.RuleEntry{
		{Match: []string{"git/push" + text}, Who: &admin.RuleWho{Keys: []string{"nightly" + text}, People: []string{"Ada"}, Roles: []string{"operator"}}, Do: "confirm"},
		{Match: []string{"git/log"}, As: &admin.RuleAs{Name: "history", Title: "History" + text, Description: "d" + text, Annotations: map[string]bool{"readOnlyHint": true}}},
		{Match: []string{"git/*", "git/prompt:x"}, Do: "deny"},
	}}
	t.own[0].Warnings = []string{"No API key has the name \"nightly" + text + "\"."}
	t.house = []admin.RuleEntry{{RulePlace: admin.RulePlace{Project: "house", Number: 2, Path: "dragoman.policy[1]", File: "/x/dragoman.yaml", Line: 7}, Match: []string{"git/rm"}, Who: &admin.RuleWho{Hidden: true}, Do: "deny"}}
	t.effect = admin.RuleEffect{Changes: []admin.RuleOutcome{{Becomes: "hidden", Items: 14, Tools: 14, Tokens: 5200, Keys: 3, Some: []string{"git/push" + text}, Names: []admin.RuleAffected{{Kind: "key", Name: "nightly" + text, ID: "k1"}}}}}
	return t
}

// ruleIDs returns the ids of some of someRules.
func ruleIDs(which ...int) string {
	var ids []string
	own := someRules("store", "").own
	for _, i := range which {
		ids = append(ids, own[i].ID())
	}
	return strings.Join(ids, ",")
}

// rulesMoved is the rest of an address in which the last rule moves up.
var rulesMoved = ruleIDs(0, 1, 2) + "&move=" + ruleIDs(2) + ".up"

func (t *testRules) now() admin.Rules {
	testRulesLock.Lock()
	defer testRulesLock.Unlock()
	return t.rules()
}

func (t *testRules) rules() admin.Rules {
	out := admin.Rules{Project: "own", Home: t.home, ETag: strconv.Quote(strconv.Itoa(t.version)), Rules: []admin.RuleEntry{}}
	if out.Home != "store" {
		out.Home, out.ETag, out.File = "file", "", "/x/dragoman.yaml"
	}
	for i, x := range t.own {
		x.RulePlace = admin.RulePlace{Project: "own", Number: i + 1, Path: "policy[" + strconv.Itoa(i) + "]"}
		if out.File != "" {
			x.File, x.Line = out.File, i+3
		}
		out.Rules = append(out.Rules, x)
	}
	out.Rules = append(out.Rules, t.house...)
	return out
}

func (t *testRules) change(c admin.RuleChange) (out admin.ChangedRules, bad *admin.Problem) {
	testRulesLock.Lock()
	defer testRulesLock.Unlock()
	if f := t.before; f != nil && !c.Check {
		t.before = nil
		f(t)
	}
	now := t.rules()
	if t.home == "store" && c.ETag != now.ETag {
		return out, &admin.Problem{Status: 412, Title: "Somebody has changed the project meanwhile", Detail: "Nothing was changed."}
	}
	own, at := slices.Clone(t.own), slices.IndexFunc(t.own, func(x admin.RuleEntry) bool { return x.ID() == c.ID })
	switch {
	case (c.Do == admin.RuleEdit || c.Do == admin.RuleRemove) && at < 0:
		return out, &admin.Problem{Status: 404, Title: "No such rule", Detail: "There is none."}
	case c.Do != admin.RuleRemove && c.Do != admin.RuleOrder && len(c.Rule.Match) > 0 && c.Rule.Match[0] == "wrong":
		return out, &admin.Problem{Status: 422, Title: "These rules can't be used", Detail: `Line 1: policy[0].match[0]: "wrong" can never match; write SERVER/TOOL.`}
	case c.Do == admin.RuleAdd && c.At > 0 && c.At <= len(own):
		own = slices.Insert(own, c.At-1, c.Rule)
	case c.Do == admin.RuleAdd:
		own = append(own, c.Rule)
	case c.Do == admin.RuleEdit:
		own[at] = c.Rule
	case c.Do == admin.RuleRemove:
		own = slices.Delete(own, at, at+1)
	default:
		own = own[:0]
		for _, id := range c.Order {
			own = append(own, t.own[slices.IndexFunc(t.own, func(x admin.RuleEntry) bool { return x.ID() == id })])
		}
	}
	out.Before, out.After, out.Own = "- old"+t.text+"\n", "- new"+t.text+"\n", "- match: git/x\n"
	if c.Check {
		effect := t.effect
		out.Effect = &effect
		out.Rules = now
		return out, nil
	}
	t.own = own
	t.version++
	t.did = append(t.did, fmt.Sprint(c.Do, " ", c.Rule.Match, c.Rule.Do))
	out.Written, out.Rules = true, t.rules()
	return out, nil
}

func (t *testRules) uses(who *identity.Principal, item, text string, from, limit int) admin.ToolUses {
	place := &admin.RulePlace{Project: "own", Number: 1, Path: "policy[0]"}
	out := admin.ToolUses{Item: item, Knows: who == identity.Local || who.Subject == "admin", Bare: []admin.RuleUse{
		{Kind: "role", Name: "caller", RuleDecision: admin.RuleDecision{Do: "deny", By: "rule", Why: "rule 1, git/*", Place: place}},
		{Kind: "local", Name: "local", RuleDecision: admin.RuleDecision{Do: "allow", Why: "no rule"}},
	}}
	if !out.Knows {
		return out
	}
	if t.home != "" {
		out.All = 120
	}
	var fit []admin.RuleUse
	for i := range out.All {
		if x := (admin.RuleUse{Kind: "key", Name: fmt.Sprintf("key-%03d", i) + t.text, ID: "k1", RuleDecision: admin.RuleDecision{Do: "confirm", Why: "rule 1, git/*", Place: place}}); strings.Contains(x.Name, text) {
			fit = append(fit, x)
		}
	}
	out.Total = len(fit)
	out.Named = fit[min(from, len(fit)):min(from+limit, len(fit))]
	return out
}

func (t *testRules) view(kind, name string) (admin.RuleView, *admin.Problem) {
	if name != "k1" || kind == "person" {
		return admin.RuleView{}, &admin.Problem{Status: 404, Title: "No such key or person", Detail: "No key and no person of the project has the name or the id " + strconv.Quote(name) + "."}
	}
	out := admin.RuleView{Kind: "key", Name: "nightly" + t.text, ID: name, Unread: []string{"slow" + t.text}}
	for i := range 60 {
		out.Items = append(out.Items, admin.RuleItem{Server: "git", Item: fmt.Sprintf("tool-%02d", i) + t.text, Offered: "git__x" + t.text, RuleDecision: admin.RuleDecision{Do: []string{"allow", "confirm", "deny"}[i%3], Why: "no rule" + t.text}})
	}
	return out, nil
}

// hiddenField matches a hidden field of a form, as these pages write them.
var hiddenField = regexp.MustCompile(`<input type="hidden" name="([a-z]+)" value="([^"]*)">`)

// fieldsOf returns the hidden fields of the form that a page posts to a path.
func fieldsOf(body, action string) url.Values {
	q := url.Values{}
	_, rest, _ := strings.Cut(body, `method="post" action="`+action+`"`)
	rest, _, _ = strings.Cut(rest, "</form>")
	for _, m := range hiddenField.FindAllStringSubmatch(rest, -1) {
		q.Set(m[1], html.UnescapeString(m[2]))
	}
	return q
}

// postRule sends a form of these pages.
func (h *testConsole) postRule(path string, q url.Values, more ...string) (*http.Response, string) {
	h.t.Helper()
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return h.post(path, q.Encode())
}

// TestRuleEditor adds, changes, removes and orders rules: nothing is saved before its effect was shown, a form that is sent
// twice acts once, and what hides everything needs words.
func TestRuleEditor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "rules")
		did := func() string { return strings.Join(h.source.rules.did, "; ") }
		_, body := h.ask("GET", "/console/rules/edit")
		q := fieldsOf(body, "/console/rules/edit")
		q["match"], q["what"], q["at"] = []string{"git/x\r\n\r\n git/y "}, []string{"deny"}, []string{"1"}
		resp, body := h.postRule("/console/rules/edit", q, "save", "1")
		if resp.StatusCode != 200 || did() != "" || !strings.Contains(textOf(body), "Hides 14 tools from 3 keys, saves 5,200 tokens") || !strings.Contains(body, "Nothing is saved yet") {
			t.Fatalf("saved what nobody has seen: %d %s\n%s", resp.StatusCode, did(), textOf(body))
		}
		seen := fieldsOf(body, "/console/rules/edit")
		seen["match"], seen["what"], seen["at"] = q["match"], q["what"], q["at"]
		for range 2 {
			if resp, body := h.postRule("/console/rules/edit", seen, "save", "1"); resp.StatusCode != 303 {
				t.Fatalf("%d %s", resp.StatusCode, textOf(body))
			}
		}
		if did() != "add [git/x git/y]deny" || len(h.source.rules.own) != 4 || h.source.rules.own[0].Match[0] != "git/x" {
			t.Fatal(did())
		}

		// A rule of the list, whose effect is that nothing is left.
		h.source.rules.effect.Emptied = true
		_, body = h.ask("GET", "/console/rules/edit?rule="+ruleIDs(0))
		if !strings.Contains(body, ">nightly</textarea>") || !strings.Contains(body, `value="operator" checked`) {
			t.Error(body)
		}
		edit := fieldsOf(body, "/console/rules/edit")
		_, body = h.postRule("/console/rules/edit", edit, "match", "*", "what", "deny", "try", "1")
		edit = fieldsOf(body, "/console/rules/edit")
		if !strings.Contains(body, everythingWords) {
			t.Error("no warning")
		}
		resp, body = h.postRule("/console/rules/edit", edit, "match", "*", "what", "deny", "save", "1")
		if resp.StatusCode != 403 || !strings.Contains(body, "Nothing has been done yet") || strings.Contains(did(), "edit") {
			t.Errorf("%d %s", resp.StatusCode, did())
		}
		edit = fieldsOf(body, "/console/rules/edit")
		if resp, _ := h.postRule("/console/rules/edit", edit, "match", "*", "what", "deny", "save", "1", "everything", " Hide  everything"); resp.StatusCode != 303 || !strings.HasSuffix(did(), "edit [*]deny") {
			t.Errorf("%d %s", resp.StatusCode, did())
		}
		h.source.rules.effect.Emptied = false

		_, body = h.ask("GET", "/console/rules/edit?do=remove&rule="+ruleIDs(2))
		gone := fieldsOf(body, "/console/rules/edit")
		if resp, _ := h.postRule("/console/rules/edit", gone, "save", "1"); resp.StatusCode != 303 || !strings.HasSuffix(did(), "remove []deny") || len(h.source.rules.own) != 3 {
			t.Errorf("%d %s", resp.StatusCode, did())
		}
		resp, body = h.postRule("/console/rules/edit", url.Values{"match": {"wrong"}, "what": {"deny"}, "do": {"add"}, "etag": {`"4"`}, "number": {"n"}}, "try", "1")
		if resp.StatusCode != 422 || !strings.Contains(textOf(body), `"wrong" can never match; write SERVER/TOOL.`) || strings.Contains(textOf(body), "policy[0]") || !strings.Contains(body, `href="#r-match"`) {
			t.Errorf("%d %s", resp.StatusCode, textOf(body))
		}

		// The first rule of a project, from the link that Tools has.
		h.source.rules.own = nil
		_, body = h.ask("GET", "/console/rules/edit?match=git%2Fz&what=deny&at=1")
		if resp, _ := h.postRule("/console/rules/edit", fieldsOf(body, "/console/rules/edit"), "match", "git/z", "what", "deny", "at", "", "save", "1"); resp.StatusCode != 303 || !strings.HasSuffix(did(), "add [git/z]deny") {
			t.Errorf("%d %s", resp.StatusCode, did())
		}
	})
}

// TestRuleOrder moves rules up and down without the module. The order is in the address, and saved with its effect.
func TestRuleOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "rules")
		_, body := h.ask("GET", "/console/rules?order="+rulesMoved)
		if !strings.Contains(body, "This order isn&#39;t saved yet") && !strings.Contains(body, "This order isn't saved yet") || !strings.Contains(body, `name="order" value="`+ruleIDs(0, 2, 1)+`"`) || !strings.Contains(body, `value="`+ruleIDs(2)+`.up" aria-label="Move rule 2 up" autofocus`) {
			t.Fatal(textOf(body))
		}
		_, body = h.ask("GET", "/console/rules?order="+ruleIDs(0, 2, 1)+"&move="+ruleIDs(2)+".up")
		if !strings.Contains(body, `value="`+ruleIDs(2)+`.down" aria-label="Move rule 1 down" autofocus`) {
			t.Error("a rule that is at the top has lost the focus")
		}
		if _, low := h.ask("GET", "/console/rules?move="+ruleIDs(1)+".down"); !strings.Contains(low, `value="`+ruleIDs(1)+`.up" aria-label="Move rule 3 up" autofocus`) {
			t.Error("a rule that is at the bottom has lost the focus")
		}
		q := fieldsOf(body, "/console/rules")
		h.source.rules.before = func(x *testRules) { // somebody else adds a rule at the top
			x.own, x.version = slices.Insert(x.own, 0, admin.RuleEntry{Match: []string{"git/new"}, Do: "allow"}), x.version+1
		}
		resp, body := h.postRule("/console/rules", q)
		if resp.StatusCode != 412 || !strings.Contains(textOf(body), "somebody has changed the rules meanwhile") {
			t.Fatalf("%d %s", resp.StatusCode, textOf(body))
		}
		again := fieldsOf(body, "/console/rules")
		if resp, body := h.postRule("/console/rules", again); resp.StatusCode != 303 {
			t.Fatalf("%d %s", resp.StatusCode, textOf(body))
		}
		now := h.source.rules.rules()
		if got := idsOf(h.source.rules.own[1:]); got != ruleIDs(2, 0, 1) || now.Rules[0].Match[0] != "git/new" {
			t.Error(got)
		}
		if resp, _ := h.postRule("/console/rules", url.Values{"number": {"x"}}); resp.StatusCode != 400 {
			t.Error(resp.StatusCode)
		}
	})
}

// TestRuleOfTwoPeople changes a rule that somebody else changes meanwhile: the page shows both versions, and what was
// typed isn't lost.
func TestRuleOfTwoPeople(t *testing.T) {
	for name, c := range map[string]struct {
		theirs func(*testRules)
		want   string
	}{
		"the same rule": {func(x *testRules) { x.own[2].Match, x.own[2].Do = []string{"git/theirs"}, "confirm" }, "git/theirs"},
		"another rule":  {func(x *testRules) { x.own[0].Do = "allow" }, "This rule is as it was"},
		"removed":       {func(x *testRules) { x.own = x.own[:2] }, "They have removed this rule"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := stage(t, "rules")
				_, body := h.ask("GET", "/console/rules/edit?rule="+ruleIDs(2))
				_, body = h.postRule("/console/rules/edit", fieldsOf(body, "/console/rules/edit"), "match", "git/mine", "what", "allow", "try", "1")
				h.source.rules.before = func(x *testRules) { c.theirs(x); x.version++ }
				resp, body := h.postRule("/console/rules/edit", fieldsOf(body, "/console/rules/edit"), "match", "git/mine", "what", "allow", "save", "1")
				if resp.StatusCode != 412 || !strings.Contains(textOf(body), c.want) || !strings.Contains(body, ">git/mine</textarea>") || len(h.source.rules.did) > 0 {
					t.Fatalf("%d %s", resp.StatusCode, textOf(body))
				}
				again := fieldsOf(body, "/console/rules/edit")
				resp, body = h.postRule("/console/rules/edit", again, "match", "git/mine", "what", "allow", "save", "1")
				if resp.StatusCode != 303 || !slices.ContainsFunc(h.source.rules.own, func(x admin.RuleEntry) bool { return x.Match[0] == "git/mine" && x.Do == "allow" }) {
					t.Fatalf("%d %s", resp.StatusCode, textOf(body))
				}
			})
		})
	}
}

// TestRulesOfTheFile looks at rules that the console doesn't write: they have their line, and their text to change.
func TestRulesOfTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "rulesOfFile")
		_, body := h.ask("GET", "/console/rules")
		if text := textOf(body); !strings.Contains(text, "dragoman.yaml:3") || !strings.Contains(text, "match: git/push") {
			t.Error(text)
		}
		_, body = h.ask("GET", "/console/rules?order="+rulesMoved)
		if strings.Contains(body, "Save the order") || !strings.Contains(textOf(body), "Text to change in dragoman.yaml") {
			t.Error(textOf(body))
		}
		_, body = h.ask("GET", "/console/rules/edit?match=git%2Fx&what=deny")
		if strings.Contains(body, `name="save"`) || !strings.Contains(textOf(body), "Text to change") || !strings.Contains(textOf(body), "Hides 14 tools") {
			t.Error(textOf(body))
		}
	})
}

// TestWhoSeesATool looks at a tool's page as an admin and as an operator, who learns no name of a key or a person.
func TestWhoSeesATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, local := stage(t, "rules"), identity.Admin
		h.graded(&local)
		h.source.tools = []admin.ToolDetail{{Tool: admin.Tool{Server: "git", Name: "push", State: "shown"}}}
		const page = "/console/servers/git/tools/push"
		_, body := h.ask("GET", page+"?page=3")
		if !strings.Contains(body, "key-119") || strings.Contains(body, "key-099") || !strings.Contains(body, "page=2#who") {
			t.Error(textOf(body))
		}
		if _, body = h.ask("GET", page+"?who=key-01"); !strings.Contains(body, "key-019") || strings.Contains(body, "key-020") {
			t.Error(textOf(body))
		}
		for _, role := range []string{"operator", "viewer"} {
			if _, body = h.ask("GET", page, "Cookie", h.cookieOf(role)); strings.Contains(body, "key-0") || !strings.Contains(textOf(body), "An admin also sees which keys and people") {
				t.Errorf("%s: %s", role, textOf(body))
			}
		}
		_, body = h.ask("GET", "/console/rules/sees?key=k1&may=asked&q=tool-1")
		if text := textOf(body); !strings.Contains(text, "sees 40 of 60 items") || !strings.Contains(text, "tool-10") || strings.Contains(text, "tool-11") || strings.Contains(text, "tool-40") {
			t.Error(text)
		}
	})
}

// TestToolSwitches looks at the switches of the list of tools: in a project of the store they write a rule, or remove the
// one that hides just this tool.
func TestToolSwitches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, local := stage(t, "rules"), identity.Admin
		h.graded(&local)
		h.source.rules.own = append(h.source.rules.own, admin.RuleEntry{Match: []string{"git/rm"}, Do: "deny"})
		hidden := func(name, why, rule string) admin.ToolDetail {
			return admin.ToolDetail{Tool: admin.Tool{Server: "git", Name: name, State: "hidden", Hidden: []admin.Hidden{{Endpoint: "/mcp", Why: why, Rule: rule}, {Endpoint: "/s/git/mcp", Why: why, Rule: rule}}}}
		}
		h.source.tools = []admin.ToolDetail{
			{Tool: admin.Tool{Server: "git", Name: "push", State: "shown"}}, hidden("rm", "rule 4 of own, git/rm, denies it to everybody", ""),
			hidden("other", "rule 3 of own, git/*, denies it to everybody", ""), hidden("set", "the configuration denies it", "expose.tools.deny: set"),
		}
		_, body := h.ask("GET", "/console/tools?server=git&q=")
		for name, want := range map[string]string{
			"Disable push": "/console/rules/edit?at=1&amp;match=git%2Fpush&amp;what=deny", "Enable rm": "/console/rules/edit?do=remove&amp;rule=" + h.source.rules.own[3].ID(), "Enable other": "/console/rules/edit?at=1&amp;match=git%2Fother&amp;what=allow",
		} {
			if !strings.Contains(body, `href="`+want+`" aria-label="`+name+` of git"`) {
				t.Errorf("%s isn't there:\n%s", name, body)
			}
		}
		if strings.Contains(body, "Enable set") || !strings.Contains(body, `name="match" value="git/*"`) {
			t.Error("the switch of a tool that expose hides, or no pattern")
		}
		if _, body = h.ask("GET", "/console/tools", "Cookie", h.cookieOf("viewer")); strings.Contains(body, "Disable push") {
			t.Error("a viewer has a switch")
		}
	})
}
