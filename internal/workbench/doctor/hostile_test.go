package doctor

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestVeilFindsSecretsInEverySpelling checks that evidence contains no secret, even if the server
// writes the secret in another form, such as with JSON escapes.
func TestVeilFindsSecretsInEverySpelling(t *testing.T) {
	long := strings.Repeat("k", 40)
	for _, c := range []struct {
		said    string
		secrets []string
		hidden  string
	}{
		{`{"message":"a\/b+c\/d=== is no key"}`, []string{"a/b+c/d==="}, `b+c`},
		{`{"message":"pass\"word1 is wrong"}`, []string{`pass"word1`}, `word1`},
		{`the key hunter2hunter2 is expired`, []string{"Bearer hunter2hunter2"}, "hunter2"},
		{`it was abcdefghij`, []string{"abcdef", "abcdefghij"}, "ghij"},
		{"x" + strings.Repeat(long, 35), []string{long}, "kk"},
	} {
		if s := redact([]byte(c.said), knownOf(c.secrets)); strings.Contains(s, c.hidden) {
			t.Errorf("the evidence for %q is %q", c.said, s)
		}
	}
}

// TestEvidenceOfSchemasIsVeiled checks that evidence with parts of a schema contains no secrets and
// no control characters.
func TestEvidenceOfSchemasIsVeiled(t *testing.T) {
	secret := "hunter2hunter2"
	e := &exam{t: &Target{}, known: knownOf([]string{secret})}
	e.found, e.tried = map[string]Finding{}, map[mcp.Revision]*attempt{}
	raw := []byte(`{"name":"x","description":"` + strings.Repeat("-", 400) + `","inputSchema":{"type":"object","properties":{"a":{"$ref":"\u001b[2J` + secret + `\n< forged"}}}}`)
	conversation := &talk{e: e}
	conversation.judgeTool(raw, jsonrpc.Whole(raw))
	got := ""
	for _, d := range conversation.drafts {
		if d.code == SchemaRef {
			got = d.seen
		}
	}
	if got == "" || strings.Contains(got, secret) || strings.Contains(got, "\x1b") || strings.Count(got, "\n") != 1 {
		t.Errorf("the evidence is %q", got)
	}
}

// crowd is an http.RoundTripper that never answers and counts concurrent requests.
type crowd struct {
	mu   sync.Mutex
	n    int
	most int
}

func (c *crowd) RoundTrip(q *http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.n++
	c.most = max(c.most, c.n)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.n--
		c.mu.Unlock()
	}()
	<-q.Context().Done()
	return nil, q.Context().Err()
}

// TestAnswersAreBounded sends 2,000 answers to a server that never responds. The doctor must send
// at most 64 of them at the same time.
func TestAnswersAreBounded(t *testing.T) {
	c := &crowd{}
	w := openWeb(t.Context(), &Target{URL: &url.URL{Scheme: "http", Host: "127.0.0.1"}, Transport: c})
	for range 2000 {
		w.send(parcel{body: jsonrpc.AppendResult(nil, "1", nil)})
	}
	w.close()
	if c.most > 64 {
		t.Errorf("%d concurrent requests", c.most)
	}
}

// TestEndpointStaysSecure checks a server with an https URL whose endpoint event names an http URL.
// The doctor must not accept that URL, because it would send credentials without TLS.
func TestEndpointStaysSecure(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: endpoint\ndata: http://%s/m\n\n", r.Host)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()
	at, _ := url.Parse(srv.URL)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := openSSE(ctx, &Target{URL: at, Transport: srv.Client().Transport})
	if err == nil {
		w.close()
		t.Errorf("the doctor would post to %s", w.to)
	}
}

// TestPromptsWithManyArguments checks a prompt that declares 200,000 arguments. The prompts/get
// request for it must be valid and at most 64 KiB, and must not take long to build.
func TestPromptsWithManyArguments(t *testing.T) {
	many := strings.Repeat(`{"name":"a"},`, 200_000)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		m, err := jsonrpc.Scan(raw, jsonrpc.Limits{})
		if err != nil || m.Kind != jsonrpc.Request {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := `{}`
		switch m.Method {
		case mcp.MethodListPrompts:
			result = `{"prompts":[{"name":"p","arguments":[` + many + `{"name":"z"}]}]}`
		case mcp.MethodGetPrompt:
			if len(raw) > 64<<10 {
				t.Errorf("the server got %d bytes", len(raw))
			}
			if err := jsonrpc.Valid(raw, jsonrpc.Limits{}); err != nil {
				t.Errorf("the server got an invalid message: %v", err)
			}
			result = `{"messages":[]}`
		}
		_, _ = w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
	})
	srv := httptest.NewServer(h)
	defer srv.Close()
	at, _ := url.Parse(srv.URL)
	e := &exam{t: &Target{URL: at, Transport: srv.Client().Transport}, http: true, o: Options{Patience: time.Minute}}
	e.found, e.tried = map[string]Finding{}, map[mcp.Revision]*attempt{}
	w := openWeb(t.Context(), e.t)
	defer w.close()
	e.read(t.Context(), &talk{e: e, w: w, rev: mcp.LatestLegacy, began: time.Now()})
}
