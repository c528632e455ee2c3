package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// purse has a credential for each principal, and a shared one for those without a subject. The
// credential of generation 2 of ann is "ann-2". It signs with the credential, and with the method and
// the URL, so that the server can check them.
type purse struct {
	renew func(ctx context.Context, scope string, challenges []string) error // nil renews at once

	mu         sync.Mutex
	generation map[string]uint64
	refused    map[string]int // number of calls of Refused, by credential
}

func (p *purse) Scope(who *identity.Principal) string { return who.Key() }

func (p *purse) Sign(_ context.Context, scope, method, url string) ([]transport.HeaderField, uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.generation[scope] + 1
	return []transport.HeaderField{{Name: "authorization", Value: fmt.Sprintf("%s-%d", scope, n)}, {Name: "X-Proof", Value: method + " " + url}}, n, nil
}

func (p *purse) Refused(ctx context.Context, scope string, generation uint64, challenges []string) (again bool, err error) {
	p.mu.Lock()
	if p.refused == nil {
		p.generation, p.refused = map[string]uint64{}, map[string]int{}
	}
	p.refused[fmt.Sprintf("%s-%d", scope, generation)]++
	p.mu.Unlock()
	if p.renew != nil {
		if err := p.renew(ctx, scope, challenges); err != nil {
			return false, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation[scope] = generation
	return true, nil
}

// bouncer lets in only requests that are signed for it and whose credentials are still good. It notes
// what it has seen.
type bouncer struct {
	inner http.Handler

	mu      sync.Mutex
	expired map[string]bool
	turned  int             // number of POST requests that it has turned away; a GET for a stream comes at any time
	full    chan struct{}   // closed when turned reaches want
	want    int             // 0 for no full
	seen    map[string]bool // "METHOD PATH CREDENTIAL" of the requests that it let in
	ran     map[string]int  // number of executions, by the name of the tool
	faults  []string
}

func (b *bouncer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	credential, proof := r.Header.Get("Authorization"), r.Method+" http://"+r.Host+r.URL.String()
	b.mu.Lock()
	if r.Header.Get("X-Proof") != proof || credential == "" {
		b.faults = append(b.faults, fmt.Sprintf("%s has the credential %q and the proof %q", proof, credential, r.Header.Get("X-Proof")))
	}
	bad := b.expired[credential]
	if bad && r.Method == http.MethodPost {
		if b.turned++; b.turned == b.want {
			close(b.full)
		}
	}
	if !bad {
		b.seen[r.Method+" "+r.URL.Path+" "+credential] = true
	}
	b.mu.Unlock()
	if bad {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token", Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		if m, err := jsonrpc.Scan(body, jsonrpc.Limits{}); err == nil && m.Method == mcp.MethodCallTool {
			name, _ := jsonrpc.Text(m.Raw, m.Param("name"))
			b.mu.Lock()
			b.ran[name]++
			b.mu.Unlock()
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	b.inner.ServeHTTP(w, r)
}

func (b *bouncer) expire(credentials ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range credentials {
		b.expired[c] = true
	}
}

// streams is an HTTP+SSE server. Its tool returns the Authorization header of the POST.
type streams struct {
	mu   sync.Mutex
	open map[string]chan []byte
}

func (s *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		answers := make(chan []byte, 100)
		s.mu.Lock()
		id := fmt.Sprint(len(s.open))
		s.open[id] = answers
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "event: endpoint\ndata: /messages?id=%s\n\n", id)
		for {
			w.(http.Flusher).Flush()
			select {
			case b := <-answers:
				_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
			case <-r.Context().Done():
				return
			}
		}
	}
	body, _ := io.ReadAll(r.Body)
	m, err := jsonrpc.Scan(body, jsonrpc.Limits{})
	w.WriteHeader(http.StatusAccepted)
	if err != nil || m.Kind != jsonrpc.Request {
		return
	}
	answer := ok(m, `{"content":[{"type":"text","text":"`+r.Header.Get("Authorization")+`"}]}`)
	if m.Method == mcp.MethodInitialize {
		answer = ok(m, `{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}`)
	}
	s.mu.Lock()
	to := s.open[r.URL.Query().Get("id")]
	s.mu.Unlock()
	to <- answer
}

// door is a teller whose legacy form also has the event stream for GET and ends sessions.
type door struct {
	teller
	listening chan struct{} // gets a value for each GET
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet && !d.modern:
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		d.listening <- struct{}{}
		<-r.Context().Done()
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusOK)
	default:
		d.teller.ServeHTTP(w, r)
	}
}

