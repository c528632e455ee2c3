package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// FuzzGlance checks that no line is passed over that a query selects, whatever stands in it.
func FuzzGlance(f *testing.F) {
	for _, what := range []string{"", "add", "tools/call gh/add", "ok call", "CALL", "l", "kelvin", "\u00e9", "a\\b", "\"", "absent"} {
		f.Add("tools/call", "gh", "Add", "\u212aelvin \u00c9", "a\\b \"<c>", "", what, "ada", "shop")
		f.Add("tools/list", "", "", "", "", "denied", what, "", "")
		f.Add("tools/call", "gh", "add", "", "", "", what, "k:7", "lab")
	}
	f.Fuzz(func(t *testing.T, method, server, item, as, cause, kind, what, who, project string) {
		l := &Line{Seq: 7, At: time.Unix(1, 0).UTC(), Kind: kind, Who: "p:1", Name: "Ada", Seat: "k:7", Project: "shop", Server: server, Method: method, Item: item, As: as, Cause: cause, Outcome: "ok"}
		l.Args, _ = json.Marshal(map[string]string{"a": what, "name": who})
		raw, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var read Line
		if err := json.Unmarshal(raw, &read); err != nil {
			t.Fatal(err)
		}
		q := &Query{What: what, Who: who, Project: project, Name: func(subject string) string { return strings.TrimPrefix(subject, "k:") + "th key" }}
		if glanceOf(q).lacks(raw) && q.selectsLine(&read) {
			t.Errorf("%+v doesn't get %s", q, raw)
		}
	})
}

// TestGlance checks that most of what a query doesn't select isn't decoded.
func TestGlance(t *testing.T) {
	t.Parallel()
	const plain = `{"seq":1,"at":"2026-01-02T03:04:05.000Z","who":"p:1","name":"Ada","seat":"k:7","project":"shop","server":"gh","method":"tools/call","item":"Add","outcome":"ok"}`
	named := func(subject string) string { return map[string]string{"k:7": "laptop"}[subject] }
	for _, x := range []struct {
		q    Query
		line string
		want bool
	}{
		{Query{}, plain, false},
		{Query{What: "tools/call gh/add ok"}, plain, false},
		{Query{What: "call"}, strings.ReplaceAll(plain, "tools/call", "ping"), false},
		{Query{What: "remove"}, plain, true},
		{Query{What: "remove"}, strings.ReplaceAll(plain, "Add", `\u0041dd`), false},
		{Query{What: "remove"}, strings.ReplaceAll(plain, "Ada", "Zoé"), false},
		{Query{Who: "ada"}, plain, false},
		{Query{Who: "Laptop", Name: named}, plain, false},
		{Query{Who: "phone", Name: named}, plain, true},
		{Query{Who: "ok"}, plain, true},
		{Query{Project: "shop"}, plain, false},
		{Query{Project: "sho"}, plain, true},
	} {
		if got := glanceOf(&x.q).lacks([]byte(x.line)); got != x.want {
			t.Errorf("%q of %q in %q: %t for %s", x.q.What, x.q.Who, x.q.Project, got, x.line)
		}
	}
}
