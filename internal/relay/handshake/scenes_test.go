package handshake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// scene describes a server, the offer to it, and the expected outcome.
type scene struct {
	name  string
	offer Offer
	turns []turn

	rev      mcp.Revision // the expected revision; Unknown means that an error is expected
	forget   bool         // Remember must be false for the Outcome, or true for the Error
	findings []string
	cause    Cause
	is       error // the error that Open's error must wrap

	push    string        // an unsolicited result
	pushAt  time.Duration // time of push, from the start
	dialect string        // the detected dialect, "" for MCP
	tools   int           // number of tools that came with the handshake
}

var (
	web   = Offer{HTTP: true}
	pipe  = Offer{}
	modal = mcp.R20260728
	old   = mcp.R20251125
)

const (
	discover = mcp.MethodDiscover
	initial  = mcp.MethodInitialize
)

// t13 contains handshakes that must end in the right era. For an unclear result, Remember must
// return false.
var t13 = []scene{
	{name: "http, discovered", offer: web, turns: []turn{discovered}, rev: modal},
	{name: "http, -32601 at 200", offer: web, turns: []turn{unknown, speaks("2025-11-25"), initialized}, rev: old},
	{name: "http, -32601 at 400", offer: web, turns: []turn{unknown.with(400), speaks("2025-11-25"), initialized}, rev: old},
	{name: "http, -32601 at 404", offer: web, turns: []turn{unknown.with(404), speaks("2025-11-25"), initialized}, rev: old},
	{name: "http, -32602 at 200", offer: web, turns: []turn{errorTo(discover, `{"code":-32602,"message":"Invalid request parameters"}`), speaks("2025-06-18"), initialized}, rev: mcp.R20250618},
	{name: "http, -32602 at 400", offer: web, turns: []turn{errorTo(discover, `{"code":-32602,"message":"Invalid request parameters"}`).with(400), speaks("2025-06-18"), initialized}, rev: mcp.R20250618},
	{name: "http, -32000 at 400 with id null", offer: web, turns: []turn{
		{to: discover, status: 400, msg: `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}`},
		speaks("2025-11-25"), initialized,
	}, rev: old},
	{name: "http, 405", offer: web, turns: []turn{page(discover, 405), speaks("2025-03-26"), initialized}, rev: mcp.R20250326},
	{name: "http, HTML 404", offer: web, turns: []turn{page(discover, 404), speaks("2025-03-26"), initialized}, rev: mcp.R20250326},
	{name: "http, HTML 404 and then SSE", offer: web, turns: []turn{page(discover, 404), page(initial, 404)}, cause: CauseRefused, is: ErrTrySSE},
	{name: "http, 405 and then SSE", offer: web, turns: []turn{page(discover, 405), page(initial, 405)}, cause: CauseRefused, is: ErrTrySSE},
	{name: "http, 401", offer: web, turns: []turn{page(discover, 401)}, cause: CauseAuth},
	{name: "http, 403", offer: web, turns: []turn{page(discover, 403)}, cause: CauseAuth},
	{name: "http, 407", offer: web, turns: []turn{page(discover, 407)}, cause: CauseAuth},
	{name: "http, 401 at initialize", offer: web, turns: []turn{unknown.with(404), page(initial, 401)}, cause: CauseAuth},
	{name: "http, 429", offer: web, turns: []turn{{to: discover, status: 429, retry: 7 * time.Second}}, cause: CauseRateLimited},
	{name: "http, 503", offer: web, turns: []turn{{to: discover, status: 503, retry: 2 * time.Minute}}, cause: CauseUnavailable},
	{name: "http, 503 without a time", offer: web, turns: []turn{page(discover, 503)}, cause: CauseUnavailable},
	{name: "http, 408", offer: web, turns: []turn{page(discover, 408), speaks("2025-11-25"), initialized}, rev: old, forget: true},
	{name: "http, 500", offer: web, turns: []turn{page(discover, 500), speaks("2025-11-25"), initialized}, rev: old, forget: true},
	{name: "http, 500 with an error in it", offer: web, turns: []turn{errorTo(discover, `{"code":-32603,"message":"boom"}`).with(500), speaks("2025-11-25"), initialized}, rev: old, forget: true},
	{name: "http, 500 throughout", offer: web, turns: []turn{page(discover, 500), page(initial, 500)}, cause: CauseServerError},
	{name: "http, silence", offer: web, turns: []turn{mute(discover), speaks("2025-11-25"), initialized}, rev: old, forget: true, findings: []string{FoundSilentProbe}},
	{name: "http, silence throughout", offer: web, turns: []turn{mute(discover), mute(initial)}, cause: CauseTimeout, is: context.DeadlineExceeded},
	{name: "http, supportedVersions without a modern one", offer: web, turns: []turn{
		result(discover, `{"supportedVersions":["2025-06-18","2025-03-26"],"capabilities":{}}`), speaks("2025-06-18"), initialized,
	}, rev: mcp.R20250618},
	{name: "http, supportedVersions from the future", offer: web, turns: []turn{
		result(discover, `{"supportedVersions":["2031-01-01"],"capabilities":{}}`), speaks("2025-11-25"), initialized,
	}, rev: old},
	{name: "http, modern error at 400", offer: web, turns: []turn{
		errorTo(discover, `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}`).with(400),
	}, rev: modal, findings: []string{FoundUndiscovered}},
	{name: "http, header mismatch at 400", offer: web, turns: []turn{
		errorTo(discover, `{"code":-32020,"message":"Header mismatch"}`).with(400),
	}, rev: modal, findings: []string{FoundUndiscovered}},
	{name: "http, missing capability at 400", offer: web, turns: []turn{
		errorTo(discover, `{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"sampling":{}}}}`).with(400),
	}, rev: modal, findings: []string{FoundUndiscovered}},
	{name: "http, modern error with legacy versions", offer: web, turns: []turn{
		errorTo(discover, `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2025-06-18"]}}`).with(400),
		speaks("2025-06-18"), initialized,
	}, rev: mcp.R20250618},
	{name: "http, modern error from the future", offer: web, turns: []turn{
		errorTo(discover, `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2031-01-01","2030-01-01"]}}`).with(400),
	}, cause: CauseNoCommonVersion},
	{name: "http, 200 and a web page", offer: web, turns: []turn{page(discover, 200), page(initial, 200)}, cause: CauseBadAnswer}, // a web page with status 200 proves nothing, so initialize is also tried

	{name: "http, broken connection", offer: web, turns: []turn{dies(discover), speaks("2025-11-25"), initialized}, rev: old, forget: true},
	{name: "http, no connection", offer: web, turns: []turn{{to: discover, err: fmt.Errorf("%w: %w", transport.ErrNotSent, &net.OpError{
		Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}, Err: os.NewSyscallError("connect", errors.New("connection refused")),
	})}}, cause: CauseUnreachable},
	{name: "http, no trust", offer: web, turns: []turn{{to: discover, err: fmt.Errorf("%w: %w", transport.ErrNotSent, errors.New("tls: failed to verify certificate"))}}, cause: CauseUnreachable},

	{name: "stdio, discovered", offer: pipe, turns: []turn{discovered}, rev: modal},
	{name: "stdio, -32601", offer: pipe, turns: []turn{unknown, speaks("2025-11-25"), initialized}, rev: old},
	{name: "stdio, -32602", offer: pipe, turns: []turn{errorTo(discover, `{"code":-32602,"message":"Invalid request parameters","data":""}`), speaks("2025-06-18"), initialized}, rev: mcp.R20250618},
	{name: "stdio, -32000", offer: pipe, turns: []turn{errorTo(discover, `{"code":-32000,"message":"not initialized"}`), speaks("2024-11-05"), initialized}, rev: mcp.R20241105},
	{name: "stdio, silence", offer: pipe, turns: []turn{mute(discover), speaks("2025-11-25"), initialized}, rev: old, forget: true, findings: []string{FoundSilentProbe}},
	{name: "stdio, silence throughout", offer: pipe, turns: []turn{mute(discover), mute(initial)}, cause: CauseTimeout},
	{name: "stdio, supportedVersions without a modern one", offer: pipe, turns: []turn{
		result(discover, `{"supportedVersions":["2024-11-05"],"capabilities":{}}`), speaks("2024-11-05"), initialized,
	}, rev: mcp.R20241105},
	{name: "stdio, modern error", offer: pipe, turns: []turn{
		errorTo(discover, `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28","2025-11-25"],"requested":"x"}}`),
	}, rev: modal, findings: []string{FoundUndiscovered}},
	{name: "stdio, modern error without a list", offer: pipe, turns: []turn{
		errorTo(discover, `{"code":-32022,"message":"Unsupported protocol version"}`), speaks("2025-11-25"), initialized,
	}, rev: old},
	{name: "stdio, a manifest for an answer", offer: pipe, turns: []turn{
		result(discover, `{"tools":[{"name":"x"}]}`), speaks("2025-11-25"), initialized,
	}, rev: old},
	{name: "stdio, an array for an answer", offer: pipe, turns: []turn{result(discover, `[]`), speaks("2025-11-25"), initialized}, rev: old},
	{name: "stdio, an unreadable answer", offer: pipe, turns: []turn{
		{to: discover, err: &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "duplicate member name"}}, speaks("2025-11-25"), initialized,
	}, rev: old, forget: true},
	{name: "stdio, dies on the probe", offer: pipe, turns: []turn{dies(discover)}, cause: CauseExited, is: ErrDiedOnProbe, forget: true},
	{name: "stdio, dies on a probe that it reads late", offer: pipe, turns: []turn{mute(discover), dies(initial)}, cause: CauseExited, is: ErrDiedOnProbe, forget: true},
	{name: "stdio, dies on it after initialize", offer: pipe, turns: []turn{mute(discover), speaks("2025-11-25"), dies(mcp.NoteInitialized)}, cause: CauseExited, is: ErrDiedOnProbe, forget: true, findings: []string{FoundSilentProbe}},
	{name: "stdio, started again after that", offer: Offer{SkipProbe: true}, turns: []turn{speaks("2025-11-25"), initialized}, rev: old},
}

