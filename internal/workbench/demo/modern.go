package demo

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

const (
	aboutURI = "demo://about"
	// listsLast is how long clients may cache lists that never change.
	listsLast = time.Hour

	modernWords = "A small modern server: it has no handshake and no session. " +
		"Try add to see a structured result, weather to see an argument that is also sent in a header, " +
		"confirm to answer a question before the tool runs, and slow to see progress. demo://about changes with every tool call."
)

// modern is the demo server that supports the modern revisions. It keeps no state per client. All
// clients share count.
type modern struct {
	*line
	info    string // an Implementation object
	tools   toolbox
	methods map[string]step

	count struct {
		sync.Mutex
		calls   int
		changed chan struct{} // each call closes and replaces this channel
	}
}

func newModern(l *line, version string) *modern {
	s := &modern{line: l, info: `{"name":"demo-modern","title":"Demo: a modern server","version":` + quote(version) + `}`}
	s.count.changed = make(chan struct{})
	s.tools = toolbox{
		{
			name: "add", title: "Add", about: "Adds two numbers.",
			input:  `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`,
			output: `{"type":"object","properties":{"sum":{"type":"number"}},"required":["sum"]}`,
			step:   step{run: s.add},
		}, {
			name: "weather", title: "Weather", about: "Returns invented weather for a city. The result is always the same for the same city.",
			input: `{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}},"required":["city"]}`,
			step:  step{run: s.weather},
		}, {
			name: "forecast", title: "Forecast", about: "Returns invented weather for a city for three days, as a list. Older revisions do not support lists in structuredContent, so their clients get only the text.",
			input:  `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`,
			output: `{"type":"array","items":{"type":"object","properties":{"day":{"type":"integer"},"sky":{"type":"string"},"celsius":{"type":"integer"}},"required":["day","sky","celsius"]}}`,
			step:   step{run: s.forecast},
		}, {
			name: "confirm", title: "Confirm", about: "Asks the user to confirm an action. The tool does not perform the action.",
			input: `{"type":"object","properties":{"action":{"type":"string","description":"The action, for example: paint the shed blue"}},"required":["action"]}`,
			step:  step{run: s.confirm},
		}, {
			name: "slow", title: "Slow", about: "Runs for several seconds and reports progress every second. You can cancel the call.",
			input: `{"type":"object","properties":{"seconds":{"type":"integer","minimum":1,"maximum":60,"default":5}}}`,
			step:  step{waits: true, run: s.slow},
		},
	}
	for i, t := range s.tools {
		s.tools[i].run = func(ctx context.Context, c *call) (string, error) {
			defer s.counted()
			return t.run(ctx, c)
		}
	}
	s.methods = map[string]step{
		mcp.MethodDiscover: fixed(`"supportedVersions":` + versions() +
			`,"capabilities":{"tools":{},"resources":{"subscribe":true}},"instructions":` + quote(modernWords)),
		mcp.MethodListTools:     fixed(s.tools.list(true)),
		mcp.MethodCallTool:      {}, // open replaces this empty step with the step of the tool
		mcp.MethodListResources: fixed(`"resources":[{"uri":"` + aboutURI + `","name":"about","title":"About this server","description":"What this server has done so far.","mimeType":"text/plain"}]`),
		mcp.MethodListTemplates: fixed(`"resourceTemplates":[]`),
		mcp.MethodReadResource:  {run: s.read},
		mcp.MethodListen:        {waits: true, run: s.listen},
	}
	return s
}

// versions returns the supported versions as a JSON array.
func versions() string {
	return string(jsonrpc.AppendStrings(nil, mcp.Dates(mcp.Revisions(mcp.PerRequestMeta))))
}

func (s *modern) speaks() mcp.Revision { return mcp.Latest }

