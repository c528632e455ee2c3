package console

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/logring"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/calls"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/logtest"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// wireLog keeps the messages that a fake server has received and sent.
type wireLog struct{ logtest.Buffer }

// messages returns the captured messages of a direction.
func (w *wireLog) messages(direction string) (out []jsonrpc.Value) {
	for line := range strings.SplitSeq(w.String(), "\n") {
		if v := jsonrpc.ValueOf([]byte(line)).Get("capture"); v.Get("direction").Is(direction) {
			out = append(out, v.Get("payload"))
		}
	}
	return out
}

// street is a console with the real runtime and fake servers. Its client acts as a browser without
// JavaScript.
type street struct {
	t      *testing.T
	web    *httptest.Server
	client *http.Client
	wires  map[string]*wireLog
}

// newStreet opens a console with one fake server for each name. Each server has the profile
// strict-REVISION.
func newStreet(t *testing.T, revisions map[string]mcp.Revision) *street {
	t.Helper()
	x := &street{t: t, wires: map[string]*wireLog{}}
	c := *config.Default()
	for name, revision := range revisions {
		x.wires[name] = &wireLog{}
		s, err := fake.NewServer("strict-"+revision.String(), fake.Options{Capture: x.wires[name]})
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(s.Handler())
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			web.CloseClientConnections()
			web.Close()
		})
		conf, problem := config.Complete(config.Server{Name: name, URL: web.URL + s.Path()})
		if problem != nil {
			t.Fatal(problem)
		}
		c.Servers = append(c.Servers, conf)
	}
	recent, guard, budget := logring.New(), httpdoor.NewGuard(nil, nil, nil), transport.NewBudget(64<<20)
	ring, events := calls.New(calls.Options{Record: true}), &event.Publisher{}
	log := slog.New(logring.NewHandler(recent, slog.DiscardHandler))
	r := runtime.New(runtime.Options{Config: &c, Events: events, Calls: ring, Log: log, Recent: recent, Guard: guard, Principal: identity.Anyone, Budget: budget, Version: "test"})
	r.Apply(event.DefaultProject, &c)
	r.Default().Warm()
	api := admin.New(admin.Options{Project: r.Default(), Budget: budget, Recent: recent, Calls: ring, Losses: func(string) []admin.Loss { return nil }, Version: "test", Local: true})
	pages := New(Options{Access: api.Access(), Source: api, Config: r.Default().Current, Clients: r.Default().ClientReports, Operate: r.Default().Operate, Events: events, Log: log})
	mux := http.NewServeMux()
	r.Routes(mux)
	api.Routes(mux)
	pages.Routes(mux)
	x.web = httptest.NewServer(mux)
	t.Cleanup(func() {
		pages.Drain()
		api.Drain()
		r.Drain()
		x.web.Close()
		pages.Close()
		api.Close()
		r.Close(runtime.StopLimit)
	})
	var cookie string
	x.client = &http.Client{
		Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
			q.Host = api.Access().Name() + strings.TrimPrefix(x.web.URL, "http://127.0.0.1")
			q.Header.Set("Cookie", cookie)
			return x.web.Client().Transport.RoundTrip(q)
		}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, _ := x.send(http.MethodGet, strings.TrimPrefix(api.Access().Link(x.web.URL), x.web.URL), nil)
	cookie, _, _ = strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	for name := range revisions {
		x.await("the tools of "+name, func() bool {
			resp, _ := x.send(http.MethodGet, "/console/servers/"+name+"/tools/wait", nil)
			return resp.StatusCode == http.StatusOK
		})
	}
	return x
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// send sends a request as a browser does. Values are sent as a form.
func (x *street) send(method, path string, values url.Values) (*http.Response, string) {
	x.t.Helper()
	r, err := http.NewRequestWithContext(x.t.Context(), method, x.web.URL+path, strings.NewReader(values.Encode()))
	if err != nil {
		x.t.Fatal(err)
	}
	if values != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp, err := x.client.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	return resp, string(body)
}