// field contains scenes of known servers, one or more for each server.
var field = []scene{
	{name: "reference servers, stdio", offer: pipe, turns: []turn{unknown, speaks("2025-11-25"), initialized}, rev: old},
	{name: "reference servers, http", offer: web, turns: []turn{
		{to: discover, status: 400, kind: "application/json", msg: `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}`},
		speaks("2025-11-25"), initialized,
	}, rev: old},
	{name: "TypeScript SDK v2, modern only", offer: web, turns: []turn{discovered}, rev: modal},
	{name: "Go SDK, stdio, all five", offer: pipe, turns: []turn{
		result(discover, `{"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{"logging":{}},"resultType":"complete"}`),
	}, rev: modal, findings: []string{FoundNoServerInfo}},
	{name: "Go SDK, http, unknown method in plain text", offer: web, turns: []turn{
		{to: discover, status: 400, kind: "text/plain; charset=utf-8"}, speaks("2025-11-25"), initialized,
	}, rev: old},
	{name: "mcp-go", offer: web, turns: []turn{discovered}, rev: modal},
	{name: "server-postgres", offer: pipe, turns: []turn{unknown, speaks("2024-11-05"), initialized}, rev: mcp.R20241105},
	{name: "Playwright over http", offer: web, turns: []turn{{to: discover, status: 400, kind: "text/plain"}, speaks("2025-06-18"), initialized}, rev: mcp.R20250618},
	{name: "Playwright, wrong host", offer: web, turns: []turn{page(discover, 403)}, cause: CauseAuth},
	{name: "Python SDK", offer: pipe, turns: []turn{
		errorTo(discover, `{"code":-32602,"message":"Invalid request parameters","data":""}`), speaks("2025-06-18"), initialized,
	}, rev: mcp.R20250618},
	{name: "Codex app-server", offer: pipe, turns: []turn{
		{to: discover, msg: `{"id":1,"error":{"code":-32600,"message":"Not initialized"}}`},
		{to: initial, msg: `{"id":2,"result":{"userAgent":"codex/0.169","codexHome":"/h","platformFamily":"unix","platformOs":"linux"}}`},
	}, cause: CauseDialect, forget: true},
	{name: "Codex wrapper", offer: pipe, turns: []turn{
		unknown, result(initial, `{"advertised_models":["codex-5"],"capabilities":{"tools":{}}}`),
	}, cause: CauseDialect, forget: true},
	{name: "strict, string code", offer: pipe, turns: []turn{
		unknown,
		errorTo(initial, `{"code":"INVALID_PROTOCOL_VERSION","message":"bad version","data":{"supported_versions":["2025-03-26","2024-11-05"]}}`),
		speaks("2025-03-26"), initialized,
	}, rev: mcp.R20250326, findings: []string{FoundStrictVersion}},
	{name: "strict, in words", offer: pipe, turns: []turn{
		unknown, errorTo(initial, `{"code":-32602,"message":"Wrong version. Expected: 2025-03-26"}`), speaks("2025-03-26"), initialized,
	}, rev: mcp.R20250326, findings: []string{FoundStrictVersion}},
	{name: "strict, as 2024-11-05 has it", offer: pipe, turns: []turn{
		unknown, errorTo(initial, `{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05"],"requested":"2025-11-25"}}`),
		speaks("2024-11-05"), initialized,
	}, rev: mcp.R20241105, findings: []string{FoundStrictVersion}},
	{name: "strict, http, in words that repeat ours", offer: web, turns: []turn{
		unknown.with(400),
		errorTo(initial, `{"code":-32000,"message":"Bad Request: Unsupported protocol version: 2025-11-25 (supported versions: 2025-06-18, 2025-03-26)"}`).with(400),
		speaks("2025-06-18"), initialized,
	}, rev: mcp.R20250618, findings: []string{FoundStrictVersion}},
	{name: "strict, without saying which", offer: pipe, turns: []turn{
		unknown, errorTo(initial, `{"code":-32602,"message":"Unsupported protocol version: 2025-11-25"}`), speaks("2024-11-05"), initialized,
	}, rev: mcp.R20241105, findings: []string{FoundStrictVersion}},
	{name: "strict, twice", offer: pipe, turns: []turn{
		unknown, errorTo(initial, `{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2025-06-18"]}}`),
		errorTo(initial, `{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2025-03-26"]}}`),
	}, cause: CauseRefused},
	{name: "strict, nothing in common", offer: pipe, turns: []turn{
		unknown, errorTo(initial, `{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["1.0","2023-01-01"]}}`),
	}, cause: CauseNoCommonVersion},
	{name: "gated: not ready at once", offer: pipe, turns: []turn{
		unknown,
		errorTo(initial, `{"code":-32002,"message":"Server not initialized"}`),
		errorTo(initial, `{"code":-32002,"message":"Server not initialized"}`),
		speaks("2025-06-18"), initialized,
	}, rev: mcp.R20250618, findings: []string{FoundNotReady}},
	{name: "gated: never ready", offer: pipe, turns: []turn{
		unknown,
		errorTo(initial, `{"code":-32000,"message":"still starting"}`),
		errorTo(initial, `{"code":-32000,"message":"still starting"}`),
		errorTo(initial, `{"code":-32000,"message":"still starting"}`),
		errorTo(initial, `{"code":-32000,"message":"still starting"}`),
	}, cause: CauseNotReady},
	{name: "Codex mcp-server 0.92, silent on discover", offer: pipe, turns: []turn{mute(discover), speaks("2025-11-25"), initialized}, rev: old, forget: true, findings: []string{FoundSilentProbe}},
	{name: "refuses the initialized notification, http", offer: web, turns: []turn{
		unknown.with(404), speaks("2025-11-25"), errorTo(mcp.NoteInitialized, `{"code":-32601,"message":"Method not found"}`).with(400),
	}, rev: old, findings: []string{FoundInitializedRefused}},
	{name: "loses the connection on initialized, http", offer: web, turns: []turn{
		unknown.with(404), speaks("2025-11-25"), dies(mcp.NoteInitialized),
	}, rev: old, findings: []string{FoundInitializedRefused}},
	{name: "says nothing to initialized, http", offer: web, turns: []turn{
		unknown.with(404), speaks("2025-11-25"), mute(mcp.NoteInitialized),
	}, rev: old, findings: []string{FoundInitializedRefused}},
	{name: "401 to initialized", offer: web, turns: []turn{
		unknown.with(404), speaks("2025-11-25"), page(mcp.NoteInitialized, 401),
	}, cause: CauseAuth},
	{name: "ends on initialized, stdio", offer: pipe, turns: []turn{unknown, speaks("2025-11-25"), dies(mcp.NoteInitialized)}, cause: CauseExited},
	{name: "no version", offer: pipe, turns: []turn{unknown, result(initial, `{"capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`), initialized},
		rev: mcp.R20241105, findings: []string{FoundNoVersion}},
	{name: "neither version nor serverInfo", offer: pipe, turns: []turn{unknown, result(initial, `{"capabilities":{"tools":{}}}`)},
		rev: mcp.R20241105, findings: []string{FoundNoVersion, FoundNoServerInfo}},
	{name: "a version that is null", offer: pipe, turns: []turn{unknown, result(initial, `{"protocolVersion":null,"capabilities":{},"serverInfo":{}}`), initialized},
		rev: mcp.R20241105, findings: []string{FoundNoVersion}},
	{name: "an unknown version", offer: web, turns: []turn{unknown, speaks("2025-09-01-draft"), initialized},
		rev: old, findings: []string{FoundUnknownVersion}},
	{name: "a modern version", offer: pipe, turns: []turn{unknown, speaks("2026-07-28"), initialized},
		rev: old, findings: []string{FoundUnknownVersion}},
	{name: "no capabilities, odd instructions", offer: pipe, turns: []turn{unknown, result(initial, `{"protocolVersion":"2025-03-26","instructions":["a"],"serverInfo":"x"}`), initialized},
		rev: mcp.R20250326, findings: []string{FoundNoCapabilities, FoundNoServerInfo, FoundOddInstructions}},
	{name: "an empty result", offer: pipe, turns: []turn{unknown, result(initial, `{}`)}, cause: CauseBadAnswer},
	{name: "a pong", offer: pipe, turns: []turn{result(discover, `{"status":"ok"}`), result(initial, `{"status":"ok"}`)}, cause: CauseBadAnswer},
	{name: "another error", offer: pipe, turns: []turn{unknown, errorTo(initial, `{"code":-32603,"message":"GITHUB_TOKEN is not set\u001b[31m\r\n\u202e!"}`)}, cause: CauseRefused, is: ErrRefusedAfterProbe},
	{name: "our own error to our own initialize", offer: pipe, turns: []turn{unknown, errorTo(initial, `{"code":-32601,"message":"initialize cannot be answered: the client has no open event stream"}`)}, cause: CauseEcho},
	{name: "our own error to our own probe", offer: pipe, turns: []turn{errorTo(discover, `{"code":-32601,"message":"server/discover cannot be answered: the client has no open event stream"}`)}, cause: CauseEcho},
	{name: "ends on initialize", offer: pipe, turns: []turn{unknown, {to: initial, err: errors.Join(io.ErrUnexpectedEOF, errors.New("exit status 1"))}}, cause: CauseExited},
	{name: "an unreadable result", offer: pipe, turns: []turn{unknown, {to: initial, err: &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "too long"}}}, cause: CauseBadAnswer},
}

