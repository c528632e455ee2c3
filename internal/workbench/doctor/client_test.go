package doctor

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

func clientCodes(r *ClientReport) (out []string) {
	for _, f := range r.Findings {
		out = append(out, f.Code)
	}
	return out
}

// checksIn returns the ids of the checks that have the state.
func checksIn(r *ClientReport, state CheckState) (out []string) {
	for _, c := range r.Checks {
		if c.State == state {
			out = append(out, c.ID)
		}
	}
	return out
}

func dumpClient(r *ClientReport) string {
	var b strings.Builder
	for _, f := range r.Findings {
		b.WriteString(string(f.Level) + " " + f.Code + "\n\t" + strings.ReplaceAll(f.Evidence, "\n", "\n\t") + "\n")
	}
	return b.String() + r.Text()
}

// onPipe runs visit as a client of a stage on a pipe, and returns the stage's report.
func onPipe(t *testing.T, visit func(in io.ReadCloser, out io.WriteCloser)) *ClientReport {
	t.Helper()
	s := NewStage()
	in, theirOut := io.Pipe()
	theirIn, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- s.ServePipe(t.Context(), in, out)
		_ = out.Close()
	}()
	visit(theirIn, theirOut)
	_ = theirOut.Close()
	go func() { _, _ = io.Copy(io.Discard, theirIn) }()
	if err := <-done; err != nil {
		t.Errorf("ServePipe: %v", err)
	}
	return s.Report()
}

// overHTTP runs visit as a client of a stage over Streamable HTTP, and returns the stage's report.
func overHTTP(t *testing.T, visit func(url string)) *ClientReport {
	t.Helper()
	s := NewStage()
	srv := httptest.NewServer(s)
	defer srv.Close()
	visit(srv.URL + "/mcp")
	return s.Report()
}

func strictClient(t *testing.T, name string, at fake.Where) {
	t.Helper()
	c, err := fake.OpenClient(t.Context(), name, at, fake.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{mcp.MethodListTools} {
		if r, err := c.Call(t.Context(), method, nil, fake.CallOptions{}); err != nil || r.Err != nil {
			t.Errorf("%s: %v %v", method, r, err)
		}
	}
	if _, err := c.Call(t.Context(), mcp.MethodCallTool, []byte(`{"name":"echo","arguments":{"text":"a"}}`), fake.CallOptions{}); err != nil {
		t.Error(err)
	}
	if at.In != nil {
		synctest.Wait() // wait until the client has answered the stage's requests
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for _, v := range c.Violations() {
		if !strings.Contains(v, "dragoman/") { // the stage probes the client with "dragoman/" methods, which no revision defines
			t.Errorf("the stage violates its revision: %s", v)
		}
	}
}

// TestStrictClientsAreHealthy checks that a strict client causes no errors or warnings, and that
// the report describes it.
func TestStrictClientsAreHealthy(t *testing.T) {
	for _, rev := range mcp.Revisions() {
		name := "strict-" + rev.String()
		check := func(t *testing.T, r *ClientReport) {
			t.Helper()
			if w := Worst(r.Findings); w == Error || w == Warning {
				t.Errorf("unexpected findings:\n%s", dumpClient(r))
			}
			if wrong := checksIn(r, CheckWrong); len(wrong) > 0 && !slices.Equal(wrong, []string{checkProgress}) || len(checksIn(r, CheckRight)) < 10 {
				t.Errorf("%+v", r.Checks)
			}
			if len(r.Visits) != 1 || r.Visits[0].Revision != rev.String() || r.Visits[0].Requests < 2 {
				t.Errorf("%+v", r.Visits)
			}
		}
		t.Run(rev.String()+" pipe", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				check(t, onPipe(t, func(in io.ReadCloser, out io.WriteCloser) { strictClient(t, name, fake.Where{In: in, Out: out}) }))
			})
		})
		if rev.Can(mcp.StreamableHTTP) {
			t.Run(rev.String()+" HTTP", func(t *testing.T) {
				check(t, overHTTP(t, func(url string) { strictClient(t, name, fake.Where{URL: url}) }))
			})
		}
	}
}

