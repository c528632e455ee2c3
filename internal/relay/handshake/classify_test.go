package handshake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

func TestUnsent(t *testing.T) {
	err := fmt.Errorf("%w: %w; %w", transport.ErrNotSent, &fs.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, io.EOF)
	if got := unsent(err); got != "could not send: the pipe to the server is broken" {
		t.Error(got)
	}
	err = fmt.Errorf("%w: no room", transport.ErrNotSent)
	if got := unsent(err); got != "could not send: no room" {
		t.Error(got)
	}
}

// fieldErrors are error objects that real servers send.
var fieldErrors = []struct {
	json     string
	kind     failureKind
	gated    bool
	versions []string
}{
	{json: `{"code":-32601,"message":"Method not found"}`, kind: notSupported},
	{json: `{"code":-32600,"message":"Invalid request: unknown variant ` + "`x`" + `, expected one of a, b"}`, kind: notSupported},
	{json: `{"code":-32600,"message":"Not initialized"}`, kind: notReady, gated: true},
	{json: `{"code":-32600,"message":"Invalid request: missing field ` + "`clientInfo`" + `"}`, kind: wrongParams},
	{json: `{"code":-32602,"message":"Invalid request parameters","data":""}`, kind: wrongParams},
	{json: `{"code":-32602,"message":"Received request before initialization was complete"}`, kind: notReady, gated: true},
	{json: `{"code":-32000,"message":"Client not initialized yet [abc]"}`, kind: notReady, gated: true},
	{json: `{"code":0,"message":"method \"tools/list\" is invalid during session initialization"}`, kind: notReady, gated: true},
	{json: `{"code":-32000,"message":"Bad Request: Server not initialized"}`, kind: notReady, gated: true},
	{json: `{"code":-32603,"message":"Client not initialized"}`, kind: notReady},
	{json: `{"code":-32603,"message":"database is not initialized"}`, kind: notReady},
	{json: `{"code":-32000,"message":"the printer is not ready"}`, kind: notReady},
	{json: `{"code":-32600,"message":"Already initialized"}`, kind: otherFailure},
	{json: `{"code":"INVALID_PROTOCOL_VERSION","message":"x","data":{"supported_versions":["2025-03-26"]}}`, kind: wrongVersion, versions: []string{"2025-03-26"}},
	{json: `{"code":-32602,"message":"Expected: 2025-03-26"}`, kind: wrongVersion, versions: []string{"2025-03-26"}},
	{json: `{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05"],"requested":"1.0.0"}}`, kind: wrongVersion, versions: []string{"2024-11-05"}},
	{json: `{"code":-32602,"message":"no","data":{"supported":"2025-06-18 and 2025-03-26"}}`, kind: wrongVersion, versions: []string{"2025-06-18", "2025-03-26"}},
	{json: `{"code":-32601,"message":"no such method","data":{"supported":["tools/list"]}}`, kind: notSupported, versions: []string{"tools/list"}},
	{json: `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}`, kind: wrongVersion, versions: []string{"2026-07-28"}},
	{json: `{"code":-32022,"message":"x"}`, kind: wrongVersion},
	{json: `{"code":-32020,"message":"Header mismatch: MCP-Protocol-Version is missing"}`, kind: otherFailure},
	{json: `{"code":-32000,"message":"The log of 2025-03-26 is unavailable"}`, kind: otherFailure},
	{json: `{"message":"no code"}`, kind: otherFailure},
	{json: `{}`, kind: otherFailure},
}

func TestReadFailure(t *testing.T) {
	for _, test := range fieldErrors {
		m := scan(t, `{"jsonrpc":"2.0","id":1,"error":`+test.json+`}`)
		f := readFailure(m)
		if f.kind != test.kind || !slices.Equal(f.versions, test.versions) {
			t.Errorf("%s is classified as %s with versions %v, want %s with %v", test.json, f.kind, f.versions, test.kind, test.versions)
		}
		if NotReady(m) != test.gated {
			t.Errorf("%s: NotReady is %t", test.json, NotReady(m))
		}
	}
	if NotReady(nil) || NotReady(scan(t, speaks("2025-11-25").msg)) {
		t.Error("a message that is not an error counts as not ready")
	}
}

