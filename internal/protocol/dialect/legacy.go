package dialect

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// legacy is the codec of the legacy revisions. In these revisions, a request does not describe its
// sender, and a result has no type.
type legacy struct{ rev mcp.Revision }

func (l legacy) request(dst []byte, a *mcp.Attempt, s *Stamp) []byte {
	var e jsonrpc.Edits
	e.AddAll(a.Edits)
	m := a.Msg
	e.Replace(mcp.WhyID, m.IDAt, s.id())
	if !a.Token.IsZero() && s.Token != nil {
		e.Replace(mcp.WhyProgressToken, a.Token, s.Token)
	}
	set, why := s.meta()
	meta := set // what an absent _meta would have
	switch jsonrpc.KindOf(m.Raw, a.Meta) {
	case '{':
		// Remove the reserved keys, because the handshake with the server has already declared their
		// values. Some legacy clients send reserved keys, too.
		e.Object(mcp.WhySender, m.Raw, a.Meta, func(k []byte) bool { return mcp.IsPerRequestKey(k) || s.isForeign(a, k) }, set...)
		meta = nil
	case 0:
	default:
		meta = nil // the server gets the client's invalid _meta as it is, unless it must know who asks
		if s.Voucher != nil {
			e.Replace(why, a.Meta, object(set))
		}
	}
	if meta != nil && m.Params.IsZero() {
		// Since 2024-11-05, the params of each request may have _meta.
		e.Object(why, m.Raw, jsonrpc.Whole(m.Raw), nil, jsonrpc.Field{Key: "params", Value: object([]jsonrpc.Field{{Key: mcp.KeyMeta, Value: object(meta)}})})
		meta = nil
	}
	modern := a.Client.Revision.Can(mcp.InputRequired)
	called := m.Method == mcp.MethodCallTool
	if modern && a.Method != nil && a.Method.MayAsk || called || meta != nil {
		var form [3]jsonrpc.Field
		n := 0
		if meta != nil {
			form[n] = jsonrpc.Field{Key: mcp.KeyMeta, Value: object(meta)}
			n++
		}
		if called && a.AsTask != nil {
			form[n] = jsonrpc.Field{Key: "task", Value: a.AsTask}
			n++
		}
		if called && lacksArguments(a) {
			form[n] = jsonrpc.Field{Key: "arguments", Value: emptyObject}
			n++
		}
		var drop func([]byte) bool
		switch {
		case modern && called && a.Answers:
			drop = isTask
		case modern && called:
			drop = isRetryOrTask
		case modern && !a.Answers:
			drop = isRetryMember
		}
		if n > 0 || drop != nil {
			e.Object(mcp.WhyCallForm, m.Raw, m.Params, drop, form[:n]...)
		}
	}
	return a.Trail.Splice(dst, m.Raw, &e)
}

// isRetryMember reports whether a key is the name of a member that modern clients add only to the
// retry of a call. A legacy server does not get such a member, because it sends its requests to the
// client during the call and needs no retry.
func isRetryMember(k []byte) bool {
	return string(k) == "inputResponses" || string(k) == "requestState"
}

// isRetryOrTask reports whether isRetryMember returns true for a key, or the key is task. Modern
// servers ignore the member task, but a legacy server would create a task (SEP-2663, "Backward
// Compatibility").
func isRetryOrTask(k []byte) bool { return isRetryMember(k) || isTask(k) }

func isTask(k []byte) bool { return string(k) == "task" }

func (l legacy) reply(dst []byte, c *mcp.Call, r *mcp.Reply) []byte {
	var e jsonrpc.Edits
	e.AddAll(r.Edits)
	m := r.Msg
	e.Replace(mcp.WhyID, m.IDAt, []byte(c.Msg.ID))
	meta, structured := modernMembers(r)
	switch {
	case m.Kind == jsonrpc.Failure:
		if !repairError(&e, m) {
			recode(&e, l.rev, c, r)
		}
	case jsonrpc.KindOf(m.Raw, m.Result) != '{':
		e.Replace(mcp.WhyResultObject, m.Result, objectResult(c, m))
	case l.lacks(c, r, structured):
		if obj, drop := serverInfoIn(r, meta); drop != nil {
			next := *r
			next.Edits.Object(mcp.WhyServerInfo, m.Raw, obj, drop)
			dst = l.convertReply(dst, c, &next)
			r.Losses = next.Losses
			return dst
		}
		return l.convertReply(dst, c, r)
	default:
		if obj, drop := serverInfoIn(r, meta); drop != nil {
			e.Object(mcp.WhyServerInfo, m.Raw, obj, drop)
		}
	}
	// The result keeps resultType, ttlMs and cacheScope. The schemas of legacy revisions allow
	// additional members, and legacy clients ignore such members.
	return c.Trail.Splice(dst, m.Raw, &e)
}

// modernMembers finds the members of a modern server's result that a legacy client may have to get in
// another form. It looks for both at once, because a result may be long.
func modernMembers(r *mcp.Reply) (meta, structured jsonrpc.Span) {
	if !r.From.Modern() {
		return meta, structured
	}
	var at [2]jsonrpc.Span
	jsonrpc.FindAll(r.Msg.Raw, r.Msg.Result, metaAndStructured, at[:])
	return at[0], at[1]
}

var metaAndStructured = []string{mcp.KeyMeta, "structuredContent"}

// serverInfoIn returns the object from which a legacy codec drops a member, so that a result of the
// modern era does not name its server (2026-07-28 §Base, "General fields"). meta is the result's _meta.
// Legacy clients know the server from initialize, and some treat a result with metadata differently.
func serverInfoIn(r *mcp.Reply, meta jsonrpc.Span) (obj jsonrpc.Span, drop func(key []byte) bool) {
	m := r.Msg
	if jsonrpc.Find(m.Raw, meta, mcp.KeyServerInfo).IsZero() {
		return obj, nil
	}
	members := 0
	for range jsonrpc.Members(m.Raw, meta) {
		members++
	}
	if members > 1 {
		return meta, isServerInfo
	}
	return m.Result, isMeta
}

func isServerInfo(k []byte) bool { return string(k) == mcp.KeyServerInfo }

func isMeta(k []byte) bool { return string(k) == mcp.KeyMeta }

func (l legacy) hello(h *mcp.ServerInfo) []byte {
	version := quote(l.rev.String())
	if h.Raw != nil && h.Revision.Legacy() {
		// The server is legacy too. So the client gets the result of the server, with the version
		// that Dragoman and this client agreed on.
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
