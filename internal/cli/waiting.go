package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/runtime"
)

// How long a list is waited for. A gateway lists what it has, and says which servers are
// missing in it if it is ours; another one only tells of changes.
const (
	startWait  = 30 * time.Second // for servers that are starting
	growWait   = 3 * time.Second  // for a list that is empty and may change
	askedAgain = 500 * time.Millisecond
)

// listWhole lists what a server has. Behind a gateway whose servers are starting it asks
// again until the list is whole, enough says that what there is will do, or the time is
// over. A nil enough wants all.
func (a *app) listWhole(ctx context.Context, s Session, server, kind string, enough func(items [][]byte) bool) (runtime.List, error) {
	began := time.Now()
	for {
		l, err := s.List(ctx, kind)
		if err != nil || enough != nil && enough(l.Items) {
			return l, err
		}
		limit := time.Duration(0)
		switch {
		case len(l.Starting) > 0:
			limit = startWait
			a.status.Step(server, "waiting for "+named(l.Starting)+" to start")
		case len(l.Items)+len(l.Failed) == 0 && l.Changes:
			limit = growWait
		}
		if time.Since(began) >= limit {
			return l, nil
		}
		t := time.NewTimer(askedAgain)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return l, ctx.Err()
		}
	}
}

// named joins server names that a peer sent, quoted where needed, for use in a
// sentence.
func named(names []string) string {
	const most = 8
	var out []string
	for i, name := range names {
		if i == most {
			out = append(out, strconv.Itoa(len(names)-most)+" more")
			break
		}
		out = append(out, excerpt.Word(name, 100))
	}
	return strings.Join(out, ", ")
}

// errMissing is the error for a list that is empty because servers are missing in it.
var errMissing = errors.New("servers are missing from the list")

// missingError says which servers are missing in an empty list.
type missingError struct{ text string }

func (e *missingError) Error() string        { return e.text }
func (e *missingError) Is(target error) bool { return target == errMissing }
func (e *missingError) Hint() string {
	return "check the log of the gateway (and /readyz, if it is Dragoman), then try again"
}

// whyMissing says which servers are missing and why, "" when none is.
func whyMissing(l runtime.List) string {
	var parts []string
	are := "is"
	if len(l.Starting) > 1 {
		are = "are"
	}
	if len(l.Starting) > 0 {
		parts = append(parts, named(l.Starting)+" "+are+" still starting")
	}
	if len(l.Failed) > 0 {
		parts = append(parts, named(l.Failed)+" could not be opened")
	}
	return strings.Join(parts, ", ")
}

// printList prints a list, and says what is missing in it. A list that is empty because
// servers are missing is an error.
func (a *app) printList(server, kind string, l runtime.List, asJSON bool) error {
	why := whyMissing(l)
	if len(l.Items) > 0 || asJSON {
		print := func() error { return a.printTable(rowsOf(kind, l.Items)) }
		if asJSON {
			print = func() error { return a.printItems(l.Items) }
		}
		if err := print(); err != nil {
			return err
		}
	}
	switch {
	case len(l.Items) == 0 && why != "":
		return &missingError{server + " lists no " + kind + ": " + why}
	case a.quiet:
	case why != "":
		its := "its"
		if len(l.Starting)+len(l.Failed) > 1 {
			its = "their"
		}
		a.status.label(yellow, "note", why+"; "+its+" "+kind+" are missing from the list")
	case len(l.Items) > 0 || asJSON:
	case l.Changes:
		a.status.Printf("%s has no %s yet, but the list may change", server, kind)
	default:
		a.status.Printf("%s has no %s", server, kind)
	}
	return nil
}

// hasNamed reports whether items have one of a name.
func hasNamed(items [][]byte, name string) bool {
	for _, raw := range items {
		if textOf(raw, jsonrpc.Whole(raw), "name") == name {
			return true
		}
	}
	return false
}
