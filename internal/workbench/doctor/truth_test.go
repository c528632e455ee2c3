package doctor

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// plain is a typical server on a pipe. It has only tools, and answers each request with one line. A
// test can change how it handles a request.
type plain struct {
	out *io.PipeWriter

	mu          sync.Mutex
	initialized bool
	probed      atomic.Bool // set by a fault that depends on server/discover
}

// startPlain returns a function that starts plain servers. odd may handle a line in place of the
// server, and returns whether it has done so. m is nil if the line is not a message.
func startPlain(odd func(p *plain, line string, m *jsonrpc.Message) bool) func(context.Context) (Child, error) {
	return startInProcess(func(in *io.PipeReader, out *io.PipeWriter) {
		p := &plain{out: out}
		defer func() { _ = in.Close() }()
		defer func() { _ = out.Close() }()
		for r := bufio.NewReader(in); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			m, bad := jsonrpc.Scan([]byte(strings.TrimSpace(line)), jsonrpc.Limits{})
			if bad != nil {
				m = nil
			}
			if odd == nil || !odd(p, line, m) {
				p.answer(m)
			}
		}
	})
}

func (p *plain) say(line string) { _, _ = io.WriteString(p.out, line+"\n") }

func (p *plain) fail(m *jsonrpc.Message, code int64, text string) {
	p.say(string(jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: code, Message: text})))
}

func (p *plain) answer(m *jsonrpc.Message) {
	if m == nil || m.Kind != jsonrpc.Request || m.ID == "null" {
		return
	}
	result := "{}"
	switch m.Method {
	case mcp.MethodInitialize:
		version, ok := jsonrpc.Text(m.Raw, m.Param("protocolVersion"))
		if _, known := mcp.ParseRevision(version); !known || version == mcp.Latest.String() {
			version = mcp.LatestLegacy.String()
		}
		if !ok {
			p.fail(m, jsonrpc.CodeInvalidParams, "protocolVersion is missing")
			return
		}
		result = `{"protocolVersion":"` + version + `","capabilities":{"tools":{}},"serverInfo":{"name":"plain","version":"1"}}`
	case mcp.MethodPing:
	case mcp.MethodListTools:
		result = `{"tools":[{"name":"x","description":"x","inputSchema":{"type":"object","properties":{}}}]}`
	default:
		p.fail(m, jsonrpc.CodeMethodNotFound, "Method not found")
		return
	}
	p.say(string(jsonrpc.AppendResult(nil, m.ID, []byte(result))))
}

// examinePlain examines a plain server with the given odd function. It removes two findings that
// every plain server causes.
func examinePlain(t *testing.T, odd func(p *plain, line string, m *jsonrpc.Message) bool) *Report {
	t.Helper()
	r, err := Examine(t.Context(), Target{Start: startPlain(odd)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Code == BatchRefused || f.Code == EarlyServed })
	return r
}

func isBig(m *jsonrpc.Message) bool { return m != nil && m.ID == "9007199254740993" }