// rules are scenes for the remaining rules: slow starts, pinned revisions, remembered
// revisions, and changes of era.
var rules = []scene{
	{name: "slow start, modern", offer: pipe, turns: []turn{
		{to: discover, mute: true, late: discovered.msg, lateAt: 5 * time.Second}, mute(initial),
	}, rev: modal, findings: []string{FoundLateProbe}},
	{name: "slow start, modern, both answered", offer: pipe, turns: []turn{
		{to: discover, mute: true, late: discovered.msg, lateAt: 5 * time.Second}, speaks("2025-11-25").in(2*time.Second + time.Millisecond),
	}, rev: modal, findings: []string{FoundLateProbe}},
	{name: "slow start, modern by its error", offer: pipe, turns: []turn{
		{to: discover, mute: true, late: `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"v","data":{"supported":["2026-07-28"]}}}`, lateAt: 4 * time.Second}, mute(initial),
	}, rev: modal, findings: []string{FoundLateProbe, FoundUndiscovered}},
	{name: "slow start, legacy", offer: pipe, turns: []turn{
		{to: discover, mute: true, late: unknown.msg, lateAt: 5 * time.Second}, speaks("2025-11-25").in(4 * time.Second), initialized,
	}, rev: old, findings: []string{FoundLateProbe}},
	{name: "silent probe, then a refusal: asked again", offer: pipe, turns: []turn{
		mute(discover), errorTo(initial, `{"code":-32601,"message":"Method not found"}`).in(time.Second), discovered,
	}, rev: modal},
	{name: "silent probe, then a refusal: silent again", offer: pipe, turns: []turn{
		mute(discover), errorTo(initial, `{"code":-32601,"message":"Method not found"}`), mute(discover),
	}, cause: CauseRefused},
	{name: "silent probe, then a refusal, then an end", offer: pipe, turns: []turn{
		mute(discover), errorTo(initial, `{"code":-32603,"message":"no"}`), dies(discover),
	}, cause: CauseRefused, is: ErrRefusedAfterProbe},

	{name: "known modern", offer: Offer{Known: modal}, turns: []turn{discovered}, rev: modal},
	{name: "known legacy skips the probe", offer: Offer{Known: mcp.R20250326}, turns: []turn{speaks("2025-03-26"), initialized}, rev: mcp.R20250326},
	{name: "known modern, became legacy", offer: Offer{Known: modal, HTTP: true}, turns: []turn{unknown.with(404), speaks("2025-11-25"), initialized}, rev: old, findings: []string{FoundEraChanged}},
	{name: "known legacy, became modern, http", offer: Offer{Known: old, HTTP: true}, turns: []turn{
		errorTo(initial, `{"code":-32020,"message":"Header mismatch: MCP-Protocol-Version is missing"}`).with(400), discovered,
	}, rev: modal, findings: []string{FoundEraChanged}},
	{name: "known legacy, became modern, http, unknown method", offer: Offer{Known: old, HTTP: true}, turns: []turn{
		errorTo(initial, `{"code":-32601,"message":"Method not found"}`).with(404), discovered,
	}, rev: modal, findings: []string{FoundEraChanged}},
	{name: "known legacy, became modern, stdio", offer: Offer{Known: old}, turns: []turn{
		errorTo(initial, `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}`), discovered,
	}, rev: modal, findings: []string{FoundEraChanged}},
	{name: "known legacy, gone", offer: Offer{Known: old, HTTP: true}, turns: []turn{page(initial, 404), page(discover, 404)}, cause: CauseRefused, is: ErrTrySSE},
	{name: "known legacy, ends on the second thought", offer: Offer{Known: old}, turns: []turn{
		errorTo(initial, `{"code":-32603,"message":"no"}`), dies(discover),
	}, cause: CauseRefused},
	{name: "died on a probe, now refuses", offer: Offer{SkipProbe: true}, turns: []turn{errorTo(initial, `{"code":-32603,"message":"no"}`)}, cause: CauseRefused},
	{name: "died on a probe, modern all the same", offer: Offer{SkipProbe: true}, turns: []turn{
		errorTo(initial, `{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}`), discovered,
	}, rev: modal},
	{name: "known modern, died on the probe", offer: Offer{Known: modal}, turns: []turn{dies(discover)}, cause: CauseExited, is: ErrDiedOnProbe},
	{name: "known modern, died on the probe, started again", offer: Offer{Known: modal, SkipProbe: true}, turns: []turn{
		errorTo(initial, `{"code":-32601,"message":"no"}`), discovered,
	}, rev: modal},
	{name: "dies at once", offer: Offer{SkipProbe: true}, turns: []turn{dies(initial)}, cause: CauseExited},

	{name: "pinned legacy", offer: Offer{Pin: mcp.R20250618}, turns: []turn{speaks("2025-06-18"), initialized}, rev: mcp.R20250618, forget: true},
	{name: "pinned legacy, answers another", offer: Offer{Pin: mcp.R20250618}, turns: []turn{speaks("2024-11-05"), initialized}, rev: mcp.R20241105, forget: true, findings: []string{FoundOtherVersion}},
	{name: "pinned legacy, modern only", offer: Offer{Pin: mcp.R20250618}, turns: []turn{
		errorTo(initial, `{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}`),
	}, cause: CausePinned},
	{name: "pinned modern", offer: Offer{Pin: modal}, turns: []turn{discovered.in(20 * time.Second)}, rev: modal, forget: true},
	{name: "pinned modern, legacy only", offer: Offer{Pin: modal}, turns: []turn{unknown}, cause: CausePinned},
	{name: "pinned modern, legacy only, http", offer: Offer{Pin: modal, HTTP: true}, turns: []turn{page(discover, 404)}, cause: CausePinned},
	{name: "pinned modern, silence", offer: Offer{Pin: modal}, turns: []turn{mute(discover)}, cause: CauseTimeout},
	{name: "pinned modern, 500", offer: Offer{Pin: modal, HTTP: true}, turns: []turn{page(discover, 500)}, cause: CauseServerError},
	{name: "pinned modern, ends", offer: Offer{Pin: modal}, turns: []turn{dies(discover)}, cause: CauseExited},

	{name: "modern, identity beside _meta, no capabilities", offer: pipe, turns: []turn{
		result(discover, `{"supportedVersions":["2026-07-28"],"serverInfo":{"name":"s"},"instructions":null}`),
	}, rev: modal, findings: []string{FoundNoCapabilities}},
	{name: "time-outs of one's own", offer: Offer{ProbeTimeout: time.Minute, Timeout: 4 * time.Second}, turns: []turn{mute(discover), mute(initial)}, cause: CauseTimeout},
}

