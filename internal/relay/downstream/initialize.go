package downstream

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// initialize answers the handshake of the legacy revisions (§Lifecycle).
func (c *Session) initialize(ctx context.Context, m *jsonrpc.Message, o mcp.Opening, r transport.Responder) {
	if c.info.Load() != nil && c.number != 0 && c.info.Load().Info != nil {
		bad := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "this session is already initialized"}
		c.refused(m, bad)
		c.fail(m.ID, r, bad)
		return
	}
	start := time.Now()
	f, bad := c.readInitialize(m)
	if bad != nil {
		c.refused(m, bad)
		c.fail(m.ID, r, bad)
		return
	}
	call := mcp.NewCall(m, o.Meta, f)
	bare := m.Params.IsZero()
	c.manifest.Store(bare)
	if bare {
		var stop context.CancelFunc
		ctx, stop = c.limited(ctx)
		defer stop()
	}
	c.settled.Store(f)
	h, err := c.endpoint.Handler.Hello(ctx, f)
	var tools [][]byte
	if err == nil && bare {
		tools, err = c.allTools(ctx, f, h)
	}
	if err != nil && errors.Is(context.Cause(ctx), errTooSlow) {
		err = c.tooSlow(err)
	}
	c.opened(m, f, start, err)
	if err != nil {
		c.failHandshake(call, r, err)
		return
	}
	c.info.Store(f)
	result := dialect.Hello(f.Revision, h)
	if bare {
		result = dialect.Superset(result, tools)
	}
	_ = r.Finish(jsonrpc.AppendResult(nil, m.ID, result), 0)
	// The handler of notifications/initialized calls attach. A client that never sends this
	// notification gets no notifications outside requests. Everything else works.
}

// failHandshake answers an initialize or server/discover that has failed.
func (c *Session) failHandshake(call *mcp.Call, r transport.Responder, err error) {
	reply := &mcp.Reply{Msg: jsonrpc.NewFailure("0", mcp.WireHandshake(err))}
	_ = r.Finish(encode(call, reply), dialect.Code(call, reply))
}

// openingKeys are the members of params that every revision requires (InitializeRequestParams).
var openingKeys = []string{"protocolVersion", "capabilities", "clientInfo"}

// malformed returns the error for an initialize request in which a required member is missing or
// has the wrong type. In strict mode, the members in openingKeys, and a name and a version
// in clientInfo, are required, as the schemas of all legacy revisions demand (Implementation).
// Otherwise only protocolVersion is required, because the capabilities and the client's name have
// defaults. A manifest client sends initialize without params, which is an error only in strict
// mode.
func (r *Rules) malformed(m *jsonrpc.Message, at [3]jsonrpc.Span) *jsonrpc.Error {
	if m.Params.IsZero() {
		if r.Strict {
			return mcp.Malformed("params", "an object")
		}
		return nil
	}
	if _, ok := jsonrpc.Text(m.Raw, at[0]); !ok {
		return mcp.Malformed("params.protocolVersion", "a string")
	}
	if !r.Strict {
		return nil
	}
	for i, key := range openingKeys[1:] {
		if jsonrpc.KindOf(m.Raw, at[i+1]) != '{' {
			return mcp.Malformed("params."+key, "an object")
		}
	}
	if name, ok := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, at[2], "name")); !ok || name == "" {
		return mcp.Malformed("params.clientInfo.name", "a string that is not empty")
	}
	if _, ok := jsonrpc.Text(m.Raw, jsonrpc.Find(m.Raw, at[2], "version")); !ok {
		return mcp.Malformed("params.clientInfo.version", "a string")
	}
	return nil
}

