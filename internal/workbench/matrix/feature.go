package matrix

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/workbench/fake"
)

// feature is one row of the matrix: an interaction between a client and a server, with the expected
// result.
type feature struct {
	name, about string
	play        func(ctx context.Context, t *talk) error
	// lost runs instead of play if the feature is a loss. Neither end may see a violation. If
	// lost is nil, nothing runs.
	lost func(ctx context.Context, t *talk) error
	// apart runs instead of play and lost, in a conversation of its own through Dragoman. Such a feature is
	// not tested without Dragoman.
	apart func(ctx context.Context, o *Options, p Pair) error
	// always means that apart also runs if the feature is a loss. The client must get a proper answer then.
	always bool
}

// features returns the features in the order in which they are tested.
func features() []feature {
	return []feature{
		{"tools", "tools are listed and called; every content type that both ends support arrives", playTools, nil, nil, false},
		{"resources", "resources and templates are listed and read, as text and as bytes", playResources, nil, nil, false},
		{"prompts", "prompts are listed and fetched", playPrompts, nil, nil, false},
		{"completion", "arguments of prompts and templates are completed", playCompletion, nil, nil, false},
		{"paging", "long lists are paged with the server's cursor; an invalid cursor is refused", playPaging, nil, nil, false},
		{"progress", "a call reports each of its steps, with the client's own token", playProgress, nil, nil, false},
		// Test these two before cancellation. For some time after a call is cancelled, its pipe delivers
		// no log messages and no notifications of vendors, because they do not name their call.
		{"logging", "log messages arrive from the level that the client set", playLogging, nil, nil, false},
		{"vendor-extension", "both ends declare an extension that Dragoman does not know; its request is answered, and its notification arrives", playVendor, nil, nil, false},
		{"cancellation", "a running call is cancelled, and the server stops it", playCancellation, nil, nil, false},
		{"sampling", "a tool requests sampling, once or twice in one call", playSampling, nil, nil, false},
		{"elicitation-form", "a tool requests a form from the user, also together with other requests", playForm, lostForm, nil, false},
		{"elicitation-rich", "a tool requests a form with titled options, lists of options and default values", playRichForm, lostRichForm, nil, false},
		{"elicitation-url", "a tool asks the user to open a URL", playURL, lostURL, nil, false},
		{"roots", "a tool asks for the client's roots", playRoots, nil, nil, false},
		{"subscriptions", "a client is notified of changes of resources only if it has subscribed to these resources", playSubscriptions, nil, nil, false},
		{"list_changed", "a client is notified that the tool list has changed", playListChanged, nil, nil, false},
		{"apps", "both ends declare pages of tools; a page that is in no list is read, and a tool for the page alone stays marked", playApps, nil, nil, false},
		{"skills", "skills and folders are listed, and files of a skill that are in no list are read", playSkills, nil, nil, false},
		{"tasks", "a call becomes a task, which sends requests, is polled, ends and is cancelled; a client without tasks gets the result", playTasks, lostTasks, nil, false},
		{"resume", "a call survives a break of its response stream", playResume, nil, nil, false},
		{"errors", "errors arrive with code, message and data, as the client's revision defines them", playErrors, nil, nil, false},
		{"sign-in", "a server wants a sign-in: the client's person gets a link, the tools are there afterwards, and the call is executed", nil, nil, playSignIn, false},
		{"confirm", "a rule wants a person to confirm a call: they are asked, and the server executes what they agree to, once", nil, nil, playConfirm, true},
		{"search", "a client that searches finds a tool, reads its definition and calls it; what it calls, answers, asks and reports as if it were listed", nil, nil, playSearch, false},
	}
}

