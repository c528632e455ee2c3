package handshake

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// announcer is a script that prints the status line {"event":"starting"} when it is opened.
type announcer struct{ *script }

func (announcer) OnStatus(f func(string)) {
	if f != nil {
		f("starting")
	}
}

// TestStatusLine checks a server that prints the status line of a wrapper around Codex. If the server
// then answers nothing, the handshake ends with the dialect after three seconds, in both eras. A server
// that answers is opened as a server of MCP, and so is a server whose dialect is configured.
func TestStatusLine(t *testing.T) {
	for name, c := range map[string]struct {
		offer  Offer
		turns  []turn
		cause  Cause // "" if the handshake succeeds
		within time.Duration
	}{
		"silent":              {turns: []turn{mute(mcp.MethodDiscover), mute(mcp.MethodInitialize)}, cause: CauseDialect, within: 3 * time.Second},
		"silent, legacy":      {offer: Offer{Known: old}, turns: []turn{mute(mcp.MethodInitialize)}, cause: CauseDialect, within: 3 * time.Second},
		"slow MCP":            {turns: []turn{unknown.in(2 * time.Second), speaks("2025-11-25").in(900 * time.Millisecond), initialized}, within: 3 * time.Second},
		"modern MCP":          {turns: []turn{discovered}},
		"silent, MCP is set":  {offer: Offer{Dialect: dialect.Lookup(dialect.Standard)}, turns: []turn{mute(mcp.MethodDiscover), mute(mcp.MethodInitialize)}, cause: CauseTimeout, within: 30 * time.Second},
		"exits after it":      {turns: []turn{dies(mcp.MethodDiscover)}, cause: CauseExited},
		"silent, pinned":      {offer: Offer{Pin: mcp.R20250618}, turns: []turn{mute(mcp.MethodInitialize)}, cause: CauseDialect, within: 3 * time.Second},
		"silent since probed": {turns: []turn{unknown, mute(mcp.MethodInitialize)}, cause: CauseDialect, within: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				_, err := Open(t.Context(), announcer{&script{t: t, turns: c.turns}}, c.offer)
				if took := time.Since(begun); took > c.within {
					t.Errorf("the handshake took %s, want at most %s", took, c.within)
				}
				var e *Error
				switch errors.As(err, &e); {
				case c.cause == "" && err != nil, c.cause != "" && (e == nil || e.Cause != c.cause):
					t.Fatalf("the error is %v, want the cause %q", err, c.cause)
				case c.cause == CauseDialect && (e.Dialect != dialect.CodexAppServer || !strings.Contains(e.Text, "--dialect codex-app-server")):
					t.Errorf("the dialect is %q, the text %q", e.Dialect, e.Text)
				}
			})
		})
	}
}

// TestInnerSteps checks that the trace and the error contain the steps of an adapter, and not the
// messages that only the adapter has received.
func TestInnerSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := Trace{{Sent: "initialize v2", Got: "no answer for 5s"}, {Sent: "initialize v1", Got: "no answer for 25s"}}
		_, err := Open(t.Context(), &script{t: t, turns: []turn{mute(mcp.MethodInitialize)}}, Offer{Pin: mcp.LatestLegacy, Inner: func() Trace { return steps }})
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Text, "sent initialize v1, got no answer for 25s") || strings.Contains(e.Trace.String(), "2025-11-25") || len(e.Trace) != 2 {
			t.Errorf("%v, trace:\n%s", err, e.Trace)
		}
	})
}
