package authserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/egress"
)

// host answers every request in the same way, and counts them.
type host struct {
	answer *egress.Answer
	err    error
	asked  int
}

func (h *host) Do(context.Context, *http.Request) (*egress.Answer, error) {
	h.asked++
	return h.answer, h.err
}

func says(status int, kind, body string, more ...string) *host {
	h := http.Header{"Content-Type": {kind}}
	for i := 0; i+1 < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return &host{answer: &egress.Answer{Status: status, Header: h, Body: []byte(body)}}
}

const vendor = "https://vendor.example/client.json"

func document(id, more string) string {
	return `{"client_id":"` + id + `","client_name":"Vendor","redirect_uris":["https://vendor.example/back","http://127.0.0.1/back"]` + more + `}`
}

// TestTA20Documents refuses hostile documents, at an unknown address and at that of a document that is built in.
// Only one that could not be fetched leads to the built-in one.
func TestTA20Documents(t *testing.T) {
	const builtIn = "https://claude.ai/oauth/mcp-oauth-client-metadata"
	const refused, falls = false, true
	for name, x := range map[string]struct {
		host func(id string) *host
		want bool // what is built in is used
	}{
		"another id": {func(string) *host { return says(200, "application/json", document("https://other.example/x", "")) }, refused},
		"a foreign redirect URI": {func(id string) *host {
			return says(200, "application/json", `{"client_id":"`+id+`","redirect_uris":["https://evil.example/"]}`)
		}, refused},
		"a scheme": {func(id string) *host {
			return says(200, "application/json", `{"client_id":"`+id+`","redirect_uris":["cursor://x/"]}`)
		}, refused},
		"no redirect URI": {func(id string) *host { return says(200, "application/json", `{"client_id":"`+id+`"}`) }, refused},
		"many": {func(id string) *host {
			return says(200, "application/json", `{"client_id":"`+id+`","redirect_uris":[`+strings.Repeat(`"http://localhost/",`, 20)+`"http://localhost/"]}`)
		}, refused},
		"a secret": {func(id string) *host { return says(200, "application/json", document(id, `,"client_secret":"x"`)) }, refused},
		"a secret as its proof": {func(id string) *host {
			return says(200, "application/json", document(id, `,"token_endpoint_auth_method":"client_secret_post"`))
		}, refused},
		"a member twice": {func(id string) *host { return says(200, "application/json", document(id, `,"client_id":"x"`)) }, refused},
		"a wrong type": {func(id string) *host {
			return says(200, "application/json", document(id, `,"token_endpoint_auth_method":1`))
		}, refused},
		"a name with controls": {func(id string) *host {
			return says(200, "application/json", strings.Replace(document(id, ""), "Vendor", `\u0007`, 1))
		}, refused},
		"deep": {func(id string) *host {
			return says(200, "application/json", document(id, `,"x":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)))
		}, refused},
		"two objects":       {func(id string) *host { return says(200, "application/json", document(id, "")+"{}") }, refused},
		"an array":          {func(id string) *host { return says(200, "application/json", "["+document(id, "")+"]") }, refused},
		"HTML":              {func(string) *host { return says(200, "text/html", "<html>") }, refused},
		"HTML as JSON":      {func(string) *host { return says(200, "application/json", "<html>") }, refused},
		"404":               {func(string) *host { return says(404, "application/json", "{}") }, refused},
		"410":               {func(string) *host { return says(410, "text/html", "") }, refused},
		"too large":         {func(string) *host { return &host{err: &egress.Error{Reason: egress.TooLarge}} }, refused},
		"a private address": {func(string) *host { return &host{err: &egress.Error{Reason: egress.Nearer}} }, refused},
		"a redirect":        {func(string) *host { return &host{err: &egress.Error{Reason: egress.Redirected}} }, refused},
		"slow":              {func(string) *host { return &host{err: &egress.Error{Reason: egress.TooSlow}} }, falls},
		"no network":        {func(string) *host { return &host{err: &egress.Error{Reason: egress.Unreachable}} }, falls},
		"403":               {func(string) *host { return says(403, "text/html", "are you human?") }, falls},
		"429":               {func(string) *host { return says(429, "text/html", "") }, falls},
		"503":               {func(string) *host { return says(503, "text/html", "") }, falls},
	} {
		for _, id := range []string{vendor, builtIn} {
			c, err := newDocuments(x.host(id)).client(t.Context(), id, "")
			var bad *documentError
			switch {
			case x.want && id == builtIn:
				if err != nil || !c.BuiltIn || c.Name != "Claude" {
					t.Errorf("%s at %s: %+v %v", name, id, c, err)
				}
			case !errors.As(err, &bad) || bad.weather != x.want:
				t.Errorf("%s at %s: %+v %v", name, id, c, err)
			}
		}
	}
}

// TestTA20Egress fetches documents with the real client: a name that leads to a private address, and one that changes
// its mind, are never connected to, and a redirect isn't followed.
func TestTA20Egress(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "fd00::1", "::ffff:127.0.0.1"} {
		looked := 0
		out := egress.New(egress.Options{
			Lookup: func(context.Context, string) ([]netip.Addr, error) {
				if looked++; looked > 1 { // a second look would find something harmless
					return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
				}
				return []netip.Addr{netip.MustParseAddr(addr)}, nil
			},
		})
		c, err := newDocuments(out.From(egress.Public, egress.Bounds{Redirects: -1, Size: DocumentSize, Time: DocumentTime})).client(t.Context(), vendor, "")
		var bad *documentError
		if c != nil || !errors.As(err, &bad) || bad.weather || looked != 1 {
			t.Errorf("%s: %+v %v after %d looks", addr, c, err, looked)
		}
	}
}

// TestDocument reads a good document, and keeps it as long as its host says, within our bounds.
func TestDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for header, want := range map[string]time.Duration{
			"": leastKept, "public, max-age=3600": time.Hour, "max-age=99999999": mostKept,
		} {
			h := says(200, "application/json; charset=utf-8", document(vendor, `,"token_endpoint_auth_method":"private_key_jwt","jwks_uri":"https://vendor.example/keys","logo_uri":"https://x/","x":{"a":[1,{}]}`), "Cache-Control", header)
			d := newDocuments(h)
			ask := func(asked int) {
				c, err := d.client(t.Context(), vendor, "")
				if err != nil || c.Host != "vendor.example" || c.Name != "Vendor" || len(c.Redirects) != 2 || c.BuiltIn || h.asked != asked {
					t.Errorf("%q: %+v %v, asked %d times, want %d", header, c, err, h.asked, asked)
				}
			}
			ask(1)
			time.Sleep(want - time.Second)
			ask(1)
			time.Sleep(time.Second)
			ask(2)
		}
	})
}

// TestDocumentsInMemory checks that strangers can't fill the memory with addresses.
func TestDocumentsInMemory(t *testing.T) {
	d := newDocuments(says(404, "text/html", ""))
	for i := range 3 * mostDocuments {
		_, _ = d.client(t.Context(), fmt.Sprintf("https://host%d.example/x", i), fmt.Sprint(i))
	}
	if len(d.kept) > mostDocuments || len(d.kept) == 0 {
		t.Errorf("%d documents are kept", len(d.kept))
	}
}

// slow answers when it's told to.
type slow struct {
	host
	end chan struct{}
	mu  sync.Mutex
}

func (s *slow) Do(ctx context.Context, r *http.Request) (*egress.Answer, error) {
	<-s.end
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host.Do(ctx, r)
}

// TestTA20Floods lets strangers name one document after the other, and such as never come. We ask so many hosts and no
// more; a document that is kept is there for everybody, what is built in too, and a refusal isn't remembered.
func TestTA20Floods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := says(200, "application/json", document(vendor, ""))
		d := newDocuments(h)
		ask := func(id, from string) error {
			_, err := d.client(t.Context(), id, from)
			return err
		}
		if err := ask(vendor, "innocent"); err != nil {
			t.Fatal(err)
		}
		for i := range 10 * mostPerMinute {
			_ = ask(fmt.Sprintf("https://victim.example/%d", i), "192.0.2.1")
		}
		if h.asked != 1+mostPerMinute {
			t.Errorf("a stranger made us ask %d times", h.asked-1)
		}
		const other = "https://vendor.example/other.json"
		h.answer.Body = []byte(document(other, ""))
		var busy *documentError
		if err := ask(other, "192.0.2.1"); !errors.As(err, &busy) || !busy.weather {
			t.Errorf("a document too many: %v", err)
		}
		for _, err := range []error{
			ask(vendor, "192.0.2.1"), ask("https://claude.ai/oauth/mcp-oauth-client-metadata", "192.0.2.1"), ask(other, "innocent"),
		} {
			if err != nil {
				t.Error(err)
			}
		}

		many := &slow{host: *h, end: make(chan struct{})}
		d.fetch = many
		for i := range 3 * mostAtOnce {
			go func() { _ = ask(fmt.Sprintf("https://slow.example/%d", i), fmt.Sprint(i)) }()
		}
		synctest.Wait()
		if len(d.room) != mostAtOnce || ask(vendor, "innocent") != nil {
			t.Errorf("%d documents are fetched at once", len(d.room))
		}
		close(many.end)
		synctest.Wait()
		if len(d.room) != 0 || many.asked != h.asked+mostAtOnce {
			t.Errorf("%d are fetched, and %d were", len(d.room), many.asked)
		}
	})
}

// TestIsDocument checks which ids are addresses of documents.
func TestIsDocument(t *testing.T) {
	for id, want := range map[string]bool{
		vendor: true, "https://vendor.example/a/b": true,
		"http://vendor.example/a": false, "https://vendor.example": false, "https://vendor.example/": false, "https://vendor.example:443/a": false, "https://vendor.example:8443/a": false,
		"https://user@vendor.example/a": false, "https://vendor.example/a?x": false, "https://vendor.example/a?": false, "https://vendor.example/a#x": false, "https://vendor.example/a/../b": false,
		"https://vendor.example/./b": false, "https://vendor.example/%2e%2e/b": false, "HTTPS://vendor.example/a": false, "https://vendor.example:/a": false, "client-123": false, "": false,
		"https://vendor.example/a b": false, "https://vendor.example\\a": false, "https:///a": false,
	} {
		if got := isDocument(id); got != want {
			t.Errorf("%q: %t", id, got)
		}
	}
}

func FuzzDocument(f *testing.F) {
	f.Add([]byte(document(vendor, "")))
	f.Add([]byte(`{"client_id":"https://vendor.example/client.json","redirect_uris":["http://localhost/"],"x":[{}]}`))
	f.Add([]byte(`{"a":1,"A":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if c, err := parseDocument(vendor, body); err == nil && (c.ID != vendor || len(c.Redirects) == 0 || c.Host != "vendor.example") {
			t.Errorf("%+v", c)
		}
	})
}

func FuzzRegistration(f *testing.F) {
	f.Add([]byte(`{"redirect_uris":["http://localhost/"],"client_name":"x","token_endpoint_auth_method":"client_secret_post"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if x, err := readRegistration(body); err == nil && (len(x.Redirects) == 0 || len(x.Name) > mostName) {
			t.Errorf("%+v", x)
		}
	})
}
