package httpdoor

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

func TestGuard(t *testing.T) {
	configured := NewGuard([]string{"Mcp.Example.com", "port.example:8443"}, []string{"https://app.example"}, []string{"GET"})
	rows := []struct {
		guard        *Guard
		method, host string
		origin       []string
		want         int
	}{
		{nil, "GET", "localhost:80", nil, 200},
		{nil, "GET", "LOCALHOST", nil, 200},
		{nil, "GET", "127.0.0.1", nil, 200},
		{nil, "GET", "[::1]:8080", nil, 200},
		{nil, "GET", "[::1", nil, 403},
		{nil, "GET", "127.0.0.2", nil, 403},
		{nil, "GET", "", nil, 403},
		{nil, "GET", "localhost.", nil, 403},
		{nil, "PUT", "localhost", nil, 405},
		{nil, "GET", "localhost:80", []string{"http://localhost:80"}, 200},
		{nil, "GET", "localhost:80", []string{"https://[::1]:80"}, 200},
		{nil, "GET", "localhost:80", []string{"http://localhost:81"}, 403},
		{nil, "GET", "localhost:80", []string{"http://localhost:80/"}, 403},
		{nil, "GET", "localhost:80", []string{"http://user@localhost:80"}, 403},
		{nil, "GET", "localhost:80", []string{""}, 403},
		{nil, "GET", "localhost:80", []string{"null"}, 403},
		{nil, "GET", "localhost:80", []string{}, 403},
		{configured, "GET", "mcp.example.com:1234", nil, 200},
		{configured, "GET", "port.example:8443", nil, 200},
		{configured, "GET", "port.example:8444", nil, 403},
		{configured, "GET", "localhost", []string{"https://app.example"}, 200},
		{configured, "GET", "localhost", []string{"https://app.example", "https://app.example"}, 403},
		{configured, "GET", "localhost", []string{"https://app.example.evil"}, 403},
		{configured, "POST", "localhost", nil, 405},
	}
	for _, row := range rows {
		r := httptest.NewRequest(row.method, "/", nil)
		r.Host = row.host
		if row.origin != nil {
			r.Header["Origin"] = row.origin
		}
		w := httptest.NewRecorder()
		row.guard.Wrap(row.guard.Usual(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))).ServeHTTP(w, r)
		if w.Code != row.want {
			t.Errorf("%s Host %q Origin %q: %d, want %d", row.method, row.host, row.origin, w.Code, row.want)
		}
		if w.Code == 405 && w.Header().Get("Allow") == "" {
			t.Error("the 405 answer has no Allow header")
		}
	}
	if configured.Refused() != 4 {
		t.Errorf("%d requests were refused", configured.Refused())
	}
	n := testing.AllocsPerRun(100, func() { configured.Admit(nil, guarded) })
	if n != 0 {
		t.Errorf("the guard makes %v allocations", n)
	}
}

var guarded = &http.Request{Method: "GET", Host: "mcp.example.com:80", Header: http.Header{}}

func TestRemote(t *testing.T) {
	for addr, want := range map[string]string{"10.0.0.1:80": "10.0.0.1", "[::1]:80": "::1", "[fe80::1%eth0]:80": "fe80::1%eth0", "@": "@", "": "", "pipe": "pipe"} {
		if got := Remote(&http.Request{RemoteAddr: addr}); got != want {
			t.Errorf("%q: %q", addr, got)
		}
	}
}

func TestAcceptsAndIsJSON(t *testing.T) {
	for accept, want := range map[string][2]bool{
		"application/json, text/event-stream":           {true, true},
		"text/event-stream;charset=utf-8;q=0.2":         {false, true},
		"application/json;q=0.000":                      {false, false},
		"application/json; q=0, */*;q=0.1":              {true, true},
		"text/*,,application/problem+json":              {false, true},
		"application/json-seq, xtext/event-stream":      {false, false},
		" application/JSON ;v=1,\ttext/event-stream\t ": {true, true},
	} {
		json, events := Accepts(http.Header{"Accept": {accept}})
		if json != want[0] || events != want[1] {
			t.Errorf("%q: %v %v", accept, json, events)
		}
	}
	for ct, want := range map[string]bool{
		"application/json": true, "application/json;charset=utf-8": true, "application/json; x=y; CHARSET=UTF8": true,
		"application/json; charset=latin1": false, "application/json; charset": false, "application/jsonx": false, "": false, "text/json": false,
	} {
		if got := IsJSON(http.Header{"Content-Type": {ct}}); got != want {
			t.Errorf("%q: %v", ct, got)
		}
	}
	if IsJSON(http.Header{}) || IsJSON(http.Header{"Content-Type": {"application/json", "application/json"}}) {
		t.Error("IsJSON accepts a missing or a repeated Content-Type")
	}
}

