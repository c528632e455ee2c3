package dialect

import (
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// modern is the codec of the modern revisions.
type modern struct{ rev mcp.Revision }

func (d modern) request(dst []byte, a *mcp.Attempt, s *Stamp) []byte {
	var e jsonrpc.Edits
	e.AddAll(a.Edits)
	m := a.Msg
	e.Replace(mcp.WhyID, m.IDAt, s.id())
	if !a.Token.IsZero() && s.Token != nil {
		e.Replace(mcp.WhyProgressToken, a.Token, s.Token)
	}
	if a.Client.Revision != d.rev {
		d.describe(&e, a, s)
	} else {
		set, why := s.meta()
		if a.Client.Bare != nil && a.Caps == nil {
			set, why = append(set, jsonrpc.Field{Key: mcp.KeyClientCaps, Value: s.Capabilities}), mcp.WhyCapabilities
		}
		if a.HasJunk() || set != nil || s.Trusts {
			e.Object(why, m.Raw, a.Meta, func(k []byte) bool { return s.isForeign(a, k) }, set...)
		}
		if len(a.Retry) > 0 {
			e.Object(mcp.WhyRetry, m.Raw, m.Params, isRetryMember, a.Retry...)
		}
	}
	return a.Trail.Splice(dst, m.Raw, &e)
}

// describe adds the required _meta to a legacy client's request. The values come from the client's
// session (2026-07-28 §Base, "Per-request protocol fields").
func (d modern) describe(e *jsonrpc.Edits, a *mcp.Attempt, s *Stamp) {
	m := a.Msg
	set := PerRequest(d.rev, s.Info, s.Capabilities)
	if s.Level != 0 {
		set = append(set, jsonrpc.Field{Key: mcp.KeyLogLevel, Value: quote(s.Level.String())})
	}
	ours, _ := s.meta()
	set = append(set, ours...)
	kind := jsonrpc.KindOf(m.Raw, a.Meta)
	if kind != 0 && len(a.Retry) > 0 {
		e.Object(mcp.WhyRetry, m.Raw, m.Params, nil, a.Retry...)
	}
	switch kind {
	case 0:
	case '{':
		// Some legacy clients send reserved keys. Replace their values with those of the session,
		// and remove all other reserved keys.
		e.Object(mcp.WhySender, m.Raw, a.Meta, func(k []byte) bool {
			return s.isForeign(a, k) || mcp.IsPerRequestKey(k) && !named(set, k)
		}, set...)
		return
	default:
		// _meta is null or another value that cannot contain the required members.
		e.Replace(mcp.WhySender, a.Meta, object(set))
		return
	}
	params := append(slices.Clone(a.Retry), jsonrpc.Field{Key: mcp.KeyMeta, Value: object(set)})
	if !m.Params.IsZero() {
		e.Object(mcp.WhySender, m.Raw, m.Params, nil, params...)
		return
	}
	envelope := jsonrpc.Whole(m.Raw)
	e.Object(mcp.WhySender, m.Raw, envelope, nil, jsonrpc.Field{Key: "params", Value: object(params)})
}

func named(set []jsonrpc.Field, key []byte) bool {
	for _, f := range set {
		if f.Key == string(key) {
			return true
		}
	}
	return false
}

func object(set []jsonrpc.Field) []byte {
	out := []byte{'{'}
	for i, f := range set {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonrpc.AppendQuote(out, f.Key)
		out = append(append(out, ':'), f.Value...)
	}
	return append(out, '}')
}

func (d modern) reply(dst []byte, c *mcp.Call, r *mcp.Reply) []byte {
	var e jsonrpc.Edits
	e.AddAll(r.Edits)
	m := r.Msg
	e.Replace(mcp.WhyID, m.IDAt, []byte(c.Msg.ID))
	switch {
	case m.Kind == jsonrpc.Failure:
		if !repairError(&e, m) {
			recode(&e, d.rev, c, r)
		}
	case !r.From.Modern() || jsonrpc.KindOf(m.Raw, m.Result) != '{':
		d.completeResult(&e, c, r)
	}
	return c.Trail.Splice(dst, m.Raw, &e)
}

// completeResult completes the result of a legacy server. It adds the members that a modern result
// must have (2026-07-28 §Base, "ResultType"; §Caching). The caching hints are the safest ones: the
// result is stale immediately, and only this client may use it.
func (d modern) completeResult(e *jsonrpc.Edits, c *mcp.Call, r *mcp.Reply) {
	m := r.Msg
	if jsonrpc.KindOf(m.Raw, m.Result) != '{' {
		e.Replace(mcp.WhyResultObject, m.Result, spliceObject(objectResult(c, m), nil, jsonrpc.Field{Key: "resultType", Value: complete}))
		return
	}
	keys := []string{"resultType", "ttlMs", "cacheScope", mcp.KeyMeta}
	var at [4]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Result, keys, at[:])
	var set [4]jsonrpc.Field
	n := 0
	add := func(key string, value []byte) {
		set[n] = jsonrpc.Field{Key: key, Value: value}
		n++
	}
	if at[0].IsZero() {
		add("resultType", complete)
	}
	if c.Method != nil && c.Method.Cacheable && r.ResultType() != mcp.ResultInputRequired {
		if at[1].IsZero() {
			add("ttlMs", zero)
		}
		if at[2].IsZero() {
			add("cacheScope", private)
		}
	}
	if r.Server != nil {
		who := jsonrpc.Field{Key: mcp.KeyServerInfo, Value: r.Server}
		switch kind := jsonrpc.KindOf(m.Raw, at[3]); {
		case kind == 'n':
			e.Replace(mcp.WhyServerInfo, at[3], object([]jsonrpc.Field{who}))
		case kind == 0:
			add(mcp.KeyMeta, object([]jsonrpc.Field{who}))
		case jsonrpc.Find(m.Raw, at[3], mcp.KeyServerInfo).IsZero():
			e.Object(mcp.WhyServerInfo, m.Raw, at[3], nil, who)
		}
	}
	e.Object(mcp.WhyResultForm, m.Raw, m.Result, nil, set[:n]...)
}

var (
	complete = []byte(`"complete"`)
	private  = []byte(`"private"`)
	zero     = []byte("0")
)

func (d modern) hello(h *mcp.ServerInfo) []byte {
	versions := jsonrpc.AppendStrings(nil, h.Versions)
	if h.Raw != nil && h.Revision.Modern() {
		return spliceObject(h.Raw, nil, jsonrpc.Field{Key: "supportedVersions", Value: versions})
	}
	set := []jsonrpc.Field{
		{Key: "resultType", Value: complete},
		{Key: "supportedVersions", Value: versions},
		{Key: "capabilities", Value: orEmpty(extensionFor(h.Capabilities))},
	}
	if h.Instructions != nil {
		set = append(set, jsonrpc.Field{Key: "instructions", Value: h.Instructions})
	}
	set = append(set, jsonrpc.Field{Key: "ttlMs", Value: zero}, jsonrpc.Field{Key: "cacheScope", Value: private})
	if h.Info != nil {
		set = append(set, jsonrpc.Field{Key: mcp.KeyMeta, Value: object([]jsonrpc.Field{{Key: mcp.KeyServerInfo, Value: h.Info}})})
	}
	return object(set)
}
