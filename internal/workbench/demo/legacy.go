package demo

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

const (
	clockURI  = "demo://clock"
	notesURI  = "demo://notes"
	echoURI   = "demo://echo/"
	clockTick = 5 * time.Second
	maxNotes  = 20

	legacyWords = "A small legacy server: it starts with initialize and has a session. " +
		"Try remember and then recall to see the state of the session, count to see progress and cancellation, " +
		"and ask_name to answer a question while the call runs. Subscribe to demo://clock to get an update every five seconds."
)

var haikuTopics = []string{"autumn", "bridges", "code", "mountains", "rain", "tea"}

// legacy is the demo server that supports the legacy revisions. Only the goroutine that reads
// messages uses rev, ready, forms, level and notes.
type legacy struct {
	*line
	version string
	tools   toolbox
	methods map[string]step

	rev   mcp.Revision // Unknown before initialize
	ready bool         // the client has sent notifications/initialized
	forms bool         // the client supports form elicitation
	level mcp.LogLevel // 0 until the client sets a level; at 0 nothing is logged
	notes []string

	asks struct {
		sync.Mutex
		last    int64
		pending map[jsonrpc.ID]chan *jsonrpc.Message
	}
}

func newLegacy(l *line, version string) *legacy {
	s := &legacy{line: l, version: version}
	s.asks.pending = map[jsonrpc.ID]chan *jsonrpc.Message{}
	s.tools = toolbox{
		{
			name: "greet", title: "Greet", about: "Greets a person.",
			input: `{"type":"object","properties":{"name":{"type":"string","description":"Name of the person"}},"required":["name"]}`,
			step:  step{run: s.greet},
		}, {
			name: "count", title: "Count", about: "Counts to a number with a pause before each step, and reports progress. You can cancel the call.",
			input: `{"type":"object","properties":{"to":{"type":"integer","minimum":1,"maximum":1000},"delayMs":{"type":"integer","minimum":0,"maximum":10000,"default":200,"description":"Pause before each step, in milliseconds"}},"required":["to"]}`,
			step:  step{waits: true, run: s.count},
		}, {
			name: "remember", title: "Remember", about: "Saves a note until the session ends.", writes: true,
			input: `{"type":"object","properties":{"note":{"type":"string"}},"required":["note"]}`,
			step:  step{run: s.remember},
		}, {
			name: "recall", title: "Recall", about: "Returns the notes that were saved in this session.",
			input: `{"type":"object","properties":{}}`,
			step:  step{run: s.recall},
		}, {
			name: "ask_name", title: "Ask for a name", about: "Asks the user for a name while the call runs, and then greets the user.",
			input: `{"type":"object","properties":{}}`,
			step:  step{waits: true, run: s.askName},
		},
	}
	s.methods = map[string]step{
		mcp.MethodInitialize: {run: s.initialize},
		mcp.MethodPing:       fixed(""),
		mcp.MethodListTools: {run: func(_ context.Context, c *call) (string, error) {
			return s.tools.list(c.rev.Can(mcp.TitledImplementation)), nil
		}},
		mcp.MethodCallTool:      {}, // open replaces this empty step with the step of the tool
		mcp.MethodListResources: {run: s.listResources},
		mcp.MethodListTemplates: fixed(`"resourceTemplates":[{"uriTemplate":"` + echoURI + `{text}","name":"echo","description":"Returns the text in its URI.","mimeType":"text/plain"}]`),
		mcp.MethodReadResource:  {run: s.read},
		mcp.MethodSubscribe:     {run: s.subscribe},
		mcp.MethodUnsubscribe:   {run: s.unsubscribe},
		mcp.MethodListPrompts:   fixed(`"prompts":[{"name":"haiku","description":"Asks for a haiku.","arguments":[{"name":"topic","description":"Subject of the haiku","required":true}]}]`),
		mcp.MethodGetPrompt:     {run: s.haiku},
		mcp.MethodComplete:      {run: s.complete},
		mcp.MethodSetLevel:      {run: s.setLevel},
	}
	return s
}