// overEachTransport runs f with a server of each era and HTTP transport, behind a bouncer.
func overEachTransport(t *testing.T, f func(t *testing.T, b *bouncer, spec Spec)) {
	for _, x := range []struct {
		name, kind string
		inner      http.Handler
	}{
		{"modern", "http", &door{teller: teller{modern: true}}},
		{"legacy", "http", &door{listening: make(chan struct{}, 9)}},
		{"HTTP+SSE", "sse", &streams{open: map[string]chan []byte{}}},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := &bouncer{inner: x.inner, expired: map[string]bool{}, seen: map[string]bool{}, ran: map[string]int{}, full: make(chan struct{})}
			web := httptest.NewServer(b)
			defer web.Close()
			f(t, b, Spec{Name: "web", URL: web.URL + "/mcp", Kind: x.kind})
			b.mu.Lock()
			defer b.mu.Unlock()
			for _, s := range b.faults {
				t.Error(s)
			}
			for name, n := range b.ran {
				if n != 1 {
					t.Errorf("the server has executed %s %d times", name, n)
				}
			}
		})
	}
}

// callAs calls the tool of the given name and returns the credential that the server has seen.
func callAs(t *testing.T, u *Upstream, who, tool string) (string, error) {
	r, err := call(t, u, info(mcp.R20251125, who, "{}", 0), mcp.MethodCallTool, `{"name":"`+tool+`"}`)
	if err != nil {
		return "", err
	}
	_, text, _ := strings.Cut(string(r.Msg.Raw), `"text":"`)
	text, _, _ = strings.Cut(text, `"`)
	return text, nil
}

// TestEachRequestIsSigned checks each kind of request that two principals and a client without a
// subject cause, from the first of the handshake to the DELETE.
func TestEachRequestIsSigned(t *testing.T) {
	overEachTransport(t, func(t *testing.T, b *bouncer, spec Spec) {
		spec.Credentials = &purse{}
		u := New(spec, Options{})
		for _, who := range []string{"ann", "ben", ""} {
			if got, err := callAs(t, u, who, "a"+who); err != nil || got != who+"-1" {
				t.Errorf("%q: the server saw %q, %v", who, got, err)
			}
		}
		if d, ok := b.inner.(*door); ok && !d.modern {
			for range 3 {
				<-d.listening
			}
		}
		u.Close(t.Context())
		b.mu.Lock()
		defer b.mu.Unlock()
		want := map[string][]string{
			"modern":   {"POST /mcp"},
			"legacy":   {"POST /mcp", "GET /mcp", "DELETE /mcp"},
			"HTTP+SSE": {"GET /mcp", "POST /messages"},
		}[path.Base(t.Name())]
		for _, request := range want {
			for _, who := range []string{"ann", "ben", ""} {
				if !b.seen[request+" "+who+"-1"] {
					t.Errorf("%s of %q is not among %v", request, who, b.seen)
				}
			}
		}
	})
}

