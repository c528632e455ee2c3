package console

import (
	"slices"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
)

// TestButtonsOfASilentServer checks that a server that stops answering gets other buttons than a
// server that never started.
func TestButtonsOfASilentServer(t *testing.T) {
	n := &needs{operable: true}
	for state, want := range map[string]string{"unresponsive": "[View logs Restart]", "failed": "[Run doctor Restart]"} {
		got := "["
		for i, b := range n.buttons(&admin.Server{Name: "s", State: state, Failure: &failure.Failure{Class: failure.Silent}}) {
			if i > 0 {
				got += " "
			}
			got += b.Title
		}
		if got += "]"; got != want {
			t.Errorf("%s: %s, want %s", state, got, want)
		}
	}
}

// TestButtonStderr checks that only a failure with something from stderr offers to show it: a server whose
// variable is missing in the configuration has not even started.
func TestButtonStderr(t *testing.T) {
	for from, want := range map[failure.From]bool{failure.Stderr: true, failure.System: false, "": false} {
		f := &failure.Failure{Class: failure.MissingVariable, EvidenceFrom: from}
		found := slices.ContainsFunc((&needs{}).buttons(&admin.Server{Name: "s", State: "failed", Failure: f}), func(b button) bool { return b.Title == "Show stderr" })
		if found != want {
			t.Errorf("evidence from %q: the button is there: %v, want %v", from, found, want)
		}
	}
}

// TestNeedsInOrder checks that a refused configuration comes first: it affects all servers.
func TestNeedsInOrder(t *testing.T) {
	now := time.Now()
	got := ""
	for _, x := range (&needs{}).all(&admin.Report{
		Started: now.Add(-2 * time.Hour), Refusal: &admin.Refusal{Text: "it was refused", Since: now.Add(-time.Hour)},
		Servers: []admin.Server{
			{Name: "problem", State: "ready", Since: now, Failure: &failure.Failure{}}, {Name: "silent", State: "unresponsive", Since: now},
			{Name: "failed", State: "failed", Since: now.Add(-time.Minute)}, {Name: "new", State: "failed", Since: now},
			{Name: "sign-in", State: "failed", Since: now, Failure: &failure.Failure{Class: failure.NeedsSignIn}},
		},
		Parked: []admin.ParkedCall{{Server: "parked", Since: now.Add(-time.Hour)}},
	}) {
		got += x.Who + ", "
	}
	if want := "The configuration, new, failed, silent, problem, sign-in, parked, "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestEqualNeeds checks that servers with the same failure are one card, and other servers are not.
func TestEqualNeeds(t *testing.T) {
	failed := func(name, why string) admin.Server {
		return admin.Server{Name: name, State: "failed", Failure: &failure.Failure{Class: failure.CommandNotFound, Sentence: `server "` + name + `": ` + why}}
	}
	all := (&needs{operable: true}).all(&admin.Report{Servers: []admin.Server{failed("a", "no npx"), failed("b", "no npx"), failed("c", "no uvx"), failed("d", "no npx")}})
	if len(all) != 2 || all[0].Who != "a" || all[0].Count != 3 || len(all[0].Others) != 2 || all[0].Others[1].Title != "d" || len(all[0].Buttons) != 0 || all[1].Count != 1 || len(all[1].Buttons) == 0 {
		t.Errorf("got %+v", all)
	}
}
