package fake

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// within is the timeout of all waits in the tests of this package. A passing test needs much less
// time.
const within = time.Minute

// TestClientSeesViolations checks that a strict client records a violation for each message that a
// server must not send.
func TestClientSeesViolations(t *testing.T) {
	const legacyHello = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`
	const modernHello = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}}`
	for name, tt := range map[string]struct {
		date, hello string
		says        []string // messages before the answer to tools/list
		list        string   // the result of tools/list
		want        string   // a text that the violations must contain
	}{
		"an answer to nobody":     {"2025-06-18", legacyHello, []string{`{"jsonrpc":"2.0","id":77,"result":{}}`}, `{"tools":[]}`, "77"},
		"an unknown notice":       {"2025-06-18", legacyHello, []string{`{"jsonrpc":"2.0","method":"notifications/odd"}`}, `{"tools":[]}`, "notifications/odd"},
		"a foreign token":         {"2025-06-18", legacyHello, []string{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}`}, `{"tools":[]}`, "token"},
		"an undeclared list":      {"2025-06-18", legacyHello, []string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, `{"tools":[]}`, "listChanged"},
		"a resource unasked":      {"2025-06-18", legacyHello, []string{`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x"}}`}, `{"tools":[]}`, "subscribed"},
		"a later question":        {"2025-06-18", legacyHello, []string{`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","url":"x","message":"y"}}`}, `{"tools":[]}`, "mode is url"},
		"too many notices":        {"2025-06-18", legacyHello, slices.Repeat([]string{`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`}, maxNotices+1), `{"tools":[]}`, "more than 10000 notifications"},
		"a batch":                 {"2025-06-18", legacyHello, []string{`[{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}]`}, `{"tools":[]}`, "batch"},
		"no JSON":                 {"2025-06-18", legacyHello, []string{`hello`}, `{"tools":[]}`, "not a message"},
		"a tool without a schema": {"2025-06-18", legacyHello, nil, `{"tools":[{"name":"x"}]}`, "inputSchema"},
		"no result type":          {"2026-07-28", modernHello, nil, `{"tools":[],"ttlMs":0,"cacheScope":"private"}`, "resultType"},
		"no caching hint":         {"2026-07-28", modernHello, nil, `{"resultType":"complete","tools":[],"cacheScope":"private"}`, "ttlMs"},
		"a list that asks":        {"2026-07-28", modernHello, nil, `{"resultType":"input_required","requestState":"x"}`, "input_required"},
		"a live question":         {"2026-07-28", modernHello, []string{`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`}, `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`, "roots/list"},
		"a log unasked":           {"2026-07-28", modernHello, []string{`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`}, `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`, "logging"},
		"a change unasked":        {"2026-07-28", modernHello, []string{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`}, `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`, "subscriptionId"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			fromClient, toServer := io.Pipe()
			fromServer, toClient := io.Pipe()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer toClient.Close()
				lines := newLines(fromClient)
				for lines.Scan() {
					m, err := jsonrpc.Scan([]byte(lines.Text()), jsonrpc.Limits{})
					if err != nil {
						continue
					}
					switch m.Method {
					case mcp.MethodInitialize, mcp.MethodDiscover:
						_, _ = io.WriteString(toClient, tt.hello+"\n")
					case mcp.MethodListTools:
						for _, s := range tt.says {
							_, _ = io.WriteString(toClient, s+"\n")
						}
						_, _ = toClient.Write(append(jsonrpc.AppendResult(nil, m.ID, []byte(tt.list)), '\n'))
					}
				}
			}()
			c, err := OpenClient(ctx, "strict-"+tt.date, Where{In: fromServer, Out: toServer}, ClientOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Call(ctx, mcp.MethodListTools, nil, CallOptions{})
			_ = c.Close()
			<-ended
			if all := strings.Join(c.Violations(), "\n"); !strings.Contains(all, tt.want) {
				t.Errorf("the client recorded %q, want a violation with %s", all, tt.want)
			}
		})
	}
}