// TestExpiredCredentialsAreRenewedOnce lets the credential of ann expire before the session is opened,
// and again before 50 calls at once. Each time she is asked about once, and each call runs once. Ben
// notices nothing.
func TestExpiredCredentialsAreRenewedOnce(t *testing.T) {
	overEachTransport(t, func(t *testing.T, b *bouncer, spec Spec) {
		p := &purse{}
		spec.Credentials = p
		u := New(spec, Options{})
		defer u.Close(t.Context())
		b.expire("ann-1")
		if got, err := callAs(t, u, "ann", "first"); err != nil || got != "ann-2" {
			t.Fatalf("the server saw %q, %v", got, err)
		}
		b.mu.Lock()
		b.want = b.turned + 50
		b.mu.Unlock()
		b.expire("ann-2")
		p.renew = func(ctx context.Context, _ string, challenges []string) error {
			if len(challenges) != 2 || challenges[1] != `Basic realm="x"` {
				t.Errorf("the challenges are %q", challenges)
			}
			if got, err := callAs(t, u, "ben", "during"); err != nil || got != "ben-1" {
				t.Errorf("the call of the innocent: %q, %v", got, err)
			}
			<-b.full
			return nil
		}
		var calls sync.WaitGroup
		for i := range 50 {
			calls.Go(func() {
				if got, err := callAs(t, u, "ann", fmt.Sprint("many", i)); err != nil || got != "ann-3" {
					t.Errorf("the server saw %q, %v", got, err)
				}
			})
		}
		calls.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.refused) != 2 || p.refused["ann-1"] != 1 || p.refused["ann-2"] != 1 {
			t.Errorf("asked about %v", p.refused)
		}
		if b.ran["first"] != 1 || len(b.ran) != 52 {
			t.Errorf("%d calls ran", len(b.ran))
		}
	})
}

// nonces are a purse that hears nonces.
type nonces struct {
	purse
	heard map[string]string // by scope
}

func (n *nonces) Nonce(scope, url, nonce string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.heard[scope] = nonce + " " + strings.TrimPrefix(url, "http://")
}

