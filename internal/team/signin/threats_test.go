package signin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// TestTA31OneRefreshEachLife lets three processes make calls all the time with tokens that live for two seconds, at an
// issuer that takes each refresh token once. There is one refresh for each life, nobody has to sign in again, and no
// call fails (TC24).
func TestTA31OneRefreshEachLife(t *testing.T) {
	both(t, func(t *testing.T, p place) {
		to := newStrict(t)
		to.life = 2 * time.Second
		r := newRig(t, p, to, Settings{}, nil)
		r.signIn(t, to, r.s.Of(nil), "ada")
		began := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				c, out := peertest.Start(t, peer{place: p, Server: to.URL, Calls: 33, For: 7 * time.Second})
				for out.Scan() {
					if strings.HasPrefix(out.Text(), "error") {
						t.Error(out.Text())
					}
				}
				_ = c.Wait()
			})
		}
		all.Wait()
		lives := int(time.Since(began)/(to.life*4/5)) + 1
		if n := to.counted("refresh_token"); n < 3 || n > lives || to.counted("invalid_grant") > 0 || len(to.tabs) > 0 || to.counted("authorization_code") != 1 {
			t.Errorf("%d refreshes in %d lives; the issuer counts %v, tabs %q", n, lives, to.counts, to.tabs)
		}
	})
}