// TestTruth checks the exact findings for servers with faults that occur in practice.
func TestTruth(t *testing.T) {
	early := func(p *plain, m *jsonrpc.Message, refuse func()) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if m != nil && m.Method == mcp.NoteInitialized {
			p.initialized = true
		}
		if m != nil && m.Method == mcp.MethodListTools && !p.initialized {
			refuse()
			return true
		}
		return false
	}
	big := func(answer string) func(*plain, string, *jsonrpc.Message) bool {
		return func(p *plain, _ string, m *jsonrpc.Message) bool {
			if isBig(m) && answer != "" {
				p.say(answer)
			}
			return isBig(m)
		}
	}
	for name, c := range map[string]struct {
		odd  func(p *plain, line string, m *jsonrpc.Message) bool
		want []string // the codes of all findings, in the order of the report
	}{
		"nothing": {nil, nil},

		// The following faults concern an id of 2^53+1. Whatever the server does with this id, the
		// only finding is IDBig. The last fault concerns small ids.
		"a big id is rounded":            {big(`{"jsonrpc":"2.0","id":9007199254740992,"result":{}}`), []string{IDBig}},
		"a big id is written as a float": {big(`{"jsonrpc":"2.0","id":9.007199254740992e15,"result":{}}`), []string{IDBig}},
		"a big id overflows":             {big(`{"jsonrpc":"2.0","id":1,"result":{}}`), []string{IDBig}},
		"a big id is dropped":            {big(""), []string{IDBig}},
		"a big id is refused":            {big(`{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32600,"message":"id is not a safe integer"}}`), []string{IDBig}},
		"a big id is refused without it": {big(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}}`), []string{IDBig}},
		"a small id becomes a text": {func(p *plain, _ string, m *jsonrpc.Message) bool {
			if m != nil && m.Method == mcp.MethodPing && !isBig(m) && m.ID != "0" && m.ID[0] != '"' {
				p.say(`{"jsonrpc":"2.0","id":"` + string(m.ID) + `","result":{}}`)
				return true
			}
			return false
		}, []string{IDType}},

		"a bridge that server/discover opens": {func(p *plain, _ string, m *jsonrpc.Message) bool {
			switch {
			case m == nil:
			case m.Method == mcp.MethodDiscover:
				p.probed.Store(true)
			case m.Method == mcp.MethodInitialize && p.probed.Load():
				p.fail(m, -32000, "Invalid Request: Server already initialized")
				return true
			}
			return false
		}, []string{ProbeOpens}},

		// The following faults concern lists.
		"a list always fails": {func(p *plain, _ string, m *jsonrpc.Message) bool {
			if m != nil && m.Method == mcp.MethodListTools {
				p.fail(m, jsonrpc.CodeInternal, "TypeError: x is undefined")
				return true
			}
			return false
		}, []string{ListFails}},
		"a list fails before initialized": {func(p *plain, _ string, m *jsonrpc.Message) bool {
			return early(p, m, func() { p.fail(m, jsonrpc.CodeInvalidRequest, "not initialized") })
		}, []string{InitializedNeeded}},
		"a list is silent before initialized": {func(p *plain, _ string, m *jsonrpc.Message) bool {
			return early(p, m, func() {})
		}, []string{EarlySilent, InitializedSilent}},
		"a list is always silent": {func(_ *plain, _ string, m *jsonrpc.Message) bool {
			return m != nil && m.Method == mcp.MethodListTools
		}, []string{Unhandled}},

		// The following faults concern exits.
		"it dies a little after odd input": {func(p *plain, line string, m *jsonrpc.Message) bool {
			if m == nil && !strings.HasPrefix(line, "[") {
				time.AfterFunc(26*time.Millisecond, func() { _ = p.out.Close() })
				return true
			}
			return false
		}, []string{DiesOnOdd}},
		"it dies a little after an unknown method": {func(p *plain, _ string, m *jsonrpc.Message) bool {
			if m != nil && m.Method == "dragoman/no_such_method" {
				time.AfterFunc(26*time.Millisecond, func() { _ = p.out.Close() })
			}
			return false
		}, []string{Dies}},

		// A message that exceeds a limit is valid JSON, and the answer to its request.
		"a list is nested too deeply": {func(p *plain, _ string, m *jsonrpc.Message) bool {
			if m != nil && m.Method == mcp.MethodListTools {
				p.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"tools":[{"name":"x","description":"x","inputSchema":{"type":"object","properties":` +
					strings.Repeat(`{"a":`, 200) + "{}" + strings.Repeat("}", 200) + `}}]}}`)
				return true
			}
			return false
		}, []string{MessageLimit}},

		// An error without an id that refuses a batch must not count as an answer to a
		// notification.
		"a batch is refused without an id": {func(p *plain, line string, _ *jsonrpc.Message) bool {
			if strings.HasPrefix(line, "[") {
				p.say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not supported"}}`)
				return true
			}
			return false
		}, nil},
		// The doctor must tell whether an error without an id answers a request or a notification.
		"errors have no id": {func(p *plain, _ string, m *jsonrpc.Message) bool {
			if m != nil && m.Method == "dragoman/no_such_method" {
				p.say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}`)
				return true
			}
			return false
		}, []string{IDLost}},
		"a notification is answered": {func(p *plain, _ string, m *jsonrpc.Message) bool {
			if m != nil && m.Kind == jsonrpc.Notification {
				p.say(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}`)
				return true
			}
			return false
		}, []string{NoteAnswered}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := examinePlain(t, c.odd)
				if got := codes(r); !slices.Equal(got, c.want) {
					t.Errorf("found %q, want %q:\n%s", got, c.want, dump(r))
				}
				if wrong := slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Error }); r.Verdict.Healthy == wrong {
					t.Errorf("healthy is %t:\n%s", r.Verdict.Healthy, dump(r))
				}
			})
		})
	}
}

