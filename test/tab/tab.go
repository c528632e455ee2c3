// Package tab is a browser without a window, for tests of sign-in. It opens a link, follows redirects,
// keeps cookies, fills in forms and presses buttons until a page has none left. A [Script] says what
// to fill in and what to press; the default presses the first button of the first form.
//
// Cookies obey SameSite, navigations send Origin and the Sec-Fetch headers, and a port is part of an
// origin but not of a site, as in a real browser. It runs no script, and it connects to loopback
// addresses only, whatever a redirect says.
//
// A test calls [Open] in process. A program under test that starts a browser by the variable BROWSER
// gets [Environ], which names the test's own binary; its main or TestMain calls [Main] first.
package tab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Script says what the person at the tab does. Its zero value presses the first button of each page.
type Script struct {
	// Fill has the values of form fields, by name. Other fields keep the values of the page.
	Fill map[string]string `json:"fill,omitempty"`
	// Press lists buttons and links by a part of their text or value. On each page, the tab presses
	// the first of the list that the page has, and without any of them the first button.
	Press []string `json:"press,omitempty"`
	// Wait is the number of milliseconds before the tab opens the link.
	Wait int `json:"wait,omitempty"`
	// Log is a file to which [Main] appends each link that it is given. "" means none.
	Log string `json:"log,omitempty"`
}

const (
	most        = 20      // the maximum number of pages and redirects of one visit
	largest     = 1 << 20 // the maximum size of a page in bytes
	within      = 20 * time.Second
	scriptOf    = "TAB_SCRIPT" // the variable with the script of a browser that another program starts
	exitTrouble = 1

	// userAgent is that of a browser which resolves names below localhost itself, as dial does.
	userAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
)

// Page is the last page of a visit.
type Page struct {
	URL    *url.URL
	Status int
	Header http.Header
	Body   string
	Seen   []string // the URLs of the visit in order, this page's too
}

// Browser has the cookies of several visits. The zero value is a browser without cookies. It isn't
// safe for concurrent use.
type Browser struct{ jar jar }

// Open visits a link in a new browser.
func Open(ctx context.Context, link string, s Script) (*Page, error) {
	return new(Browser).Open(ctx, link, s)
}

// Open visits a link. It fails if a page cannot be had, or if the visit has no end.
func (b *Browser) Open(ctx context.Context, link string, s Script) (*Page, error) {
	if err := pause(ctx, time.Duration(s.Wait)*time.Millisecond); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	to, err := url.Parse(link)
	if err != nil {
		return nil, err
	}
	next := &request{method: http.MethodGet, url: to}
	var seen []string
	for range most {
		page, err := b.load(ctx, next)
		if err != nil {
			return nil, err
		}
		seen = append(seen, page.URL.String())
		page.Seen = slices.Clone(seen)
		if next, err = follow(next, page, s); err != nil || next == nil {
			return page, err
		}
	}
	return nil, fmt.Errorf("no end after %d pages: %s", most, strings.Join(seen, " "))
}

// request is one navigation.
type request struct {
	method string
	url    *url.URL
	form   string   // the body of a POST
	from   *url.URL // the page with the form or link; nil if the link came from outside
	cross  bool     // a page or a redirect of another site leads here
}

// to returns the navigation that r's answer leads to.
func (r *request) to(method string, u *url.URL, form string, from *url.URL) *request {
	return &request{method: method, url: u, form: form, from: from, cross: from != nil && !sameSite(from, u)}
}

func (b *Browser) load(ctx context.Context, r *request) (*Page, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), strings.NewReader(r.form))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	req.Header.Set("Sec-Fetch-Dest", "document")
	req.Header.Set("Sec-Fetch-Site", r.site())
	if r.method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if r.from != nil {
			req.Header.Set("Origin", r.from.Scheme+"://"+r.from.Host)
		}
	}
	b.jar.send(req, r.cross)
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, largest))
	if err != nil {
		return nil, err
	}
	b.jar.keep(r.url, res.Cookies())
	return &Page{URL: r.url, Status: res.StatusCode, Header: res.Header, Body: string(body)}, nil
}