// TestEveryOddClientIsFound runs every client profile that is not strict, and checks its findings.
// A profile without a row fails the test.
func TestEveryOddClientIsFound(t *testing.T) {
	rows := map[string]func(t *testing.T) (*ClientReport, []string){
		"bare-http-client": func(t *testing.T) (*ClientReport, []string) {
			return overHTTP(t, func(url string) {
				for range 2 {
					if _, err := (fake.BareCall{URL: url, Tool: "echo", Args: "{}"}).Post(t.Context(), http.DefaultClient); err != nil {
						t.Error(err)
					}
				}
				http.DefaultClient.CloseIdleConnections()
			}), []string{ClientNoHandshake}
		},
		"manifest-client": func(t *testing.T) (*ClientReport, []string) {
			return onPipe(t, func(in io.ReadCloser, out io.WriteCloser) {
				if _, err := fake.OpenManifest(in, out); err != nil {
					t.Error(err)
				}
			}), []string{ClientBare, ClientNoInitialized, ClientNeverLists}
		},
	}
	habit := func(name, want string) {
		rows[name] = func(t *testing.T) (*ClientReport, []string) {
			return overHTTP(t, func(url string) { strictClient(t, name, fake.Where{URL: url}) }), []string{want}
		}
	}
	habit("forgets-initialized", ClientNoInitialized)
	habit("id-zero", ClientIDZero)
	habit("looks-for-oauth", ClientExplores)
	habit("mcp-method-in-the-old-era", ClientNewWords)
	habit("no-version-header", ClientVersionHeader)
	rows["probe-then-initialize"] = func(t *testing.T) (*ClientReport, []string) {
		var r *ClientReport
		synctest.Test(t, func(t *testing.T) {
			r = onPipe(t, func(in io.ReadCloser, out io.WriteCloser) {
				strictClient(t, "probe-then-initialize", fake.Where{In: in, Out: out})
			})
		})
		return r, []string{ClientBothEras}
	}
	for _, p := range fake.Profiles() {
		if p.Side != fake.ClientSide || p.Kind == fake.Strict {
			continue
		}
		play := rows[p.Name]
		if play == nil {
			t.Errorf("the profile %s has no row with its expected findings", p.Name)
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			r, want := play(t)
			for _, code := range want {
				if !slices.Contains(clientCodes(r), code) {
					t.Errorf("%s was not found:\n%s", code, dumpClient(r))
				}
			}
		})
	}
}