// open checks the required _meta of a request (2026-07-28 §Base, "Per-request protocol
// fields").
func (s *modern) open(c *call) (step, *jsonrpc.Error) {
	if c.m.Method == mcp.MethodInitialize {
		// 2026-07-28 §Versioning: the error for initialize should list the supported versions.
		e := refusal(jsonrpc.CodeMethodNotFound, "method not found: initialize; this server supports only %s, which has no handshake", mcp.Latest)
		e.Data = []byte(`{"supported":` + versions() + `}`)
		return step{}, e
	}
	o, bad := mcp.Classify(c.m, "", false)
	switch {
	case bad != nil && bad.Code == mcp.CodeUnsupportedVersion:
		asked, _ := jsonrpc.Text(c.m.Raw, jsonrpc.Find(c.m.Raw, o.Meta, mcp.KeyVersion))
		return step{}, mcp.UnsupportedVersion(c.m.ID, asked, mcp.PerRequestMeta)
	case bad != nil:
		return step{}, bad
	case !o.Revision.Modern():
		return step{}, refusal(jsonrpc.CodeInvalidParams, "_meta must contain %s", mcp.KeyVersion)
	}
	if bad := mcp.CheckModern(c.m, o); bad != nil {
		return step{}, bad
	}
	st, ok := s.methods[c.m.Method]
	if !ok {
		return step{}, refusal(jsonrpc.CodeMethodNotFound, "method not found: %.64s", c.m.Method)
	}
	c.rev = o.Revision
	c.mayAsk = showsForms(c.m.Raw, jsonrpc.Find(c.m.Raw, o.Meta, mcp.KeyClientCaps))
	if c.m.Method == mcp.MethodCallTool {
		return s.tools.pick(c)
	}
	return st, paged(c)
}

// wrap makes a result from members, adds the members that every result must have, and adds caching
// hints to a cacheable result (2026-07-28 §Caching, "Cacheable Results").
func (s *modern) wrap(c *call, members string) string {
	kind := mcp.ResultComplete
	if c.resultType != "" {
		kind = c.resultType
	}
	out := `{"resultType":` + quote(kind)
	if members != "" {
		out += "," + members
	}
	if m := mcp.LookupMethod(c.m.Method); m.Cacheable {
		lasts := listsLast
		if c.m.Method == mcp.MethodReadResource {
			lasts = 0
		}
		out += fmt.Sprintf(`,"ttlMs":%d,"cacheScope":"public"`, lasts.Milliseconds())
	}
	out += `,"_meta":{`
	if c.listen {
		out += quote(mcp.KeySubscriptionID) + ":" + string(c.m.ID) + ","
	}
	return out + quote(mcp.KeyServerInfo) + ":" + s.info + "}}"
}

// receive handles cancellations and ignores all other messages. Clients must not send responses to a
// modern server (2026-07-28 §stdio, "Sending Messages").
func (s *modern) receive(m *jsonrpc.Message) {
	if m.Kind == jsonrpc.Notification && m.Method == mcp.NoteCancelled {
		s.cancel(jsonrpc.ID(m.Param("requestId").Of(m.Raw)))
	}
}

func (s *modern) counted() {
	s.count.Lock()
	defer s.count.Unlock()
	s.count.calls++
	close(s.count.changed)
	s.count.changed = make(chan struct{})
}

// called returns the number of tool calls so far, and a channel that the next tool call closes.
func (s *modern) called() (int, <-chan struct{}) {
	s.count.Lock()
	defer s.count.Unlock()
	return s.count.calls, s.count.changed
}

func (s *modern) add(_ context.Context, c *call) (string, error) {
	a, err := c.number("a")
	if err != nil {
		return "", err
	}
	b, err := c.number("b")
	if err != nil {
		return "", err
	}
	if math.IsInf(a+b, 0) {
		return "", toolError("The sum is too large for a 64-bit floating-point number.")
	}
	// 2026-07-28 §Tools, "Structured Content": repeat the structured content as text, for
	// clients that read only text.
	sum := `{"sum":` + decimal(a+b) + `}`
	return text(sum) + `,"structuredContent":` + sum, nil
}

func (s *modern) weather(_ context.Context, c *call) (string, error) {
	city, err := c.text("city")
	if err != nil {
		return "", err
	}
	sky, celsius := weatherOf(city)
	return text(fmt.Sprintf("%s: %s, %d °C. (This weather is invented.)", city, sky, celsius)), nil
}

// weatherOf returns weather that is always the same for the same place.
func weatherOf(place string) (sky string, celsius int) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.ToLower(place)))
	n := h.Sum32()
	skies := [...]string{"clear", "a few clouds", "overcast", "light rain", "fog in the morning", "unexpected snow"}
	return skies[n%uint32(len(skies))], int(n>>8%35) - 5
}

// forecast returns a list as structured content, which 2026-07-28 allows (§Tools, "Structured
// Content").
func (s *modern) forecast(_ context.Context, c *call) (string, error) {
	city, err := c.text("city")
	if err != nil {
		return "", err
	}
	summary, days := city+":", ""
	for day := 1; day <= 3; day++ {
		sky, celsius := weatherOf(fmt.Sprintf("%s %d", city, day))
		summary += fmt.Sprintf(" day %d %s, %d °C;", day, sky, celsius)
		if day > 1 {
			days += ","
		}
		days += fmt.Sprintf(`{"day":%d,"sky":%s,"celsius":%d}`, day, quote(sky), celsius)
	}
	return text(strings.TrimSuffix(summary, ";")+".") + `,"structuredContent":[` + days + `]`, nil
}