// TestTA31ProcessEndsBetween kills a process between the answer of an issuer that rotates and our disk. Nothing can
// save that token, and the next process says so.
func TestTA31ProcessEndsBetween(t *testing.T) {
	t.Parallel()
	to, p := newStrict(t), file(t)
	r := newRig(t, p, to, Settings{}, nil)
	of := r.s.Of(nil)
	r.signIn(t, to, of, "ada")
	c, out := peertest.Start(t, peer{place: p, Server: to.URL, Force: true, Kill: "during refresh", Calls: 1})
	for out.Scan() {
	}
	_ = c.Wait()
	// Its lease is over.
	safe := r.safe.Load()
	err := safe.Store().Write(t.Context(), "test", func(x *store.Tx) error {
		row := safe.Store().Snapshot().Credentials(of)[0]
		if err := x.EndLease(row, 1); err != nil {
			return err
		}
		_, ok, err := x.LeaseCredential(row, "killed", -time.Second)
		if err == nil && !ok {
			err = errors.New("no lease")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	to.mu.Lock()
	to.access = map[string]*grant{}
	to.mu.Unlock()
	_, err = r.call(t.Context(), "")
	if n := needed(t, err); n.Why != whyAbandoned {
		t.Errorf("why: %q", n.Why)
	}
	var f failure.Facts
	needed(t, err).DescribeFailure(&f)
	if f.Class != failure.NeedsSignIn || !strings.Contains(f.Sentence, "was ended while") {
		t.Errorf("people read %q, of the class %s", f.Sentence, f.Class)
	}
	r.signIn(t, to, of, "ada")
	if status, err := r.call(t.Context(), ""); status != 200 || err != nil {
		t.Errorf("after a new sign-in: %d, %v", status, err)
	}
}

// standBy answers with a page of HTML.
func standBy(status int) func(http.ResponseWriter) bool {
	return func(w http.ResponseWriter) bool {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<html>Please stand by</html>"))
		return true
	}
}

// TestTA32Weather lets the token endpoint fail in all ways in which nobody has refused anything. The credential stays, the
// token is used as long as it's good, and when the weather is over, calls go on.
func TestTA32Weather(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func(http.ResponseWriter) bool{
		"502": standBy(502), "503": standBy(503), "429": standBy(429), "a page": standBy(200), "a page of a proxy": standBy(403), "a page instead of an error": standBy(400),
		"cut off": func(w http.ResponseWriter) bool {
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = c.Close()
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := newStrict(t)
			to.life = 5 * time.Second
			r := newRig(t, file(t), to, Settings{}, nil)
			r.signIn(t, to, r.s.Of(nil), "ada")
			to.mu.Lock()
			to.broken = broken
			to.mu.Unlock()
			a := r.s.account(local)
			clear := func() {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.later = pause{}
			}
			before, _ := a.current(t.Context(), r.safe.Load())
			time.Sleep(time.Until(before.renewAt) + 10*time.Millisecond)
			if status, err := r.call(t.Context(), ""); status != 200 || err != nil {
				t.Errorf("while the token is good: %d, %v", status, err)
			}
			time.Sleep(time.Until(before.row.Until) + 10*time.Millisecond)
			for range 3 {
				clear()
				_, err := r.call(t.Context(), "")
				var f failure.Facts
				var e *Problem
				if !errors.As(err, &e) {
					t.Fatalf("when it has expired: %v", err)
				}
				if e.DescribeFailure(&f); f.Class != failure.Unreachable || f.Sentence == "" {
					t.Errorf("people read %q, of the class %s", f.Sentence, f.Class)
				}
			}
			if _, err := r.call(t.Context(), ""); err == nil || to.counted("broken") > 5 {
				t.Errorf("calls reach the issuer at once after a failure: %d, %v", to.counted("broken"), err)
			}
			to.mu.Lock()
			to.broken = nil
			to.mu.Unlock()
			clear()
			if status, err := r.call(t.Context(), ""); status != 200 || err != nil || to.counted("authorization_code") != 1 {
				t.Errorf("afterwards: %d, %v", status, err)
			}
		})
	}
}

// TestTA32ReadsAgain checks what a refused refresh token means: nothing, if the store has a newer credential, and else that
// the person must sign in again. The record stays, with the scopes that were asked for.
func TestTA32ReadsAgain(t *testing.T) {
	to, p := newStrict(t), file(t)
	to.offers = []string{"read", "write"}
	other := newRig(t, p, to, Settings{}, nil)
	of := other.s.Of(nil)
	other.signIn(t, to, of, "ada")
	once := sync.OnceFunc(func() { other.signIn(t, to, of, "ada") })
	r := newRig(t, p, to, Settings{}, func(o *Options) {
		o.Known = true
		o.step = func(name string) {
			if name == "before refresh" {
				once()
			}
		}
	})
	refuseRefresh := func() {
		to.mu.Lock()
		defer to.mu.Unlock()
		for _, g := range to.refresh {
			g.revoked = true
			g.root().revoked = true
		}
	}
	refuseRefresh()
	if status, err := r.call(t.Context(), ""); status != 200 || err != nil || to.counted("invalid_grant") != 1 {
		t.Errorf("with a newer credential in the store: %d, %v, %v", status, err, to.counts)
	}
	refuseRefresh()
	_, err := r.call(t.Context(), "")
	if n := needed(t, err); n.Why != whyRefused {
		t.Errorf("without: %+v", n)
	}
	rows := r.safe.Load().Store().Snapshot().Credentials(of)
	now, err := r.s.account(local).current(t.Context(), r.safe.Load())
	if err != nil || len(rows) != 1 || !rows[0].Spent || now.refresh.Reveal()+now.access.Reveal() != "" || joined(now.requested) != "read write" {
		t.Errorf("the record: %v", err)
	}
	if r.Has(of) || r.s.settled(t.Context(), of) {
		t.Error("somebody whose token was refused is signed in")
	}
}

// get asks the callback for a page, and returns its status.
func get(t *testing.T, method, at, host string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if loc := resp.Header.Get("Location"); loc != "" {
		t.Errorf("%s leads to %s", at, loc)
	}
	return resp.StatusCode
}

// TestTA34StateOnce checks that an answer of an issuer counts once, within ten minutes, only with its state, and only at its
// own address; whatever doesn't fit leaves the sign-in as it is.
func TestTA34StateOnce(t *testing.T) {
	to := newStrict(t)
	r := newRig(t, file(t), to, Settings{}, nil)
	f, err := r.s.begin(t.Context(), r.s.Of(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	at := func(q url.Values) string { return f.kept.Redirect + "?" + q.Encode() }
	state, iss := f.kept.State, to.URL
	own, _ := url.Parse(f.kept.Redirect)
	for i, c := range []struct {
		method, at, host string
		want             int
	}{
		{"GET", at(url.Values{"code": {"x"}, "iss": {iss}}), "", 400},
		{"GET", at(url.Values{"code": {"x"}, "iss": {iss}, "state": {strings.Repeat("A", 43)}}), "", 400},
		{"GET", at(url.Values{"code": {"x"}, "iss": {iss}, "state": {state + "x"}}), "", 400},
		{"GET", at(url.Values{"error": {"access_denied"}, "iss": {iss}, "state": {state[1:]}}), "", 400},
		{"GET", strings.Replace(at(url.Values{"code": {"x"}, "iss": {iss}, "state": {state}}), "/callback", "/callback/other", 1), "", 400},
		{"GET", at(url.Values{"code": {"x"}, "iss": {iss}, "state": {state}}), "evil.example:" + own.Port(), 403},
		{"GET", at(url.Values{"code": {"x"}, "iss": {iss}, "state": {state}}), "127.0.0.1:1", 403},
		{"POST", at(url.Values{"code": {"x"}, "iss": {iss}, "state": {state}}), "", 405},
	} {
		if got := get(t, c.method, c.at, c.host); got != c.want {
			t.Errorf("%d: %d, want %d", i, got, c.want)
		}
	}
	if err := f.Paste(t.Context(), "https://x.example/?code=x&state="+strings.Repeat("A", 43)); err == nil || !strings.Contains(err.Error(), "another sign-in") {
		t.Errorf("an address of another sign-in: %v", err)
	}
}

// TestTA34TwoTabs finishes one sign-in in two tabs: the second one comes too late. So does one that comes after ten minutes.
func TestTA34TwoTabs(t *testing.T) {
	to := newStrict(t)
	r := newRig(t, file(t), to, Settings{}, nil)
	f, err := r.s.begin(t.Context(), r.s.Of(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	state, iss := f.kept.State, to.URL
	var tabs sync.WaitGroup
	statuses := make(chan int, 2)
	for range 2 {
		back, err := to.consent(t.Context(), f.Link(), "ada")
		if err != nil {
			t.Fatal(err)
		}
		tabs.Go(func() { statuses <- get(t, "GET", back, "") })
	}
	tabs.Wait()
	if a, b := <-statuses, <-statuses; a+b != 600 {
		t.Errorf("two tabs end with %d and %d", a, b)
	}
	if err := f.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if n := to.counted("authorization_code"); n != 1 {
		t.Errorf("%d token requests", n)
	}
	if err := r.Finish(t.Context(), "", url.Values{"code": {"x"}, "iss": {iss}, "state": {state}}); err == nil {
		t.Error("a state counts twice")
	}
	// Ten minutes.
	if f, err = r.s.begin(t.Context(), r.s.Of(nil), false); err != nil {
		t.Fatal(err)
	}
	if d := time.Until(f.Until()); d > 10*time.Minute || d < 9*time.Minute {
		t.Errorf("the link is good for %s", d)
	}
	err = r.safe.Load().Store().Write(t.Context(), "test", func(x *store.Tx) error {
		_, err := x.ExtendFlow(f.row.ID, time.Now().Add(-time.Millisecond))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(t.Context(), "", url.Values{"code": {"x"}, "iss": {iss}, "state": {f.kept.State}}); err == nil {
		t.Error("a link is good after its time")
	}
	if err := f.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "10m0s") {
		t.Errorf("after its time: %v", err)
	}
}

// TestTA34RefusedAnswers checks answers with the right state that refuse, or that another issuer has sent: the sign-in ends with
// one sentence, and nobody asks for a token.
func TestTA34RefusedAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		q    url.Values
		want string
		shut string // must not be shown
	}{
		"denied":      {url.Values{"error": {"access_denied"}, "iss": {"ISS"}}, "access_denied", ""},
		"foreign":     {url.Values{"code": {"x"}, "iss": {"https://evil.example"}}, "", "evil.example/x"},
		"no iss":      {url.Values{"code": {"x"}}, "", ""},
		"foreign err": {url.Values{"error": {"click_here"}, "error_description": {"call 555"}, "iss": {"https://evil.example"}}, "", "555"},
	} {
		t.Run(name, func(t *testing.T) {
			to := newStrict(t)
			r := newRig(t, file(t), to, Settings{}, nil)
			f, err := r.s.begin(t.Context(), r.s.Of(nil), false)
			if err != nil {
				t.Fatal(err)
			}
			c.q.Set("state", f.kept.State)
			if c.q.Get("iss") == "ISS" {
				c.q.Set("iss", to.URL)
			}
			finishErr := r.Finish(t.Context(), "", c.q)
			err = f.Wait(t.Context())
			if finishErr == nil || err == nil || !strings.Contains(fmt.Sprint(finishErr), c.want) || c.shut != "" && strings.Contains(err.Error(), c.shut) || to.counted("authorization_code") != 0 {
				t.Errorf("%v, then %v", finishErr, err)
			}
			if f2, err := r.s.begin(t.Context(), r.s.Of(nil), false); err != nil || f2.Link() == f.Link() {
				t.Errorf("the next sign-in: %v", err)
			}
		})
	}
}

// TestTA35EndlessStepUp meets a server that always wants more. Scopes are added to those that were asked for before, and
// the third time within an hour, the error names the scope.
func TestTA35EndlessStepUp(t *testing.T) {
	to := newStrict(t)
	to.offers, to.grants = []string{"read"}, "read"
	r := newRig(t, file(t), to, Settings{}, nil)
	of := r.s.Of(nil)
	r.signIn(t, to, of, "ada")
	to.mu.Lock()
	to.needs = "admin"
	to.mu.Unlock()
	for range mostInVain {
		_, err := r.call(t.Context(), "")
		if n := needed(t, err); joined(n.Scopes) != "admin" {
			t.Errorf("it needs %q", n.Scopes)
		}
		r.signIn(t, to, of, "ada")
	}
	_, err := r.call(t.Context(), "")
	var end *Problem
	if !errors.As(err, &end) || end.class != failure.Unauthorized || !strings.Contains(err.Error(), `"admin"`) {
		t.Errorf("the third time: %v", err)
	}
	if got := fmt.Sprint(to.asked); got != "[read read admin read admin]" {
		t.Errorf("the issuer was asked for %s", got)
	}
	// Another scope is another question, and an hour later so is this one.
	a := r.s.account(local)
	for i := range mostSteps + 1 {
		if err := a.mayStepUp([]string{"more"}, false, time.Now()); (err != nil) != (i == mostSteps) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := a.mayStepUp([]string{"write"}, false, time.Now()); err != nil {
		t.Error(err)
	}
	if err := a.mayStepUp([]string{"admin"}, true, time.Now().Add(stepsEvery)); err != nil {
		t.Error(err)
	}
}

// TestTA38OnePersonOneCredential lets two people and the local user call one server at the same time, also before anybody
// knows that it wants a sign-in: each call goes with the caller's own credential or none.
func TestTA38OnePersonOneCredential(t *testing.T) {
	to := newStrict(t)
	r := newRig(t, file(t), to, Settings{}, func(o *Options) { o.Alone = false })
	ada, bob, eve := &identity.Principal{Subject: "p:ada", Seat: "k:1"}, &identity.Principal{Subject: "p:bob", Seat: "s:2"}, &identity.Principal{Subject: "p:eve", Seat: "s:3"}
	all := []*identity.Principal{ada, bob, eve, identity.Local}
	for _, who := range append(all, nil) {
		if got := r.s.Scope(who); got != "" {
			t.Errorf("before anybody was refused, %+v has the scope %q", who, got)
		}
	}
	_, err := r.call(t.Context(), "")
	needed(t, err)
	for _, who := range []*identity.Principal{ada, bob, identity.Local} {
		r.signIn(t, to, r.s.Of(who), who.Subject)
		if got := r.s.Scope(who); got != who.Subject {
			t.Errorf("%s, who has signed in, has the scope %q", who.Subject, got)
		}
		if looks := who.Running(identity.Look); looks != nil && r.s.Scope(looks) != "" {
			t.Errorf("an admin who looks as %s has their scope", who.Subject)
		}
		if got := r.s.Scope(eve); got != "" {
			t.Errorf("eve, who hasn't, has the scope %q", got)
		}
	}
	var calls sync.WaitGroup
	for range 25 {
		for _, scope := range []string{"p:ada", "p:bob", "local", "p:eve", ""} {
			calls.Go(func() {
				status, err := r.call(t.Context(), scope)
				if has := scope != "" && scope != "p:eve"; has != (status == 200) || has != (err == nil) {
					t.Errorf("%q: %d, %v", scope, status, err)
				}
			})
		}
	}
	calls.Wait()
	for _, who := range []string{"p:ada", "p:bob", "local"} {
		if n := to.counted("call of " + who); n != 25 {
			t.Errorf("%d calls as %s", n, who)
		}
	}
	if n := to.counted("call"); n != 75 {
		t.Errorf("%d calls", n)
	}
	// A call that had gone without Ada's credential, just before she had one, asks her for nothing.
	if f, err := r.s.Begin(t.Context(), r.s.Of(ada), false); err != nil || f.Link() != "" {
		t.Errorf("Ada has signed in, and shall open %q: %v", f.Link(), err)
	}
}

// TestTA38WhoShares checks whose credential a scope has where one is for all, and where only the local user is.
func TestTA38WhoShares(t *testing.T) {
	to := newStrict(t)
	ada := &identity.Principal{Subject: "p:ada", Seat: "k:1"}
	all := []*identity.Principal{ada, {Subject: "p:bob", Seat: "s:2"}, identity.Local}
	common := newRig(t, file(t), to, Settings{Shared: true}, func(o *Options) { o.Alone = false })
	for _, who := range all {
		if common.s.Scope(who) != "" || common.s.Of(who).Subject != store.Shared {
			t.Errorf("%s doesn't share", who.Subject)
		}
	}
	common.signIn(t, to, common.s.Of(ada), "everybody")
	if status, err := common.call(t.Context(), ""); status != 200 || err != nil || to.counted("call of everybody") != 1 {
		t.Errorf("shared: %d, %v", status, err)
	}
	// Where nobody but the local user is, whoever comes in with a name still has a scope of their own.
	alone := newRig(t, file(t), to, Settings{}, nil)
	if alone.s.Scope(nil) != "" || alone.s.Scope(identity.Local) != "" || alone.s.Scope(ada) != "p:ada" || alone.s.Scope(ada.Running(identity.Look)) == "" || alone.s.Scope(ada.Running(identity.Look)) == "p:ada" || alone.s.subject("") != local {
		t.Error("the scopes of an open loopback")
	}
}

// TestTA46FiveProcesses starts five processes at once that need the same sign-in, and kills two of them after the first tab was
// opened, among them the one that listens. The same tab is finished by another one within a second, and there's one tab, one
// registration and one token request in all.
func TestTA46FiveProcesses(t *testing.T) {
	both(t, func(t *testing.T, p place) {
		to := newStrict(t)
		var kill [5]func()
		var readers sync.WaitGroup
		holds, works := make(chan int, 100), make(chan int, 100)
		for i := range kill {
			c, out := peertest.Start(t, peer{place: p, Server: to.URL, Calls: 2})
			kill[i] = func() { _ = c.Process.Kill() }
			readers.Go(func() {
				for out.Scan() {
					switch out.Text() {
					case "holds the port":
						holds <- i
					case "called":
						works <- i
					default:
						t.Errorf("%d says %s", i, out.Text())
					}
				}
				_ = c.Wait()
			})
		}
		link := firstTab(t, to)
		time.Sleep(3 * time.Second) // so that the others have joined
		holder := <-holds
		for len(holds) > 0 {
			holder = <-holds // whoever chose the port may have given it back at first
		}
		kill[holder]()
		kill[(holder+1)%len(kill)]()
		began := time.Now()
		status, away, err := to.visit(t.Context(), link, "ada")
		if err != nil || status != 200 || away > 2*time.Second {
			t.Errorf("the tab ended with %d after %s, and nobody was there for %s: %v", status, time.Since(began), away, err)
		}
		readers.Wait()
		if len(works) != 3 {
			t.Errorf("%d of 3 work", len(works))
		}
		to.mu.Lock()
		defer to.mu.Unlock()
		if len(to.tabs) != 1 || to.counts["register"] != 1 || to.counts["authorization_code"] != 1 || to.counts["refresh_token"] != 0 {
			t.Errorf("%d tabs; the issuer counts %v", len(to.tabs), to.counts)
		}
	})
}

// TestTA46OtherStore checks that the state of another user's store is refused.
func TestTA46OtherStore(t *testing.T) {
	to := newStrict(t)
	mine, theirs := newRig(t, file(t), to, Settings{}, nil), newRig(t, file(t), to, Settings{}, nil)
	f, err := theirs.s.begin(t.Context(), theirs.s.Of(nil), false)
	if err != nil {
		t.Fatal(err)
	}
	err = mine.Finish(t.Context(), "", url.Values{"state": {f.kept.State}, "code": {"x"}, "iss": {to.URL}})
	if err == nil || to.counted("authorization_code") != 0 {
		t.Errorf("the state of another store: %v", err)
	}
}

// firstTab waits until a process has opened a tab.
func firstTab(t *testing.T, to *strict) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		to.mu.Lock()
		tabs := to.tabs
		to.mu.Unlock()
		if len(tabs) > 0 {
			return tabs[0]
		}
	}
	t.Fatal("no tab was opened")
	return ""
}
