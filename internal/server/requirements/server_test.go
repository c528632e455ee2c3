package requirements

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
	"github.com/dragoman-mcp/dragoman/internal/server/tools/toolstest"
)

// deadline is the longest time that a test waits for an event.
const deadline = 60 * time.Second

// newest is the revision of clients of the modern era.
const newest = ""

// rig is a server with a client.
type rig struct {
	toolstest.Rig
	file    string
	store   *store.Store
	s       *Server
	updated chan string // URIs of updated resources
	prompts chan string // changes of the list of prompts
	lists   chan string // changes of the list of resources
}

// start starts a server on a new database and connects a client that uses the revision version.
func start(t *testing.T, version string) *rig {
	t.Helper()
	return on(t, filepath.Join(t.TempDir(), "x.db"), version)
}

// on starts a server on a database, and connects a client that uses the revision version.
func on(t *testing.T, file, version string) *rig {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Database: file})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(t.Context(), Options{Store: db, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if err := db.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	r := &rig{file: file, store: db, s: s, updated: make(chan string, 1000), prompts: make(chan string, 1000), lists: make(chan string, 1000)}
	r.Rig = toolstest.Connect(t, s.Serve, version, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			r.updated <- req.Params.URI
		},
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { r.prompts <- "" },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { r.lists <- "" },
	})
	return r
}

type args = toolstest.Args

// read returns the text of a resource.
func (r *rig) read(uri string) string {
	r.T.Helper()
	res, err := r.Client.ReadResource(r.T.Context(), &mcp.ReadResourceParams{URI: uri})
	if err != nil {
		r.T.Errorf("%s: %v", uri, err)
		return ""
	}
	return res.Contents[0].Text
}

// expect waits until c delivers want.
func (r *rig) expect(c chan string, want string) {
	r.T.Helper()
	end := time.After(deadline)
	for {
		select {
		case got := <-c:
			if got == want {
				return
			}
		case <-end:
			r.T.Fatalf("no notification about %q", want)
		}
	}
}

func (r *rig) example() {
	r.T.Helper()
	if filled, err := r.store.Fill(r.T.Context(), Example()); !filled || err != nil {
		r.T.Fatalf("Fill: %v %v", filled, err)
	}
}

// TestRequirementTools checks the list of tools that clients get.
func TestRequirementTools(t *testing.T) {
	r := start(t, newest)
	list, err := r.Client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	reading := []string{"export_items", "get_item", "list_comments", "list_items", "list_prompts", "search_items"}
	writing := []string{"activate_prompt", "add_comment", "create_item", "deactivate_prompt", "delete_prompt", "link_items", "resolve_comment", "save_prompt", "unlink_items", "update_item"}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Description == "" || tool.Title == "" || tool.OutputSchema == nil || tool.Annotations.ReadOnlyHint != slices.Contains(reading, tool.Name) {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
		b, _ := json.Marshal(tool.InputSchema)
		for _, name := range []string{"kind", "status", "type", "priority", "format"} {
			var schema struct {
				Properties map[string]struct{ Enum []string }
			}
			if err := json.Unmarshal(b, &schema); err != nil {
				t.Fatal(err)
			}
			if p, ok := schema.Properties[name]; ok && len(p.Enum) == 0 {
				t.Errorf("%s: %s has no enum", tool.Name, name)
			}
		}
	}
	slices.Sort(names)
	want := append(reading, writing...)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("the tools are %v", names)
	}
}