// readInitialize reads a client's initialize and chooses the revision.
func (c *Session) readInitialize(m *jsonrpc.Message) (*mcp.ClientInfo, *jsonrpc.Error) {
	var at [3]jsonrpc.Span
	jsonrpc.FindAll(m.Raw, m.Params, openingKeys, at[:])
	rules := c.endpoint.rules()
	if bad := rules.malformed(m, at); bad != nil {
		return nil, bad
	}
	date, _ := jsonrpc.Text(m.Raw, at[0])
	rev, ok := rules.settle(date)
	if !ok {
		return nil, rules.refuseVersion(date)
	}
	f := &mcp.ClientInfo{
		Revision:     rev,
		Info:         []byte(unknownClient),
		Who:          c.who,
		Conversation: c.number,
		Remote:       c.remote,
	}
	if jsonrpc.KindOf(m.Raw, at[1]) == '{' {
		f.Capabilities = at[1].Of(m.Raw)
	}
	if jsonrpc.KindOf(m.Raw, at[2]) == '{' {
		f.Info = withRequired(at[2].Of(m.Raw))
	}
	if len(f.Info) > mcp.MaxOwnInfo {
		c.publishLosses(nil, mcp.Losses{{What: m.Method, Why: "clientInfo is too long; Dragoman keeps only name and version"}})
	}
	if len(f.Capabilities) > mcp.MaxOwnCapabilities {
		c.publishLosses(nil, mcp.Losses{{What: m.Method, Why: "the client's capabilities are too long; Dragoman keeps only those that it knows"}})
	}
	return f.Own(), nil // return a copy, so that the session does not keep the whole request in memory
}

// unknownClient is the Implementation object of a client that does not send one. Every revision
// requires both members, and modern servers refuse an object without them.
const unknownClient = `{"name":"unknown","version":"0"}`

// withRequired adds the required members that an Implementation object lacks.
func withRequired(info []byte) []byte {
	var at [2]jsonrpc.Span
	jsonrpc.FindAll(info, jsonrpc.Whole(info), []string{"name", "version"}, at[:])
	var set []jsonrpc.Field
	if jsonrpc.KindOf(info, at[0]) != '"' {
		set = append(set, jsonrpc.Field{Key: "name", Value: []byte(`"unknown"`)})
	}
	if jsonrpc.KindOf(info, at[1]) != '"' {
		set = append(set, jsonrpc.Field{Key: "version", Value: []byte(`"0"`)})
	}
	if set == nil {
		return info
	}
	var e jsonrpc.Edits
	e.Object(mcp.WhyOwnText, info, jsonrpc.Whole(info), nil, set...)
	return jsonrpc.Splice(nil, info, &e)
}

// settle returns the revision to use with a client that offers the revision with the given date.
// This is the offered revision if the endpoint supports it, and otherwise the newest supported
// legacy revision (2025-11-25 §Lifecycle, "Version Negotiation"). In strict mode, the second result
// is false if the endpoint does not support the offered revision.
func (r *Rules) settle(date string) (mcp.Revision, bool) {
	offered, known := mcp.ParseRevision(date)
	best := mcp.Unknown
	for _, rev := range r.accepted() {
		if !rev.Legacy() {
			continue
		}
		if known && rev == offered {
			return rev, true
		}
		if rev.Newer(best) {
			best = rev
		}
	}
	return best, !r.Strict && best != mcp.Unknown
}

// allRevisions contains all revisions that Dragoman supports.
var allRevisions = mcp.Revisions()

// speaks returns the revisions that clients may use, newest first.
func (r *Rules) speaks() []mcp.Revision {
	if r.Revisions == nil {
		return allRevisions
	}
	return r.Revisions
}

// accepted returns the revisions that initialize may negotiate.
func (r *Rules) accepted() []mcp.Revision {
	var out []mcp.Revision
	for _, rev := range r.speaks() {
		if rev.Can(mcp.Handshake) {
			out = append(out, rev)
		}
	}
	return out
}

// versionCode is the value of data.code, as JSON, in the error for an unsupported version.
const versionCode = `"INVALID_PROTOCOL_VERSION"`

// refuseVersion returns the error for an unsupported version. The error lists the supported
// versions in every form that known clients read.
func (r *Rules) refuseVersion(date string) *jsonrpc.Error {
	dates := mcp.Dates(r.accepted())
	expected := "Expected: "
	if len(dates) > 1 {
		expected = "Expected one of: "
	}
	list := jsonrpc.AppendStrings(nil, dates)
	got := jsonrpc.AppendQuote(nil, excerpt.Name(date))
	d := append([]byte(`{"supported":`), list...)
	d = append(append(d, `,"requested":`...), got...)
	d = append(append(d, `,"supported_versions":`...), list...)
	d = append(append(d, `,"received_version":`...), got...)
	d = append(d, `,"code":`+versionCode+`}`...)
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Unsupported protocol version. " + expected + strings.Join(dates, ", "), Data: d}
}