// await waits until a condition is true.
func (x *street) await(what string, is func() bool) {
	x.t.Helper()
	ctx, stop := context.WithTimeout(x.t.Context(), time.Minute)
	defer stop()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			x.t.Fatal("timeout: " + what)
		case <-t.C:
		}
	}
}

// shows loads a page until it contains all texts, and returns it.
func (x *street) shows(path string, texts ...string) (body string) {
	x.t.Helper()
	x.await(path+" shows "+strings.Join(texts, ", "), func() bool {
		_, body = x.send(http.MethodGet, path, nil)
		for _, text := range texts {
			if !strings.Contains(body, text) {
				return false
			}
		}
		return true
	})
	return body
}

var (
	formTag    = regexp.MustCompile(`(?s)<form[^>]*action="([^"]*)"[^>]*data-form.*?</form>`)
	controlTag = regexp.MustCompile(`(?s)<input ([^>]*)>|<textarea ([^>]*)>(.*?)</textarea>|<select ([^>]*)>(.*?)</select>`)
	optionTag  = regexp.MustCompile(`<option value="([^"]*)" selected>`)
	nameOf     = regexp.MustCompile(`name="([^"]*)"`)
	valueOf    = regexp.MustCompile(`value="([^"]*)"`)
)

// formOf returns the target and the values of the first form of a page, as a browser sends them.
func formOf(t *testing.T, body string) (target string, values url.Values) {
	t.Helper()
	m := formTag.FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("no form in %s", body)
	}
	values = url.Values{}
	first := func(re *regexp.Regexp, text string) string {
		if m := re.FindStringSubmatch(text); m != nil {
			return html.UnescapeString(m[1])
		}
		return ""
	}
	for _, c := range controlTag.FindAllStringSubmatch(m[0], -1) {
		switch name := first(nameOf, c[1]+c[2]+c[4]); {
		case c[4] != "":
			values.Set(name, first(optionTag, c[5]))
		case c[2] != "":
			values.Set(name, strings.ReplaceAll(html.UnescapeString(strings.TrimPrefix(c[3], "\n")), "\n", "\r\n"))
		case strings.Contains(c[1], `type="radio"`) || strings.Contains(c[1], `type="checkbox"`):
			if strings.Contains(c[1], " checked") {
				values.Add(name, first(valueOf, c[1]))
			}
		default:
			values.Set(name, first(valueOf, c[1]))
		}
	}
	return html.UnescapeString(m[1]), values
}

// run fills in the form of a tool, sends the form, and returns the path of the run. change alternates
// names and values of fields.
func (x *street) run(server, tool string, change ...string) string {
	x.t.Helper()
	_, body := x.send(http.MethodGet, "/console/servers/"+server+"/tools/"+tool, nil)
	target, values := formOf(x.t, body)
	for i := 0; i+1 < len(change); i += 2 {
		values.Set(change[i], change[i+1])
	}
	values.Set("do", "run")
	resp, body := x.send(http.MethodPost, target, values)
	if resp.StatusCode != http.StatusSeeOther {
		x.t.Fatalf("%s %s: %d %s", server, tool, resp.StatusCode, body)
	}
	return resp.Header.Get("Location")
}

// called returns the arguments of the calls of a tool that the server received.
func (x *street) called(server, tool string) (all []string) {
	for _, m := range x.wires[server].messages("request") {
		if m.Get("method").Is(mcp.MethodCallTool) && m.Get("params", "name").Is(tool) {
			all = append(all, string(m.Get("params", "arguments").Raw()))
		}
	}
	return all
}

// answers returns the answers to elicitation requests that the server received. A legacy server
// receives them as responses. A modern server receives them in the retry of the call.
func (x *street) answers(server string) (all []string) {
	for _, m := range x.wires[server].messages("request") {
		if v := m.Get("result", "action"); !v.Absent() {
			all = append(all, string(m.Get("result").Raw()))
		}
		for _, v := range m.Get("params", "inputResponses").Members() {
			all = append(all, string(v.Raw()))
		}
	}
	return all
}

