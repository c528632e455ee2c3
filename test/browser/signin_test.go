//go:build unix

package browser

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// signIn lets a client send somebody to Dragoman's own authorization server. The client has registered with a name that
// would be markup and that turns the direction of text. Chromium shows the pages in both themes and at 320 px,
// runs nothing of the name, and lets the answer of the form go to the client.
func (r *rig) signIn(t *testing.T) {
	h := r.serve(t, "mcpServers: {}\ndragoman: {access: {loopback: keys, signIn: own}}\n")
	client := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>client</title><h1>the client</h1>"))
	}))
	defer client.Close()
	const name = "<img src=x onerror=document.title=1>\u202egro.live"
	body, err := json.Marshal(object{"client_name": name, "redirect_uris": []string{client.URL + "/callback"}})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(h.origin+"/register", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var registered struct {
		ID string `json:"client_id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&registered); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status, err)
	}
	q := url.Values{
		"response_type": {"code"}, "client_id": {registered.ID}, "redirect_uri": {client.URL + "/callback"}, "state": {"the-state"}, "resource": {h.origin + "/mcp"},
		"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}
	p := r.chrome.newTab(t, "")
	v := &visit{tab: p, t: t, axe: r.axe}
	looks := func() {
		t.Helper()
		v.looks()
		if text := eval[string](p, `document.title`); text == "1" || eval[int](p, `document.querySelectorAll("main img").length`) > 0 {
			t.Error("the name of the client became markup")
		}
	}
	p.open(h.origin + "/authorize?" + q.Encode())
	p.wait("the way to the console", `document.querySelector("h1").textContent === "Open the console to go on"`)
	looks()
	p.open(h.link())
	p.wait("the consent page", `document.querySelector("h1").textContent === "An unverified client asks for access" && location.pathname === "/consent"`)
	looks()
	if first := eval[string](p, `document.querySelector("main button").textContent`); first != "Deny" {
		t.Errorf("the first button is %s", first)
	}
	if boxes := eval[string](p, `[...document.querySelectorAll("main .inv")].map((e) => e.textContent).join()`); !strings.Contains(boxes, "U+202E") {
		t.Errorf("nothing shows what turns the text: %q", boxes)
	}
	p.click(button("Allow"))
	p.wait("the client", `location.origin === "`+client.URL+`" && document.querySelector("h1").textContent === "the client"`)
	back := eval[string](p, `location.search`)
	if a, err := url.ParseQuery(strings.TrimPrefix(back, "?")); err != nil || !strings.HasPrefix(a.Get("code"), "drgc_") || a.Get("state") != "the-state" || a.Get("iss") != h.origin {
		t.Errorf("the client got %s", back)
	}
	p.clean("a sign-in", "favicon")
}
