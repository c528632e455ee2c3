package console

import (
	"errors"
	"flag"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

var update = flag.Bool("update", false, "write the golden files")

// server returns a server that is ready.
func server(name string, revision mcp.Revision, tools int) admin.Server {
	now := time.Now()
	return admin.Server{
		Name: name, State: "ready", Since: now, Era: revision.Era(), Revision: revision.String(), Transport: "stdio", Isolation: "auto",
		Handshake: &admin.Handshake{At: now, Trace: []string{"x"}},
		Sessions:  []admin.Session{{Role: "home", Revision: revision.String(), Opened: now}},
		Lists:     []admin.List{{Method: mcp.MethodListTools, Items: tools, ReadAt: &now}},
	}
}

// broken returns a server that failed to start.
func broken(name, sentence string) admin.Server {
	retry := time.Now().Add(24 * time.Second)
	return admin.Server{
		Name: name, State: "failed", Since: time.Now(), Era: "unknown", Transport: "stdio", Isolation: "auto", Attempts: 3, RetryAt: &retry,
		Failure: &failure.Failure{Class: "exited", Server: name, Sentence: sentence, Action: "run the command by hand to see its complete output", Evidence: []string{"line one", "line two"}, EvidenceFrom: failure.Stderr},
	}
}

// call publishes a call of a client.
func call(p *event.Publisher, name, version string, from mcp.Revision, server string, to mcp.Revision, outcome mcp.Outcome, number uint64) {
	info := append([]byte(`{"name":`), jsonrpc.AppendQuote(nil, name)...)
	info = append(append(append(info, `,"version":`...), jsonrpc.AppendQuote(nil, version)...), '}')
	p.Publish(event.Event{
		Kind: event.Call, Method: "tools/call", Name: "tool", Server: server, From: from, To: to, Outcome: outcome, Took: 40 * time.Millisecond, Call: number,
		Client: &mcp.ClientInfo{Revision: from, Info: info, Capabilities: []byte(`{"sampling":{},"roots":{"listChanged":true}}`), Remote: "127.0.0.1"},
	})
}

// scene is a state of the program that the pages show.
type scene struct {
	report admin.Report
	source source
	config string // the text of the configuration file
	play   func(*event.Publisher)
}

// scenes are the states for the golden files. They must be created in a synctest bubble.
var scenes = map[string]func() scene{
	"empty": func() scene { return scene{} },
	"waiting": func() scene {
		return scene{report: admin.Report{Servers: []admin.Server{server("files", mcp.R20250618, 14)}}}
	},
	"busy": func() scene {
		s := scene{config: "mcpServers:\n  files: {command: prog, env: {TOKEN: hunter2hunter2}}\n  browser: {command: x}\n  search: {command: y}\ndragoman:\n  limits: {call: 20s}\n"}
		s.report.Servers = []admin.Server{server("files", mcp.R20250618, 14), broken("browser", `server "browser" exited with status 1 before it was ready`), server("search", mcp.R20260728, 6)}
		s.report.DemoClients = []string{"AI SDK"}
		s.report.Endpoints = []admin.Endpoint{{Path: "/mcp"}, {Path: "/s/files/mcp", Server: "files"}}
		s.report.Parked = []admin.ParkedCall{{Server: "files", Method: "tools/call", Since: time.Now(), Questions: 1}}
		s.source.logs = []admin.LogRecord{
			{ID: "1", Time: time.Now(), Level: "info", Source: "stderr", Text: "listening"},
			{ID: "2", Time: time.Now(), Level: "warn", Source: "log", Text: "server is slow", Attributes: admin.Attributes{{Key: "took", Value: "3s"}}},
		}
		s.source.steps = []admin.HandshakeStep{
			{AtMS: 38, Sent: "server/discover (2026-07-28)", Got: "error -32601", Reason: "it is older", Params: `{"_meta":{}}`, ParamsBytes: 12, Answer: `{"jsonrpc":"2.0"}`, AnswerBytes: 9000},
			{AtMS: 74, Sent: "initialize (2025-11-25)", Got: "a result with protocolVersion 2025-06-18", Reason: "it speaks 2025-06-18"},
		}
		s.source.calls = []admin.Call{
			{Number: 2, Outcome: "ok", Method: "tools/call", Name: "files__read", Server: "files", Revision: "2025-06-18", Started: time.Now(), Seconds: .61, Out: 4118, Requests: 2, Retries: []uint64{3}, Recorded: true, Client: admin.CallClient{Name: "AI SDK", Revision: "2026-07-28"}},
			{Number: 1, Outcome: "failed", Cause: "timeout", Method: "tools/call", Name: "files__slow", Server: "files", Started: time.Now(), Seconds: 60, Losses: []admin.CallLoss{{What: "x", Why: "y"}}},
		}
		s.source.stories = []admin.Story{storyOfPublish(s.source.calls[0]), {Call: s.source.calls[1]}}
		s.source.exam = examOf("browser", "a tool has no schema")
		size := int64(4096)
		s.source.items = map[string][]admin.Item{
			mcp.MethodListResources: {
				{Server: "files", Name: "notes", Title: "My notes", URI: "file:///notes/a b.txt", Description: "A note.", MIMEType: "text/plain", Size: &size, State: "shown"},
				{Server: "files", Name: "secret", URI: "file:///secret", State: "hidden"},
			},
			mcp.MethodListTemplates: {{Server: "files", Name: "any file", URITemplate: "file:///{path}", State: "shown"}},
			mcp.MethodListPrompts: {
				{Server: "files", Name: "review", Title: "Review", Description: "Reviews code.", State: "shown", Arguments: []admin.ToolArgument{{Name: "code", Required: true, About: "The code."}, {Name: "style"}, {Name: "style"}}},
				{Server: "files", Name: "hello", State: "shown"},
			},
		}
		s.play = func(p *event.Publisher) {
			for i := range 20 {
				call(p, "Claude Code", "2.1.4", mcp.R20251125, "files", mcp.R20250618, event.OK, uint64(i+1))
			}
			for i := range 10 {
				call(p, "AI SDK", "2.0.99", mcp.R20260728, "files", mcp.R20250618, event.OK, uint64(i+30))
			}
			p.Publish(event.Event{Kind: event.Loss, Server: "search", Name: "structuredContent", Detail: "2025-06-18 allows only an object here", Call: 50})
			call(p, "Claude Code", "2.1.4", mcp.R20251125, "search", mcp.R20260728, mcp.Failed, 50)
			p.Publish(event.Event{Kind: event.Handshake, Name: "Claude Code", From: mcp.R20251125, Method: "initialize", Took: time.Millisecond, Outcome: event.OK, Opening: &event.Opening{Client: "Claude Code"}})
			p.Publish(event.Event{Kind: event.Reload, Outcome: event.OK, Detail: "The changed configuration was applied. Added: files."})
			p.Publish(event.Event{Kind: event.Reload, Outcome: mcp.Failed, Detail: "The changed configuration was refused, and the current one stays in use. dragoman.yaml:2:3: mcpServers.x: has no command."})
			p.Publish(event.Event{Kind: event.Handshake, Server: "browser", Outcome: mcp.Failed, Detail: "     1 ms  initialize -> an end; the server has exited\n"})
		}
		return s
	},
	"many": func() (s scene) {
		for i := range 200 {
			x := server(fmt.Sprintf("server-%03d", i), mcp.R20250618, 25)
			if i%40 == 7 {
				x = broken(x.Name, "it failed")
			}
			if i%3 == 0 {
				x.Era, x.Revision = "modern", mcp.R20260728.String()
			}
			s.report.Servers = append(s.report.Servers, x)
		}
		s.play = func(p *event.Publisher) {
			for i := range 30 {
				call(p, fmt.Sprintf("client %d", i), "1", mcp.R20250618, fmt.Sprintf("server-%03d", i), mcp.R20250618, event.OK, uint64(i+1))
			}
		}
		return s
	},
	"audit": func() (s scene) {
		s.report.Audit, s.report.Projects = &admin.Audit{Calls: "arguments"}, []string{"default", "shop"}
		s.report.Limits = []admin.LimitRefusals{{Per: "key", Of: "k-1", Limit: "calls_per_second", Refused: 4}, {Per: "server", Of: "gh", Limit: "calls_in_flight", Refused: 1200}}
		s.source.audit = auditOf("", 60)
		return s
	},
	"rules": func() (s scene) {
		s.report.Servers = []admin.Server{server("git", mcp.R20250618, 2)}
		s.source.rules = someRules("store", "")
		return s
	},
	"rulesOfFile": func() (s scene) {
		s.report.Servers = []admin.Server{server("git", mcp.R20250618, 2)}
		s.source.rules = someRules("file", "")
		return s
	},
	"team": func() (s scene) {
		s.report.Projects = []string{"default", "shop"}
		s.source.testTeam = teamOf("")
		return s
	},
	"held": func() (s scene) {
		s.report.Servers = []admin.Server{server("notes", mcp.R20250618, 3)}
		s.source.pins = changedPins()
		s.source.calls = []admin.Call{{Number: 1, Outcome: "not_sent", Cause: "held", Method: "tools/call", Name: "notes__search", Server: "notes", Started: time.Now()}}
		return s
	},
	"kept": func() (s scene) {
		s.report.Servers = []admin.Server{server("files", mcp.R20250618, 3)}
		s.source.keeps = someKept()
		s.source.items = map[string][]admin.Item{mcp.MethodListPrompts: {{Server: "files", Name: "hello", Offered: "files__hello", State: "shown"}}}
		return s
	},
	"hostile": func() (s scene) {
		s.source.keeps = keeps{prompts: []admin.PromptDetails{aPrompt("review", hostile, 1, hostile, hostile+" {{it}}")}, secrets: []admin.SecretEntry{{Name: "gh", By: hostile, Servers: []string{hostile}, Settings: []string{hostile}}}}
		s.report.Projects = []string{"default", "shop" + hostile}
		s.source.testTeam = teamOf(hostile)
		s.source.audit = auditOf(hostile, 0)
		s.source.rules = someRules("store", hostile)
		s.source.signIns = signInsOf(hostile)
		s.report.Limits = []admin.LimitRefusals{{Per: "key", Of: hostile, Limit: "calls_per_second", Refused: 4}}
		s.report.Servers = []admin.Server{server(hostile, mcp.R20250618, 1), broken(hostile+"2", hostile)}
		s.report.Servers[0].LastError = &admin.Fault{At: time.Now(), Text: hostile}
		s.report.Servers[0].Lists[0].Failed = hostile
		s.report.Servers[0].Lists[0].Odd = []admin.RejectedItem{{Name: hostile, Why: hostile}}
		s.report.Servers[1].Failure.Evidence = []string{hostile}
		s.report.Servers[1].Failure.Action = hostile
		s.report.Servers[0].Sessions[0].Principal = hostile
		s.source.logs = []admin.LogRecord{{ID: "1", Level: "info", Source: "stderr", Text: hostile, Attributes: admin.Attributes{{Key: hostile, Value: hostile}}}}
		s.source.steps = []admin.HandshakeStep{{Sent: hostile, Got: hostile, Reason: hostile, Params: hostile, ParamsBytes: 1, Answer: hostile, AnswerBytes: 1}}
		s.source.calls = []admin.Call{{Number: 7, Outcome: "failed", Cause: hostile, Method: hostile, Name: hostile, Server: hostile, Client: admin.CallClient{Name: hostile}}}
		s.source.stories = []admin.Story{hostileStory(s.source.calls[0])}
		s.source.exam = examOf(hostile, hostile)
		s.source.pins = testPins{mode: "hold", all: []testPin{hostilePin()}, unread: []admin.PinUnread{{Server: hostile, Cause: hostile}}}
		evil := admin.Item{Server: hostile, Name: hostile, Title: hostile, URI: hostile, URITemplate: hostile, Description: hostile, MIMEType: hostile, State: "hidden", Arguments: []admin.ToolArgument{{Name: hostile, About: hostile, Required: true}}}
		s.source.items = map[string][]admin.Item{mcp.MethodListResources: {evil}, mcp.MethodListTemplates: {evil}, mcp.MethodListPrompts: {evil}}
		s.play = func(p *event.Publisher) {
			p.Publish(event.Event{Kind: event.Loss, Server: hostile, Name: hostile, Detail: hostile, Call: 1})
			call(p, hostile, hostile, mcp.R20250618, hostile, mcp.R20250618, mcp.Failed, 1)
			p.Publish(event.Event{Kind: event.Handshake, Name: hostile, Method: hostile, From: mcp.R20250618, Opening: &event.Opening{Client: hostile}})
			p.Publish(event.Event{Kind: event.Reload, Outcome: mcp.Failed, Detail: hostile})
			p.Publish(event.Event{Kind: event.Refusal, Server: hostile, Method: hostile, Detail: hostile})
			p.Publish(event.Event{Kind: event.Changed, Server: hostile, Method: hostile, Detail: hostile, Change: &event.ListChange{Changes: 1}})
		}
		return s
	},
}

// examOf returns an examination with one finding of each level. All texts from the server contain
// the parameter text.
func examOf(server, text string) *admin.Examination {
	now := time.Now()
	return &admin.Examination{
		Server: server, State: "ended", Started: now, Ended: &now, Passed: []string{"lists"},
		Findings: []admin.Finding{
			{Code: "DRG-STDOUT-NOISE", Level: "error", Title: "prints text to stdout", Meaning: "Clients fail.", Affects: "Go SDK", Fix: "Log to stderr.", Bridged: "Dragoman skips the text.", Evidence: "# " + text + "\n> {\"id\":1}\n< " + text + "\n"},
			{Code: "DRG-SCHEMA-STUB", Level: "warning", Title: "has empty schemas", Meaning: "Models guess.", Fix: "Describe the arguments.", Evidence: "< " + text},
			{Code: "DRG-X", Level: "info", Title: "a note", Meaning: "Nothing is wrong."},
		},
		Verdict: &admin.ExamVerdict{
			Reached: true, Through: true, Tokens: 1200, Offer: admin.ExamOffer{Name: text, Version: "1.0", ReadySeconds: .3, Lists: []admin.ExamList{{Kind: "tools", Items: 2}, {Kind: "prompts", Items: 1}}},
			Revisions: []admin.ExamRevision{{Revision: "2025-06-18", Works: true, Through: true}, {Revision: "2026-07-28", Why: text}},
			Failure:   &failure.Failure{Class: failure.Exited, Sentence: text, Action: text, Evidence: []string{text}, EvidenceFrom: failure.Stderr},
		},
	}
}

// hostile is a text that a peer may send as a name, a description or a line of a log.
const hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x1b[31m\u202e\u200b\U000e0041\u2066javascript:alert(3)"

// stage opens a console in a scene. It must run in a synctest bubble.
func stage(t testing.TB, name string) *testConsole { return stageWith(t, name, &event.Publisher{}) }

// stageWith opens a console in a scene. The console gets the events of p.
func stageWith(t testing.TB, name string, p *event.Publisher) *testConsole {
	t.Helper()
	s := scenes[name]()
	s.report.Started, s.report.Configured, s.report.State, s.report.Version = time.Now(), time.Now(), "serving", "1.0"
	snapshot := config.Default()
	if s.config != "" {
		file := filepath.Join(t.TempDir(), "dragoman.yaml")
		if err := os.WriteFile(file, []byte(s.config), 0o600); err != nil {
			t.Fatal(err)
		}
		var problems config.Problems
		if snapshot, problems = config.Load(file); snapshot == nil {
			t.Fatal(problems)
		}
	}
	h := open(t, &s.report, func(o *Options) {
		s.source.report, s.source.read = &s.report, map[string]bool{}
		o.Source, o.Events, o.DemoClients, o.Config = &s.source, p, s.report.DemoClients, func() *config.Snapshot { return snapshot }
		o.Operate = func(string, runtime.Operation, string) error { return nil }
		if add := adders[name]; add != nil {
			o.Add = add()
		}
	})
	h.source = &s.source
	if s.play != nil {
		s.play(p)
	}
	return h
}

// pagesOf maps each scene to its pages.
var pagesOf = map[string][]string{
	"empty":       {"/", "/calls", "/servers", "/clients", "/events", "/settings", "/servers/none"},
	"waiting":     {"/"},
	"busy":        {"/", "/servers", "/servers/files", "/servers/browser", "/servers/browser/findings", "/servers/files/findings", "/servers/files/resources", "/servers/files/prompts", "/servers/search/prompts", "/servers/browser/resources", "/servers/files/resources?q=nothing", "/servers?q=fil&state=ready&sort=-calls", "/servers?q=nothing", "/clients", "/clients/1", "/clients/99", "/calls", "/calls?server=files&before=2", "/calls?q=nothing", "/calls/1", "/calls/2", "/calls/2?view=raw", "/calls/2?view=edits", "/calls/99", "/events", "/events?kind=loss", "/settings"},
	"audit":       {"/audit", "/audit?what=nothing", "/audit?before=50", "/audit/7", "/audit/6", "/audit/99"},
	"many":        {"/", "/servers?page=2&sort=name", "/clients"},
	"hostile":     {"/", "/tools/held", held{hostilePin().PinChange}.Path()[len(prefix):], "/servers", "/servers/" + "%3Cscript%3Ealert(1)%3C%2Fscript%3E%22%27%3E%3Cimg%20src%3Dx%20onerror%3Dalert(2)%3E%1B%5B31m%E2%80%AE%E2%80%8B%F3%A0%81%81%E2%81%A6javascript:alert(3)", "/servers/" + url.PathEscape(hostile) + "/findings", "/servers/" + url.PathEscape(hostile) + "/resources", "/servers/" + url.PathEscape(hostile) + "/prompts", "/clients", "/clients/1", "/events", "/calls", "/calls/7", "/calls/7?view=raw", "/audit", "/audit?who=" + url.QueryEscape(hostile), "/audit/7", "/rules", "/rules/edit?match=x&match=" + url.QueryEscape(hostile), "/rules/sees?key=k1", "/rules/sees?name=" + url.QueryEscape(hostile), "/prompts", "/prompts/review", "/prompts/review?version=2", "/prompts/review/instructions", "/prompts/review/1..2", "/secrets", "/secrets/gh", "/keys", "/keys/new", "/keys/k1", "/keys/k1/look", "/keys/k3", "/people", "/people/ada", "/people/ben", "/connections", "/connections?in=shop&done=" + url.QueryEscape(hostile), "/questions"},
	"rules":       {"/rules", "/rules?order=" + rulesMoved, "/rules/edit", "/rules/edit?rule=" + ruleIDs(0), "/rules/edit?do=remove&rule=" + ruleIDs(2), "/rules/edit?match=git%2Fx&what=deny&at=1", "/rules/edit?match=wrong&what=deny", "/rules/edit?rule=gone", "/rules/sees", "/rules/sees?key=k1", "/rules/sees?person=nobody"},
	"rulesOfFile": {"/rules", "/rules/edit?rule=" + ruleIDs(0), "/rules/edit?match=git%2Fx&what=deny"},
	"held":        {"/", "/tools/held", heldPage(0), heldPage(0) + "?view=all", heldPage(1), heldPage(2), heldPage(3), heldPage(4), "/tools/held/x"},
	"kept":        {"/prompts", "/prompts?q=none", "/prompts/review", "/prompts/review?version=2&value.change=x", "/prompts/terms/instructions", "/prompts/review/instructions", "/prompts/review/1..2", "/prompts/review/1..2?view=all", "/prompts/none", "/prompts/_new", "/prompts/review/edit", "/secrets", "/secrets/gh", "/secrets/none"},
	"team":        {"/keys", "/keys?state=look&sort=-used", "/keys?q=nothing", "/keys/new", "/keys/k1", "/keys/k1/look", "/keys/k2", "/keys/k3", "/keys/none", "/keys/none/look", "/people", "/people?role=admin", "/people/ada", "/people/ben", "/people/none"},
}

// golden maps scenes to the pages that [TestGolden] compares with files: one of each kind, few enough
// that somebody reads a difference. [TestPagesAreSafe] and [TestLinksResolve] check all the others.
var golden = map[string][]string{
	"busy":  {"/", "/servers", "/servers/files", "/servers/browser", "/clients/1", "/calls", "/calls/2", "/events"},
	"tools": {"/tools", "/servers/files/tools/read"},
	"add":   {"/servers/add?draft=d1"},
	"pairs": {"/compatibility"},
}

// TestGolden compares pages with their files below testdata. The files have only the main part, with
// one element per line. With -update it writes them.
func TestGolden(t *testing.T) {
	folder := t.TempDir()
	for name, pages := range golden {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := stage(t, name)
				dir := filepath.Join("testdata", name)
				if *update {
					if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
						t.Fatal(err)
					}
				}
				known := map[string]bool{}
				for _, page := range pages {
					resp, body := h.ask("GET", "/console"+page)
					text := fmt.Sprintf("=== %s %d\n%s\n", page, resp.StatusCode, linesOf(foldRows(defaults.ReplaceAllString(mainOf(body), ""))))
					text = regexp.MustCompile(`/[^ <"]*/dragoman\.yaml`).ReplaceAllString(strings.ReplaceAll(text, folder, ""), "/FOLDER/dragoman.yaml")
					text = regexp.MustCompile(`static/(\w+)\.[0-9a-f]{12}\.`).ReplaceAllString(text, "static/$1.HASH.")
					text = regexp.MustCompile(`name="number" value="[A-Z2-7]+"`).ReplaceAllString(text, `name="number" value="NUMBER"`)
					text = regexp.MustCompile(`data-hash="\w+"`).ReplaceAllString(text, `data-hash="HASH"`)
					file := filepath.Join(dir, goldenName(page))
					if known[filepath.Base(file)] {
						t.Fatalf("two pages have the file %s", file)
					}
					known[filepath.Base(file)] = true
					if *update {
						if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
							t.Fatal(err)
						}
					}
					want, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(text, "\n")); d != "" {
						t.Errorf("%s is stale; run `go test ./internal/app/console -update` and read the difference:\n%s", file, d)
					}
					if n := strings.Count(text, "\n"); n > mostGolden {
						t.Errorf("%s has %d lines; make the scene smaller, so that people can read a difference", file, n)
					}
				}
				left, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range left {
					if !known[f.Name()] {
						t.Errorf("no page belongs to %s", filepath.Join(dir, f.Name()))
					}
				}
			})
		})
	}
}