func playTools(ctx context.Context, t *talk) error {
	names, _, err := t.list(ctx, "tools/list", "tools", "name")
	if err != nil {
		return err
	}
	for _, want := range []string{"add", "count", "echo", "fail", "grow", "log", "media", "wait"} {
		if !slices.Contains(names, want) {
			return fmt.Errorf("the tool %s is not in the list: %s", want, strings.Join(names, " "))
		}
	}
	r, err := t.tool(ctx, "add", `{"a":1,"b":41}`, fake.CallOptions{})
	if err != nil {
		return err
	}
	if err := same("the sum", textOf(r.Result), "42"); err != nil {
		return err
	}
	if t.Client.Can(mcp.StructuredResults) && t.Server.Can(mcp.StructuredResults) {
		if err := same("the structured sum", member(r.Result, "structuredContent", "sum"), "42"); err != nil {
			return err
		}
	}
	const odd = `Zoë says: “\n\t\"\\ 𝄞 <&>” `
	if err := t.says(ctx, "echo", `{"text":`+quote(odd)+`}`, odd); err != nil {
		return err
	}
	for _, want := range []string{"1", "2", "3"} { // the counter continues in the same session or process
		if err := t.says(ctx, "count", "{}", want); err != nil {
			return err
		}
	}
	if slices.Contains(names, "headers") {
		want := "no headers here"
		if t.ServerTransport == HTTP {
			want = "=?base64?w7xiZXI=?="
		}
		if err := t.says(ctx, "headers", `{"region":"über"}`, want); err != nil {
			return err
		}
	}
	r, err = t.tool(ctx, "media", "{}", fake.CallOptions{})
	if err != nil {
		return err
	}
	return t.checkMedia(kindsOf(r.Result, jsonrpc.Find(r.Result, jsonrpc.Whole(r.Result), "content")))
}

// kindsOf returns the types of the content blocks in a list. The list contains content blocks or
// prompt messages.
func kindsOf(raw []byte, list jsonrpc.Span) (kinds []string) {
	for v := range jsonrpc.Elements(raw, list) {
		if c := jsonrpc.Find(raw, v, "content"); !c.IsZero() {
			v = c // v is a prompt message, which has one content block
		}
		kinds = append(kinds, textAt(raw, v, "type"))
	}
	return kinds
}

// checkMedia expects one content block for each type in the server's revision. All types that
// the client's revision also has must arrive unchanged. The client itself checks the other blocks:
// it refuses types that its revision does not have.
func (t *talk) checkMedia(kinds []string) error {
	want := []string{"text", "image", "resource"}
	pieces := 3
	if t.Server.Can(mcp.AudioContent) {
		pieces++
		if t.Client.Can(mcp.AudioContent) {
			want = append(want, "audio")
		}
	}
	if t.Server.Can(mcp.ResourceLinks) {
		pieces++
		if t.Client.Can(mcp.ResourceLinks) {
			want = append(want, "resource_link")
		}
	}
	for _, k := range want {
		if !slices.Contains(kinds, k) {
			return fmt.Errorf("missing content of kind %s; got %s", k, strings.Join(kinds, " "))
		}
	}
	if len(kinds) != pieces {
		return fmt.Errorf("%d pieces of content (%s), want %d", len(kinds), strings.Join(kinds, " "), pieces)
	}
	return nil
}

func playResources(ctx context.Context, t *talk) error {
	uris, _, err := t.list(ctx, "resources/list", "resources", "uri")
	if err != nil {
		return err
	}
	for _, want := range []string{"fake://text", "fake://blob", "fake://items/1", "fake://items/6"} {
		if !slices.Contains(uris, want) {
			return fmt.Errorf("the resource %s is not in the list: %s", want, strings.Join(uris, " "))
		}
	}
	templates, _, err := t.list(ctx, "resources/templates/list", "resourceTemplates", "uriTemplate")
	if err != nil {
		return err
	}
	if err := same("the templates", strings.Join(templates, " "), "fake://items/{id}"); err != nil {
		return err
	}
	for _, r := range []struct{ uri, member, want string }{
		{"fake://text", "text", "a text of the fake, with ünïcode\n"},
		{"fake://blob", "blob", "AAECA/8="},
		{"fake://items/seven", "text", "item seven"},
	} {
		got, err := t.call(ctx, "resources/read", `{"uri":`+quote(r.uri)+`}`, fake.CallOptions{})
		if err != nil {
			return err
		}
		text := ""
		for v := range jsonrpc.Elements(got.Result, jsonrpc.Find(got.Result, jsonrpc.Whole(got.Result), "contents")) {
			text += textAt(got.Result, v, r.member)
		}
		if err := same(r.uri, text, r.want); err != nil {
			return err
		}
	}
	return nil
}

