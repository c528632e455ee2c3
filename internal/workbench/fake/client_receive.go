package fake

import (
	"fmt"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// origin says where a message came from.
type origin struct {
	// f is the request whose response stream carried the message. It is nil on a pipe, on a GET
	// stream, and with HTTP+SSE, where one stream carries all messages.
	f *pendingRequest
	// get is true if the message came on the GET stream of a session.
	get bool
}

// receive handles one message from the server, or a batch if the revision has batches. It
// reports whether the message completed the request from.f.
func (c *Client) receive(b []byte, from origin) (ended bool) {
	c.tape.write(response, b)
	if jsonrpc.IsBatch(b) {
		if !c.e.has(batches) {
			c.violate("the server sent a batch, which %s does not have", c.e.date)
			return false
		}
		items, err := jsonrpc.ScanBatch(b, jsonrpc.Limits{})
		if err != nil {
			c.violate("the server sent an invalid batch: %v", err)
		}
		for _, it := range items {
			if it.Err != nil {
				c.violate("the server sent something that is not a message: %v", it.Err)
			} else if c.take(it.Message, from) {
				ended = true
			}
		}
		return ended
	}
	m, err := jsonrpc.Scan(b, jsonrpc.Limits{})
	if err != nil {
		c.violate("the server sent something that is not a message: %v", err)
		return false
	}
	return c.take(m, from)
}

func (c *Client) take(m *jsonrpc.Message, from origin) (ended bool) {
	switch m.Kind {
	case jsonrpc.Request:
		c.handleRequest(m)
	case jsonrpc.Notification:
		c.handleNotification(m, from)
	default:
		return c.handleResponse(m, from)
	}
	return false
}

// handleResponse handles a response. ended reports whether the response completed a request.
func (c *Client) handleResponse(m *jsonrpc.Message, from origin) (ended bool) {
	c.mu.Lock()
	f := c.pending[m.ID]
	switch {
	case f != nil:
	case m.ID == "" || m.ID == "null":
		if m.ID == "null" && !c.e.has(nullIDs) {
			c.violateLocked("the server sent an error with the id null, which %s does not allow", c.e.date)
		}
		c.violateLocked("the server could not read a message of the client: %s", clip(string(m.Error.Of(m.Raw))))
	case c.cancelled[m.ID]:
		// §Cancellation of all revisions: the server may have sent the response before it got the
		// cancellation.
		delete(c.cancelled, m.ID)
	default:
		c.violateLocked("the server answered the id %s, but no request with this id is in flight", clip(string(m.ID)))
	}
	if f == nil {
		c.mu.Unlock()
		return false
	}
	if from.get {
		c.violateLocked("the answer to %s came on the GET stream", f.method)
	}
	if from.f != nil && from.f != f {
		c.violateLocked("the answer to %s came on the stream of %s", f.method, from.f.method)
	}
	if f.listen != nil && m.Kind == jsonrpc.Result && !f.listen.once {
		c.violateLocked("subscriptions/listen ended before it was acknowledged")
	}
	c.retireLocked(f)
	c.mu.Unlock()
	e := c.e
	if f.opts.probe != nil && m.Kind == jsonrpc.Result {
		e = f.opts.probe // the answer has the form of the probe's revision
	}
	if m.Kind == jsonrpc.Failure {
		e := &jsonrpc.Error{ID: m.ID}
		e.Code, _ = jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
		e.Message, _ = jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, m.Error, "message"))
		e.Data = jsonrpc.Find(m.Raw, m.Error, "data").Of(m.Raw)
		if wrong := c.e.checkError(m.Raw, m.Error); wrong != "" {
			c.violate("the error of %s: %s", f.method, wrong)
		}
		f.end(func() { f.reply.Err = e })
		return true
	}
	result := m.Result.Of(m.Raw)
	if wrong := e.checkResult(f.method, result); wrong != "" {
		c.violate("the result of %s: %s", f.method, wrong)
	}
	if f.method == mcp.MethodListTools && c.e.has(mirrored) {
		c.learnMirrors(result)
	}
	f.end(func() { f.reply.Result = result })
	return true
}