// mostGolden is the maximum number of lines of a golden file.
const mostGolden = 500

// goldenName returns the name of the file of a page. "hostile" replaces the hostile name.
func goldenName(page string) string {
	name, err := url.QueryUnescape(strings.TrimPrefix(page, "/"))
	if err != nil {
		name = page
	}
	name = strings.ReplaceAll(name, hostile, "hostile")
	name = strings.Trim(regexp.MustCompile(`[^a-z0-9.=_-]+`).ReplaceAllString(strings.ToLower(name), "-"), "-")
	if name == "" {
		name = "overview"
	}
	return name + ".html"
}

// foldRows shortens a table row to one line with its text if three rows of the same shape come
// before it.
func foldRows(page string) string {
	seen := map[string]int{}
	tag := regexp.MustCompile(`<[^>]*>`)
	values := regexp.MustCompile(`(href|id|title|datetime|aria-label)="[^"]*"`)
	return regexp.MustCompile(`(?s)<tr.*?</tr>`).ReplaceAllStringFunc(page, func(row string) string {
		shape := values.ReplaceAllString(strings.Join(tag.FindAllString(row, -1), ""), "$1")
		if seen[shape]++; seen[shape] <= 3 {
			return row
		}
		return "\n<tr> … " + strings.Join(strings.Fields(tag.ReplaceAllString(row, " ")), " ")
	})
}

