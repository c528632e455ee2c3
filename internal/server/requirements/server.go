package requirements

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/server/lines"
	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

// Limits of a Server.
const (
	maxRunning = 16  // the maximum number of calls that run at the same time
	maxWaiting = 256 // the maximum number of calls that wait until another call ends
	pageSize   = 100 // the number of items on a page of resources/list
	handshake  = 2 * time.Second
)

// Options are the settings of a Server.
type Options struct {
	// Store is the open database. The caller must close it after the server.
	Store *store.Store
	// Version is the version that the server reports.
	Version string
	// Vouchers is the key with which Dragoman signs who has sent a call. If it is nil, the server knows
	// only what clients say of themselves.
	Vouchers identity.VoucherKey
}

// Server serves the objects of one database to clients. Close stops a Server.
type Server struct {
	o     Options
	store *store.Store
	mcp   *mcp.Server

	calls *tools.Gate

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	group work.Group
	feed  feed
}

// New creates a Server for an open database. It reads the prompts from the database, and returns an
// error if this fails.
func New(ctx context.Context, o Options) (*Server, error) {
	s := &Server{o: o, store: o.Store, calls: tools.NewGate(maxRunning, maxWaiting)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.feed.subscribed = map[string]map[*mcp.ServerSession]bool{}
	s.mcp = mcp.NewServer(&mcp.Implementation{
		Name: "dragoman-requirements", Title: "Dragoman requirements server", Version: o.Version,
	}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{
			Tools: &mcp.ToolCapabilities{}, Prompts: &mcp.PromptCapabilities{ListChanged: true},
			Resources: &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true},
		},
		CompletionHandler:  s.complete,
		SubscribeHandler:   s.subscribe,
		UnsubscribeHandler: s.unsubscribe,
	})
	s.mcp.AddReceivingMiddleware(s.middleware)
	s.addTools()
	s.addResources()
	last, err := s.store.Last(ctx)
	if err == nil {
		err = s.loadPrompts(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.group.Go(func() { s.store.Follow(s.ctx, last, s.changed) })
	return s, nil
}

// Close stops the goroutine that looks for changes, and waits until the goroutine has ended.
func (s *Server) Close() {
	s.stop()
	s.group.Wait()
}

// Serve serves one client until in ends or ctx ends. It reads the messages of the client from in,
// and writes the messages for the client to out.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	return lines.Serve(ctx, s.mcp, in, out)
}

// middleware adds two things that the SDK lacks: instructions that can change, and a list of
// resources that comes from the database. It also rejects two kinds of requests that the SDK
// handles wrongly. The SDK would accept logging/setLevel, although the server does not declare this
// capability. The SDK cannot repeat a URI in an error if the URI has a character that is not
// printable.
func (s *Server) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case "logging/setLevel":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this server has no logging"}
		case "resources/read":
			p, ok := req.GetParams().(*mcp.ReadResourceParams)
			if ok && strings.ContainsFunc(p.URI, func(r rune) bool { return !unicode.IsPrint(r) }) {
				return nil, wrong("the URI has a character that is not printable. Percent-encode it.")
			}
		case "resources/list":
			return s.listResources(ctx, req, next)
		}
		res, err := next(ctx, method, req)
		switch r := res.(type) {
		case *mcp.InitializeResult:
			if r != nil {
				r.Instructions = s.instructions(ctx)
			}
		case *mcp.DiscoverResult:
			if r != nil {
				r.Instructions = s.instructions(ctx)
			}
		}
		return res, err
	}
}

// instructions returns the text of the active prompt. It returns "" if no prompt is active, and
// also if the database does not answer. So the handshake succeeds in all cases.
func (s *Server) instructions(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	p, err := s.store.Active(ctx)
	if err != nil {
		return ""
	}
	return p.Instructions()
}

// tool describes a tool.
type tool struct {
	name, title, description string

	writes     bool // the tool changes the database
	destroys   bool // the tool may replace or delete objects
	idempotent bool // a second call with the same arguments changes nothing
	restrict   func(map[string]*jsonschema.Schema)
}

// add registers a tool.
func add[In, Out any](s *Server, t tool, run func(context.Context, *mcp.CallToolRequest, In) (Out, error)) {
	no := false
	m := &mcp.Tool{
		Name: t.name, Title: t.title, Description: t.description,
		InputSchema: tools.Schema[In](t.restrict), OutputSchema: tools.Schema[Out](nil),
		Annotations: &mcp.ToolAnnotations{
			Title: t.title, ReadOnlyHint: !t.writes, IdempotentHint: t.idempotent || !t.writes, DestructiveHint: &t.destroys, OpenWorldHint: &no,
		},
		Meta: mcp.Meta{tools.DialectKey: map[string]any{"confirmationRequired": t.destroys, "undoSupported": false}},
	}
	mcp.AddTool(s.mcp, m, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		var none Out
		done, err := s.begin(ctx)
		if err != nil {
			return nil, none, err
		}
		defer done()
		out, err := run(ctx, req, in)
		if err != nil {
			return nil, none, sentence(err)
		}
		return nil, out, nil
	})
}

// begin waits until a call may run. The caller must call end when the call has ended.
func (s *Server) begin(ctx context.Context) (end func(), err error) {
	end, err = s.calls.Enter(ctx)
	var full *tools.FullError
	if errors.As(err, &full) {
		return nil, sentences(tools.Upper(full.Error())+".", "Wait for the answers of some calls first.")
	}
	return end, err
}

// sentence turns an error of the store into sentences for a client: what is wrong, and what to do.
// The texts of other errors may contain secrets, so the client does not get these texts.
func sentence(err error) error {
	var e *store.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return sentences(tools.Upper(e.Text)+".", tools.Upper(e.Next)+".")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return sentences("The database failed.", "Check that it runs and that its disk has space, then try again.")
}

// sentences joins sentences for a client into one error.
func sentences(text ...string) error { return errors.New(strings.Join(text, " ")) }

// wrong returns a JSON-RPC error for invalid parameters.
func wrong(text string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: text}
}