// TestRunsOnTheWire runs tools of fake servers of both eras from the pages, without JavaScript: one
// with progress that is cancelled, two with questions to the user, one with log messages, and one
// that returns a picture. The servers must receive and send the bytes that the pages show.
func TestRunsOnTheWire(t *testing.T) {
	t.Parallel()
	x := newStreet(t, map[string]mcp.Revision{"old": mcp.LatestLegacy, "new": mcp.Latest})
	for _, server := range []string{"old", "new"} {
		t.Run(server, func(t *testing.T) {
			x := &street{t: t, web: x.web, client: x.client, wires: x.wires}
			x.echo(server)
			x.cancel(server)
			x.question(server)
			x.media(server)
			path := x.run(server, "fail")
			x.shows(path, "tool error", "<code>isError</code>", "failed as asked")
			path = x.run(server, "refuse")
			x.shows(path, `<b><bdi>refused as asked</bdi>.</b> <span class="faint">Error code -32602.</span>`)
			if server == "new" {
				path = x.run(server, "log", "v/text", "a line <b>")
				x.shows(path, "succeeded", `<span class="lvl-warn">warn</span> <span class="faint"><bdi>fake</bdi></span> <bdi>a line &lt;b&gt;</bdi>`)
			}
			if resp, _ := x.send(http.MethodGet, "/console/servers/"+server+"/tools/elicit", nil); resp.StatusCode != 200 {
				t.Error(resp.StatusCode)
			}
		})
	}
}

// echo runs a tool, and then runs it again with the form that the page of the first run offers.
func (x *street) echo(server string) {
	x.t.Helper()
	const text = "line <b>\r\nWörld \u2028 \\u0041"
	path := x.run(server, "echo", "v/text", text)
	body := x.shows(path, "succeeded", "View messages on both wires", `Save as JSON`)
	_, page := x.send(http.MethodGet, html.UnescapeString(regexp.MustCompile(`class="push" href="([^"]*)"`).FindStringSubmatch(body)[1]), nil)
	if !strings.Contains(page, "tools/call") {
		x.t.Errorf("no call: %s", page)
	}
	again, _, _ := strings.Cut(html.UnescapeString(regexp.MustCompile(`href="([^"]*#run)"`).FindStringSubmatch(body)[1]), "#")
	_, form := x.send(http.MethodGet, again, nil)
	target, values := formOf(x.t, form)
	resp, _ := x.send(http.MethodPost, target, values)
	x.shows(resp.Header.Get("Location"), "succeeded")
	all := x.called(server, "echo")
	var first, second struct{ Text string }
	if len(all) != 2 || json.Unmarshal([]byte(all[0]), &first) != nil || json.Unmarshal([]byte(all[1]), &second) != nil || first != second || first.Text != strings.ReplaceAll(text, "\r\n", "\n") {
		x.t.Errorf("%q", all)
	}
}