// handleRequest handles a server request, which only the legacy revisions have (2026-07-28 §stdio
// and §Streamable HTTP, "Receiving Messages").
func (c *Client) handleRequest(m *jsonrpc.Message) {
	if !c.e.has(handshake) {
		c.violate("the server sent the request %s, but %s has no server requests", clip(m.Method), c.e.date)
		return // the client must not answer this request
	}
	c.mu.Lock()
	known := c.open[m.ID]
	if known {
		c.violateLocked("the id %s of the request %s belongs to another open request", m.ID, clip(m.Method))
	}
	if !c.ready && m.Method != mcp.MethodPing {
		// §Lifecycle, "Initialization": only pings and logging are allowed before notifications/initialized.
		c.violateLocked("the server sent the request %s before the conversation was open", clip(m.Method))
	}
	full := len(c.open) >= maxOpenAsks
	if full {
		c.violateLocked("the server has more than %d open requests", maxOpenAsks)
	}
	if known || full || c.dead != nil {
		c.mu.Unlock()
		return
	}
	c.open[m.ID] = true
	a := Ask{Method: m.Method, Params: m.Params.Of(m.Raw)}
	if m.Method != mcp.MethodPing {
		c.asks = append(c.asks, a)
	}
	c.mu.Unlock()
	c.asking.Go(func() {
		answer := c.answer(m.ID, a)
		c.mu.Lock()
		delete(c.open, m.ID)
		c.mu.Unlock()
		c.tape.write(request, answer)
		// A client that closes its connections may do so while the answer is on its way.
		if err := c.wire.send(c.ctx, answer, nil); err != nil && !c.over() {
			c.violate("the answer to %s was not accepted: %v", clip(a.Method), err)
		}
	})
}

// answer returns the response to a request of the server.
func (c *Client) answer(id jsonrpc.ID, a Ask) []byte {
	if a.Method == mcp.MethodPing {
		return jsonrpc.AppendResult(nil, id, nil)
	}
	if wrong := c.checkAsk(a); wrong != "" {
		c.violate("the request %s: %s", clip(a.Method), wrong)
		code := int64(jsonrpc.CodeInvalidParams)
		if !slices.Contains([]string{mcp.MethodSample, mcp.MethodElicit, mcp.MethodListRoots}, a.Method) {
			code = jsonrpc.CodeMethodNotFound
		}
		return jsonrpc.AppendError(nil, id, &jsonrpc.Error{Code: code, Message: wrong})
	}
	result, refused := c.o.Answer(c.ctx, a)
	if refused != nil {
		return jsonrpc.AppendError(nil, id, refused)
	}
	return jsonrpc.AppendResult(nil, id, result)
}

// handleNotification handles a notification.
func (c *Client) handleNotification(m *jsonrpc.Message, from origin) {
	n := Notice{Method: m.Method, Params: m.Params.Of(m.Raw)}
	c.mu.Lock()
	wrong, f := c.checkNoticeLocked(n, from)
	if wrong != "" {
		c.violateLocked("%s: %s", clip(n.Method), wrong)
	}
	kept := len(c.notices) < maxNotices
	if kept {
		n.Serial = len(c.notices) + 1
		c.notices = append(c.notices, n)
		close(c.news)
		c.news = make(chan struct{})
	} else if !c.overwhelmed {
		c.overwhelmed = true
		c.violateLocked("the server sent more than %d notifications", maxNotices)
	}
	var notify func(Notice)
	if f != nil && n.Method == mcp.NoteProgress {
		notify = f.opts.OnProgress
	}
	if f != nil && kept {
		switch n.Method {
		case mcp.NoteProgress:
			f.reply.Progress = append(f.reply.Progress, n)
		case mcp.NoteMessage:
			f.reply.Logs = append(f.reply.Logs, n)
		}
	}
	c.mu.Unlock()
	if notify != nil {
		notify(n)
	}
}

