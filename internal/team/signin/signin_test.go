package signin

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// TestSignIn signs the local user in, as `run` does: nothing is opened before the server refuses a call, one tab is
// opened, and the next process asks nothing.
func TestSignIn(t *testing.T) {
	both(t, func(t *testing.T, p place) {
		to := newStrict(t)
		r := newRig(t, p, to, Settings{}, nil)
		if h, g, err := r.s.Sign(t.Context(), "", "POST", r.to); h != nil || g != 0 || err != nil {
			t.Errorf("before anything: %v, %d, %v", h, g, err)
		}
		if _, err := os.Stat(p.Database); err == nil {
			t.Error("there is a database before anybody needs it")
		}
		changed := r.Changed()
		_, err := r.call(t.Context(), "")
		if n := needed(t, err); n.Of != (store.SignIn{Project: "default", Server: r.to, Subject: "local"}) || n.Why != "" {
			t.Errorf("needed is %+v", n)
		}
		if _, err := r.s.Begin(t.Context(), r.s.Of(nil), true); err != nil {
			t.Fatal(err)
		}
		link := <-r.tabs
		if status, away, err := to.visit(t.Context(), link, "ada"); status != 200 || away != 0 || err != nil {
			t.Errorf("the last page: %d, nobody was there for %s, %v", status, away, err)
		}
		<-changed
		if f, err := r.s.Begin(t.Context(), r.s.Of(nil), true); err != nil || f.Link() != "" || f.Wait(t.Context()) != nil {
			t.Errorf("whoever has just signed in is asked again: %q, %v", f.Link(), err)
		}
		if status, err := r.call(t.Context(), ""); status != 200 || err != nil {
			t.Errorf("the next call: %d, %v", status, err)
		}
		list, err := r.SignedIn(t.Context())
		if err != nil || len(list) != 1 || !list[0].Renews || list[0].Spent || time.Until(list[0].Until) < 59*time.Minute || !r.Has(r.s.Of(nil)) {
			t.Errorf("signed in: %+v, %v", list, err)
		}
		again := newRig(t, p, to, Settings{}, nil)
		if status, err := again.call(t.Context(), ""); status != 200 || err != nil {
			t.Errorf("the next process: %d, %v", status, err)
		}
		known := newRig(t, p, to, Settings{}, func(o *Options) { o.Known = true })
		if h, g, err := known.s.Sign(t.Context(), "", "POST", r.to); len(h) != 1 || !strings.HasPrefix(h[0].Value, "Bearer access-") || g == 0 || err != nil {
			t.Errorf("a process that knows: %v, %d, %v", h, g, err)
		}
		if there, revoked, err := r.SignOut(t.Context(), "local", r.s.Of(nil)); !there || !revoked || err != nil {
			t.Errorf("signed out: %t, %t, %v", there, revoked, err)
		}
		if to.counted("revoke refresh_token") != 1 || to.counted("revoke access_token") != 1 || to.counted("register") != 1 || to.counted("authorization_code") != 1 {
			t.Errorf("the issuer counts %v", to.counts)
		}
		if _, err := again.call(t.Context(), ""); needed(t, err).Why != "" {
			t.Errorf("after the sign-out: %v", err)
		}
	})
}

