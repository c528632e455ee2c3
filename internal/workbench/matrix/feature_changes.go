package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

const (
	watched   = "fake://text"
	alsoThere = "fake://items/2"
)

func playSubscriptions(ctx context.Context, t *talk) error {
	if !t.c.Offers("resources", "subscribe") {
		return errors.New("the server does not declare resources.subscribe")
	}
	first, err := t.c.Subscribe(ctx, fake.Filter{URIs: []string{watched}})
	if err != nil {
		return err
	}
	second, err := t.c.Subscribe(ctx, fake.Filter{URIs: []string{alsoThere}})
	if err != nil {
		return err
	}
	for _, s := range []*fake.Subscription{first, second} {
		if len(s.Agreed().URIs) != 1 {
			return fmt.Errorf("the client subscribed to one resource, but the server acknowledged %d", len(s.Agreed().URIs))
		}
	}
	if _, err := t.touch(ctx, watched); err != nil {
		return err
	}
	if err := first.Close(ctx); err != nil {
		return err
	}
	// No client is subscribed to the first resource any more. When the notification about the
	// second resource arrives, a notification about the first one would already have arrived.
	after := t.c.Serial()
	if err := t.says(ctx, "touch", `{"uri":`+quote(watched)+`}`, "touched"); err != nil {
		return err
	}
	last, err := t.touch(ctx, alsoThere)
	if err != nil {
		return err
	}
	for _, n := range t.c.Notices()[after : last-1] {
		if n.Method == mcp.NoteResourceUpdated && t.Client.Can(mcp.Handshake) {
			// not an error for a modern client: earlier notifications may arrive after the end of a
			// listen
			return fmt.Errorf("the client got an update of %s after the subscription had ended", member(n.Params, "uri"))
		}
	}
	return second.Close(ctx)
}

// touch changes a resource and waits until the client is notified.
func (t *talk) touch(ctx context.Context, uri string) (serial int, err error) {
	after := t.c.Serial()
	if err := t.says(ctx, "touch", `{"uri":`+quote(uri)+`}`, "touched"); err != nil {
		return 0, err
	}
	n, err := t.c.Await(ctx, after, func(n fake.Notice) bool {
		return n.Method == mcp.NoteResourceUpdated && member(n.Params, "uri") == quote(uri)
	})
	if err != nil {
		return 0, fmt.Errorf("the client got no notification that %s has changed: %w", uri, err)
	}
	return n.Serial, nil
}

func playListChanged(ctx context.Context, t *talk) error {
	if !t.c.Offers("tools", "listChanged") {
		return errors.New("the server does not declare tools.listChanged")
	}
	s, err := t.c.Subscribe(ctx, fake.Filter{Tools: true})
	if err != nil {
		return err
	}
	if !s.Agreed().Tools {
		return errors.New("the server did not acknowledge notifications about tools")
	}
	for _, there := range []bool{true, false} { // the list first grows and then shrinks
		after := t.c.Serial()
		if _, err := t.tool(ctx, "grow", "{}", fake.CallOptions{}); err != nil {
			return err
		}
		_, err := t.c.Await(ctx, after, func(n fake.Notice) bool { return n.Method == mcp.NoteToolsChanged })
		if err != nil {
			return fmt.Errorf("the client got no notification that the list has changed: %w", err)
		}
		names, _, err := t.list(ctx, "tools/list", "tools", "name")
		if err != nil {
			return err
		}
		if slices.Contains(names, "grown") != there {
			return fmt.Errorf("the tool grown is in the list: %t, want %t; the tools in the list are %s", !there, there, strings.Join(names, " "))
		}
	}
	return s.Close(ctx)
}