// checkNoticeLocked returns the violation in a notification, or "" if the notification is valid. f
// is the request that the notification belongs to, or nil.
func (c *Client) checkNoticeLocked(n Notice, from origin) (wrong string, f *pendingRequest) {
	p := n.Params
	at := jsonrpc.Whole(p)
	s, known := c.e.noticeShape(n.Method)
	if !known {
		return "the client does not expect this notification from a server of " + c.e.date, nil
	}
	if wrong := s.check(p, at, "params"); wrong != "" {
		return wrong, nil
	}
	if !c.ready && n.Method != mcp.NoteMessage {
		return "sent before the conversation was open", nil
	}
	if c.e.has(perRequest) {
		if wrong, done := c.checkListened(n, from); done {
			return wrong, nil
		}
	}
	switch n.Method {
	case mcp.NoteProgress:
		return c.checkProgressLocked(p, from)
	case mcp.NoteMessage:
		return c.checkLogLocked(n, from)
	case mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged:
		list := map[string]string{
			mcp.NoteToolsChanged: "tools", mcp.NotePromptsChanged: "prompts", mcp.NoteResourcesChanged: "resources",
		}[n.Method]
		if !c.offersLocked(list, "listChanged") {
			return "the server did not declare " + list + ".listChanged", nil
		}
	case mcp.NoteResourceUpdated:
		uri, _ := jsonrpc.Text(p, jsonrpc.Find(p, at, "uri"))
		if !c.watched[uri] {
			return "the client has not subscribed to " + clip(uri), nil
		}
	case VendorNote:
		// 2026-07-28 §Patterns, "Request and Response": notifications belong to a request in flight.
		// On a pipe, the client cannot know the request.
		if c.e.has(perRequest) && from.f != nil && from.f.method != VendorMethod {
			return "sent on the stream of " + from.f.method, nil
		}
	case mcp.NoteCancelled:
		id := jsonrpc.ID(jsonrpc.Find(p, at, "requestId").Of(p))
		if !c.open[id] {
			return "", nil // the client may have answered the request before it got the cancellation
		}
	}
	return "", f
}

// checkProgressLocked checks a progress notification with the params p. f is the request whose token it
// has, or nil.
func (c *Client) checkProgressLocked(p []byte, from origin) (wrong string, f *pendingRequest) {
	at := jsonrpc.Whole(p)
	token := string(jsonrpc.Find(p, at, "progressToken").Of(p))
	f = c.tokens[token]
	switch {
	case f == nil && c.lateTokens[token]:
		return "", nil // the server may have sent the notification before it got the cancellation
	case f == nil:
		return fmt.Sprintf("the token %s does not belong to a call in progress", clip(token)), nil
	case from.f != nil && from.f != f:
		return "sent on the stream of another request", f
	}
	v, _ := floatOf(p, jsonrpc.Find(p, at, "progress"))
	if f.events && v <= f.reached {
		return fmt.Sprintf("progress is %v after %v, but must increase", v, f.reached), f
	}
	f.reached, f.events = v, true
	return "", f
}