// confirm answers a tool call with a question to the user. When the client sends the call again with
// the user's answer, confirm returns the result. The retry contains everything that confirm needs
// (2026-07-28 §MRTR).
func (s *modern) confirm(_ context.Context, c *call) (string, error) {
	action, err := c.text("action")
	if err != nil {
		return "", err
	}
	if !c.mayAsk {
		// The error for a missing capability: 2026-07-28 §Base, "Per-request protocol fields".
		e := refusal(mcp.CodeMissingCapability, "confirm needs a client that supports forms (elicitation)")
		e.Data = []byte(`{"requiredCapabilities":{"elicitation":{"form":{}}}}`)
		return "", e
	}
	raw := c.m.Raw
	answered := jsonrpc.Find(raw, c.m.Param("inputResponses"), "go_ahead")
	if at := c.m.Param("requestState"); !at.IsZero() {
		// The state needs no protection (2026-07-28 §MRTR, "Server Requirements"), because a client
		// with a forged state can only confirm an action that does nothing.
		if state, _ := jsonrpc.Text(raw, at); state != "asked: "+action {
			return "", refusal(jsonrpc.CodeInvalidParams, "params.requestState does not belong to this question")
		}
	} else {
		answered = jsonrpc.Span{} // without requestState, the client does not answer a question of this server
	}
	if answered.IsZero() {
		c.resultType = mcp.ResultInputRequired
		return `"inputRequests":{"go_ahead":{"method":"` + mcp.MethodElicit + `","params":{"mode":"form","message":` + quote("Shall I really do this: "+action+"?") +
			`,"requestedSchema":{"type":"object","properties":{"sure":{"type":"boolean","title":"I am sure"}},"required":["sure"]}}}},"requestState":` +
			quote("asked: "+action), nil
	}
	did, sure, err := given(raw, answered, "sure")
	switch {
	case err != nil:
		return "", refusal(jsonrpc.CodeInvalidParams, "params.inputResponses.go_ahead: %v", err)
	case did == "accept" && jsonrpc.KindOf(raw, sure) == 't':
		return text("Confirmed: " + action + ". (This is a demo: nothing was done.)"), nil
	}
	return text("Not confirmed, so nothing was done."), nil
}

func (s *modern) slow(ctx context.Context, c *call) (string, error) {
	n, err := c.integer("seconds", 1, 60, 5)
	if err != nil {
		return "", err
	}
	err = s.steps(ctx, c, n, time.Second, func(i int) string { return fmt.Sprintf("%d of %d seconds", i, n) })
	return text("Done."), err
}

func (s *modern) read(_ context.Context, c *call) (string, error) {
	uri, err := c.readURI()
	switch {
	case err != nil:
		return "", err
	case uri != aboutURI:
		return "", c.missing(uri)
	}
	n, _ := s.called()
	return contents(uri, fmt.Sprintf("This server uses %s and has no sessions. Tool calls so far: %d.", mcp.Latest, n)), nil
}

// listen notifies the client of changes of demo://about, until the client cancels the request or the
// server stops (2026-07-28 §Subscriptions).
func (s *modern) listen(ctx context.Context, c *call) (string, error) {
	asked, err := mcp.ParseSubscriptionFilter(c.m.Raw, c.m.Param("notifications"))
	if err != nil {
		return "", refusal(jsonrpc.CodeInvalidParams, "params.notifications: %v", err)
	}
	about := asked.URIs[aboutURI]
	kept := mcp.SubscriptionFilter{}
	if about {
		kept.URIs = map[string]bool{aboutURI: true}
	}
	c.listen = true
	_, changed := s.called()
	meta := `{"_meta":{` + quote(mcp.KeySubscriptionID) + ":" + string(c.m.ID) + "},"
	s.notify(mcp.NoteAcknowledged, meta+`"notifications":`+string(kept.JSON())+"}")
	for {
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause == errGone || cause == errCancelled {
				return "", ctx.Err()
			}
			// The server ends the subscription: 2026-07-28 §Cancellation, and §Subscriptions,
			// "Graceful Closure".
			s.notify(mcp.NoteCancelled, meta+`"requestId":`+string(c.m.ID)+"}")
			return "", nil
		case <-changed:
			_, changed = s.called()
			if about {
				s.notify(mcp.NoteResourceUpdated, meta+`"uri":"`+aboutURI+`"}`)
			}
		}
	}
}