// TestSloppyClients checks that each list of lines from a client causes the finding that is its
// key.
func TestSloppyClients(t *testing.T) {
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	ready := `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	for want, lines := range map[string][]string{
		ClientUnreadable:       {`{"jsonrpc":`},
		ClientBatch:            {initialize, ready, `[{"jsonrpc":"2.0","id":2,"method":"ping"}]`},
		ClientShape:            {`{"id":1,"method":"ping"}`},
		ClientIDZero:           {strings.Replace(initialize, `"id":1`, `"id":0`, 1)},
		ClientIDReused:         {initialize, ready, `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
		ClientUnknown:          {initialize, ready, `{"jsonrpc":"2.0","id":2,"method":"no/such"}`},
		ClientUndeclared:       {initialize, ready, `{"jsonrpc":"2.0","id":2,"method":"prompts/list"}`},
		ClientPingSilent:       {initialize, ready},
		ClientUnknownSilent:    {initialize, ready, `{"jsonrpc":"2.0","id":"dragoman-ping","result":{}}`},
		ClientVersion:          {strings.Replace(initialize, "2025-06-18", "2020-01-01", 1)},
		ClientNoInfo:           {strings.Replace(initialize, `,"version":"1"`, "", 1)},
		ClientNoCapabilities:   {strings.Replace(initialize, `"capabilities":{},`, "", 1)},
		ClientNoInitialized:    {initialize, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`},
		ClientTwice:            {initialize, initialize},
		ClientInitializedID:    {initialize, `{"jsonrpc":"2.0","id":2,"method":"notifications/initialized"}`},
		ClientInitializedEarly: {ready, initialize},
		ClientNoProgressToken:  {initialize, ready, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{}}}`},
		ClientNewWords:         {initialize, ready, `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/logLevel":"info"}}}`},
		ClientMeta:             {`{"jsonrpc":"2.0","id":1,"method":"server/discover"}`},
		ClientBothEras: {
			`{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, initialize,
		},
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewStage()
				in, w := io.Pipe()
				done := make(chan error, 1)
				go func() { done <- s.ServePipe(t.Context(), in, io.Discard) }()
				_, _ = io.WriteString(w, strings.Join(lines, "\n")+"\n")
				time.Sleep(2 * answerTime) // synthetic time; long enough for the stage to stop waiting for answers
				_ = w.Close()
				err := <-done
				if r := s.Report(); err != nil || !slices.Contains(clientCodes(r), want) {
					t.Errorf("%v\n%s", err, dumpClient(r))
				}
			})
		})
	}
}

// TestSloppyClientsOverHTTP checks findings about HTTP headers.
func TestSloppyClientsOverHTTP(t *testing.T) {
	s := NewStage()
	post := func(path, body string, h ...string) *http.Response {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
		for i := 0; i < len(h); i += 2 {
			r.Header.Set(h[i], h[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Result()
	}
	res := post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session := res.Header.Get(mcp.HeaderSession)
	if session == "" || guessable(session) {
		t.Errorf("the session is %q", session)
	}
	post("/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, mcp.HeaderSession, session)
	if res := post("/mcp", `{"jsonrpc":"2.0","id":2,"method":"ping"}`, mcp.HeaderSession, "other"); res.StatusCode != http.StatusNotFound {
		t.Errorf("status %d", res.StatusCode)
	}
	post("/.well-known/oauth-protected-resource", "")
	post("/mcp", `{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		mcp.HeaderVersion, "2026-07-28", mcp.HeaderMethod, "tools/call")
	r := s.Report()
	for _, want := range []string{ClientContentType, ClientAccept, ClientVersionHeader, ClientSession, ClientExplores, ClientMirrors} {
		if !slices.Contains(clientCodes(r), want) {
			t.Errorf("%s was not found:\n%s", want, dumpClient(r))
		}
	}
}

// TestStageEndsWithItsContext checks that ServePipe returns when its context ends, even if the
// client is still connected.
func TestStageEndsWithItsContext(t *testing.T) {
	in, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewStage().ServePipe(ctx, in, io.Discard); err == nil {
		t.Error("no error")
	}
}

// TestStageIsFull checks that a stage with maxVisitors sessions refuses a new session, and that the
// refusal causes no finding.
func TestStageIsFull(t *testing.T) {
	s := NewStage()
	initialize := func() (status int, session string) {
		w := httptest.NewRecorder()
		q := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+greeting("2025-11-25")+`}}`))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		s.ServeHTTP(w, q)
		return w.Code, w.Header().Get(mcp.HeaderSession)
	}
	for n := range maxVisitors {
		if status, session := initialize(); status != http.StatusOK || session == "" {
			t.Fatalf("session %d: status %d, session %q", n, status, session)
		}
	}
	if status, session := initialize(); status != http.StatusServiceUnavailable || session != "" {
		t.Errorf("one session too many: status %d, session %q", status, session)
	}
	if got := clientCodes(s.Report()); !slices.Equal(got, []string{ClientNeverLists}) {
		t.Errorf("found: %v", got)
	}
}

// TestVisitOfHostileClient checks that the name, capabilities and methods of a hostile client
// stay on one line of the report, in quotes.
func TestVisitOfHostileClient(t *testing.T) {
	forged := "x\ndragoman: error: FORGED \x1b[2J\u202e"
	v := Visit{Client: forged, OpensWith: forged, Offers: forged, Declares: []string{"roots", forged}, Revision: "2025-11-25", Requests: 1}
	got := v.String()
	if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.Count(got, `"x dragoman: error: `) != 4 {
		t.Errorf("got %q", got)
	}
}