// checkListened checks a notification that belongs to a subscriptions/listen request (2026-07-28
// §Subscriptions). If done is true, no other checks are necessary.
func (c *Client) checkListened(n Notice, from origin) (wrong string, done bool) {
	p := n.Params
	at := jsonrpc.Whole(p)
	id := jsonrpc.ID(jsonrpc.Find(p, jsonrpc.Find(p, at, mcp.KeyMeta), mcp.KeySubscriptionID).Of(p))
	of := func(uris []string) bool {
		uri, _ := jsonrpc.Text(p, jsonrpc.Find(p, at, "uri"))
		return slices.Contains(uris, uri)
	}
	switch n.Method {
	case mcp.NoteProgress, mcp.NoteMessage, VendorNote:
		if id != "" || from.f != nil && from.f.listen != nil {
			return "sent for a subscription, which cannot have such notifications", true
		}
		return "", false
	case mcp.NoteCancelled:
		id = jsonrpc.ID(jsonrpc.Find(p, at, "requestId").Of(p))
	}
	s := c.listens[id]
	switch {
	case id == "":
		return "subscriptionId is missing", true
	case s == nil && c.cancelled[id]:
		return "", true // the server may have sent the notification before it got the cancellation
	case s == nil:
		return fmt.Sprintf("no subscriptions/listen with the subscriptionId %s is in progress", clip(string(id))), true
	case from.f != nil && from.f != s.f:
		return "sent on the stream of another request", true
	case n.Method == mcp.NoteAcknowledged:
		if s.once {
			return "sent twice", true
		}
		s.once = true
		s.agreed = filterOf(p, jsonrpc.Find(p, at, "notifications"))
		close(s.acked)
		return s.agreed.excess(&s.filter), true
	case n.Method == mcp.NoteCancelled:
		return "", true
	case !s.once:
		return "sent before the subscription was acknowledged", true
	}
	agreed := false
	switch n.Method {
	case mcp.NoteToolsChanged:
		agreed = s.agreed.Tools
	case mcp.NotePromptsChanged:
		agreed = s.agreed.Prompts
	case mcp.NoteResourcesChanged:
		agreed = s.agreed.Resources
	case mcp.NoteResourceUpdated:
		agreed = of(s.agreed.URIs)
	}
	if !agreed {
		return "the acknowledged subscription does not include this change", true
	}
	return "", true
}

func filterOf(raw []byte, at jsonrpc.Span) (f Filter) {
	on := func(name string) bool { return jsonrpc.KindOf(raw, jsonrpc.Find(raw, at, name)) == 't' }
	f = Filter{Tools: on("toolsListChanged"), Prompts: on("promptsListChanged"), Resources: on("resourcesListChanged")}
	for v := range jsonrpc.Elements(raw, jsonrpc.Find(raw, at, "resourceSubscriptions")) {
		uri, _ := jsonrpc.Text(raw, v)
		f.URIs = append(f.URIs, uri)
	}
	return f
}

// excess returns a violation if f contains changes that want does not contain. f is what the server
// agreed to, and want is what the client requested.
func (f *Filter) excess(want *Filter) string {
	if f.Tools && !want.Tools || f.Prompts && !want.Prompts || f.Resources && !want.Resources {
		return "acknowledges list changes that the client did not request"
	}
	for _, u := range f.URIs {
		if !slices.Contains(want.URIs, u) {
			return "acknowledges the resource " + clip(u) + ", which the client did not request"
		}
	}
	return ""
}

// checkLogLocked checks a log message (§Logging). f is the request that the log message belongs to,
// or nil.
func (c *Client) checkLogLocked(n Notice, from origin) (wrong string, f *pendingRequest) {
	name, _ := jsonrpc.Text(n.Params, jsonrpc.Find(n.Params, jsonrpc.Whole(n.Params), "level"))
	l, _ := mcp.ParseLogLevel(name)
	if c.server.raw != nil && !c.offersLocked("logging") {
		return "the server did not declare logging", nil
	}
	if c.e.has(handshake) {
		if c.level != 0 && l < c.level {
			return fmt.Sprintf("the level %s is below the level that the client set, %s", name, c.level), nil
		}
		return "", nil
	}
	// 2026-07-28 §Logging: the server sends log messages only for a request that asked for them, on
	// the stream of this request. On a pipe, the client cannot know the request, so it checks
	// against the request with the lowest level.
	if from.f != nil {
		f = from.f
		if f.level == 0 {
			return "sent for " + f.method + ", which did not request log messages", f
		}
	} else {
		for _, g := range c.pending {
			if g.level != 0 && (f == nil || g.level < f.level) {
				f = g
			}
		}
		if f == nil {
			if len(c.cancelled) > 0 {
				return "", nil
			}
			return "no request in flight asks for log messages", nil
		}
	}
	if l < f.level {
		return fmt.Sprintf("the level %s is below the level that the request asks for, %s", name, f.level), f
	}
	return "", f
}

// fail ends a request after a transport error.
func (c *Client) fail(f *pendingRequest, err error) {
	c.retire(f)
	f.end(func() { f.err = err })
}