// TestWork creates, reads, changes, links and finds items with clients of both eras.
func TestWork(t *testing.T) {
	for _, version := range mcp.SupportedProtocolVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := start(t, version)
			var epic, story item
			r.OK("create_item", args{"kind": "epic", "title": "Sign in"}, &epic)
			r.OK("create_item", args{"kind": "user_story", "title": "Reset a password", "parent": "EP-001"}, &story)
			if epic.ID != "EP-001" || story.Parent != "EP-001" || story.URI != "requirements://user-stories/US-001" || !slices.Equal(story.NextStatuses, []string{"draft", "cancelled"}) {
				t.Errorf("%+v %+v", epic, story)
			}
			r.Refused("update_item", args{"id": "US-001", "version": 1, "status": "done"}, "Use one of draft, cancelled.")
			r.OK("update_item", args{"id": "us-1", "version": 1, "status": "draft", "title": "Set a new password"}, &story)
			r.Refused("update_item", args{"id": "US-001", "version": 1, "title": "x"}, "has version 2")
			r.Refused("create_item", args{"kind": "acceptance_criterion", "title": "x"}, "Name a user story (US-…).")
			r.Refused("create_item", args{"kind": "task", "title": "x"}, "kind")
			var rel relation
			r.OK("link_items", args{"source": "US-001", "type": "depends_on", "target": "EP-001"}, &rel)
			r.Refused("link_items", args{"source": "US-001", "type": "depends_on", "target": "EP-001"}, "REL-001")
			var c comment
			r.OK("add_comment", args{"item": "US-001", "text": "By mail?"}, &c)
			if c.Author != "test" {
				t.Errorf("the author is %q", c.Author)
			}
			r.OK("resolve_comment", args{"id": "CM-001"}, &c)
			var d details
			r.OK("get_item", args{"id": "US-001"}, &d)
			if d.Title != "Set a new password" || d.Version != 2 || len(d.Relations) != 1 || !d.Comments[0].Resolved {
				t.Errorf("%+v", d)
			}
			var list listOut
			r.OK("search_items", args{"query": "MAIL"}, &list)
			if list.Total != 1 || list.Items[0].ID != "US-001" {
				t.Errorf("%+v", list)
			}
			r.Refused("search_items", args{"query": " "}, "list_items")
			r.OK("list_items", args{"limit": 1}, &list)
			if list.Total != 2 || list.NextCursor == "" {
				t.Errorf("%+v", list)
			}
			r.OK("list_items", args{"limit": 1, "cursor": list.NextCursor}, &list)
			if len(list.Items) != 1 || list.Items[0].ID != "US-001" {
				t.Errorf("%+v", list)
			}
			r.OK("unlink_items", args{"source": "US-001", "type": "depends_on", "target": "EP-001"}, nil)
			r.Refused("get_item", args{"id": "REQ-404"}, "Find it with search_items")
			var got details
			if err := json.Unmarshal([]byte(r.read("requirements://user-stories/US-001")), &got); err != nil || got.Title != d.Title {
				t.Errorf("the resource has %+v, %v", got, err)
			}
		})
	}
}

// TestInstructions checks that a new session gets the active prompt as its instructions. If no
// prompt is active, the session gets no instructions.
func TestInstructions(t *testing.T) {
	for _, version := range []string{"2025-03-26", newest} {
		t.Run(version, func(t *testing.T) {
			r := start(t, version)
			told := func(want string) {
				t.Helper()
				again := on(t, r.file, version)
				if got := again.Client.InitializeResult().Instructions; got != want {
					t.Errorf("the instructions are %q, want %q", got, want)
				}
			}
			told("")
			r.OK("save_prompt", args{"name": "one", "description": "What you do.", "content": "Do it."}, nil)
			told("")
			var p prompt
			r.OK("activate_prompt", args{"name": "one"}, &p)
			if !p.Active {
				t.Errorf("%+v", p)
			}
			told("What you do.\n\nDo it.")
			if got := r.read(instructionsURI); got != "What you do.\n\nDo it." {
				t.Errorf("the resource has %q", got)
			}
			r.OK("save_prompt", args{"name": "one", "content": "Do {it}.", "version": 1}, nil)
			told("Do {it}.")
			r.Refused("save_prompt", args{"name": "one", "content": "Do {{what}}.", "version": 2}, "cannot have arguments")
			r.OK("save_prompt", args{"name": "two", "content": "Do {{what}}."}, nil)
			r.Refused("activate_prompt", args{"name": "two"}, "argument what")
			r.Refused("activate_prompt", args{"name": "three"}, "List the prompts with list_prompts.")
			r.OK("deactivate_prompt", nil, nil)
			told("")
			r.OK("delete_prompt", args{"name": "one"}, nil)
			var list promptsOut
			r.OK("list_prompts", nil, &list)
			if len(list.Prompts) != 1 || !slices.Equal(list.Prompts[0].Arguments, []string{"what"}) {
				t.Errorf("%+v", list)
			}
		})
	}
}

