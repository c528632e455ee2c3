//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// consoleVisit is a browser that has opened the console of a serve.
type consoleVisit struct {
	*stage
	host, cookie string
}

// openConsole opens the console with a one-time link. The key of the serve is in folders.
func openConsole(s *stage, folders []string) *consoleVisit {
	keys, err := admin.ReadKeys(folders, strings.TrimPrefix(s.base, "http://"))
	if err != nil || len(keys) != 1 {
		s.Fatalf("%d keys, %v", len(keys), err)
	}
	var link struct{ URL string }
	_, body, _ := strings.Cut(s.post("/api/v1/console/link", "", "Authorization", "Bearer "+keys[0]), " ")
	if err := json.Unmarshal([]byte(body), &link); err != nil {
		s.Fatal(err, body)
	}
	v := &consoleVisit{stage: s}
	resp, _ := v.send(http.MethodGet, strings.TrimPrefix(link.URL, s.base))
	to, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || to.Host == "" {
		s.Fatalf("the link answers %d and leads to %s", resp.StatusCode, to)
	}
	v.host = to.Host
	resp, _ = v.send(http.MethodGet, to.RequestURI())
	v.cookie, _, _ = strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	if resp.StatusCode != http.StatusSeeOther || v.cookie == "" {
		s.Fatalf("the link answers %d", resp.StatusCode)
	}
	return v
}

// send sends a request from the browser, and does not follow a redirect.
func (v *consoleVisit) send(method, path string) (*http.Response, string) {
	v.Helper()
	r, err := http.NewRequest(method, v.base+path, nil)
	if err != nil {
		v.Fatal(err)
	}
	r.Host = v.host
	r.Header.Set("User-Agent", "Chrome/140.0.0.0")
	r.Header.Set("Cookie", v.cookie)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		v.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		v.Fatal(err)
	}
	return resp, string(b)
}

var (
	needItem   = regexp.MustCompile(`(?s)<ul class="sheet needs">.*?</ul>`)
	needRow    = regexp.MustCompile(`(?s)<li>.*?</li>`)
	needButton = regexp.MustCompile(`(?s)<a class="btn" href="([^"]*)">([^<]*)</a>|action="([^"]*)" class="inline"><button class="btn">([^<]*)</button>`)
	markup     = regexp.MustCompile(`<[^>]*>`)
	lineOfKey  = regexp.MustCompile(`^Show (.*), line (\d+)$`)
)

// need waits until a page lists a server that needs attention, with the given sentence. It returns
// the server's list entry as HTML and as text.
func (v *consoleVisit) need(page, server, sentence string) (row, text string) {
	v.Helper()
	path := "/console/servers/" + server
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, body := v.send(http.MethodGet, page)
		for _, row := range needRow.FindAllString(needItem.FindString(body), -1) {
			text := strings.Join(strings.Fields(html.UnescapeString(markup.ReplaceAllString(row, ""))), " ")
			if strings.Contains(row, `<h3><a href="`+path+`">`) && strings.Contains(text, capital(sentence)+".") {
				return row, text
			}
		}
		if time.Since(begin) > 2*time.Minute { // while Dragoman opens a server again, pages show no failure of the server
			v.Fatalf("%s does not say about %s: %s\n%s", page, server, sentence, body)
		}
	}
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// checkConsole checks that the overview and each server's page show the same sentence and action as
// the status. It follows the buttons of each failure and returns their titles for each server.
func checkConsole(v *consoleVisit, file string, all []brokenServer, status map[string]shownFailure) map[string]string {
	text, err := os.ReadFile(file)
	if err != nil {
		v.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	buttons := map[string]string{}
	for _, b := range all {
		want := status[b.name]
		for _, page := range []string{"/console/", "/console/servers/" + b.name} {
			row, text := v.need(page, b.name, want.Sentence)
			if !strings.Contains(text, capital(want.Action)+".") {
				v.Errorf("%s: %s has no action %q: %s", b.name, page, want.Action, text)
			}
			var titles []string
			for _, m := range needButton.FindAllStringSubmatch(row, -1) {
				title, target := m[2]+m[4], html.UnescapeString(m[1]+m[3])
				titles = append(titles, title)
				v.follow(b.name, title, target, lines)
				if strings.HasSuffix(target, "#telling") {
					v.telling(b.name, want.Evidence[0])
				}
			}
			if len(titles) < 2 || titles[len(titles)-1] != "Restart" {
				v.Errorf("%s: %s has the buttons %q", b.name, page, titles)
			}
			if got := strings.Join(titles, " | "); buttons[b.name] == "" {
				buttons[b.name] = got
			} else if got != buttons[b.name] {
				v.Errorf("%s: the overview has the buttons %s, the page of the server %s", b.name, buttons[b.name], got)
			}
		}
	}
	return buttons
}

// follow checks that the target of a button exists.
func (v *consoleVisit) follow(server, title, target string, lines []string) {
	v.Helper()
	path, fragment, _ := strings.Cut(target, "#")
	base := "/console/servers/" + server
	switch {
	case target == base+"/restart":
		return // pressButtons presses this button for one server
	case target == base+"/findings":
	case path != base && path != "/console/settings" || fragment == "":
		v.Errorf("%s: %s leads to %s", server, title, target)
	}
	resp, body := v.send(http.MethodGet, path)
	if resp.StatusCode != http.StatusOK || fragment != "" && !strings.Contains(body, `id="`+fragment+`"`) {
		v.Errorf("%s: %s leads to %s, which does not exist (%d)", server, title, target, resp.StatusCode)
	}
	m := lineOfKey.FindStringSubmatch(title)
	if m == nil {
		return
	}
	at := 0
	_, _ = fmt.Sscan(m[2], &at)
	row := regexp.MustCompile(`(?s)<tr id="` + fragment + `".*?</tr>`).FindString(body)
	key := strings.TrimSuffix(strings.Replace(m[1], "the entry", server, 1), " ")
	if at < 1 || at > len(lines) || !strings.Contains(lines[at-1], key+":") || !strings.Contains(row, "line "+m[2]) {
		v.Errorf("%s: %s: the page has %s", server, title, row)
	}
}

// telling checks that the log on the page of a server marks the line with the cause of the failure.
func (v *consoleVisit) telling(server, line string) {
	v.Helper()
	_, body := v.send(http.MethodGet, "/console/servers/"+server)
	row := regexp.MustCompile(`(?s)<div id="telling" data-d=.*?</div>`).FindString(body)
	if text := html.UnescapeString(markup.ReplaceAllString(row, "")); !strings.Contains(text, line) {
		v.Errorf("%s: the log marks %q, want %q", server, text, line)
	}
}

// pressButtons presses the two buttons that start an examination and a restart of a server.
func pressButtons(t *testing.T, v *consoleVisit, server string) {
	for _, x := range []string{"/findings", "/restart"} {
		if resp, _ := v.send(http.MethodPost, "/console/servers/"+server+x); resp.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: %d", x, resp.StatusCode)
		}
	}
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		_, body := v.send(http.MethodGet, "/console/servers/"+server+"/findings")
		if strings.Contains(body, `id="verdict"`) {
			if !strings.Contains(body, "DRG-") {
				t.Errorf("the examination of %s has found nothing:\n%s", server, body)
			}
			return
		}
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("the examination of %s does not end:\n%s", server, body)
		}
	}
}
