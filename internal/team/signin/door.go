package signin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// door is one port of this machine at which browsers arrive when they come back from an issuer. Processes with the
// same data folder share it: one has it, and the others try again and again. The kernel decides.
type door struct {
	d       *Desk
	port    int
	name    string // by which processes with the same store know each other
	users   int    // flows of this process; Desk.mu guards it
	stop    context.CancelFunc
	state   atomic.Int32
	busy    atomic.Int32  // number of answers that are being made
	settled chan struct{} // closed when the state is known
}

// The states of a door.
const (
	unknown int32 = iota
	held          // we listen
	shared        // another process of ours listens
	foreign       // another program listens
)

const (
	// closeTime is how long a process that ends waits for a browser that has just come back, and answerTime for the
	// browser to get the page.
	closeTime  = 10 * time.Second
	answerTime = 300 * time.Millisecond
)

// tryEvery is how often a process tries to get a port that another one has.
const tryEvery = 250 * time.Millisecond

// callback is what the store keeps about our port.
type callback struct {
	Port int
	Name string
}

// callbackKey is the name of the sealed callback among the values of the house.
const callbackKey = "callback"

// callback returns our port, and chooses one at the first use.
func (d *Desk) callback(ctx context.Context, safe *store.Safe) (c callback, sealed []byte, err error) {
	for {
		sealed = safe.Store().Snapshot().House(callbackKey)
		text, ok, err := safe.OfHouse(ctx, callbackKey)
		if err != nil {
			return c, nil, err
		}
		if ok {
			return c, sealed, json.Unmarshal([]byte(text.Reveal()), &c)
		}
		port, err := freePort(ctx)
		if err != nil {
			return c, nil, err
		}
		if err := safe.Begin(ctx, d.me, callbackKey, pack(callback{port, rand.Text()})); err != nil {
			return c, nil, err
		}
	}
}

// freePort returns a port of this machine that nobody listens at.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return portOfAddr(l.Addr()), nil
}

func portOfAddr(a net.Addr) int {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return 0
	}
	return t.Port
}

// redirect returns the address to which issuers send browsers. If another program has taken our port, it chooses
// another one.
func (d *Desk) redirect(ctx context.Context, safe *store.Safe, configured string) (string, error) {
	switch {
	case configured != "":
		return configured, nil
	case d.o.Public != "":
		return d.public(), nil
	}
	for range 10 {
		c, sealed, err := d.callback(ctx, safe)
		if err != nil {
			return "", err
		}
		o := d.enter(c.Port, c.Name)
		select {
		case <-o.settled:
		case <-ctx.Done():
		}
		taken := o.taken()
		d.leave(o)
		if taken == nil {
			return fmt.Sprintf("http://127.0.0.1:%d/callback", c.Port), ctx.Err()
		}
		if c.Port, err = freePort(ctx); err != nil {
			return "", err
		}
		if err := safe.Replace(ctx, d.me, callbackKey, sealed, pack(c)); err != nil {
			return "", err
		}
	}
	return "", errors.New("no port of this machine is free for a sign-in")
}

// public returns the address to which issuers send the browsers of a team.
func (d *Desk) public() string { return d.o.Public + callbackPath }

// ownHosts are the names of this machine that browsers know.
var ownHosts = []string{"127.0.0.1", "localhost", "::1"}

// portOf returns the port of this machine that a redirect URI leads to, or 0.
func portOf(redirect string) int {
	u, err := url.Parse(redirect)
	if err != nil || u.Scheme != "http" || !slices.Contains(ownHosts, u.Hostname()) {
		return 0
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return 80
	}
	return port
}

// enter returns the door at a port, and opens it if nobody of this process has it yet. Who calls it calls leave.
func (d *Desk) enter(port int, name string) *door {
	d.mu.Lock()
	defer d.mu.Unlock()
	if o := d.doors[port]; o != nil {
		o.users++
		return o
	}
	o := &door{d: d, port: port, name: name, users: 1, settled: make(chan struct{}), stop: func() {}}
	if port == 0 { // somebody else listens
		o.state.Store(held)
		close(o.settled)
		return o
	}
	ctx, stop := context.WithCancel(d.ctx)
	o.stop = stop
	if d.group.Go(func() { o.keep(ctx) }) {
		d.doors[port] = o
	}
	return o
}

func (d *Desk) leave(o *door) {
	d.mu.Lock()
	o.users--
	last := o.users == 0
	if last && d.doors[o.port] == o {
		delete(d.doors, o.port)
	}
	d.mu.Unlock()
	if last {
		o.stop()
	}
}

// ready reports whether somebody of ours listens.
func (o *door) ready() bool { s := o.state.Load(); return s == held || s == shared }

// taken returns an error if another program listens.
func (o *door) taken() error {
	if o.state.Load() != foreign {
		return nil
	}
	return &Problem{
		Says: fmt.Sprintf("another program listens at port %d, to which browsers come back from a sign-in", o.port),
		Next: "end that program, or choose another port with `callback` in `signIn`",
	}
}