func TestUntilReady(t *testing.T) {
	gate := scan(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Client not initialized yet"}}`)
	done := scan(t, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	broken := errors.New("broken")
	for _, test := range []struct {
		name    string
		answers []*jsonrpc.Message // nil means that send fails
		sends   int
		took    time.Duration
	}{
		{"at once", []*jsonrpc.Message{done}, 1, 0},
		{"after two waits", []*jsonrpc.Message{gate, gate, done}, 3, 250 * time.Millisecond},
		{"never", []*jsonrpc.Message{gate, gate, gate, gate}, 4, 1050 * time.Millisecond},
		{"broken", []*jsonrpc.Message{gate, nil}, 2, 50 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, sends := time.Now(), 0
			m, err := UntilReady(t.Context(), nil, NotReady, func() (*jsonrpc.Message, error) {
				a := test.answers[sends]
				sends++
				if a == nil {
					return nil, broken
				}
				return a, nil
			})
			last := test.answers[len(test.answers)-1]
			if m != last || (err != nil) != (last == nil) || sends != test.sends || time.Since(begun) != test.took {
				t.Errorf("%s: %v, %v after %d sends and %v", test.name, m, err, sends, time.Since(begun))
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if m, err := UntilReady(ctx, nil, NotReady, func() (*jsonrpc.Message, error) { return gate, nil }); m != gate || err != nil {
		t.Errorf("cancelled: %v, %v", m, err)
	}
}

func FuzzReadFailure(f *testing.F) {
	for _, e := range fieldErrors {
		f.Add([]byte(e.json))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := jsonrpc.Scan(slices.Concat([]byte(`{"jsonrpc":"2.0","id":1,"error":`), b, []byte("}")), jsonrpc.Limits{Tolerant: true})
		if err != nil || m.Kind != jsonrpc.Failure {
			return
		}
		got := readFailure(m)
		if len(got.text) > maxSaid || !utf8.ValidString(got.text) || len(got.versions) > maxVersions || got.kind > wrongVersion {
			t.Errorf("%+v", got)
		}
		for _, s := range append(got.versions, got.text, got.code, describe(m)) {
			checkPrintable(t, s)
		}
		if NotReady(m) && got.kind != notReady && got.kind != wrongVersion {
			t.Errorf("NotReady is true, but %s", got.kind)
		}
	})
}

func checkPrintable(t *testing.T, s string) {
	t.Helper()
	if excerpt.Line(s, len(s)+8) != s {
		t.Errorf("%q cannot be printed as it is", s)
	}
}

// parrot is a Link that answers each request with the next of its answers, in a loop.
type parrot struct {
	answers []*jsonrpc.Message
	n       int
}

func (p *parrot) answer() *jsonrpc.Message {
	p.n++
	return p.answers[p.n%len(p.answers)]
}

// FuzzOpen opens servers that send arbitrary answers. Open must end within its limits, with an
// Outcome or a printable *Error.
func FuzzOpen(f *testing.F) {
	for _, scenes := range [][]scene{t13, field, rules, dialects} {
		for _, s := range scenes {
			var a, b string
			for _, turn := range s.turns {
				if turn.msg != "" {
					a, b = b, turn.msg
				}
			}
			f.Add([]byte(a), []byte(b), s.offer.HTTP, uint8(s.offer.Known), uint8(s.offer.Pin))
		}
	}
	f.Fuzz(func(t *testing.T, a, b []byte, http bool, known, pin uint8) {
		var p parrot
		for _, raw := range [][]byte{a, b} {
			m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Tolerant: true})
			if err != nil || m.Kind != jsonrpc.Result && m.Kind != jsonrpc.Failure {
				return
			}
			p.answers = append(p.answers, m)
		}
		offer := Offer{HTTP: http, Wait: func(context.Context, time.Duration) error { return nil }}
		offer.Known, offer.Pin = revision(known), revision(pin)
		out, err := Open(t.Context(), &p, offer)
		var trace Trace
		var e *Error
		switch {
		case err == nil:
			trace = out.Trace
			if !out.Revision.Legacy() && !out.Revision.Modern() {
				t.Errorf("the revision is %s", out.Revision)
			}
			for _, raw := range [][]byte{out.Hello.Capabilities, out.Hello.Info, out.Hello.Instructions} {
				if raw != nil && jsonrpc.Valid(raw, jsonrpc.Limits{}) != nil {
					t.Errorf("the server information contains %q", raw)
				}
			}
			for _, x := range out.Findings {
				checkPrintable(t, x.Text)
			}
		case errors.As(err, &e):
			trace = e.Trace
			checkPrintable(t, e.Text)
		default:
			t.Fatalf("the error is a %T: %v", err, err)
		}
		checkTrace(t, trace)
	})
}

func (p *parrot) Exchange(context.Context, string, []byte, *transport.Rules) (*jsonrpc.Message, error) {
	return p.answer(), nil
}

func (p *parrot) Post(context.Context, string, []byte, *transport.Rules) error { return nil }

func revision(n uint8) mcp.Revision { return mcp.Revision(n % uint8(mcp.Latest+1)) }