// cancel runs a tool with progress, follows the live page, and cancels the run.
func (x *street) cancel(server string) {
	x.t.Helper()
	path := x.run(server, "wait", "v/steps", "1000", "v/ms", "200")
	x.shows(path, "running", "of 1000: step ", `<progress id="bar"`, ">Cancel</button>")
	r, err := http.NewRequestWithContext(x.t.Context(), http.MethodGet, x.web.URL+"/console/events?"+url.Values{"page": {path}}.Encode(), nil)
	if err != nil {
		x.t.Fatal(err)
	}
	resp, err := x.client.Do(r)
	if err != nil {
		x.t.Fatal(err)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	bars := map[string]bool{}
	value := regexp.MustCompile(`"id":"bar","value":"([0-9.]+)"`)
	for len(bars) < 2 && lines.Scan() { // the bar moves without another request
		if m := value.FindStringSubmatch(lines.Text()); m != nil {
			bars[m[1]] = true
		}
	}
	if resp.Body.Close(); len(bars) < 2 {
		x.t.Errorf("the bar does not move: %v %v", bars, lines.Err())
	}
	if resp, _ := x.send(http.MethodPost, path, url.Values{"do": {"stop"}}); resp.StatusCode != http.StatusSeeOther {
		x.t.Errorf("cancel: %d", resp.StatusCode)
	}
	x.shows(path, `class="st off">cancelled`)
	if all := x.called(server, "wait"); len(all) != 1 || all[0] != `{"steps":1000,"ms":200}` {
		x.t.Errorf("%q", all)
	}
	x.await("the server has heard of it", func() bool {
		path := x.run(server, "cancelled")
		return strings.Contains(x.shows(path, "succeeded"), "<bdi>1</bdi>")
	})
}

// question answers the questions of a server in the page.
func (x *street) question(server string) {
	x.t.Helper()
	path := x.run(server, "elicit")
	body := x.shows(path, "waiting for user input", "Who are you?")
	target, values := formOf(x.t, body)
	values.Set("do", "accept")
	values.Set("v/age", "old")
	if resp, body := x.send(http.MethodPost, target, values); resp.StatusCode != 422 || !strings.Contains(body, "Must be an integer") {
		x.t.Errorf("%d %s", resp.StatusCode, body)
	}
	values.Set("v/age", "36")
	if resp, body := x.send(http.MethodPost, target, values); resp.StatusCode != 422 || !strings.Contains(body, "is missing") {
		x.t.Errorf("%d %s", resp.StatusCode, body)
	}
	values.Set("v/name", `Ada "<b>"`)
	x.send(http.MethodPost, target, values)
	x.shows(path, "succeeded")

	path = x.run(server, "elicit_rich")
	body = x.shows(path, "waiting for user input", "What shall we paint?", `<option value="&#34;#f00&#34;" selected>Red</option>`)
	target, values = formOf(x.t, body)
	values.Set("do", "accept")
	values.Add("v/sizes", `"l"`)
	values.Set("v/gloss", "false")
	x.send(http.MethodPost, target, values)
	x.shows(path, "succeeded")

	path = x.run(server, "elicit_url")
	body = x.shows(path, "waiting for user input", "I have opened it", `<code id="q1-url"><bdi>https://`)
	target, values = formOf(x.t, body)
	values.Set("do", "decline")
	x.send(http.MethodPost, target, values)
	x.shows(path, "succeeded")

	got := strings.Join(x.answers(server), "\n")
	want := strings.Join([]string{
		`{"action":"accept","content":{"name":"Ada \"<b>\"","age":36}}`,
		`{"action":"accept","content":{"color":"#f00","sizes":["s","l"],"name":"` + fake.ObligingName + `","age":30,"gloss":false}}`,
		`{"action":"decline"}`,
	}, "\n")
	if regexp.MustCompile(`"age":\d+,"gloss"`).ReplaceAllString(got, `"age":30,"gloss"`) != want {
		x.t.Errorf("the server got\n%s\nwant\n%s", got, want)
	}
}

// media checks that the picture on the page has the bytes that the server sent.
func (x *street) media(server string) {
	x.t.Helper()
	path := x.run(server, "media")
	body := x.shows(path, "succeeded", "some text", "<img src=")
	src := regexp.MustCompile(`<img src="([^"]*)"`).FindStringSubmatch(body)[1]
	resp, picture := x.send(http.MethodGet, html.UnescapeString(src), nil)
	sent := ""
	for _, m := range x.wires[server].messages("response") {
		for e := range m.Get("result", "content").Elements() {
			if e.Get("type").Is("image") {
				data, _ := e.Get("data").Text()
				b, _ := base64.StdEncoding.DecodeString(data)
				sent = string(b)
			}
		}
	}
	if sent == "" || picture != sent || resp.Header.Get("Content-Type") != "image/png" {
		x.t.Errorf("%d bytes of type %s, but the server sent %d", len(picture), resp.Header.Get("Content-Type"), len(sent))
	}
}

// story returns a call with its messages, as the file that its page offers has it.
func (x *street) story(number string) (s admin.Story) {
	x.t.Helper()
	_, body := x.send(http.MethodGet, "/console/calls/"+number+"/wires.json", nil)
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		x.t.Fatalf("%v in %s", err, body)
	}
	return s
}

