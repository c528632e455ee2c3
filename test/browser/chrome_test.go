//go:build unix

package browser

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for anything. It is long, because the machine may be busy.
const patience = 60 * time.Second

// chrome is a headless Chromium. The Chrome DevTools Protocol is JSON with a zero byte after
// each message. Methods may be called from several goroutines.
type chrome struct {
	end chan struct{} // closed after the last message from Chromium

	writing sync.Mutex
	in      *os.File

	mu      sync.Mutex
	last    int
	waiting map[int]chan answer
	tabs    map[string]*tab // the tabs, by session id
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// publicName is the name of an address that other machines could reach. It's one of those in the certificates of
// certtest, and leads to this machine in Chromium.
const publicName = "mcp.example.com"

// startChrome starts Chromium, and stops it when the test ends. Of all certificates that nobody has signed, it trusts
// this one.
func startChrome(t *testing.T, path string, trusted *x509.Certificate) *chrome {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home, key := t.TempDir(), sha256.Sum256(trusted.RawSubjectPublicKeyInfo)
	cmd := exec.Command(path,
		"--headless", "--remote-debugging-pipe", "--user-data-dir="+filepath.Join(home, "profile"),
		"--no-sandbox", // Chromium has no sandbox for root, and the tests open only their own pages
		"--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--disable-breakpad",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--no-first-run", "--no-default-browser-check", "--hide-scrollbars", "--force-color-profile=srgb", "--lang=en-US",
		"--ignore-certificate-errors-spki-list="+base64.StdEncoding.EncodeToString(key[:]),
		"--host-resolver-rules=MAP rebound.example 127.0.0.1, MAP "+publicName+" 127.0.0.1", // the first is a foreign name that resolves to this machine
		"about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_CACHE_HOME="+home, "TZ=UTC")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	c := &chrome{in: in, end: make(chan struct{}), waiting: map[int]chan answer{}, tabs: map[string]*tab{}}
	go c.read(out)
	t.Cleanup(func() {
		_ = in.Close() // Chromium exits when the pipe is closed
		select {
		case <-c.end:
		case <-time.After(10 * time.Second):
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		<-c.end
		if t.Failed() {
			t.Logf("stderr of Chromium:\n%.4000s", stderr.String())
		}
	})
	return c
}

// read passes on the messages from Chromium until there are no more.
func (c *chrome) read(out *os.File) {
	defer close(c.end)
	defer out.Close()
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := r.ReadBytes(0)
		if err != nil {
			break
		}
		var m struct {
			ID        int
			SessionID string
			Method    string
			Params    json.RawMessage
			answer
		}
		if json.Unmarshal(line[:len(line)-1], &m) != nil {
			continue
		}
		c.mu.Lock()
		wait, t := c.waiting[m.ID], c.tabs[m.SessionID]
		delete(c.waiting, m.ID)
		c.mu.Unlock()
		switch {
		case wait != nil:
			wait <- m.answer
		case t != nil:
			t.hear(m.Method, m.Params)
		}
	}
}

// send sends a request and returns the channel that will get its answer.
func (c *chrome) send(session, method string, params any) (chan answer, error) {
	wait := make(chan answer, 1)
	c.mu.Lock()
	c.last++
	id := c.last
	c.waiting[id] = wait
	c.mu.Unlock()
	b, err := json.Marshal(struct {
		ID        int    `json:"id"`
		SessionID string `json:"sessionId,omitempty"`
		Method    string `json:"method"`
		Params    any    `json:"params,omitempty"`
	}{id, session, method, params})
	if err == nil {
		c.writing.Lock()
		defer c.writing.Unlock()
		_, err = c.in.Write(append(b, 0))
	}
	return wait, err
}

// call sends a request and puts the result into out, which may be nil.
func (c *chrome) call(ctx context.Context, session, method string, params, out any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	wait, err := c.send(session, method, params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case a := <-wait:
		if a.Error != nil {
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(a.Result, out)
	case <-c.end:
		return fmt.Errorf("%s: Chromium has ended: %w", method, io.ErrUnexpectedEOF)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// tab is one page. It collects events that must not happen: dialogs, script errors, violations of
// the Content Security Policy, and requests to other origins.
type tab struct {
	t       *testing.T
	c       *chrome
	session string
	profile string
	origin  string   // the only origin that the page may load from
	login   []string // the user and the password for the dialog in which the browser asks for them

	mu       sync.Mutex
	faults   []string
	dialogs  int
	requests []request
	byID     map[string]int // the index in requests, by request id
}

// request is one HTTP request that a page has made.
type request struct {
	URL, Kind string
	Status    int
	Bytes     int // the size of the body as the page gets it
}

type object = map[string]any

// newTab opens an empty tab in a profile of its own.
func (c *chrome) newTab(t *testing.T, origin string) *tab {
	t.Helper()
	var made struct{ BrowserContextID, TargetID, SessionID string }
	for _, step := range []struct {
		method string
		params func() object
	}{
		{"Target.createBrowserContext", func() object { return object{"disposeOnDetach": true} }},
		{"Target.createTarget", func() object {
			return object{"url": "about:blank", "browserContextId": made.BrowserContextID, "newWindow": true}
		}},
		{"Target.attachToTarget", func() object { return object{"targetId": made.TargetID, "flatten": true} }},
	} {
		if err := c.call(t.Context(), "", step.method, step.params(), &made); err != nil {
			t.Fatal(err)
		}
	}
	p := &tab{t: t, c: c, session: made.SessionID, profile: made.BrowserContextID, origin: origin, byID: map[string]int{}}
	c.mu.Lock()
	c.tabs[p.session] = p
	c.mu.Unlock()
	t.Cleanup(func() {
		c.mu.Lock()
		delete(c.tabs, p.session)
		c.mu.Unlock()
		_ = c.call(context.Background(), "", "Target.disposeBrowserContext", object{"browserContextId": made.BrowserContextID}, nil)
	})
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		p.do(domain+".enable", nil, nil)
	}
	p.do("Emulation.setFocusEmulationEnabled", object{"enabled": true}, nil)
	p.size(1440, 900)
	return p
}

// hear handles an event. The goroutine that reads from Chromium calls hear, so hear must not
// block.
func (p *tab) hear(method string, params json.RawMessage) {
	var e struct {
		Type, Message, RequestID string
		Request                  struct{ URL string }
		Response                 struct {
			Status int
		}
		DataLength       int
		Args             []struct{ Value, Description any }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Entry struct{ Level, Source, Text, URL string }
	}
	_ = json.Unmarshal(params, &e)
	p.mu.Lock()
	defer p.mu.Unlock()
	fault := func(format string, args ...any) { p.faults = append(p.faults, fmt.Sprintf(format, args...)) }
	switch method {
	case "Page.javascriptDialogOpening":
		p.dialogs++
		fault("a dialog opened: %.200s", e.Message)
		_, _ = p.c.send(p.session, "Page.handleJavaScriptDialog", object{"accept": false})
	case "Fetch.requestPaused":
		_, _ = p.c.send(p.session, "Fetch.continueRequest", object{"requestId": e.RequestID})
	case "Fetch.authRequired":
		_, _ = p.c.send(p.session, "Fetch.continueWithAuth", object{"requestId": e.RequestID, "authChallengeResponse": object{"response": "ProvideCredentials", "username": p.login[0], "password": p.login[1]}})
	case "Runtime.exceptionThrown":
		fault("a script failed: %s %s", e.ExceptionDetails.Text, e.ExceptionDetails.Exception.Description)
	case "Runtime.consoleAPICalled":
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			fault("console.%s: %v", e.Type, e.Args)
		}
	case "Log.entryAdded":
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			fault("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case "Network.requestWillBeSent":
		p.byID[e.RequestID] = len(p.requests)
		p.requests = append(p.requests, request{URL: e.Request.URL, Kind: e.Type})
		if p.origin != "" && !strings.HasPrefix(e.Request.URL, p.origin+"/") && !strings.HasPrefix(e.Request.URL, "data:") && e.Request.URL != "about:blank" {
			fault("a request to another origin: %s", e.Request.URL)
		}
	case "Network.responseReceived":
		if i, ok := p.byID[e.RequestID]; ok {
			p.requests[i].Status = e.Response.Status
		}
	case "Network.dataReceived":
		if i, ok := p.byID[e.RequestID]; ok {
			p.requests[i].Bytes += e.DataLength
		}
	}
}

// clean fails the test if the tab has recorded a fault. It ignores a fault whose text contains one
// of allowed.
func (p *tab) clean(where string, allowed ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
next:
	for _, f := range p.faults {
		if strings.HasSuffix(f, "/favicon.ico") { // Chromium may request this file once, at any time
			continue
		}
		for _, a := range allowed {
			if strings.Contains(f, a) {
				continue next
			}
		}
		p.t.Errorf("%s: %s", where, f)
	}
	p.faults = nil
}

// loaded returns the requests that the page has made since the last call of loaded.
func (p *tab) loaded() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.requests
	p.requests, p.byID = nil, map[string]int{}
	return list
}

// do calls a DevTools method for the page.
func (p *tab) do(method string, params, out any) {
	p.t.Helper()
	if err := p.c.call(p.t.Context(), p.session, method, params, out); err != nil {
		p.t.Fatal(err)
	}
}

// open loads a page and waits until it is complete.
func (p *tab) open(url string) {
	p.t.Helper()
	var to struct{ ErrorText string }
	p.do("Page.navigate", object{"url": url}, &to)
	if to.ErrorText != "" {
		p.t.Fatalf("open %s: %s", url, to.ErrorText)
	}
	p.settle()
}

// settle waits until the page is complete and its JavaScript module has run.
func (p *tab) settle() {
	p.t.Helper()
	p.wait("the page is complete", `document.readyState === "complete" && (!document.querySelector(".js[hidden]"))`)
}

// try evaluates an expression. If the expression is a promise, try waits for its value. out may be
// nil.
func (p *tab) try(js string, out any) error {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := p.c.call(p.t.Context(), p.session, "Runtime.evaluate", object{"expression": js, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &got); err != nil {
		return err
	}
	if x := got.ExceptionDetails; x != nil {
		return fmt.Errorf("%s %s", x.Text, x.Exception.Description)
	}
	if out == nil || got.Result.Value == nil {
		return nil
	}
	return json.Unmarshal(got.Result.Value, out)
}

// eval evaluates an expression in the page.
func eval[T any](p *tab, js string) (v T) {
	p.t.Helper()
	if err := p.try(js, &v); err != nil {
		p.t.Fatalf("%.300s: %v", js, err)
	}
	return v
}

// wait waits until an expression, or the value of its promise, is true. The page may reload in the
// meantime.
func (p *tab) wait(what, js string) {
	p.t.Helper()
	await[bool](p, what, "Promise.resolve("+js+").then((v) => !!v || null)")
}

// await waits until an expression has a value that isn't null, and returns the value. The page may reload
// in the meantime.
func await[T any](p *tab, what, js string) T {
	p.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		var v *T
		if err = p.try(js, &v); err == nil && v != nil {
			return *v
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		time.Sleep(20 * time.Millisecond) // poll, because Chromium is another process
	}
	var text string
	_ = p.try(`location.href + "\n" + document.body.innerText`, &text)
	p.t.Fatalf("waited for: %s\n%s (%v)\n%.3000s", what, js, err, text)
	panic("unreachable")
}

// keys are the keys that press knows by name.
var keys = map[string]object{
	"Tab":       {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
	"Enter":     {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
	"Escape":    {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27},
	"ArrowDown": {"key": "ArrowDown", "code": "ArrowDown", "windowsVirtualKeyCode": 40},
	"ArrowUp":   {"key": "ArrowUp", "code": "ArrowUp", "windowsVirtualKeyCode": 38},
	"Space":     {"key": " ", "code": "Space", "windowsVirtualKeyCode": 32, "text": " "},
	"Ctrl+k":    {"key": "k", "code": "KeyK", "windowsVirtualKeyCode": 75, "modifiers": 2},
	"Shift+Tab": {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9, "modifiers": 8},
}

// press presses keys one after the other. A name that is not in keys is typed as a character.
func (p *tab) press(names ...string) {
	p.t.Helper()
	var last chan answer
	for _, name := range names {
		k := keys[name]
		if k == nil {
			k = object{"key": name, "text": name, "windowsVirtualKeyCode": int(strings.ToUpper(name)[0])}
		}
		for _, kind := range []string{"keyDown", "keyUp"} {
			event := object{"type": kind}
			for n, v := range k {
				if n != "text" || kind == "keyDown" {
					event[n] = v
				}
			}
			if kind == "keyDown" && k["text"] == nil {
				event["type"] = "rawKeyDown"
			}
			var err error
			if last, err = p.c.send(p.session, "Input.dispatchKeyEvent", event); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	if last == nil {
		return
	}
	select {
	case <-last:
	case <-p.c.end:
		p.t.Fatal("Chromium has ended")
	case <-time.After(patience):
		p.t.Fatalf("no answer to the keys %q", names)
	}
}

// write types text into the focused field.
func (p *tab) write(text string) {
	p.t.Helper()
	p.do("Input.insertText", object{"text": text}, nil)
}

// click clicks the element that js returns. It waits until there is such an element, and fails the test if
// another one covers its middle. All of it is one step of the page, so no update can move the element
// between the look and the click, as it could with the events of a mouse.
func (p *tab) click(js string) {
	p.t.Helper()
	over := await[string](p, "something to click", `(() => { const e = `+js+`; if (!e?.checkVisibility()) return null;
		e.scrollIntoView({ block: "center", behavior: "instant" });
		const r = e.getClientRects()[0], o = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
		if (e !== o && !e.contains(o) && !o?.contains(e)) return o?.outerHTML.slice(0, 300) ?? "nothing";
		e.focus({ preventScroll: true }); e.click(); return ""; })()`)
	if over != "" {
		p.t.Fatalf("cannot click %s: this is in front of it: %s", js, over)
	}
}

// fill replaces the text of the field that has this label.
func (p *tab) fill(label, text string) {
	p.t.Helper()
	p.click(fmt.Sprintf(`[...document.querySelectorAll("main label")].find((l) => (l.querySelector("b") ?? l).textContent.trim() === %q)?.control`, label))
	if err := p.try(`document.activeElement.select()`, nil); err != nil {
		p.t.Fatal(err)
	}
	p.write(text)
}

// button returns a JavaScript expression for the button or link with this text.
func button(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("main button, main a.btn")].find((b) => b.textContent.trim() === %q)`, text)
}

// pause presses the key that pauses the live updates. It first leaves the focused field, because
// the key does nothing in a text field.
func (p *tab) pause() {
	p.t.Helper()
	if err := p.try(`document.activeElement?.blur()`, nil); err != nil {
		p.t.Fatal(err)
	}
	p.press("p")
	p.wait("a pause", `document.getElementById("live").textContent.startsWith("as of")`)
}

// size sets the size of the page in CSS pixels.
func (p *tab) size(width, height int) {
	p.t.Helper()
	p.do("Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
}

// media emulates media features, given as NAME=VALUE. All other features have the values of the
// machine.
func (p *tab) media(features ...string) {
	p.t.Helper()
	list := []object{}
	for _, f := range features {
		name, value, _ := strings.Cut(f, "=")
		list = append(list, object{"name": name, "value": value})
	}
	p.do("Emulation.setEmulatedMedia", object{"features": list}, nil)
}