// defaults matches the rows of settings that are not in the file. The test ignores these rows,
// because each new setting adds one.
var defaults = regexp.MustCompile(`(?s)<tr(?: id="set-[^"]*")?><td class="mono d.*?</tr>`)

func mainOf(page string) string {
	_, rest, _ := strings.Cut(page, `<main id="main"`)
	_, rest, _ = strings.Cut(rest, ">")
	rest, _, _ = strings.Cut(rest, "</main>")
	return rest
}

// linesOf puts each tag on its own line.
func linesOf(page string) string {
	page = regexp.MustCompile(`\s+`).ReplaceAllString(page, " ")
	page = strings.ReplaceAll(page, "<tr> … ", "\n<tr> … ")
	page = regexp.MustCompile(` ?(</?(?:section|div|table|tr|td|th|li|ul|ol|p|h1|h2|h3|form|figure|svg|path|dl|dt|dd|aside|details|summary|select|a)[ >])`).ReplaceAllString(page, "\n$1")
	return strings.TrimSpace(page)
}

// TestPagesAreSafe checks all pages of all scenes. A page must have no inline script or style,
// no attribute that runs code, no link to another site, and no hidden text. It must have one
// h1, no skipped heading levels, unique ids, and labels for fields.
func TestPagesAreSafe(t *testing.T) {
	tags := regexp.MustCompile(`<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:"[^"]*"|'[^']*'|[^"'>])*)>`)
	attrs := regexp.MustCompile(`([a-zA-Z-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))`)
	for name, pages := range pagesOf {
		synctest.Test(t, func(t *testing.T) {
			h := stage(t, name)
			for _, page := range pages {
				_, body := h.ask("GET", "/console"+page)
				ids, level, h1 := map[string]bool{}, 0, 0
				for _, m := range tags.FindAllStringSubmatch(body, -1) {
					tag := strings.ToLower(m[2])
					if m[1] == "/" {
						continue
					}
					switch tag {
					case "style", "iframe", "object", "embed", "base":
						t.Errorf("%s %s: <%s>", name, page, tag)
					case "img", "audio":
						if !strings.Contains(m[3], `src="/console/runs/`) {
							t.Errorf("%s %s: %s", name, page, m[0])
						}
					case "script":
						if !strings.Contains(m[3], `src="/console/static/`) {
							t.Errorf("%s %s: a script of its own: %s", name, page, m[0])
						}
					case "h1", "h2", "h3":
						at := int(tag[1] - '0')
						if tag == "h1" {
							h1++
						}
						if at > level+1 && level > 0 {
							t.Errorf("%s %s: %s after h%d", name, page, m[0], level)
						}
						level = at
					}
					for _, a := range attrs.FindAllStringSubmatch(m[3], -1) {
						key, value := strings.ToLower(a[1]), html.UnescapeString(a[2]+a[3]+a[4])
						if key != "value" && strings.ContainsAny(value, "\x1b\u202e\u200b\u2066\U000e0041") {
							t.Errorf("%s %s: something in %s is invisible", name, page, key)
						}
						switch {
						case key == "style" || strings.HasPrefix(key, "on"):
							t.Errorf("%s %s: %s", name, page, m[0])
						case key == "id" && ids[value]:
							t.Errorf("%s %s: two elements with the id %q", name, page, value)
						case key == "id":
							ids[value] = true
						case (key == "href" || key == "action" || key == "src") && !strings.HasPrefix(value, "/console/") && !strings.HasPrefix(value, "#") && !strings.HasPrefix(value, "?") && tag != "link" && !(strings.HasPrefix(value, "/api/v1/") && strings.Contains(m[3], " download")):
							t.Errorf("%s %s: a link to %q", name, page, value)
						}
					}
				}
				if h1 != 1 {
					t.Errorf("%s %s: %d h1", name, page, h1)
				}
				text := html.UnescapeString(tags.ReplaceAllString(body, " "))
				if strings.ContainsAny(text, "\x1b\u202e\u200b\u2066\U000e0041") {
					t.Errorf("%s %s: something in the text is invisible", name, page)
				}
			}
		})
	}
}