// TestOwn checks that a name of Own has only its paths, that its pages reach no other host and no
// other page reaches it, and that the log does not reveal it.
func TestOwn(t *testing.T) {
	var log bytes.Buffer
	g := NewGuard([]string{"gateway.example"}, []string{"https://app.example"}, nil)
	g.LogTo(slog.New(slog.NewTextHandler(&log, nil)))
	g.Own("Secret.localhost", "/console/", "/api/")
	explained := 0
	g.Explain(func(w http.ResponseWriter, r *http.Request) bool {
		explained++
		return r.Host == "former.localhost"
	})
	for _, tt := range []struct {
		host, path, origin string
		want               bool
	}{
		{"secret.localhost:7300", "/console/", "", true},
		{"SECRET.localhost:7300", "/api/v1/calls", "", true},
		{"secret.localhost:7300", "/console/x", "http://secret.localhost:7300", true},
		{"secret.localhost:7300", "/mcp", "", false},
		{"secret.localhost:7300", "/consoles", "", false},
		{"secret.localhost:7300", "/", "", false},
		{"x.secret.localhost:7300", "/console/", "", false},
		{"secret.localhost.evil.example", "/console/", "", false},
		{"former.localhost", "/console/", "", false},
		{"secret.localhost:7300", "/console/x", "http://secret.localhost:9999", false},
		{"secret.localhost:7300", "/console/x", "http://127.0.0.1:7300", false},
		{"secret.localhost:7300", "/console/x", "https://app.example", false},
		{"secret.localhost:7300", "/console/x", "null", false},
		{"127.0.0.1:7300", "/mcp", "http://secret.localhost:7300", false},
		{"gateway.example", "/mcp", "http://secret.localhost:7300", false},
		{"secret.localhost.", "/console/", "", false},
		{"Secret.localhost.:7300", "/", "", false},
		{"a-secret-b", "/", "", false},
		{strings.Repeat("x", maxShown-3) + "secret.localhost", "/", "", false},
		{"127.0.0.1:7300", "/mcp", "https://SECRET.localhost:7300", false},
		{"127.0.0.1:7300", "/mcp", "http://x.secret.localhost.", false},
		{"foreign.example", "/mcp", "", false},
		{"127.0.0.1:7300", "/mcp", "http://localhost:7300", true},
	} {
		r := httptest.NewRequest("GET", tt.path, nil)
		if r.Host = tt.host; tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if got := g.Admit(httptest.NewRecorder(), r); got != tt.want {
			t.Errorf("%+v: %t", tt, got)
		}
	}
	if explained == 0 || g.Refused() != 19 {
		t.Errorf("%d explained, %d refused", explained, g.Refused())
	}
	if text := strings.ToLower(log.String()); strings.Contains(text, "secret") || strings.Contains(text, "xsec") || !strings.Contains(text, "foreign.example") {
		t.Errorf("the log has the name: %s", log.String())
	}
}

// TestIdentifyFailsClosed checks that nobody comes in where nobody is named: neither through a
// missing function nor through one that returns nothing. Who is named comes in.
func TestIdentifyFailsClosed(t *testing.T) {
	type principal = func(*http.Request) (*identity.Principal, error)
	ann := identity.Named("ann")
	for name, tt := range map[string]struct {
		of   principal
		want *identity.Principal
	}{
		"no function":       {nil, nil},
		"an error":          {func(*http.Request) (*identity.Principal, error) { return nil, errors.New("x") }, nil},
		"a name and an err": {func(*http.Request) (*identity.Principal, error) { return ann, errors.New("x") }, nil},
		"neither":           {func(*http.Request) (*identity.Principal, error) { return nil, nil }, nil},
		"ann":               {func(*http.Request) (*identity.Principal, error) { return ann, nil }, ann},
		"anyone":            {identity.Anyone, identity.Local},
	} {
		g := NewGuard(nil, nil, nil)
		w := httptest.NewRecorder()
		who, ok := g.Identify(w, httptest.NewRequest("GET", "http://localhost/", nil), tt.of)
		refused := w.Code == http.StatusUnauthorized && g.Denied() == 1
		if who != tt.want || ok != (tt.want != nil) || refused == ok {
			t.Errorf("%s: %v %v, status %d, %d denied", name, who, ok, w.Code, g.Denied())
		}
	}
}