// of returns the messages on one wire that went in one direction, byte for byte.
func of(s *admin.Story, wire, direction string) (all []string) {
	for i := range s.Messages {
		if m := &s.Messages[i]; m.Wire == wire && m.Direction == direction {
			all = append(all, m.Text)
		}
	}
	return all
}

// TestPlaygroundOfEachRevision runs a tool of a server of each era as a client of each of the five revisions, and answers
// its question in the page. What the page shows of both wires is what the client has sent and got, and what the server
// has got and sent, byte for byte.
func TestPlaygroundOfEachRevision(t *testing.T) {
	t.Parallel()
	x := newStreet(t, map[string]mcp.Revision{"old": mcp.LatestLegacy, "new": mcp.Latest})
	for _, server := range []string{"old", "new"} {
		for _, revision := range mcp.Revisions() {
			t.Run(server+" "+revision.String(), func(t *testing.T) {
				x := &street{t: t, web: x.web, client: x.client, wires: x.wires}
				path := x.run(server, "echo", "v/text", "to "+revision.String(), "revision", revision.String())
				x.sameWires(server, path, revision)
				path = x.run(server, "elicit", "revision", revision.String())
				body := x.shows(path, "waiting for user input", "Who are you?")
				target, values := formOf(t, body)
				values.Set("do", "accept")
				values.Set("v/name", "Ada of "+revision.String())
				values.Set("v/age", "36")
				x.send(http.MethodPost, target, values)
				x.sameWires(server, path, revision)
				if all := x.answers(server); !strings.Contains(all[len(all)-1], "Ada of "+revision.String()) {
					t.Errorf("the server got the answers %q", all)
				}
			})
		}
	}
}

// sameWires waits for the end of a run, and compares what the pages show with what both peers have recorded.
func (x *street) sameWires(server, path string, revision mcp.Revision) {
	x.t.Helper()
	body := x.shows(path, ">succeeded<", `class="more" href="/console/calls/`)
	number := regexp.MustCompile(`class="more" href="/console/calls/(\d+)"`).FindStringSubmatch(body)[1]
	s := x.story(number)
	var run admin.Run
	_, text := x.send(http.MethodGet, "/api/v1"+strings.TrimPrefix(path, "/console"), nil)
	if err := json.Unmarshal([]byte(text), &run); err != nil {
		x.t.Fatalf("%v in %s", err, text)
	}
	var sent, got []string
	call := false
	for _, m := range run.Messages {
		// The messages of the call begin after the handshake, of which the call knows nothing.
		if call = call || strings.Contains(m.Text, `"method":"`+mcp.MethodCallTool+`"`); !call {
			continue
		}
		if m.Sent {
			sent = append(sent, m.Text)
		} else {
			got = append(got, m.Text)
		}
	}
	if opened := strings.Contains(run.Messages[0].Text, `"method":"initialize"`); opened != revision.Can(mcp.Handshake) || run.Revision != revision.String() {
		x.t.Errorf("the client of %s begins with %s", revision, run.Messages[0].Text)
	}
	same := func(what string, shown, recorded []string) {
		if len(shown) == 0 || strings.Join(shown, "\n") != strings.Join(recorded, "\n") {
			x.t.Errorf("%s of %s: the page shows\n%s\nand the peer has recorded\n%s", what, path, strings.Join(shown, "\n"), strings.Join(recorded, "\n"))
		}
	}
	same("what the client sent", of(&s, admin.WireClient, "received"), sent)
	same("what the client got", of(&s, admin.WireClient, "sent"), got)
	lines := x.wires[server].messages
	for _, text := range of(&s, admin.WireServer, "sent") {
		if !recorded(lines("request"), text) {
			x.t.Errorf("the server %s has not got %s", server, text)
		}
	}
	for _, text := range of(&s, admin.WireServer, "received") {
		if !recorded(lines("response"), text) {
			x.t.Errorf("the server %s has not sent %s", server, text)
		}
	}
}

// recorded reports whether a peer has recorded a message.
func recorded(all []jsonrpc.Value, text string) bool {
	return slices.ContainsFunc(all, func(v jsonrpc.Value) bool { return string(v.Raw()) == text })
}