// TestLinksResolve checks that the target of each link of each page exists.
func TestLinksResolve(t *testing.T) {
	links := regexp.MustCompile(`(?:href|action)="([^"]*)"`)
	for _, name := range []string{"empty", "busy", "hostile"} {
		synctest.Test(t, func(t *testing.T) {
			h := stage(t, name)
			seen, pages := map[string]bool{}, map[string]string{} // the links that were seen, and the bodies of the pages
			for queue := []string{"/console/"}; len(queue) > 0; queue = queue[1:] {
				page, fragment, _ := strings.Cut(queue[0], "#")
				if body, ok := pages[page]; ok {
					if fragment != "" && !strings.Contains(body, `id="`+fragment+`"`) {
						t.Errorf("%s: %s has no section %q", name, page, fragment)
					}
					continue
				}
				resp, body := h.ask("GET", page)
				pages[page] = body
				if resp.StatusCode != http.StatusOK && !strings.HasPrefix(page, "/console/static/") {
					t.Errorf("%s: %s answers %d", name, page, resp.StatusCode)
				}
				if fragment != "" && !strings.Contains(body, `id="`+fragment+`"`) {
					t.Errorf("%s: %s has no section %q", name, page, fragment)
				}
				if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
					continue
				}
				for _, m := range links.FindAllStringSubmatch(body, -1) {
					to := html.UnescapeString(m[1])
					base, _, _ := strings.Cut(page, "?")
					switch {
					case strings.HasPrefix(to, "data:"), strings.HasPrefix(to, "/api/v1/"), strings.HasSuffix(to, "/theme"), strings.HasSuffix(to, "/signout"), strings.HasSuffix(to, "/restart"), strings.HasSuffix(to, "/probe"), strings.HasSuffix(to, "/stop"), strings.HasSuffix(to, "/start"):
						continue
					case strings.HasPrefix(to, "?"):
						to = base + to
					case strings.HasPrefix(to, "#"):
						to = page + to
					}
					if !seen[to] && len(seen) < 150 {
						seen[to] = true
						queue = append(queue, to)
					}
				}
			}
		})
	}
}