// TestNoncesOfEachScope has two people at a server that gives each of them a nonce of their own. Neither hears that
// of the other.
func TestNoncesOfEachScope(t *testing.T) {
	inner := &door{teller: teller{modern: true}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("DPoP-Nonce", "for "+r.Header.Get("Authorization"))
		inner.ServeHTTP(w, r)
	}))
	defer server.Close()
	n := &nonces{heard: map[string]string{}}
	u := New(Spec{Name: "s", URL: server.URL + "/mcp", Credentials: n}, Options{})
	defer u.Close(t.Context())
	for _, who := range []string{"ann", "ben"} {
		if _, err := callAs(t, u, who, "x"); err != nil {
			t.Error(err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	at := strings.TrimPrefix(server.URL, "http://") + "/mcp"
	if n.heard["ann"] != "for ann-1 "+at || n.heard["ben"] != "for ben-1 "+at {
		t.Errorf("%v", n.heard)
	}
}

// signedOut is the error of a renewal. It has a sentence of its own.
type signedOut struct{ who string }

func (e signedOut) Error() string { return "invalid_grant" }

func (e signedOut) DescribeFailure(f *failure.Facts) {
	f.Sentence, f.Action = e.who+" must sign in again", "open the link"
}

// TestSessionsOfAScopeThatNobodyTakes opens a session for a call of ann that is given up meanwhile. The session
// has a timer that ends it, and is there for her next call.
func TestSessionsOfAScopeThatNobodyTakes(t *testing.T) {
	overEachTransport(t, func(t *testing.T, _ *bouncer, spec Spec) {
		spec.Credentials = &purse{}
		u := New(spec, Options{})
		defer u.Close(t.Context())
		giveUp(t, u, info(mcp.R20251125, "ann", "{}", 0), mcp.Need{ForCall: true})
		for end := time.Now().Add(30 * time.Second); len(u.Report().Sessions) == 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		u.update(func(st *state) {
			if all := st.pools.all(); len(all) != 1 || all[0].reap == nil {
				t.Errorf("nothing will end the only one of %d sessions", len(all))
			}
		})
		if got, err := callAs(t, u, "ann", "later"); err != nil || got != "ann-1" || len(u.Report().Sessions) != 1 {
			t.Errorf("%q, %v, %+v", got, err, u.Report().Sessions)
		}
	})
}

// TestRefusedRenewalReachesEachCaller checks that each of the callers hears why its credentials cannot
// be renewed, that nothing ran, that the others go on, and that the next call tries again.
func TestRefusedRenewalReachesEachCaller(t *testing.T) {
	overEachTransport(t, func(t *testing.T, b *bouncer, spec Spec) {
		p := &purse{}
		spec.Credentials = p
		u := New(spec, Options{})
		defer u.Close(t.Context())
		for _, who := range []string{"ann", "ben"} {
			if _, err := callAs(t, u, who, "first"+who); err != nil {
				t.Fatal(err)
			}
		}
		b.mu.Lock()
		b.want = b.turned + 20
		b.mu.Unlock()
		b.expire("ann-1")
		p.renew = func(_ context.Context, scope string, _ []string) error {
			<-b.full
			return signedOut{scope}
		}
		var calls sync.WaitGroup
		for i := range 20 {
			calls.Go(func() {
				_, err := callAs(t, u, "ann", fmt.Sprint("lost", i))
				var e *mcp.Error
				if !errors.As(err, &e) || e.Outcome != mcp.NotSent || e.Cause != "auth_required" || !strings.Contains(e.Message, "ann must sign in again") {
					t.Errorf("the caller got %v", err)
				}
			})
		}
		calls.Wait()
		if got, err := callAs(t, u, "ben", "after"); err != nil || got != "ben-1" {
			t.Errorf("the call of the innocent: %q, %v", got, err)
		}
		p.mu.Lock()
		if p.refused["ann-1"] != 1 || len(p.refused) != 1 {
			t.Errorf("asked about %v", p.refused)
		}
		p.mu.Unlock()
		b.expire("carl-1") // who has no session yet
		_, err := callAs(t, u, "carl", "unopened")
		var e *mcp.Error
		if !errors.As(err, &e) || e.Outcome != mcp.NotSent || !strings.Contains(e.Message, "carl must sign in again") {
			t.Errorf("the caller without a session got %v", err)
		}
		if st := u.Status(); st.State != Ready {
			t.Errorf("the server is %s: %s", st.State, st.Reason)
		}
		p.renew = nil
		if got, err := callAs(t, u, "ann", "again"); err != nil || got != "ann-2" {
			t.Errorf("after the sign-in: %q, %v", got, err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.ran) != 4 {
			t.Errorf("these ran: %v", b.ran)
		}
	})
}

// TestNobodyKeepsNobodyWaiting checks that the refusal of a client that has not signed in delays none that has,
// that the status says why, and that after its sign-in the client doesn't wait either.
func TestNobodyKeepsNobodyWaiting(t *testing.T) {
	overEachTransport(t, func(t *testing.T, b *bouncer, spec Spec) {
		p := &purse{renew: func(_ context.Context, scope string, _ []string) error { return signedOut{"x" + scope} }}
		spec.Credentials = p
		u := New(spec, Options{})
		defer u.Close(t.Context())
		b.expire("-1", "ben-1")
		for _, who := range []string{"", "ben"} {
			if _, err := callAs(t, u, who, "no"+who); err == nil || !strings.Contains(err.Error(), "x"+who+" must sign in") {
				t.Errorf("%q: %v", who, err)
			}
		}
		if st := u.Status(); st.State != Broken || !strings.Contains(st.Reason, "x must sign in") {
			t.Errorf("the server is %s: %s", st.State, st.Reason)
		}
		if got, err := callAs(t, u, "ann", "yes"); err != nil || got != "ann-1" {
			t.Errorf("ann: %q, %v", got, err)
		}
		if st := u.Status(); st.State != Ready {
			t.Errorf("the server is %s: %s", st.State, st.Reason)
		}
		p.mu.Lock()
		p.generation["ben"] = 1
		p.mu.Unlock()
		u.Renewed("ben")
		if got, err := callAs(t, u, "ben", "after"); err != nil || got != "ben-2" {
			t.Errorf("ben, after the sign-in: %q, %v", got, err)
		}
	})
}

// TestRenewalOutlivesTheFirstCaller checks that the caller that was refused first may leave: the others
// still get the result.
func TestRenewalOutlivesTheFirstCaller(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	p := &purse{renew: func(ctx context.Context, _ string, _ []string) error {
		close(asked)
		<-answer
		return ctx.Err()
	}}
	u := New(Spec{Credentials: p}, Options{})
	s := &signer{u.dialer, "ann"}
	_, mark, _ := s.Sign(t.Context(), "POST", "http://h/")
	first, leave := context.WithCancel(t.Context())
	go func() { <-asked; leave() }()
	if _, err := s.Refused(first, mark, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(answer)
	if again, err := s.Refused(t.Context(), mark, nil); !again || err != nil {
		t.Error(again, err)
	}
	// A straggler, and a request that was signed after the answer.
	if again, err := s.Refused(t.Context(), mark, nil); !again || err != nil || p.refused["ann-1"] != 1 {
		t.Error(again, err, p.refused)
	}
	u.work.Wait()
	if again, err := s.Refused(t.Context(), mark, nil); !again || err != nil {
		t.Error(again, err)
	}
	_, mark, _ = s.Sign(t.Context(), "POST", "http://h/")
	if again, err := s.Refused(t.Context(), mark, nil); again || !errors.Is(err, errStopped) {
		t.Error("a server that has ended asks nobody:", again, err)
	}
}

// extended are a purse that belongs to an extension.
type extended struct {
	purse
	name string
}

func (x *extended) Extension() string { return x.name }

// TestTA47AuthorizationEndsAtEachHop has clients that declare authorization extensions, also escaped, beside those of a
// vendor. The first don't reach any server, in whatever way; ours reaches the server that it is for, and no other.
func TestTA47AuthorizationEndsAtEachHop(t *testing.T) {
	const caps = `{"sampling":{},"extensions":{"io.modelcontextprotocol/oauth-client-credentials":{},"io.modelcontextprotocol/enterprise-managed-\u0061uthorization":{},` +
		`"io.modelcontextprotocol/auth/dpop":{"a":1},"vendor.example/x":{"y":1}}}`
	const ours, theirs = `"io.modelcontextprotocol/oauth-client-credentials":{}`, `"vendor.example/x":{"y":1}`
	for _, rev := range []mcp.Revision{mcp.R20251125, mcp.Latest} {
		for _, alone := range []bool{false, true} {
			for _, extension := range []string{"", mcp.ExtensionClientCredentials} {
				overEachTransport(t, func(t *testing.T, b *bouncer, spec Spec) {
					var mu sync.Mutex
					var declared []string
					inner := b.inner
					b.inner = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						body, _ := io.ReadAll(r.Body)
						if bytes.Contains(body, []byte(`apabilities":{`)) {
							mu.Lock()
							declared = append(declared, string(body))
							mu.Unlock()
						}
						r.Body = io.NopCloser(bytes.NewReader(body))
						inner.ServeHTTP(w, r)
					})
					spec.Credentials, spec.OneClient = &extended{name: extension}, alone
					u := New(spec, Options{})
					defer u.Close(t.Context())
					if _, err := call(t, u, info(rev, "ann", caps, 1), mcp.MethodCallTool, `{"name":"x"}`); err != nil {
						t.Fatal(err)
					}
					mu.Lock()
					defer mu.Unlock()
					seen := 0
					for _, body := range declared {
						if strings.Contains(body, "managed-") || strings.Contains(body, "auth/dpop") || strings.Contains(body, ours) != (extension != "") {
							t.Errorf("the server got %s", body)
						}
						if strings.Contains(body, theirs) {
							seen++
						}
					}
					if seen == 0 {
						t.Errorf("the vendor's extension was lost: %q", declared)
					}
				})
			}
		}
	}
}