// TestForbidden checks responses with a status such as 403. If the response is about the host name,
// the finding is HostRefused, and otherwise WantsCredentials.
func TestForbidden(t *testing.T) {
	respond := func(status int, header, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if header != "" {
				w.Header().Set("WWW-Authenticate", header)
			}
			switch {
			case strings.HasPrefix(body, "{"):
				w.Header().Set("Content-Type", "application/json")
			case strings.HasPrefix(body, "<"):
				w.Header().Set("Content-Type", "text/html")
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"a text about the host": {respond(http.StatusForbidden, "", "Invalid Host header"), HostRefused},
		"an error about the host": {respond(http.StatusForbidden, "",
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Invalid Host: 127.0.0.1"}}`), HostRefused},
		"421":                  {respond(http.StatusMisdirectedRequest, "", "Invalid Host header"), HostRefused},
		"401":                  {respond(http.StatusUnauthorized, "", ""), WantsCredentials},
		"403 with a challenge": {respond(http.StatusForbidden, `Bearer error="insufficient_scope"`, "this host asks for more"), WantsCredentials},
		"403 with a page":      {respond(http.StatusForbidden, "", "<title>403 Forbidden</title>"), NoRevision},
		"403 without a word":   {respond(http.StatusForbidden, "", ""), WantsCredentials},
		"403 for this name only": {func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Host, "localhost") {
				sloppyLegacy(w, r)
				return
			}
			w.WriteHeader(http.StatusForbidden)
		}, HostRefused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := call(t, c.serve, "/mcp", Options{})
				other := HostRefused
				if c.want != WantsCredentials {
					other = WantsCredentials
				}
				if got := codes(r); !slices.Contains(got, c.want) || slices.Contains(got, other) || r.Verdict.Healthy != (c.want == WantsCredentials) {
					t.Errorf("want %s and not %s:\n%s", c.want, other, dump(r))
				}
			})
		})
	}
}

// TestDeathOverHTTP checks a server that crashes a moment after odd input. From then on, it closes
// every connection without a response.
func TestDeathOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		dead := false
		r := call(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			if dead {
				panic(http.ErrAbortHandler)
			}
			if strings.Contains(string(raw), `"arguments":null`) {
				time.AfterFunc(26*time.Millisecond, func() { mu.Lock(); defer mu.Unlock(); dead = true })
			}
			r.Body = io.NopCloser(strings.NewReader(string(raw)))
			r.ContentLength, r.Header["Content-Length"] = int64(len(raw)), []string{strconv.Itoa(len(raw))}
			sloppyLegacy(w, r)
		}), "/mcp", Options{Parallel: 1})
		if !slices.Contains(codes(r), DiesOnOdd) {
			t.Error(fmt.Sprint("the exit was not found:\n", dump(r)))
		}
	})
}