// site returns the value of Sec-Fetch-Site.
func (r *request) site() string {
	switch {
	case r.from == nil:
		return "none"
	case r.cross:
		return "cross-site"
	case r.from.Host != r.url.Host || r.from.Scheme != r.url.Scheme:
		return "same-site"
	}
	return "same-origin"
}

// follow returns the next navigation, or nil if the visit ends with this page.
func follow(r *request, p *Page, s Script) (*request, error) {
	if at := p.Header.Get("Location"); at != "" && p.Status >= 300 && p.Status < 400 {
		to, err := p.URL.Parse(at)
		if err != nil {
			return nil, err
		}
		next := &request{method: http.MethodGet, url: to, from: r.from, cross: r.cross || !sameSite(r.url, to) && r.from != nil}
		if p.Status == http.StatusTemporaryRedirect || p.Status == http.StatusPermanentRedirect {
			next.method, next.form = r.method, r.form
		}
		return next, nil
	}
	if !strings.Contains(p.Header.Get("Content-Type"), "html") {
		return nil, nil
	}
	d, err := read(p)
	if err != nil {
		return nil, err
	}
	return d.press(r, p.URL, s)
}

var client = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true},
}

// dial connects to a loopback address: what a test shows to its browser must not leave the machine.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	at := []string{host}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		at = []string{"127.0.0.1", "::1"}
	}
	var all error
	for _, a := range at {
		ip, err := netip.ParseAddr(a)
		if err != nil || !ip.Unmap().IsLoopback() {
			return nil, fmt.Errorf("%s is not on this machine", host)
		}
		c, err := new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(a, port))
		if err == nil {
			return c, nil
		}
		all = errors.Join(all, err)
	}
	return nil, all
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Environ returns the variables with which a program starts this test's binary as its browser.
func Environ(s Script) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err) // the platforms of the tests have it
	}
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a Script always has a JSON form
	}
	return []string{"BROWSER=" + self, scriptOf + "=" + string(b)}
}

// Home returns the environment of a user whose home is the folder dir and whose browser is [Environ]'s.
// Nothing of the real user's configuration, data and display is left in it.
func Home(dir string, s Script) []string {
	kept := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "DRAGOMAN_") || strings.HasPrefix(name, "SSH_") ||
			slices.Contains([]string{"HOME", "BROWSER", "NODE_OPTIONS", "WAYLAND_DISPLAY"}, name)
	})
	return slices.Concat(kept, Environ(s), []string{
		"HOME=" + dir, "DISPLAY=:0", // without a display, a program would not open a browser
		"XDG_CONFIG_HOME=" + filepath.Join(dir, "config"), "XDG_DATA_HOME=" + filepath.Join(dir, "data"),
		"XDG_CACHE_HOME=" + filepath.Join(dir, "cache"), "XDG_STATE_HOME=" + filepath.Join(dir, "state"), "XDG_RUNTIME_DIR=" + dir,
	})
}

// Main makes this process a browser and exits, if another program has started it as one. Call it
// first in main or TestMain.
func Main() {
	script, link := os.Getenv(scriptOf), ""
	if len(os.Args) == 2 {
		link = os.Args[1]
	}
	if script == "" || !strings.HasPrefix(link, "http://") && !strings.HasPrefix(link, "https://") {
		return
	}
	var s Script
	err := json.Unmarshal([]byte(script), &s)
	if err == nil {
		err = record(s.Log, link)
	}
	var page *Page
	if err == nil {
		page, err = Open(context.Background(), link, s)
	}
	if err == nil && page.Status >= 400 {
		err = fmt.Errorf("%s: %d: %s", page.URL, page.Status, bytes.TrimSpace([]byte(page.Body)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tab:", err)
		os.Exit(exitTrouble)
	}
	os.Exit(0)
}

// record appends a line to the file with the links.
func record(file, link string) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(link + "\n")
	return errors.Join(err, f.Close())
}
