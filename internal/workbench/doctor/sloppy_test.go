package doctor

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// sloppyLegacy is a legacy server that checks nothing.
func sloppyLegacy(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		_, _ = io.WriteString(w, "hello")
		return
	}
	raw, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{})
	if err != nil {
		http.Error(w, "oops", http.StatusInternalServerError)
		return
	}
	if m.Kind != jsonrpc.Request {
		w.WriteHeader(http.StatusOK)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	result := "{}"
	switch m.Method {
	case mcp.MethodInitialize:
		w.Header().Set(mcp.HeaderSession, "7")
		version, _ := jsonrpc.Text(m.Raw, m.Param("protocolVersion"))
		result = `{"protocolVersion":"` + version + `","capabilities":{"tools":{},"prompts":{}},"serverInfo":{}}`
	case mcp.MethodPing:
		w.Header().Set("Content-Type", "text/plain")
		result = `{"status":"ok"}`
	case mcp.MethodListTools:
		result = `{"tools":[{"name":"a b","inputSchema":{"type":"object"}},{"name":"x"},{"name":"x","inputSchema":{"type":"object","properties":[]}},{}]}`
	default:
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "?"}))
		return
	}
	_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
}

// sloppyModern is a modern server that checks nothing.
func sloppyModern(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{})
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch m.Method {
	case mcp.MethodDiscover:
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{}}}`)))
	case mcp.MethodListResources:
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"items":[]}`)))
	default:
		_, _ = w.Write(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "?"}))
	}
}

// TestSloppyServers checks that each sloppy server causes at least the expected findings.
func TestSloppyServers(t *testing.T) {
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  []string
	}{
		"legacy": {sloppyLegacy, []string{
			Rebinding, ContentType, ContentTypeUnchecked, SessionUnneeded, SessionAny, SessionSurvives, GetStatus, NoteStatus,
			VersionHeaderUnchecked, VersionEchoed, StatusOfLostSession, ServerError, NoServerInfo, PingResult, Unhandled,
			ToolName, ToolUndescribed, SchemaMissing, SchemaInvalid, SchemaBare, Duplicates, Nameless, BatchRefused,
		}},
		"modern": {sloppyModern, []string{
			Rebinding, HeadersUnchecked, GoneStatus, StatusOfUnknown, MetaVersionCode, NoResultType, NoList,
		}},
		"wants credentials": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, []string{WantsCredentials}},
		"a page":            {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>welcome</html>") }, []string{BodyUnreadable}},
		"nothing there":     {http.NotFound, []string{NoRevision}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := call(t, c.serve, "/mcp", Options{})
				for _, code := range c.want {
					if !slices.Contains(codes(r), code) {
						t.Errorf("%s was not found:\n%s", code, dump(r))
					}
				}
				// Of these servers, only the one that requires authorization is healthy.
				if signIn := name == "wants credentials"; r.Verdict.Healthy != signIn {
					t.Errorf("healthy is %t", r.Verdict.Healthy)
				}
			})
		})
	}
}

// TestEventsBehindARefusal checks an HTTP+SSE server that answers the first POST with an HTTP error
// and a JSON-RPC message. The doctor must still try HTTP+SSE.
func TestEventsBehindARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := fake.NewServer("strict-"+mcp.Revisions()[len(mcp.Revisions())-1].String(), fake.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		r := call(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == s.Path() {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusMethodNotAllowed)
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"only GET"}}`)
				return
			}
			s.Handler().ServeHTTP(w, r)
		}), s.Path(), Options{})
		if w := Worst(r.Findings); w == Error || w == Warning || !r.Verdict.Through {
			t.Error(dump(r))
		}
	})
}

// TestSessionsAreJudged checks which session ids guessable accepts.
func TestSessionsAreJudged(t *testing.T) {
	for id, want := range map[string]bool{
		"7": true, "session-1": true, "000000000000000000000001": true, "1111-2222-1111-2222": true,
		"f81d4fae-7dec-11d0-a765-00a0c91e6bf6": false, "kQ3v9ZtXwB71_mLpR2sY": false,
	} {
		if guessable(id) != want {
			t.Errorf("%q: guessable is %t", id, !want)
		}
	}
}

// TestNothingIsRunUnasked checks that, by default, the doctor sends no request that may have side
// effects, such as a tool call or a subscription.
func TestNothingIsRunUnasked(t *testing.T) {
	harmless := []string{
		mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing, mcp.MethodListTools, mcp.MethodListPrompts, mcp.MethodListResources,
		mcp.MethodListTemplates, mcp.MethodReadResource, mcp.MethodGetPrompt, mcp.MethodComplete, mcp.MethodSetLevel,
		mcp.NoteInitialized, "dragoman/no_such_method", "notifications/dragoman/unknown",
	}
	for _, serve := range []http.HandlerFunc{sloppyLegacy, sloppyModern} {
		synctest.Test(t, func(t *testing.T) {
			call(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(strings.NewReader(string(raw)))
				if m, err := jsonrpc.Scan(raw, jsonrpc.Limits{}); err == nil && m.Method != "" && !slices.Contains(harmless, m.Method) {
					name, named := jsonrpc.Text(m.Raw, m.Param("name"))
					if m.Method != mcp.MethodCallTool || named && name != "dragoman_no_such_tool" {
						t.Errorf("the server got %s", raw)
					}
				}
				serve(w, r)
			}), "/mcp", Options{Deep: true})
		})
	}
}
