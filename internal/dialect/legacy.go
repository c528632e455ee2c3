package dialect

import (
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// legacy is what the revisions with a handshake share: a request carries no
// description of its sender, a result no type.
type legacy struct{ rev mcp.Revision }

func (l legacy) request(dst []byte, c *mcp.Call, s *Stamp) []byte {
	e := c.Edits
	m := c.Msg
	e.Replace(mcp.WhyID, m.IDAt, []byte(s.ID))
	if !c.Token.IsZero() && s.Token != nil {
		e.Replace(mcp.WhyProgressToken, c.Token, s.Token)
	}
	if jsonrpc.KindOf(m.Raw, c.Meta) == '{' {
		// The session said all this at initialize, and reserved keys belong to one
		// hop. There are clients that send single ones in the old era too.
		e.Object(mcp.WhySender, m.Raw, c.Meta, func(k []byte) bool { return mcp.IsPerRequestKey(k) || c.IsJunk(k) })
	}
	modern := c.Client.Revision.Can(mcp.InputRequired)
	called := m.Method == mcp.MethodCallTool
	if modern && c.Method != nil && c.Method.MayAsk || called {
		var set [2]jsonrpc.Field
		n := 0
		if called && c.Task != nil {
			set[n] = jsonrpc.Field{Key: "task", Value: c.Task}
			n++
		}
		if called && lacksArguments(m) {
			set[n] = jsonrpc.Field{Key: "arguments", Value: emptyObject}
			n++
		}
		var drop func([]byte) bool
		switch {
		case modern && called && c.Answers:
			drop = asksForTask
		case modern && called:
			drop = forUsOfCall
		case modern && !c.Answers:
			drop = forUs
		}
		if n > 0 || drop != nil {
			e.Object(mcp.WhyCallForm, m.Raw, m.Params, drop, set[:n]...)
		}
	}
	return c.Trail.Splice(dst, m.Raw, &e)
}

// forUs reports what a modern client's retry carries for us: this server asks live.
func forUs(k []byte) bool { return string(k) == "inputResponses" || string(k) == "requestState" }

// forUsOfCall adds the member that modern servers ignore and this one would take
// for the wish for a task (SEP-2663, "Backward Compatibility").
func forUsOfCall(k []byte) bool { return forUs(k) || asksForTask(k) }

func asksForTask(k []byte) bool { return string(k) == "task" }

func (l legacy) reply(dst []byte, c *mcp.Call, r *mcp.Reply) []byte {
	e := r.Edits
	m := r.Msg
	e.Replace(mcp.WhyID, m.IDAt, []byte(c.Msg.ID))
	switch {
	case m.Kind == jsonrpc.Failure:
		if !wellForm(&e, m) {
			recode(&e, l.rev, c, r)
		}
	case jsonrpc.KindOf(m.Raw, m.Result) != '{':
		e.Replace(mcp.WhyResultObject, m.Result, noObject(c, m))
	case l.lacks(c, r):
		return l.fitted(dst, c, r)
	}
	// resultType, ttlMs and cacheScope stay: the older schemas allow further
	// members, and their readers ignore them.
	return c.Trail.Splice(dst, m.Raw, &e)
}

func (l legacy) hello(h *mcp.ServerInfo) []byte {
	version := quote(l.rev.String())
	if h.Raw != nil && h.Revision.Legacy() {
		// The same era: the server's own words, with the version that this client
		// agreed to.
		return spliceObject(h.Raw, nil, jsonrpc.Field{Key: "protocolVersion", Value: version})
	}
	out := append([]byte(`{"protocolVersion":`), version...)
	out = append(out, `,"capabilities":`...)
	out = append(out, orEmpty(legacyTasksFor(l.rev, h.Capabilities))...)
	out = append(out, `,"serverInfo":`...)
	if h.Info == nil {
		out = append(out, `{"name":"unknown","version":"0"}`...)
	} else {
		out = append(out, h.Info...)
	}
	if h.Instructions != nil {
		out = append(append(out, `,"instructions":`...), h.Instructions...)
	}
	return append(out, '}')
}

func orEmpty(object []byte) []byte {
	if object == nil {
		return emptyObject
	}
	return object
}

func spliceObject(raw []byte, drop func([]byte) bool, set ...jsonrpc.Field) []byte {
	var e jsonrpc.Edits
	e.Object(mcp.WhyOwnText, raw, jsonrpc.Whole(raw), drop, set...)
	return jsonrpc.Splice(make([]byte, 0, len(raw)+128), raw, &e)
}

func jsonInt(n int64) []byte { return []byte(jsonrpc.IntID(n)) }