func (s *legacy) speaks() mcp.Revision { return s.rev }

func (s *legacy) wrap(_ *call, members string) string { return "{" + members + "}" }

func (s *legacy) open(c *call) (step, *jsonrpc.Error) {
	st, ok := s.methods[c.m.Method]
	switch {
	case !ok && c.m.Method == mcp.MethodDiscover:
		return step{}, refusal(jsonrpc.CodeMethodNotFound, "method not found: %s; this server requires initialize", c.m.Method)
	case !ok:
		return step{}, refusal(jsonrpc.CodeMethodNotFound, "method not found: %.64s", c.m.Method)
	case c.m.Method == mcp.MethodInitialize && s.rev.Legacy():
		return step{}, refusal(jsonrpc.CodeInvalidRequest, "this session is already initialized")
	case c.m.Method != mcp.MethodInitialize && c.m.Method != mcp.MethodPing && !s.rev.Legacy():
		// 2025-11-25 §Lifecycle, "Initialization": initialize must come first.
		return step{}, refusal(jsonrpc.CodeInvalidRequest, "send initialize before other requests")
	}
	c.rev, c.mayAsk = s.rev, s.ready && s.forms
	if c.m.Method == mcp.MethodCallTool {
		return s.tools.pick(c)
	}
	return st, paged(c)
}

func (s *legacy) receive(m *jsonrpc.Message) {
	switch {
	case m.Kind != jsonrpc.Notification:
		s.asks.Lock()
		waits := s.asks.pending[m.ID]
		delete(s.asks.pending, m.ID)
		s.asks.Unlock()
		if waits != nil {
			waits <- m // does not block: the buffer holds one response, and only one is sent
		}
	case m.Method == mcp.NoteInitialized:
		s.ready = s.rev.Legacy()
	case m.Method == mcp.NoteCancelled:
		s.cancel(jsonrpc.ID(m.Param("requestId").Of(m.Raw)))
	}
}

// initialize accepts a legacy revision from the client, and answers any other version with the
// newest legacy revision (2025-11-25 §Lifecycle, "Version Negotiation").
func (s *legacy) initialize(_ context.Context, c *call) (string, error) {
	m := c.m
	date, ok := jsonrpc.Text(m.Raw, m.Param("protocolVersion"))
	caps := m.Param("capabilities")
	if !ok || jsonrpc.KindOf(m.Raw, caps) != '{' || jsonrpc.KindOf(m.Raw, m.Param("clientInfo")) != '{' {
		return "", refusal(jsonrpc.CodeInvalidParams, "params must contain protocolVersion (a string), capabilities (an object) and clientInfo (an object)")
	}
	s.rev, _ = mcp.ParseRevision(date)
	if !s.rev.Legacy() {
		s.rev = mcp.LatestLegacy
	}
	s.forms = s.rev.Can(mcp.Elicitation) && showsForms(m.Raw, caps)
	more, title := "", ""
	if s.rev.Can(mcp.Completions) {
		more = `,"completions":{}`
	}
	if s.rev.Can(mcp.TitledImplementation) {
		title = `,"title":"Demo: a legacy server"`
	}
	return `"protocolVersion":` + quote(s.rev.String()) +
		`,"capabilities":{"tools":{},"prompts":{},"resources":{"subscribe":true,"listChanged":true},"logging":{}` + more + `}` +
		`,"serverInfo":{"name":"demo-legacy"` + title + `,"version":` + quote(s.version) + `},"instructions":` + quote(legacyWords), nil
}

func (s *legacy) setLevel(_ context.Context, c *call) (string, error) {
	name, _ := jsonrpc.Text(c.m.Raw, c.m.Param("level"))
	level, ok := mcp.ParseLogLevel(name)
	if !ok {
		return "", refusal(jsonrpc.CodeInvalidParams, "params.level must be one of debug, info, notice, warning, error, critical, alert, emergency")
	}
	s.level = level
	return "", nil
}