// TestBrokenDatabase checks that a handshake works without a database, and that errors contain no
// text from the database driver.
func TestBrokenDatabase(t *testing.T) {
	r := start(t, newest)
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	client, server := mcp.NewInMemoryTransports()
	ss, err := r.s.mcp.Connect(t.Context(), server, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ss.Close() }()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	if got := session.InitializeResult().Instructions; got != "" {
		t.Errorf("the instructions are %q", got)
	}
	r.Refused("list_items", nil, "The database failed.")
	if _, err := r.Client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: overviewURI}); err == nil || strings.Contains(err.Error(), "sql") {
		t.Errorf("the resource gives %v", err)
	}
}

// TestChangesReachSubscribers changes the database through the server, and through another
// connection to the database.
func TestChangesReachSubscribers(t *testing.T) {
	for _, version := range []string{"2025-06-18", newest} {
		t.Run(version, func(t *testing.T) {
			r := start(t, version)
			r.OK("create_item", args{"kind": "epic", "title": "A"}, nil)
			r.OK("create_item", args{"kind": "requirement", "title": "B", "parent": "EP-001"}, nil)
			uris := []string{"requirements://epics/EP-001", "requirements://requirements/REQ-001", overviewURI, instructionsURI}
			for _, uri := range uris {
				if err := r.Client.Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
					t.Fatalf("%s: %v", uri, err)
				}
			}
			if version == newest {
				waitFor(t, func() bool { return len(r.s.subscriptions()) == len(uris) })
			}
			if err := r.Client.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "requirements://epics/EP-009"}); err == nil && version != newest {
				t.Error("a subscription to nothing is accepted")
			}
			r.OK("add_comment", args{"item": "REQ-001", "text": "x"}, nil)
			r.expect(r.updated, uris[1])
			r.OK("update_item", args{"id": "REQ-001", "version": 1, "title": "C"}, nil)
			r.expect(r.updated, uris[0]) // this resource shows the titles of its children
			r.expect(r.updated, uris[1])

			other, err := store.Open(t.Context(), store.Options{Database: r.file})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = other.Close() }()
			if _, err := other.Create(t.Context(), store.Item{Kind: store.Story, Title: "D", Parent: "EP-001"}); err != nil {
				t.Fatal(err)
			}
			r.expect(r.updated, uris[0])
			r.expect(r.updated, overviewURI)
			if _, err := other.SavePrompt(t.Context(), store.Prompt{Name: "p", Content: "x"}, acceptable); err != nil {
				t.Fatal(err)
			}
			r.expect(r.updated, instructionsURI)
			if err := Activate(t.Context(), other, "p"); err != nil {
				t.Fatal(err)
			}
			r.expect(r.updated, instructionsURI)
			list, err := r.Client.ListPrompts(t.Context(), nil)
			if err != nil || len(list.Prompts) != 1 || list.Prompts[0].Meta[activeKey] != true {
				t.Errorf("the prompts are %+v, %v", list, err)
			}
			if version != newest { // a modern client must subscribe to these notifications
				r.expect(r.prompts, "")
				r.expect(r.lists, "")
			}
			if err := r.Client.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: uris[0]}); err != nil {
				t.Error(err)
			}
			waitFor(t, func() bool { return !slices.Contains(r.s.subscriptions(), uris[0]) })
		})
	}
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the state is not reached")
		}
	}
}

// TestMissedChanges checks that a server that missed changes sends a notification for every
// resource with a subscription.
func TestMissedChanges(t *testing.T) {
	r := start(t, "2025-06-18")
	r.OK("create_item", args{"kind": "epic", "title": "A"}, nil)
	if err := r.Client.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "requirements://epics/EP-001"}); err != nil {
		t.Fatal(err)
	}
	if err := r.s.changed(nil, false); err != nil {
		t.Fatal(err)
	}
	r.expect(r.updated, "requirements://epics/EP-001")
	r.expect(r.lists, "")
}