// TestOriginOfLoopback checks servers on a loopback address. The finding is Rebinding only if
// neither Origin nor Host protects the server from web pages.
func TestOriginOfLoopback(t *testing.T) {
	for name, c := range map[string]struct {
		guard func(w http.ResponseWriter, r *http.Request) (refused bool)
		want  string
	}{
		"checks nothing": {func(http.ResponseWriter, *http.Request) bool { return false }, Rebinding},
		"checks Host": {func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasPrefix(r.Host, "127.") {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		}, OriginUnchecked},
		"checks Host, and shares with everybody": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Access-Control-Allow-Headers", "Content-Type, Mcp-Session-Id")
			if strings.HasPrefix(r.Host, "127.") && r.Method != http.MethodOptions {
				return false
			}
			if r.Method != http.MethodOptions {
				w.WriteHeader(http.StatusForbidden)
			}
			return true
		}, Rebinding},
		"checks Origin": {func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Origin") == "" {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			return true
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := call(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !c.guard(w, r) {
						sloppyLegacy(w, r)
					}
				}), "/mcp", Options{})
				for _, code := range []string{Rebinding, OriginUnchecked} {
					if slices.Contains(codes(r), code) != (code == c.want) {
						t.Errorf("want %q:\n%s", c.want, dump(r))
					}
				}
			})
		})
	}
}

// TestServerWithABearerOnLoopback checks a server on a loopback address that answers only requests with
// the right token. A web page does not know the token, so the server is not open to DNS rebinding. A
// server that ignores the token is.
func TestServerWithABearerOnLoopback(t *testing.T) {
	for _, checks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			header := http.Header{"Authorization": {"Bearer abcdef0123456789"}}
			r := callWith(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if checks && r.Header.Get("Authorization") != header.Get("Authorization") {
					w.Header().Set("WWW-Authenticate", "Bearer")
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				sloppyLegacy(w, r)
			}), "/mcp", header, Options{})
			if slices.Contains(codes(r), Rebinding) == checks || slices.Contains(codes(r), OriginUnchecked) != checks {
				t.Errorf("the server checks the token: %v\n%s", checks, dump(r))
			}
		})
	}
}

// TestEmptyEnumIsAWarning checks that an empty enum is not reported as an invalid schema.
func TestEmptyEnumIsAWarning(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"object","properties":{"a":{"enum":[]}}}`:  SchemaEmptyEnum,
		`{"type":"object","properties":{"a":{"enum":{}}}}`:  SchemaInvalid,
		`{"type":"object","properties":{"a":{"enum":[1]}}}`: "",
	} {
		j := &schemaJudge{raw: []byte(text)}
		at := jsonrpc.Whole(j.raw)
		j.schema(at, 0)
		j.compile(at)
		if _, ok := j.found[want]; len(j.found) != min(1, len(want)) || ok != (want != "") {
			t.Errorf("%s: %v", text, j.found)
		}
	}
}

// TestOneFaultIsOneFinding checks which findings the report leaves out because another finding describes
// the same fault.
func TestOneFaultIsOneFinding(t *testing.T) {
	for _, c := range []struct {
		http  bool
		found []string
		want  []string
	}{
		{false, []string{DiesOnOdd, StuckOnOdd, Noise}, []string{DiesOnOdd, Noise}},
		{false, []string{StuckOnOdd}, []string{StuckOnOdd}},
		{false, []string{Noise, Unreachable, SlowStart}, []string{Unreachable}},
		{true, []string{HostRefused, Unreachable}, []string{HostRefused, Unreachable}},
	} {
		e := &exam{http: c.http}
		e.found = map[string]Finding{}
		for _, code := range c.found {
			e.found[code] = Finding{}
		}
		var got []string
		for _, code := range c.found {
			if !e.impliedLocked(code) {
				got = append(got, code)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q: %q", c.found, got)
		}
	}
}
