//go:build unix

package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// sdk is a client of the TypeScript SDK v2 that determines the revision of the server itself. It
// calls one tool once.
const sdk = `import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
const client = new Client({ name: 'sdk-auto', version: '1' }, { versionNegotiation: { mode: 'auto' } })
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])))
const result = await client.callTool({ name: process.argv[3], arguments: JSON.parse(process.argv[4]) })
console.log(JSON.stringify({ revision: client.getNegotiatedProtocolVersion(), result }))
await client.close()
process.exit(0)
`

// endToEnd does the first steps of a new user: open the link, add the reference server with a
// pasted snippet, run its tools, connect a real client, and read its call. Both sides are recorded
// outside of Dragoman, and the page must show exactly the recorded bytes.
func (r *rig) endToEnd(t *testing.T) {
	everything := filepath.Join(install(t, filepath.Join("..", "peers")), "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	clients := install(t, filepath.Join("..", "clients"))
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("make browser needs node")
	}

	// tee records the messages between Dragoman and the server.
	folder := t.TempDir()
	toServer, fromServer := filepath.Join(folder, "to-server"), filepath.Join(folder, "from-server")
	script := fmt.Sprintf("tee -a %s | %s %s | tee -a %s", toServer, node, everything, fromServer)
	snippet, err := json.Marshal(object{"mcpServers": object{"everything": object{"command": "sh", "args": []string{"-c", script}}}})
	if err != nil {
		t.Fatal(err)
	}

	// Measure the time and the clicks from the start of serve until a page shows the first call
	// with both wires.
	began, clicks := time.Now(), 0
	h := r.serve(t, "")
	recorder := newRecorder(t, h.origin)
	p := r.enter(t, h)
	click := func(js string) {
		t.Helper()
		clicks++
		p.click(js)
	}
	click(button("Add a server"))
	p.wait("the field", `document.activeElement?.id === "snip"`)
	p.paste(string(snippet))
	click(button("Start and test"))
	// When the test of the server has ended, the page loads itself again: it is the one with the button to save.
	p.wait("the handshake", `document.querySelector(".trace .end")?.textContent.includes("2025-11-25") && document.querySelector("button[value=keep]")`)
	if text := eval[string](p, `document.querySelector(".trace").innerText`); !strings.Contains(text, "initialize") {
		t.Errorf("the trace of the handshake is\n%s", text)
	}
	if data, err := os.ReadFile(h.config); err == nil {
		t.Errorf("the server is saved before somebody says so:\n%s", data)
	}
	click(`document.querySelector("button[value=keep]")`)
	p.wait("the page of the server", `location.pathname === "/console/servers/everything" && document.querySelector("main").textContent.includes("ready")`)
	if data, err := os.ReadFile(h.config); err != nil || !strings.Contains(string(data), "everything") {
		t.Errorf("the configuration is: %v\n%s", err, data)
	}

	// A real client connects and calls. The page Connect, in another browser, says so.
	waiting := r.enter(t, h)
	waiting.open(waiting.origin + "/console/connect")
	waiting.wait("live updates", `document.getElementById("live").textContent !== ""`)
	revision := h.callWithSDK(node, clients, recorder.URL+"/mcp", "everything__echo", `{"message":"grüß Gott"}`)
	waiting.wait("the first message", `/^sdk-auto 1 connected at .* It speaks 2026-07-28/.test(document.getElementById("arrival").textContent) && /Its endpoint has [1-9]/.test(document.getElementById("sees").textContent)`)
	click(`document.querySelector("main a[href^='/console/calls/']")`)
	p.wait("the call", `location.pathname.startsWith("/console/calls/") && document.querySelector(".edition")`)
	t.Logf("from the start of serve to the first call with both wires: %d clicks, 1 paste, %s on this machine", clicks, time.Since(began).Round(10*time.Millisecond))
	if clicks > 4 {
		t.Errorf("the way to the first call takes %d clicks, want at most 4", clicks)
	}
	if revision != "2026-07-28" {
		t.Errorf("the client speaks %s", revision)
	}
	if text := eval[string](p, `document.querySelector("main").innerText`); !strings.Contains(text, "translated") || !strings.Contains(text, "sdk-auto") {
		t.Errorf("the page of the call is\n%s", text)
	}
	p.open(p.origin + eval[string](p, `location.pathname`) + "?view=raw")
	shown := eval[[]leg](p, legs)
	if len(shown) != 2 {
		t.Fatalf("the page shows %d messages: %+v", len(shown), shown)
	}
	sent, got := recorder.call("tools/call")
	toServerLine, fromServerLine := exchange(t, toServer, fromServer, "tools/call")
	for _, x := range []struct{ what, shown, recorded string }{
		{"the request of the client", shown[0].Left, sent}, {"the request to the server", shown[0].Right, toServerLine},
		{"the answer to the client", shown[1].Left, got}, {"the answer of the server", shown[1].Right, fromServerLine},
	} {
		if x.shown != x.recorded || x.shown == "" {
			t.Errorf("%s:\nshown    %s\nrecorded %s", x.what, x.shown, x.recorded)
		}
	}

	// Run a tool that reports progress, from its form.
	p.open(p.origin + "/console/servers/everything/tools/trigger-long-running-operation")
	p.fill("duration", "9") // a busy machine takes a while to show the page
	p.fill("steps", "18")
	p.click(`document.querySelector("button[value=run]")`)
	p.wait("progress", `location.pathname.startsWith("/console/runs/") && /\d of 18/.test(document.getElementById("steps")?.textContent)`)
	p.wait("the end", `document.getElementById("result-box").textContent.includes("Long running operation completed")`)

	p.clean("end to end")

	// Run a tool that asks the user a question. The reference server lists such tools only for
	// clients that can answer, so no page shows them. Therefore use another server.
	h = r.serve(t, fmt.Sprintf("mcpServers:\n  strict: {command: %q, args: [fake, strict-2025-11-25]}\n", r.dragoman))
	p = r.enter(t, h)
	p.wait("the server", `fetch("/console/servers/strict/tools/elicit").then((a) => a.ok)`)
	p.loaded()
	p.open(p.origin + "/console/servers/strict/tools/elicit")
	p.click(`document.querySelector("button[value=run]")`)
	p.wait("the question", `document.querySelector("#questions form")`)
	p.click(`document.querySelector("#questions form textarea, #questions form input:not([type=hidden])")`)
	p.write("Ada Lovelace")
	p.click(button("Send answer"))
	p.wait("the answer in the result", `document.getElementById("result-box").textContent.includes("accept Ada Lovelace")`)
	p.clean("a question", "404 (Not Found)")
}