// TestResources reads every resource of the example.
func TestResources(t *testing.T) {
	r := start(t, newest)
	r.example()
	var uris []string
	for res, err := range r.Client.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		uris = append(uris, res.URI)
	}
	if len(uris) != 4+len(exampleItems) {
		t.Errorf("%d resources", len(uris))
	}
	uris = append(uris, "requirements://comments/CM-001", "requirements://relations/REL-001", "requirements://prompts/analyst")
	for _, uri := range uris {
		if text := r.read(uri); text == "" {
			t.Errorf("%s is empty", uri)
		}
	}
	for _, uri := range []string{"requirements://epics/REQ-001", "requirements://epics/ep-1", "requirements://epics/EP-999", "requirements://epics/", "requirements://prompts/none", "requirements://x/EP-001", "requirements://comments/CM-1"} {
		if _, err := r.Client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s exists", uri)
		}
	}
	if text := r.read(overviewURI); !strings.Contains(text, "\n  - US-002 As an employee") || !strings.Contains(text, "\n    - AC-004") || !strings.Contains(text, "\n      - REQ-005") {
		t.Errorf("the overview is\n%s", text)
	}
	if text := r.read(workflowURI); !strings.Contains(text, `"in_progress"`) || !strings.Contains(text, `"depends_on"`) {
		t.Errorf("the workflow is\n%s", text)
	}
}

// TestResourcePages lists more items than fit on a page.
func TestResourcePages(t *testing.T) {
	r := start(t, newest)
	var set store.Set
	for i := range 2*pageSize + 1 {
		set.Items = append(set.Items, store.Item{Kind: store.Epic, Title: fmt.Sprint("Epic ", i)})
	}
	if _, err := r.store.Fill(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for res, err := range r.Client.Resources(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		seen[res.URI] = true
	}
	if len(seen) != 4+len(set.Items) {
		t.Errorf("%d resources", len(seen))
	}
	if _, err := r.Client.ListResources(t.Context(), &mcp.ListResourcesParams{Cursor: "nonsense"}); err == nil {
		t.Error("a wrong cursor is accepted")
	}
}

func TestCompletion(t *testing.T) {
	r := start(t, newest)
	r.example()
	uri := func(u string) *mcp.CompleteReference { return &mcp.CompleteReference{Type: "ref/resource", URI: u} }
	named := func(n string) *mcp.CompleteReference { return &mcp.CompleteReference{Type: "ref/prompt", Name: n} }
	for _, test := range []struct {
		ref         *mcp.CompleteReference
		name, value string
		want        string
	}{
		{uri("requirements://epics/{id}"), "id", "", "EP-001 EP-002 EP-003"},
		{uri("requirements://requirements/{id}"), "id", "req-01", "REQ-010 REQ-011 REQ-012 REQ-013 REQ-014"},
		{uri("requirements://requirements/{id}"), "id", "openid", "REQ-013"},
		{uri("requirements://comments/{id}"), "id", "CM-00", "CM-001 CM-002 CM-003 CM-004 CM-005"},
		{uri("requirements://relations/{id}"), "id", "REL-008", "REL-008"},
		{uri("requirements://prompts/{name}"), "name", "re", "review-story reviewer"},
		{named("review-story"), "story", "US-001", "US-001"},
		{named("write-tests"), "requirement", "REQ-001", "REQ-001"},
		{named("write-tests"), "style", "x", ""},
		{named("write-tests"), "other", "x", ""},
	} {
		res, err := r.Client.Complete(t.Context(), &mcp.CompleteParams{Ref: test.ref, Argument: mcp.CompleteParamsArgument{Name: test.name, Value: test.value}})
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		if got := strings.Join(res.Completion.Values, " "); got != test.want {
			t.Errorf("%+v: got %q", test, got)
		}
	}
	for _, ref := range []*mcp.CompleteReference{uri("requirements://none/{id}"), named("none")} {
		if _, err := r.Client.Complete(t.Context(), &mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteParamsArgument{Name: "id"}}); err == nil {
			t.Errorf("%+v is completed", ref)
		}
	}
}

func TestPromptArguments(t *testing.T) {
	r := start(t, newest)
	r.example()
	get := func(name string, a map[string]string) (*mcp.GetPromptResult, error) {
		return r.Client.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: name, Arguments: a})
	}
	waitFor(t, func() bool { _, err := get("analyst", nil); return err == nil })
	res, err := get("review-story", map[string]string{"story": "us-2"})
	if err != nil {
		t.Fatal(err)
	}
	text := res.Messages[0].Content.(*mcp.TextContent).Text
	if !strings.Contains(text, "the user story us-2.") || len(res.Messages) != 2 {
		t.Fatalf("%q and %d messages", text, len(res.Messages))
	}
	if added := res.Messages[1].Content.(*mcp.EmbeddedResource).Resource; added.URI != "requirements://user-stories/US-002" || !strings.Contains(added.Text, "AC-004") {
		t.Errorf("the item is %+v", added)
	}
	if _, err := get("write-tests", map[string]string{"requirement": "REQ-001"}); err == nil || !strings.Contains(err.Error(), "argument style") {
		t.Errorf("a missing argument gives %v", err)
	}
	if _, err := get("none", nil); err == nil {
		t.Error("a prompt that does not exist is returned")
	}
}