// TestRemovedPersonIsSignedOut removes a person, and revokes the key of a service: a serve has their tokens revoked.
func TestRemovedPersonIsSignedOut(t *testing.T) {
	to, p := newStrict(t), file(t)
	r := newRig(t, p, to, Settings{}, func(o *Options) { o.Known, o.Alone = true, false })
	of := store.SignIn{Project: "default", Server: r.s.id, Subject: store.PersonSubject + "ada"}
	r.signIn(t, to, of, "ada")
	r.signIn(t, to, store.SignIn{Project: "default", Server: r.s.id, Subject: store.PersonSubject + "bob"}, "bob")
	service := store.SignIn{Project: "default", Server: r.s.id, Subject: store.KeySubject + "nightly"}
	r.signIn(t, to, service, "robot")
	other := newRig(t, p, to, Settings{}, nil) // another process
	if _, err := other.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := other.safe.Load().Store().Write(t.Context(), "local", func(x *store.Tx) error {
		if _, err := x.AddPerson("ada", "Ada", []byte("x")); err != nil {
			return err
		}
		if _, err := x.RemovePerson("ada"); err != nil {
			return err
		}
		if err := x.AddKey(store.Key{ID: "nightly", Name: "nightly", Project: "default", Sum: []byte("x")}); err != nil {
			return err
		}
		_, err := x.RevokeKey("nightly")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); to.counted("revoke refresh_token") < 2 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if status, err := r.call(t.Context(), store.PersonSubject+"ada"); status == 200 || needed(t, err).Of != of {
		t.Errorf("somebody who was removed: %d, %v", status, err)
	}
	if r.Has(service) {
		t.Error("a service whose key was revoked is signed in")
	}
	if status, err := r.call(t.Context(), store.PersonSubject+"bob"); status != 200 || err != nil || to.counted("revoke refresh_token") != 2 {
		t.Errorf("the other one: %d, %v; %v", status, err, to.counts)
	}
}

// TestPlainRefusal has a server that refuses us and knows no sign-in: whoever calls hears its refusal, and its well-known
// addresses are asked once. It may want a token, as our own does where only keys count.
func TestPlainRefusal(t *testing.T) {
	for _, challenge := range []string{"", `Bearer realm="keys"`} {
		plainRefusal(t, challenge)
	}
}

func plainRefusal(t *testing.T, challenge string) {
	var asked atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mcp" {
			asked.Add(1)
			http.NotFound(w, r)
			return
		}
		if challenge != "" {
			w.Header().Set("WWW-Authenticate", challenge)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer web.Close()
	d := New(Options{Egress: egress.New(egress.Options{}), Alone: true})
	defer d.Close()
	s, err := d.Server("default", "srv", web.URL+"/mcp", Settings{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if status, err := call(t.Context(), s, "", web.URL+"/mcp"); status != 401 || err != nil {
			t.Errorf("after %q: %d, %v", challenge, status, err)
		}
	}
	if n := asked.Load(); n == 0 || n > 5 {
		t.Errorf("after %q: %d requests for metadata", challenge, n)
	}
}

// TestAtOnce has a process that begins a sign-in when a credential is no longer good: one tab for each credential, however
// often the server refuses, and none before anybody has signed in.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	to := newStrict(t)
	r := newRig(t, file(t), to, Settings{}, func(o *Options) { o.AtOnce = true })
	refused := func() {
		for range 3 {
			_, err := r.call(t.Context(), "")
			needed(t, err)
		}
	}
	refused()
	if len(r.tabs) > 0 || len(r.flows) > 0 {
		t.Error("a sign-in was begun before anybody asked")
	}
	r.signIn(t, to, r.s.Of(nil), "ada")
	to.mu.Lock()
	for _, g := range to.access {
		g.root().revoked = true
	}
	to.deny = true
	to.mu.Unlock()
	refused()
	began := time.Now()
	link := <-r.tabs
	if time.Since(began) < quietTime/2 {
		t.Error("whoever shows the link in another way has no time for it")
	}
	if status, _, err := to.visit(t.Context(), link, "ada"); status != http.StatusForbidden || err != nil {
		t.Errorf("the page of who declines: %d, %v", status, err)
	}
	refused()
	time.Sleep(2 * lookEvery)
	if len(r.tabs) > 0 {
		t.Error("who declines is asked again")
	}
	// The next time, somebody shows the link.
	to.mu.Lock()
	to.deny = false
	to.mu.Unlock()
	r.signIn(t, to, r.s.Of(nil), "ada")
	to.mu.Lock()
	for _, g := range to.access {
		g.root().revoked = true
	}
	to.mu.Unlock()
	refused()
	if _, err := r.s.Begin(t.Context(), r.s.Of(nil), false); err != nil {
		t.Error(err)
	}
	time.Sleep(quietTime + 3*lookEvery)
	if len(r.tabs) > 0 {
		t.Error("there's a tab beside the link that somebody shows")
	}
}