// leg is one message on the page of a call: its text on the left wire and on the right wire.
type leg struct{ Left, Right string }

// legs is a JavaScript expression for the messages on the page of a call, without their HTTP
// headers.
const legs = `[...document.querySelectorAll(".leg .edition")].map((edition) => {
	const sides = ["", ""];
	let side = 0;
	for (const e of edition.children) {
		if (e.classList.contains("colhead")) continue;
		if (e.classList.contains("mid")) { side = 1; continue; }
		if (e.tagName === "PRE" && !e.classList.contains("first")) {
			const copy = e.cloneNode(true);
			for (const hidden of copy.querySelectorAll(".vh")) hidden.remove();
			sides[side] += copy.textContent;
		}
		side = side === 1 ? 0 : side;
	}
	return { left: sides[0], right: sides[1] };
})`

// paste pastes a text into the focused field, as Ctrl+V does.
func (p *tab) paste(text string) {
	p.t.Helper()
	if err := p.c.call(p.t.Context(), "", "Browser.grantPermissions", object{"origin": p.origin, "browserContextId": p.profile, "permissions": []string{"clipboardReadWrite", "clipboardSanitizedWrite"}}, nil); err != nil {
		p.t.Fatal(err)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.try("navigator.clipboard.writeText("+string(quoted)+")", nil); err != nil {
		p.t.Fatal(err)
	}
	p.do("Input.dispatchKeyEvent", object{"type": "keyDown", "key": "v", "code": "KeyV", "windowsVirtualKeyCode": 86, "modifiers": 2, "commands": []string{"paste"}}, nil)
	p.do("Input.dispatchKeyEvent", object{"type": "keyUp", "key": "v", "code": "KeyV", "windowsVirtualKeyCode": 86, "modifiers": 2}, nil)
}

// callWithSDK runs the client sdk and returns the revision that the client negotiated.
func (h *serveRun) callWithSDK(node, packages, url, tool, arguments string) string {
	h.t.Helper()
	folder := h.t.TempDir()
	file := filepath.Join(folder, "client.mjs")
	if err := os.WriteFile(file, []byte(sdk), 0o600); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(folder, "node_modules")); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, file, url, tool, arguments)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("the client: %v\n%s%s", err, out, stderr.String())
	}
	var said struct{ Revision string }
	if err := json.Unmarshal(out, &said); err != nil {
		h.t.Fatalf("the client printed %s: %v", out, err)
	}
	return said.Revision
}