// typeScriptManifest and pythonManifest are answers to initialize from two servers of LocalCowork.
const (
	typeScriptManifest = `{"serverInfo":{"name":"fs","version":"1"},"tools":[{"name":"filesystem.list_dir","description":"d","inputSchema":{"type":"object"},"metadata":{"confirmationRequired":true,"undoSupported":false}}]}`
	pythonManifest     = `{"server_info":{"name":"ocr","version":"1"},"tools":[{"name":"a","description":"d","params_schema":{"type":"object"},"confirmation_required":false,"undo_supported":false}],"capabilities":{}}`
)

// dialects are scenes of servers that deviate from MCP.
var dialects = []scene{
	{name: "manifest, TypeScript", offer: pipe, turns: []turn{unknown, result(initial, typeScriptManifest)},
		rev: mcp.R20241105, dialect: dialect.Manifest, tools: 1, findings: []string{FoundDialect}},
	{name: "manifest, Python", offer: pipe, turns: []turn{unknown, result(initial, pythonManifest)},
		rev: mcp.R20241105, dialect: dialect.ManifestPython, tools: 1, findings: []string{FoundDialect}},
	{name: "manifest, over http", offer: web, turns: []turn{page(discover, 404), result(initial, typeScriptManifest)},
		rev: mcp.R20241105, dialect: dialect.Manifest, tools: 1, findings: []string{FoundDialect}},
	{name: "manifest, a version that is null, a tool without a name", offer: pipe, turns: []turn{
		unknown, result(initial, `{"protocolVersion":null,"serverInfo":{"name":"fs"},"tools":[{"name":"a"},{"description":"b"},7]}`),
	}, rev: mcp.R20241105, dialect: dialect.Manifest, tools: 1, findings: []string{FoundDialect, FoundNamelessTools}},
	{name: "manifest beside a version is MCP", offer: pipe, turns: []turn{
		unknown, result(initial, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"fs"},"tools":[]}`), initialized,
	}, rev: mcp.R20250618},
	{name: "manifest, silent on the probe", offer: pipe, turns: []turn{mute(discover), result(initial, typeScriptManifest)},
		rev: mcp.R20241105, dialect: dialect.Manifest, tools: 1, forget: true, findings: []string{FoundDialect, FoundSilentProbe}},
	{name: "manifest, known not to answer the probe", offer: Offer{InitializeFirst: true}, turns: []turn{result(initial, typeScriptManifest)},
		rev: mcp.R20241105, dialect: dialect.Manifest, tools: 1, findings: []string{FoundDialect}},
	{name: "manifest, chosen", offer: Offer{Dialect: dialect.Lookup(dialect.Manifest)}, turns: []turn{result(initial, pythonManifest)},
		rev: mcp.R20241105, dialect: dialect.Manifest, tools: 1},
	{name: "manifest, chosen, and there is none", offer: Offer{Dialect: dialect.Lookup(dialect.Manifest)}, turns: []turn{result(initial, `{"serverInfo":{"name":"x"}}`)},
		rev: mcp.R20241105, dialect: dialect.Manifest, findings: []string{FoundNoCapabilities, FoundNoManifest}},
	{name: "manifest, and MCP was chosen", offer: Offer{Dialect: dialect.Lookup(dialect.Standard)}, turns: []turn{unknown, result(initial, typeScriptManifest), initialized},
		rev: mcp.R20241105, findings: []string{FoundNoVersion, FoundNoCapabilities}},
	{name: "manifest, pushed", offer: pipe, push: typeScriptManifest, turns: []turn{
		unknown, errorTo(initial, `{"code":-32601,"message":"Unknown method: initialize"}`),
	}, rev: mcp.R20241105, dialect: dialect.ManifestPushed, tools: 1, findings: []string{FoundDialect}},
	{name: "manifest, pushed, and then silence", offer: pipe, push: typeScriptManifest, turns: []turn{mute(discover), mute(initial)},
		rev: mcp.R20241105, dialect: dialect.ManifestPushed, tools: 1, forget: true, findings: []string{FoundDialect, FoundSilentProbe}},
	{name: "manifest, pushed while initialize waits", offer: pipe, push: typeScriptManifest, pushAt: 5 * time.Second, turns: []turn{mute(discover), mute(initial)},
		rev: mcp.R20241105, dialect: dialect.ManifestPushed, tools: 1, forget: true, findings: []string{FoundDialect, FoundSilentProbe}},
	{name: "manifest, pushed and answered", offer: pipe, push: typeScriptManifest, turns: []turn{unknown, result(initial, pythonManifest)},
		rev: mcp.R20241105, dialect: dialect.ManifestPython, tools: 1, findings: []string{FoundDialect}},
	{name: "manifest, pushed late, chosen", offer: Offer{Dialect: dialect.Lookup(dialect.ManifestPushed)}, push: pythonManifest, pushAt: time.Second, turns: []turn{
		errorTo(initial, `{"code":-32601,"message":"Unknown method: initialize"}`),
	}, rev: mcp.R20241105, dialect: dialect.ManifestPushed, tools: 1},
	{name: "manifest, pushed, chosen, and none comes", offer: Offer{Dialect: dialect.Lookup(dialect.ManifestPushed)}, turns: []turn{
		errorTo(initial, `{"code":-32601,"message":"Unknown method: initialize"}`),
	}, cause: CauseRefused},
	{name: "something else, pushed", offer: pipe, push: `{"ready":true}`, turns: []turn{
		unknown, errorTo(initial, `{"code":-32601,"message":"Unknown method: initialize"}`),
	}, cause: CauseRefused},
	{name: "a dialect of the user's, looked for", offer: Offer{Dialects: []*dialect.Profile{acme}}, turns: []turn{
		unknown, result(initial, `{"toolbox":{"tools":[{"name":"a"}]}}`), initialized,
	}, rev: mcp.R20241105, dialect: "acme", tools: 1, findings: []string{FoundDialect, FoundNoServerInfo}},
	{name: "a dialect of the user's, chosen: its words", offer: Offer{Dialect: acme}, turns: []turn{
		errorTo(initial, `{"code":"E_WARMING","message":"come back"}`),
		errorTo(initial, `{"code":4711,"message":"we only have 2025-03-26"}`),
		speaks("2025-03-26"), initialized,
	}, rev: mcp.R20250326, dialect: "acme", findings: []string{FoundNotReady, FoundStrictVersion, FoundNoManifest}},
	{name: "a dialect of the user's, chosen: its parameters are refused", offer: Offer{Dialect: acme}, turns: []turn{
		errorTo(initial, `{"code":-32602,"message":"protocolVersion: unknown"}`), speaks("2025-03-26"), initialized,
	}, rev: mcp.R20250326, dialect: "acme", findings: []string{FoundNoManifest}},
	{name: "initialize only", offer: Offer{Dialect: dialect.Lookup(dialect.InitializeOnly)}, turns: []turn{speaks("2025-06-18"), initialized},
		rev: mcp.R20250618, dialect: dialect.InitializeOnly},
	{name: "known to be silent, became modern", offer: Offer{InitializeFirst: true}, turns: []turn{
		errorTo(initial, `{"code":-32601,"message":"Method not found"}`), discovered,
	}, rev: modal},
	{name: "-32600 to all that is unknown", offer: pipe, turns: []turn{
		errorTo(discover, `{"code":-32600,"message":"Invalid Request"}`), speaks("2025-06-18"), initialized,
	}, rev: mcp.R20250618},
}

// acme is a profile as a user might write it.
var acme = &dialect.Profile{
	Name: "acme", About: "the toolbox",
	Detect: dialect.Detect{Has: []dialect.Path{"toolbox.tools"}},
	Open:   dialect.Opening{NoProbe: true, Params: []jsonrpc.Field{{Key: "protocolVersion", Value: []byte(`"v2"`)}, {Key: "capabilities"}}},
	Tools:  dialect.Tools{Manifest: "toolbox.tools"},
	Errors: dialect.Errors{NotReady: []dialect.Sign{"e_warming"}, WrongVersion: []dialect.Sign{"4711"}, WrongParams: []dialect.Sign{"unknown"}},
}