// TestWeight checks that a page without its data has at most 60 KB, and the modules at most 12
// KB. No page has more than one sheet of its own.
func TestWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "held")
		h.source.testTeam = teamOf("")
		for _, page := range []string{"/settings", "/me", "/audit", "/projects", "/rules", "/rules/edit", heldPage(0), "/keys", "/keys/new", "/keys/k1", "/people", "/people/ada"} {
			_, body := h.ask("GET", "/console"+page)
			styles, modules := 0, 0
			byName, _ := assets()
			for name, a := range byName {
				switch {
				case !strings.Contains(body, name):
				case strings.HasPrefix(a.kind, "text/css"):
					styles += len(a.body)
				default:
					modules += len(a.body)
				}
			}
			frame := len(body) - len(mainOf(body))
			t.Logf("%s: styles %d, modules %d, frame %d bytes", page, styles, modules, frame)
			if all := styles + modules + frame; all > 60<<10 || modules > 12<<10 || modules == 0 || styles == 0 {
				t.Errorf("%s: styles %d, modules %d, frame %d: %d bytes", page, styles, modules, frame, all)
			}
		}
	})
}

// TestKeys checks that each page of the navigation has a key of its own.
func TestKeys(t *testing.T) {
	h := open(t, &admin.Report{})
	owner := map[string]string{}
	for _, e := range h.console.frame.nav {
		switch before := owner[e.Key]; {
		case len(e.Key) != 1:
			t.Errorf("%s has the key %q", e.Nav, e.Key)
		case before != "":
			t.Errorf("%s and %s both have the key %q", before, e.Nav, e.Key)
		}
		owner[e.Key] = e.Nav
	}
}

