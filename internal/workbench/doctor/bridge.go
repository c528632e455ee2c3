package doctor

import (
	"context"
	"errors"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/conn"
	"github.com/dragoman-mcp/dragoman/internal/relay/handshake"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	ssetransport "github.com/dragoman-mcp/dragoman/internal/transport/sse"
	"github.com/dragoman-mcp/dragoman/internal/transport/stdio"
	"github.com/dragoman-mcp/dragoman/internal/transport/streamhttp"
)

// throughDragoman is the result of opening the server with Dragoman's own handshake.
type throughDragoman struct {
	tried   bool
	works   bool
	dialect string // the dialect with which Dragoman opens the server; "" for standard MCP
	// revisions are the revisions in which a client gets a valid answer through Dragoman. With a
	// Codex app-server, no revision is tested.
	revisions []mcp.Revision
	err       error  // the error if Dragoman cannot open the server
	why       string // the reason if Dragoman cannot open the server
}

// bridge opens the server with Dragoman's own handshake.
func (e *exam) bridge(ctx context.Context) {
	out := throughDragoman{tried: true}
	opened, works, err := e.openBridge(ctx, handshake.Offer{})
	var failed *handshake.Error
	if errors.Is(err, handshake.ErrDiedOnProbe) {
		opened, works, err = e.openBridge(ctx, handshake.Offer{SkipProbe: true})
	}
	if errors.Is(err, handshake.ErrRefusedAfterProbe) && errors.As(err, &failed) {
		refusal := failed.Text
		if o, w, again := e.openBridge(ctx, handshake.Offer{SkipProbe: true}); again == nil {
			opened, works, err = o, w, nil
			e.find(ProbeOpens, "# "+e.redact([]byte(refusal)))
		}
	}
	switch {
	case err == nil:
		out.works, out.revisions = true, works
		if opened.Dialect != nil {
			out.dialect = opened.Dialect.Name
		}
		for _, f := range opened.Findings {
			e.bridgeFinding(f)
		}
	case errors.As(err, &failed):
		out.err, out.why = err, failed.Text
		if failed.Dialect == handshake.DialectAppServer && !e.http {
			out.works, out.dialect = true, "codex-app-server"
		}
	default:
		out.err, out.why = err, err.Error()
	}
	e.mu.Lock()
	again := !out.works && !e.through.tried
	e.through = out
	e.mu.Unlock()
	if again { // try once more, because the machine may have been too slow
		e.later(job{probes: []probe{{name: "Dragoman's own handshake", alone: e.bridge}}})
	}
}

// bridgeFinding records a finding that only Dragoman's own handshake can detect.
func (e *exam) bridgeFinding(f handshake.Finding) {
	code := map[string]string{
		handshake.FoundInitializedRefused: NoteAnswered,
		handshake.FoundUnknownVersion:     VersionEchoed,
		handshake.FoundOddInstructions:    OddInstructions,
	}[f.Code]
	if code != "" {
		e.find(code, "# "+e.redact([]byte(f.Text)))
	}
}

func (e *exam) openBridge(ctx context.Context, offer handshake.Offer) (*handshake.Outcome, []mcp.Revision, error) {
	offer.Dialect = e.t.Dialect
	offer.ProbeTimeout, offer.Timeout = e.o.Patience+e.startTime(), 3*(e.o.Patience+e.startTime())
	o := conn.Options{Name: "server", Info: []byte(identity), Sessions: conn.NewSessions()}
	var s *conn.Conn
	var err error
	var fields []transport.HeaderField
	for name, values := range e.t.Header {
		for _, v := range values {
			fields = append(fields, transport.HeaderField{Name: name, Value: v})
		}
	}
	switch {
	case e.sse:
		offer.SkipProbe, o.Posts = true, true
		var p transport.Pipe
		if p, err = ssetransport.Dial(ctx, e.t.URL.String(), ssetransport.ClientOptions{Header: fields, HTTP: e.t.Transport}); err != nil {
			return nil, nil, err
		}
		s, err = conn.OpenPipe(ctx, p, offer, o)
	case e.http:
		var c *streamhttp.Client
		if c, err = streamhttp.NewClient(e.t.URL.String(), streamhttp.ClientOptions{Header: fields, HTTP: e.t.Transport}); err != nil {
			return nil, nil, err
		}
		defer c.Close()
		s, err = conn.OpenHTTP(ctx, c, offer, o)
	default:
		child, bad := e.t.Start(ctx)
		if bad != nil {
			return nil, nil, bad
		}
		defer child.Stop()
		from, to := child.Streams()
		p := stdio.NewPipe(from, to, stdio.Options{Limits: jsonrpc.Limits{Bytes: maxLine, Tolerant: true, Names: mcp.MethodName}})
		if s, err = conn.OpenPipe(ctx, p, offer, o); err != nil {
			if source, ok := child.(failure.Source); ok {
				child.Epitaph() // if the process is exiting, wait until it has exited
				e.mu.Lock()
				source.DescribeFailure(&e.unreached.facts)
				e.mu.Unlock()
			}
		}
	}
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = s.Close(errExamined) }()
	works, err := e.firstCall(ctx, s)
	return s.Opening(), works, err
}

// firstCall requests the list of tools once as a client of each revision, because a handshake alone
// does not show that a server is usable. It returns the revisions in which the client gets a valid
// answer.
func (e *exam) firstCall(ctx context.Context, s *conn.Conn) (works []mcp.Revision, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*(e.o.Patience+e.startTime()))
	defer cancel()
	for _, r := range mcp.Revisions() {
		var params []byte
		if r.Modern() {
			params = []byte("{" + meta(r.String()) + "}")
		}
		m, bad := jsonrpc.Scan(jsonrpc.AppendRequest(nil, "1", mcp.MethodListTools, params), jsonrpc.Limits{})
		if bad != nil {
			return nil, bad
		}
		c := mcp.NewCall(m, m.Param(mcp.KeyMeta), &mcp.ClientInfo{Revision: r, Info: []byte(identity)})
		reply, bad := s.Call(ctx, mcp.NewAttempt(c), mcp.NoCaller{})
		if bad != nil {
			err = bad
			continue
		}
		if answersIn(r, dialect.Reply(nil, c, reply)) {
			works = append(works, r)
		}
	}
	if len(works) > 0 {
		err = nil
	}
	return works, err
}

// answersIn reports whether raw is a valid answer to tools/list in a revision. A server without
// tools answers with an error, which is also valid.
func answersIn(r mcp.Revision, raw []byte) bool {
	m, err := jsonrpc.Scan(raw, jsonrpc.Limits{Bytes: maxLine})
	if err != nil || m.ID != "1" {
		return false
	}
	if m.Kind == jsonrpc.Failure {
		code, _ := jsonrpc.Int(m.Raw, jsonrpc.Find(m.Raw, m.Error, "code"))
		return code == jsonrpc.CodeMethodNotFound
	}
	return jsonrpc.KindOf(m.Raw, m.ResultMember("tools")) == '[' && (r.Legacy() || !m.ResultMember("resultType").IsZero())
}

var errExamined = errors.New("the examination has ended")