func (s *legacy) log(level, words string) {
	if l, _ := mcp.ParseLogLevel(level); s.level != 0 && l >= s.level {
		s.notify(mcp.NoteMessage, `{"level":`+quote(level)+`,"logger":"demo","data":`+quote(words)+`}`)
	}
}

func (s *legacy) greet(_ context.Context, c *call) (string, error) {
	name, err := c.text("name")
	if err != nil {
		return "", err
	}
	s.log("debug", "a greeting was sent")
	return text("Hello, " + name + "! This server speaks " + c.rev.String() + "."), nil
}

func (s *legacy) count(ctx context.Context, c *call) (string, error) {
	to, err := c.integer("to", 1, 1000, 0)
	if err != nil {
		return "", err
	}
	pause, err := c.integer("delayMs", 0, 10000, 200)
	if err != nil {
		return "", err
	}
	err = s.steps(ctx, c, to, time.Duration(pause)*time.Millisecond, func(i int) string { return fmt.Sprintf("%d of %d", i, to) })
	return text(fmt.Sprintf("Counted to %d.", to)), err
}

func (s *legacy) remember(_ context.Context, c *call) (string, error) {
	note, err := c.text("note")
	if err != nil {
		return "", err
	}
	if len(s.notes) == maxNotes {
		return "", toolError(fmt.Sprintf("The session already has the maximum of %d notes.", maxNotes))
	}
	s.notes = append(s.notes, note)
	s.log("info", "a note was kept")
	if len(s.notes) == 1 { // the first note adds a resource, so the list of resources changes
		s.send(jsonrpc.AppendNotification(nil, mcp.NoteResourcesChanged, nil))
	}
	return text(fmt.Sprintf("Saved. Notes in this session: %d.", len(s.notes))), nil
}

func (s *legacy) recall(context.Context, *call) (string, error) {
	if len(s.notes) == 0 {
		return text("This session has no notes yet. Call remember to save one."), nil
	}
	return text("- " + strings.Join(s.notes, "\n- ")), nil
}

func (s *legacy) askName(ctx context.Context, c *call) (string, error) {
	if !c.mayAsk {
		return "", toolError("This tool asks for a name, but this client does not support forms (elicitation). Call greet instead.")
	}
	m, err := s.ask(ctx, mcp.MethodElicit, `{"message":"What is your name?","requestedSchema":{"type":"object","properties":{"name":{"type":"string","title":"Name","minLength":1,"maxLength":100}},"required":["name"]}}`)
	if err != nil {
		return "", err
	}
	if m.Kind == jsonrpc.Failure {
		return "", toolError("The server asked for a name, and the client answered with an error.")
	}
	action, at, err := given(m.Raw, m.Result, "name")
	name, ok := jsonrpc.Text(m.Raw, at)
	switch {
	case err != nil || action == "accept" && !ok:
		return "", toolError("The server asked for a name, and the answer of the client is not valid.")
	case action == "decline":
		return text("You did not give a name. Nice to meet you anyway."), nil
	case action == "cancel":
		return text("You closed the question without an answer. Call the tool again to see it again."), nil
	}
	return text("It is nice to meet you, " + name + "."), nil
}

// ask sends a request to the client and waits for the response.
func (s *legacy) ask(ctx context.Context, method, params string) (*jsonrpc.Message, error) {
	back := make(chan *jsonrpc.Message, 1)
	s.asks.Lock()
	s.asks.last++
	id := jsonrpc.IntID(s.asks.last)
	s.asks.pending[id] = back
	s.asks.Unlock()
	s.send(jsonrpc.AppendRequest(nil, id, method, []byte(params)))
	select {
	case m := <-back:
		return m, nil
	case <-ctx.Done():
		s.asks.Lock()
		delete(s.asks.pending, id)
		s.asks.Unlock()
		if context.Cause(ctx) == errCancelled {
			s.notify(mcp.NoteCancelled, `{"requestId":`+string(id)+`,"reason":"the call that needed this request was cancelled"}`)
		}
		return nil, ctx.Err()
	}
}