// TestOperations checks the buttons of a server.
func TestOperations(t *testing.T) {
	var did []string
	h := open(t, &admin.Report{Servers: []admin.Server{{Name: "files", State: "ready"}}}, func(o *Options) {
		o.Operate = func(name string, op runtime.Operation, _ string) error {
			did = append(did, name+" "+string(op))
			if name != "files" {
				return runtime.ErrNoServer
			}
			return nil
		}
	})
	resp, _ := h.ask("POST", "/console/servers/files/restart", "Sec-Fetch-Site", "same-origin")
	if resp.StatusCode != 303 || resp.Header.Get("Location") != "/console/servers/files" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	said, _, _ := strings.Cut(resp.Header.Get("Set-Cookie"), ";")
	if _, body := h.ask("GET", "/console/servers/files", "Cookie", h.cookie+"; "+said); !strings.Contains(body, `id="toast"><span><bdi>files is restarting.`) {
		t.Errorf("the page does not say what was done:\n%s", body)
	}
	for path, want := range map[string]int{"/console/servers/none/stop": 404, "/console/servers/files/remove": 404} {
		if resp, _ := h.ask("POST", path); resp.StatusCode != want {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	if resp, _ := h.ask("GET", "/console/servers/files/restart"); resp.StatusCode == 303 {
		t.Error("a link restarts a server")
	}
	if strings.Join(did, ",") != "files restart,none stop" {
		t.Error(did)
	}
}

// TestTheme checks the theme switch without JavaScript.
func TestTheme(t *testing.T) {
	h := open(t, &admin.Report{})
	r := h.request("POST", "/console/theme", "Cookie", h.cookie, "Content-Type", "application/x-www-form-urlencoded")
	for body, want := range map[string][2]string{
		"theme=dark&to=/console/servers?q=x":           {"dark", "/console/servers?q=x"},
		"theme=odd&to=//evil.example/":                 {"auto", "/console/"},
		"theme=light&to=https://evil.example/console/": {"light", "/console/"},
	} {
		r.Body = http.NoBody
		r.PostForm, r.Form = nil, nil
		r.Body = readCloser{strings.NewReader(body)}
		w := newRecorder(h, r.Clone(t.Context()))
		if got := w.Header.Get("Set-Cookie"); w.StatusCode != 303 || w.Header.Get("Location") != want[1] || !strings.HasPrefix(got, "dragoman_theme="+want[0]+";") {
			t.Errorf("%s: %d %v", body, w.StatusCode, w.Header)
		}
	}
	if _, body := h.ask("GET", "/console/", "Cookie", h.cookie+"; dragoman_theme=dark"); !strings.Contains(body, `<html lang="en" data-theme="dark">`) {
		t.Error("the page is not dark")
	}
}

// BenchmarkOverview measures how long the server needs for the overview with 200 servers and
// 5,000 tools.
func BenchmarkOverview(b *testing.B) { benchmarkPage(b, "/console/") }

// BenchmarkServers does the same as BenchmarkOverview for the list of servers.
func BenchmarkServers(b *testing.B) { benchmarkPage(b, "/console/servers") }

func benchmarkPage(b *testing.B, page string) {
	h := stage(b, "many")
	r := h.request("GET", page, "Cookie", h.cookie)
	b.ReportAllocs()
	for b.Loop() {
		if w := newRecorder(h, r); w.StatusCode != 200 {
			b.Fatal(w.StatusCode)
		}
	}
}

// TestReasonsInRows checks that the reason in a row of servers does not repeat the name.
func TestReasonsInRows(t *testing.T) {
	t.Parallel()
	for _, x := range [][3]string{
		{`server "a b" exited with status 1`, "a b", "Exited with status 1"},
		{`server "other" exited`, "a", `Server "other" exited`},
		{"the environment variable X is not set", "a", "The environment variable X is not set"},
		{"", "a", ""},
	} {
		if got := withoutName(x[0], x[1]); got != x[2] {
			t.Errorf("%q: %q", x[0], got)
		}
	}
}

// TestRefusedConfiguration checks that the overview says that the configuration file is not used.
func TestRefusedConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := stage(t, "busy")
		h.source.report.Refusal = &admin.Refusal{Text: "The changed configuration was refused. dragoman.yaml:3:1: unknown key lissen.", Since: time.Now()}
		_, body := h.ask("GET", "/console/")
		if text := textOf(body); !strings.Contains(text, "The configuration was refused") || !strings.Contains(text, "unknown key lissen.") || strings.Contains(text, "Nothing needs attention") {
			t.Errorf("got %s", text)
		}
	})
}