func playPrompts(ctx context.Context, t *talk) error {
	names, _, err := t.list(ctx, "prompts/list", "prompts", "name")
	if err != nil {
		return err
	}
	if err := same("the prompts", strings.Join(names, " "), "greet media"); err != nil {
		return err
	}
	r, err := t.call(ctx, "prompts/get", `{"name":"greet","arguments":{"name":"Zoë"}}`, fake.CallOptions{})
	if err != nil {
		return err
	}
	if !strings.Contains(member(r.Result, "messages"), "Say hello to Zoë.") {
		return fmt.Errorf("greet says %s", clip(string(r.Result)))
	}
	r, err = t.call(ctx, "prompts/get", `{"name":"media"}`, fake.CallOptions{})
	if err != nil {
		return err
	}
	return t.checkMedia(kindsOf(r.Result, jsonrpc.Find(r.Result, jsonrpc.Whole(r.Result), "messages")))
}

func playCompletion(ctx context.Context, t *talk) error {
	if t.Client.Can(mcp.Completions) && !t.c.Offers("completions") {
		return errors.New("the server does not declare completions, so a client does not request them")
	}
	for _, ref := range []string{
		`{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":"a"}}`,
		`{"ref":{"type":"ref/resource","uri":"fake://items/{id}"},"argument":{"name":"id","value":"a"}}`,
	} {
		r, err := t.call(ctx, "completion/complete", ref, fake.CallOptions{})
		if err != nil {
			return err
		}
		if err := same("the completions", member(r.Result, "completion", "values"), `["ada","alan"]`); err != nil {
			return err
		}
	}
	return nil
}

func playPaging(ctx context.Context, t *talk) error {
	for _, l := range []struct{ method, key, name string }{
		{"tools/list", "tools", "name"}, {"resources/list", "resources", "uri"},
	} {
		values, pages, err := t.list(ctx, l.method, l.key, l.name)
		if err != nil {
			return err
		}
		if pages < 2 {
			return fmt.Errorf("the server answered %s with one page, want several", l.method)
		}
		if slices.Sort(values); len(slices.Compact(slices.Clone(values))) != len(values) {
			return fmt.Errorf("%s returned some names twice: %s", l.method, strings.Join(values, " "))
		}
	}
	// A server must refuse an invalid cursor (§Pagination, "Error Handling", all revisions).
	return t.refused(ctx, "tools/list", `{"cursor":`+quote(noCursor)+`}`, jsonrpc.CodeInvalidParams)
}

// refused calls a method and expects an error with the given code.
func (t *talk) refused(ctx context.Context, method, params string, code int64) error {
	r, err := t.c.Call(ctx, method, []byte(params), fake.CallOptions{})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if r.Err == nil {
		return fmt.Errorf("the server does not refuse %s with %s", method, clip(params))
	}
	return same("the code of "+method, fmt.Sprint(r.Err.Code), fmt.Sprint(code))
}

func playErrors(ctx context.Context, t *talk) error {
	r, err := t.c.Call(ctx, "tools/call", []byte(toolParams("refuse", "{}")), fake.CallOptions{})
	if err != nil {
		return err
	}
	if r.Err == nil {
		return errors.New("the tool refuse returned a result and not an error")
	}
	err = errors.Join(
		same("the code of the error of the tool refuse", fmt.Sprint(r.Err.Code), "-32602"),
		same("the message of the error of the tool refuse", r.Err.Message, "refused as asked"),
		same("the data of the error of the tool refuse", member(r.Err.Data, "why"), `"asked"`),
	)
	if err != nil {
		return err
	}
	failed, err := t.tool(ctx, "fail", "{}", fake.CallOptions{})
	if err != nil {
		return err
	}
	err = errors.Join(
		same("isError of fail", member(failed.Result, "isError"), "true"),
		same("what fail says", textOf(failed.Result), "failed as asked"),
		t.refused(ctx, "tools/call", toolParams("no_such_tool", "{}"), jsonrpc.CodeInvalidParams),
		t.refused(ctx, "prompts/get", `{"name":"no_such_prompt"}`, jsonrpc.CodeInvalidParams),
	)
	if err != nil {
		return err
	}
	missing := int64(jsonrpc.CodeInvalidParams)
	if t.Client.Can(mcp.ResourceNotFoundCode) {
		missing = mcp.CodeResourceNotFound
	}
	return t.refused(ctx, "resources/read", `{"uri":"fake://nowhere"}`, missing)
}