func (s *legacy) listResources(context.Context, *call) (string, error) {
	out := `"resources":[{"uri":"` + clockURI + `","name":"clock","description":"The current time of this machine. Clients can subscribe to it.","mimeType":"text/plain"}`
	if len(s.notes) > 0 {
		out += `,{"uri":"` + notesURI + `","name":"notes","description":"The notes of this session.","mimeType":"text/plain"}`
	}
	return out + "]", nil
}

func (s *legacy) read(_ context.Context, c *call) (string, error) {
	uri, err := c.readURI()
	if err != nil {
		return "", err
	}
	switch escaped, isEcho := strings.CutPrefix(uri, echoURI); {
	case uri == clockURI:
		return contents(uri, time.Now().UTC().Format(time.RFC3339)), nil
	case uri == notesURI && len(s.notes) > 0:
		return contents(uri, strings.Join(s.notes, "\n")), nil
	case isEcho && escaped != "":
		if echoed, err := url.PathUnescape(escaped); err == nil {
			return contents(uri, echoed), nil
		}
	}
	return "", c.missing(uri)
}

// tickID is the id of the clock's goroutine. It is not valid JSON, so it cannot equal a
// client's id.
const tickID jsonrpc.ID = "clock"

func (s *legacy) subscribe(ctx context.Context, c *call) (string, error) {
	uri, err := c.readURI()
	switch {
	case err != nil:
		return "", err
	case uri != clockURI:
		return "", c.missing(uri)
	}
	s.mu.Lock()
	ticking := s.running[tickID] != nil
	s.mu.Unlock()
	if ticking {
		return "", nil
	}
	if e := s.begin(ctx, tickID, s.tick); e != nil {
		return "", e
	}
	return "", nil
}

// tick sends an update of the clock every clockTick, until the client unsubscribes or the session
// ends.
func (s *legacy) tick(ctx context.Context) []byte {
	t := time.NewTicker(clockTick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			s.notify(mcp.NoteResourceUpdated, `{"uri":"`+clockURI+`"}`)
		}
	}
}

func (s *legacy) unsubscribe(_ context.Context, c *call) (string, error) {
	uri, err := c.readURI()
	if uri == clockURI {
		s.cancel(tickID)
	}
	return "", err
}

func (s *legacy) haiku(_ context.Context, c *call) (string, error) {
	raw, p := c.m.Raw, c.m.Params
	name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, p, "name"))
	topic, ok := jsonrpc.Text(raw, jsonrpc.Find(raw, jsonrpc.Find(raw, p, "arguments"), "topic"))
	switch {
	case name != "haiku":
		return "", refusal(jsonrpc.CodeInvalidParams, "unknown prompt: %.64s", name)
	case !ok || topic == "":
		return "", refusal(jsonrpc.CodeInvalidParams, "the prompt haiku needs the argument topic")
	}
	return `"description":"A haiku","messages":[{"role":"user","content":{"type":"text","text":` +
		quote("Write a haiku about "+topic+": three lines of five, seven and five syllables, and a season in one of them.") + `}}]`, nil
}

func (s *legacy) complete(_ context.Context, c *call) (string, error) {
	raw := c.m.Raw
	at := func(obj, key string) string {
		t, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, c.m.Param(obj), key))
		return t
	}
	var found []string
	switch {
	case at("ref", "type") == "ref/prompt" && at("ref", "name") == "haiku" && at("argument", "name") == "topic":
		for _, t := range haikuTopics {
			if strings.HasPrefix(t, strings.ToLower(at("argument", "value"))) {
				found = append(found, quote(t))
			}
		}
	default:
		return "", refusal(jsonrpc.CodeInvalidParams, "params.ref and params.argument do not name an argument that this server can complete")
	}
	return fmt.Sprintf(`"completion":{"values":[%s],"total":%d,"hasMore":false}`, strings.Join(found, ","), len(found)), nil
}