// recorder is a proxy between a client and Dragoman that keeps the bodies of all requests and
// answers.
type recorder struct {
	*httptest.Server
	t  *testing.T
	mu sync.Mutex

	exchanges []*recorded
}

type recorded struct{ request, answer bytes.Buffer }

func newRecorder(t *testing.T, origin string) *recorder {
	t.Helper()
	target, err := url.Parse(origin)
	if err != nil {
		t.Fatal(err)
	}
	rec := &recorder{t: t}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{}
	proxy.FlushInterval = -1
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x := &recorded{}
		body, _ := io.ReadAll(req.Body)
		x.request.Write(body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.Header.Del("Accept-Encoding")
		req.Host = target.Host
		rec.mu.Lock()
		rec.exchanges = append(rec.exchanges, x)
		rec.mu.Unlock()
		proxy.ServeHTTP(&keepAnswer{w, rec, x}, req)
	}))
	t.Cleanup(func() {
		rec.Close()
		proxy.Transport.(*http.Transport).CloseIdleConnections()
	})
	return rec
}

// keepAnswer is a ResponseWriter that also keeps the body.
type keepAnswer struct {
	http.ResponseWriter
	rec *recorder
	x   *recorded
}

func (k *keepAnswer) Write(b []byte) (int, error) {
	k.rec.mu.Lock()
	k.x.answer.Write(b)
	k.rec.mu.Unlock()
	return k.ResponseWriter.Write(b)
}

func (k *keepAnswer) Unwrap() http.ResponseWriter { return k.ResponseWriter }

// call returns the last request with this method, and the last message of its answer.
func (rec *recorder) call(method string) (request, answer string) {
	rec.t.Helper()
	rec.mu.Lock()
	defer rec.mu.Unlock()
	for _, x := range rec.exchanges {
		if !strings.Contains(x.request.String(), strconv.Quote(method)) {
			continue
		}
		request, answer = x.request.String(), x.answer.String()
		if events := strings.Split(answer, "data: "); len(events) > 1 {
			answer, _, _ = strings.Cut(events[len(events)-1], "\n")
		}
	}
	if request == "" {
		rec.t.Errorf("the client sent no %s", method)
	}
	return request, answer
}

// exchange returns the last request with this method from the file to, and its answer from the
// file from.
func exchange(t *testing.T, to, from, method string) (request, answer string) {
	t.Helper()
	var id json.RawMessage
	each(t, to, func(line string, m message) {
		if m.Method == method {
			request, id = line, m.ID
		}
	})
	each(t, from, func(line string, m message) {
		if m.Method == "" && bytes.Equal(m.ID, id) {
			answer = line
		}
	})
	return request, answer
}

type message struct {
	ID     json.RawMessage
	Method string
}

// each calls f for every message in a file.
func each(t *testing.T, file string, f func(string, message)) {
	t.Helper()
	data, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	lines := bufio.NewScanner(data)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) == nil {
			f(lines.Text(), m)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