// TestExampleIsRight checks that the example has each relation type, and that the ids in its texts
// belong to the right items.
func TestExampleIsRight(t *testing.T) {
	r := start(t, newest)
	r.example()
	d, err := r.store.Details(t.Context(), "REQ-004")
	if err != nil || d.Title != "A room has at most one booking at any time" {
		t.Errorf("REQ-004 is %q (%v)", d.Title, err)
	}
	for id, title := range map[string]string{"REQ-008": "The link to the way needs no sign-in", "REQ-013": "Employees sign in with the account of the company", "REQ-005": "A booking is confirmed within 5 seconds", "REQ-014": "Fax requests are entered by the reception", "AC-010": "15 minutes after the start without a check-in, the room is free"} {
		if it, err := r.store.Details(t.Context(), id); err != nil || it.Title != title {
			t.Errorf("%s is %q (%v)", id, it.Title, err)
		}
	}
	types := map[string]bool{}
	for _, rel := range exampleRelations {
		types[rel.Type] = true
	}
	if len(types) != len(store.RelationTypes()) {
		t.Errorf("the relations have only the types %v", types)
	}
	if filled, err := r.store.Fill(t.Context(), Example()); filled || err != nil {
		t.Errorf("a second example: %v %v", filled, err)
	}
}

// second connects another client of an older revision to the server.
func (r *rig) second() *mcp.ClientSession {
	r.T.Helper()
	client, server := mcp.NewInMemoryTransports()
	if _, err := r.s.mcp.Connect(r.T.Context(), server, nil); err != nil {
		r.T.Fatal(err)
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "second", Version: "1"}, nil).Connect(r.T.Context(), client, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { _ = c.Close() })
	return c
}

// TestSubscriptionsAreASet subscribes to a resource twice. One unsubscribe ends this subscription.
// The subscription of another client stays until that client's session ends.
func TestSubscriptionsAreASet(t *testing.T) {
	r := start(t, "2025-06-18")
	other := r.second()
	subscribe := func(c *mcp.ClientSession) {
		t.Helper()
		if err := c.Subscribe(t.Context(), &mcp.SubscribeParams{URI: overviewURI}); err != nil {
			t.Fatal(err)
		}
	}
	unsubscribe := func(c *mcp.ClientSession) {
		t.Helper()
		if err := c.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: overviewURI}); err != nil {
			t.Fatal(err)
		}
	}
	subscribe(r.Client)
	subscribe(r.Client)
	unsubscribe(r.Client)
	if got := r.s.subscriptions(); len(got) != 0 {
		t.Errorf("after unsubscribe: %q", got)
	}
	subscribe(r.Client)
	subscribe(other)
	unsubscribe(r.Client)
	unsubscribe(r.Client)
	if got := r.s.subscriptions(); !slices.Equal(got, []string{overviewURI}) {
		t.Errorf("while the other client subscribes: %q", got)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return len(r.s.subscriptions()) == 0 })
}

// TestSubscriptionsBound reaches the limit of subscriptions. A session that ends makes room.
func TestSubscriptionsBound(t *testing.T) {
	r := start(t, "2025-06-18")
	other := r.second()
	if err := other.Subscribe(t.Context(), &mcp.SubscribeParams{URI: instructionsURI}); err != nil {
		t.Fatal(err)
	}
	r.s.feed.mu.Lock()
	for i := range maxSubscriptions - 1 { // of the same session
		r.s.feed.subscribed[fmt.Sprintf("requirements://epics/EP-%03d", i+1)] = maps.Clone(r.s.feed.subscribed[instructionsURI])
	}
	r.s.feed.mu.Unlock()
	more := func() error {
		return r.Client.Subscribe(t.Context(), &mcp.SubscribeParams{URI: overviewURI})
	}
	if err := more(); err == nil || !strings.Contains(err.Error(), "1000 subscriptions already") {
		t.Errorf("one more subscription: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return more() == nil })
}
