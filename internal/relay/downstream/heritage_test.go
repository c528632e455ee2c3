package downstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/testkit/pipetest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// keeper is an Outbox that keeps what a client has set.
type keeper struct {
	answers
	extras func() []byte
}

func (*keeper) Keeps() bool                 { return true }
func (k *keeper) Keep(extras func() []byte) { k.extras = extras }

// TestHeritage lets a client subscribe to as many resources as it may, with the longest URIs. Another process watches all
// of them for it. They aren't requests of the client, of which a limit might refuse some.
func TestHeritage(t *testing.T) {
	before, after := &fakeHandler{}, &fakeHandler{}
	kept, out := &keeper{}, &keeper{}
	first := (&Endpoint{Handler: before}).Accept(transport.Peer{Transport: "http"}, kept).(*Session)
	say := func(id int, method, params string) {
		first.Request(t.Context(), transport.Incoming{Msg: pipetest.Scan(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))}, &answers{})
	}
	say(1, mcp.MethodInitialize, `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	var want []string
	for i := range mcp.MaxWatched {
		uri := fmt.Sprintf("x:%s%04d", strings.Repeat("-", mcp.MaxWatchedBytes/mcp.MaxWatched-6), i)
		want = append(want, uri)
		say(i+2, mcp.MethodSubscribe, `{"uri":"`+uri+`"}`)
	}
	second := (&Endpoint{Handler: after}).Accept(transport.Peer{Transport: "http"}, out).(*Session)
	_, restore, ok := second.Inherit(first.Facts(), kept.extras())
	if !ok || restore == nil {
		t.Fatalf("the session can't be inherited: %t", ok)
	}
	restore(t.Context())
	if !slices.Equal(after.restored, want) {
		t.Errorf("%d of %d resources are watched again", len(after.restored), len(want))
	}
	if len(after.calls) > 0 {
		t.Errorf("the client seems to have sent %d requests", len(after.calls))
	}
	if again, first := second.Extras(), kept.extras(); string(again) != string(first) {
		t.Errorf("the next process would get %d bytes of %d", len(again), len(first))
	}
	first.Close(nil)
	second.Close(nil)
}
