package cli

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/relay/finder"
)

// These constants limit how long listWhole waits. A gateway lists only the tools of servers that
// are ready. If the gateway is Dragoman, it also reports which servers are missing from the list.
// Other gateways only send list_changed when another server becomes ready.
const (
	startWait = 30 * time.Second // the longest wait for servers that are starting
	growWait  = 3 * time.Second  // the longest wait for a list that is empty and may change
	listPoll  = 500 * time.Millisecond
)

// unansweredError says that a server is open, but did not list its items in time.
type unansweredError struct {
	server, kind string
	timeoutError
}

func (e unansweredError) Error() string {
	return "server " + strconv.Quote(e.server) + " is open, but did not answer " + runtime.ListMethod(e.kind) + " within " + e.after.String()
}

// listWhole lists the items of a server. If the server is a gateway whose own servers are still
// starting, listWhole lists the items again until the list is complete, the function enough returns
// true, or the time limit is reached. It does the same for an empty list that may change. If enough
// is nil, it has no effect.
func (c *client) listWhole(ctx context.Context, s Session, server, kind string, enough func(items [][]byte) bool) (runtime.List, error) {
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
			c.status.Step(server, "waiting for "+joinNames(l.Starting)+" to start")
		case len(l.Items)+len(l.Failed) == 0 && l.Changes:
			limit = growWait
		}
		if time.Since(began) >= limit {
			return l, nil
		}
		if work.Sleep(ctx, listPoll) != nil {
			return l, ctx.Err()
		}
	}
}

// joinNames joins server names for use in a sentence. It quotes names where needed, because the
// names come from a peer.
func joinNames(names []string) string {
	const most = 8
	var out []string
	for i, name := range names {
		if i == most {
			out = append(out, "and "+strconv.Itoa(len(names)-most)+" more")
			break
		}
		out = append(out, excerpt.Word(name, 100))
	}
	return strings.Join(out, ", ")
}

// errMissing reports that a list is empty because servers are missing from it.
var errMissing = errors.New("servers are missing from the list")

// missingError is an error that matches errMissing and names the missing servers.
type missingError struct{ text string }

func (e *missingError) Error() string        { return e.text }
func (e *missingError) Is(target error) bool { return target == errMissing }
func (e *missingError) Hint() string {
	return "check the log of the gateway (and /readyz if the gateway is Dragoman), then try again"
}

// whyMissing returns text that says which servers are missing and why. It returns "" if no server
// is missing.
func whyMissing(l runtime.List) string {
	var parts []string
	are := "is"
	if len(l.Starting) > 1 {
		are = "are"
	}
	if len(l.Starting) > 0 {
		parts = append(parts, joinNames(l.Starting)+" "+are+" still starting")
	}
	if len(l.Failed) > 0 {
		parts = append(parts, joinNames(l.Failed)+" could not be opened")
	}
	return strings.Join(parts, ", ")
}

// printList prints a list and names the servers that are missing from it. It returns a
// *missingError if the list is empty and servers are missing.
func (c *listCommand) printList(server string, l runtime.List) error {
	why := whyMissing(l)
	if len(l.Items) > 0 || c.asJSON {
		print := func() error { return c.printTable(rowsOf(c.kind, l.Items)) }
		if c.asJSON {
			print = func() error { return c.printItems(l.Items) }
		}
		if err := print(); err != nil {
			return err
		}
	}
	if !c.quiet {
		for _, line := range leftOutLines(l.LeftOut) {
			c.status.label(yellow, "note", line)
		}
		if c.foundAt != "" && c.kind == "tools" && searches(l.Items) {
			of := ""
			if c.project != "" {
				of = " --project " + shellWord(c.project)
			}
			c.status.label(yellow, "note", "clients list only these, and search all others; `dragoman list tools NAME"+of+"` lists those of a server, and --query finds them")
		}
	}
	switch {
	case len(l.Items) == 0 && why != "":
		return &missingError{server + " lists no " + c.kind + ": " + why}
	case c.quiet:
	case why != "":
		its := "its"
		if len(l.Starting)+len(l.Failed) > 1 {
			its = "their"
		}
		c.status.label(yellow, "note", why+"; "+its+" "+c.kind+" are missing from the list")
	case len(l.Items) > 0 || c.asJSON:
	case l.Changes:
		c.status.Printf("%s has no %s yet, but the list may change", server, c.kind)
	default:
		c.status.Printf("%s has no %s", server, c.kind)
	}
	return nil
}

// searches reports whether a list has the tools of search mode, so that it isn't all there is.
func searches(items [][]byte) bool {
	n := 0
	for _, raw := range items {
		if finder.Ours(textOf(raw, jsonrpc.Whole(raw), "name")) {
			n++
		}
	}
	return n == 4
}

// leftOutLines returns a line for each item that was left out of a list, up to mostLeftOut.
func leftOutLines(left map[string]string) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if len(lines) == mostLeftOut {
			return append(lines, "and "+strconv.Itoa(len(left)-mostLeftOut)+" more")
		}
		lines = append(lines, excerpt.Word(name, 100)+" is left out: "+clean(left[name]))
	}
	return lines
}

// mostLeftOut is the maximum number of items for which the output says why they are left out.
const mostLeftOut = 5

// hasNamed reports whether an item is called name.
func hasNamed(items [][]byte, name string) bool {
	for _, raw := range items {
		if textOf(raw, jsonrpc.Whole(raw), "name") == name {
			return true
		}
	}
	return false
}