// keep tries to get the port until ctx ends. As long as we have it, we answer browsers.
func (o *door) keep(ctx context.Context) {
	strange := 0
	for ctx.Err() == nil {
		if list := o.listen(ctx); list != nil {
			o.set(held)
			o.d.o.step("holds the port")
			o.serve(ctx, list)
			return
		}
		switch {
		case o.ours(ctx):
			strange = 0
			o.set(shared)
		case strange < 4: // it may be on its way in or out
			strange++
		default:
			o.set(foreign)
		}
		_ = work.Sleep(ctx, tryEvery)
	}
}

func (o *door) set(state int32) {
	if o.state.Swap(state) == unknown {
		close(o.settled)
	}
}

// listen takes the port, for IPv4 and if possible for IPv6, because browsers know several names for this machine.
func (o *door) listen(ctx context.Context) []net.Listener {
	var lc net.ListenConfig
	four, err := lc.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", o.port))
	if err != nil {
		return nil
	}
	if six, err := lc.Listen(ctx, "tcp6", fmt.Sprintf("[::1]:%d", o.port)); err == nil {
		return []net.Listener{four, six}
	}
	return []net.Listener{four}
}

// ourHeader is what processes with the same store know each other by. A request has a random question in it, and the
// answer what only they make of it: another user of this machine, who can ask as well, must not learn to answer.
const ourHeader = "Dragoman-Sign-In"

// knows returns the answer to a question.
func (o *door) knows(question string) string {
	h := hmac.New(sha256.New, []byte(o.name))
	_, _ = fmt.Fprint(h, o.port, " ", question) // never fails
	return hex.EncodeToString(h.Sum(nil))
}

// ours reports whether a process with the same store listens.
func (o *door) ours(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", o.port), nil)
	if err != nil {
		return false
	}
	question := rand.Text()
	req.Header.Set(ourHeader, question)
	t := &http.Transport{DisableKeepAlives: true}
	defer t.CloseIdleConnections()
	resp, err := t.RoundTrip(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return hmac.Equal([]byte(resp.Header.Get(ourHeader)), []byte(o.knows(question)))
}

// serve answers browsers until ctx ends. Those that are there get their answer.
func (o *door) serve(ctx context.Context, list []net.Listener) {
	srv := &http.Server{Handler: o, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	srv.SetKeepAlivesEnabled(false) // whoever has the port next must get the next request
	var group work.Group
	for _, l := range list {
		group.Go(func() { _ = srv.Serve(l) })
	}
	<-ctx.Done()
	most := finishTime
	if o.d.ctx.Err() != nil {
		most = closeTime
	}
	for _, l := range list {
		_ = l.Close() // the next process may have the port
	}
	for end := time.Now().Add(most); o.busy.Load() > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	// The last answer needs a moment. Browsers also open connections on which they never ask anything, and for those
	// Shutdown would wait five seconds.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
	defer stop()
	if srv.Shutdown(ctx) != nil {
		_ = srv.Close()
	}
	group.Wait()
}

// ServeHTTP answers a browser that comes from an issuer.
func (o *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if question := r.Header.Get(ourHeader); question != "" {
		w.Header().Set(ourHeader, o.knows(question))
	}
	host, port, err := net.SplitHostPort(r.Host)
	switch {
	// A page of another site whose name leads here sends its own name (DNS rebinding).
	case err != nil || port != strconv.Itoa(o.port) || !slices.Contains(ownHosts, host):
		http.Error(w, "This is not the address of this page.", http.StatusForbidden)
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "This page is only for GET.", http.StatusMethodNotAllowed)
	case r.URL.Query().Get("state") == "":
		ShowPage(w, oauth.ErrNotOurs)
	default:
		o.busy.Add(1)
		defer o.busy.Add(-1)
		state := r.URL.Query().Get("state")
		err := o.d.Finish(r.Context(), r.URL.Path, r.URL.Query())
		if o.d.o.Back != nil && !errors.Is(err, oauth.ErrNotOurs) {
			if to := o.d.o.Back(flowID(state)); to != "" {
				w.Header().Set("Referrer-Policy", "no-referrer")
				http.Redirect(w, r, to, http.StatusSeeOther)
				return
			}
		}
		ShowPage(w, err)
	}
}

// The pages have fixed texts: whatever stands in an address was written by somebody else.
var page = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{.Title}}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:34em;margin:15vh auto;padding:0 1em;color-scheme:light dark}</style>
<h1>{{.Title}}</h1><p>{{.Text}}</p></html>
`))

// ShowPage tells the person in front of a browser how a sign-in has ended: what Desk.Finish has returned.
func ShowPage(w http.ResponseWriter, err error) {
	status, title, text := PageOf(err)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_ = page.Execute(w, struct{ Title, Text string }{title, text})
}

// PageOf returns the status, the title and the text of the page that ShowPage shows.
func PageOf(err error) (status int, title, text string) {
	var denied *oauth.Error
	switch {
	case err == nil:
		return http.StatusOK, "You are signed in", "You can close this page and go back to your client."
	case errors.Is(err, oauth.ErrNotOurs):
		return http.StatusBadRequest, "This page belongs to no sign-in", "The sign-in may be over, or it was finished already. If your client still asks you to sign in, use its link."
	case errors.As(err, &denied) && denied.Code == "access_denied":
		return http.StatusForbidden, "You are not signed in", "The sign-in was declined. Your client can ask again."
	}
	return http.StatusBadGateway, "You are not signed in", "The sign-in has failed. Your client and the log say why."
}