// TestEveryFindingBelongsToACheck checks that each finding about clients belongs to exactly one
// check. Then the list of passed checks never contradicts the findings.
func TestEveryFindingBelongsToACheck(t *testing.T) {
	owner := map[string]string{
		ClientExplores: "none, because it says that the client is right",
	}
	for _, c := range clientChecks {
		for _, code := range c.codes {
			if owner[code] != "" {
				t.Errorf("%s belongs to %s and to %s", code, owner[code], c.id)
			}
			owner[code] = c.id
		}
	}
	for _, c := range conditionsOfClients {
		if owner[c.Code] == "" {
			t.Errorf("%s belongs to no check", c.Code)
		}
	}
}

// TestChecks checks which checks are right, wrong or not seen for a client without a session.
func TestChecks(t *testing.T) {
	s := NewStage()
	for range 2 {
		q := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"echo","arguments":{}}}`))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		s.ServeHTTP(httptest.NewRecorder(), q)
	}
	r := s.Report()
	if got, want := checksIn(r, CheckRight), []string{checkMessages, checkIDZero, checkOnce, checkEra, checkMethods, checkDeclared, checkAccept, checkContentType}; !slices.Equal(got, want) {
		t.Errorf("right: %q", got)
	}
	if got, want := checksIn(r, CheckWrong), []string{checkIDs, checkHandshake, checkLists, checkProgress, checkHeader}; !slices.Equal(got, want) {
		t.Errorf("wrong: %q", got)
	}
	if got := string(r.JSON()); !strings.Contains(got, `{"id":"ids","check":"uses each id once","state":"wrong","findings":["DRG-CLIENT-ID-REUSED"]}`) ||
		!strings.Contains(got, `{"id":"accept","check":"accepts JSON and event streams","state":"right"}`) || !strings.Contains(got, `{"id":"ping","check":"answers ping","state":"not_seen"}`) {
		t.Error(got)
	}
	if r := NewStage().Report(); len(checksIn(r, CheckNotSeen)) != len(clientChecks) {
		t.Errorf("without a client: %+v", r.Checks)
	}
}

// TestInitializedBeforeTheAnswer checks that notifications/initialized is too early if the client
// sends it before it reads the answer to initialize. After the client has read the answer, the
// notification is not too early.
func TestInitializedBeforeTheAnswer(t *testing.T) {
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"
	const ready = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	for name, c := range map[string]struct {
		first, second string
		want          bool
	}{
		"in one write":       {initialize + ready, "", true},
		"before the answer":  {initialize, ready, true},
		"a ping in between":  {initialize, `{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n", false},
		"nothing in between": {initialize, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewStage()
				in, w := io.Pipe()
				answers, out := io.Pipe()
				done := make(chan error, 1)
				go func() {
					done <- s.ServePipe(t.Context(), in, out)
					_ = out.Close()
				}()
				got := make(chan string, 16)
				go func() {
					all := bufio.NewScanner(answers)
					for all.Scan() {
						got <- all.Text()
					}
					close(got)
				}()
				_, _ = io.WriteString(w, c.first)
				if c.second != "" {
					_, _ = io.WriteString(w, c.second)
				}
				if first := <-got; !strings.Contains(first, `"protocolVersion"`) {
					t.Errorf("the first answer is %s", first)
				}
				if !c.want {
					_, _ = io.WriteString(w, ready)
				}
				_ = w.Close()
				for range got { // drop the other answers, and the server requests of the stage
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
				r := s.Report()
				if slices.Contains(clientCodes(r), ClientInitializedEarly) != c.want || slices.Contains(clientCodes(r), ClientNoInitialized) {
					t.Error(dumpClient(r))
				}
			})
		})
	}
}

// TestNoVersionWithoutSession checks that a client without a session causes a finding if it does
// not send the version header.
func TestNoVersionWithoutSession(t *testing.T) {
	for _, version := range []string{"", "2025-06-18"} {
		s := NewStage()
		q := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":"1","method":"tools/list"}`))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		if version != "" {
			q.Header.Set(mcp.HeaderVersion, version)
		}
		s.ServeHTTP(httptest.NewRecorder(), q)
		if got := slices.Contains(clientCodes(s.Report()), ClientVersionHeader); got != (version == "") {
			t.Errorf("version %q: found %t", version, got)
		}
	}
}
