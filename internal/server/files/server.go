package files

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

	"github.com/dragoman-mcp/dragoman/internal/server/lines"
	"github.com/dragoman-mcp/dragoman/internal/server/tools"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// Bounds of a server. maxLong calls, together with the waitersMost calls that wait for changes,
// leave two of the maxRunning places for other calls.
const (
	maxRunning     = 16  // calls that run at the same time
	maxWaiting     = 256 // calls that wait until another call ends
	maxLong        = 6   // searches, copies and moves that run at the same time
	maxLongWaiting = 256 // searches, copies and moves that wait until another of them ends
)

// Prefix is put before the name of each tool if Options.Prefixed is set.
const Prefix = "filesystem."

// Options are the settings of a Server.
type Options struct {
	// Roots are the folders that clients may use, at least one.
	Roots []string
	// ReadOnly leaves out the tools that make changes.
	ReadOnly bool
	// Prefixed puts Prefix before the name of each tool.
	Prefixed bool
	// Version is the version that the server reports.
	Version string
	// Undo bounds the undo folder of each root. Without a size nothing is kept.
	Undo Undo
	// Poll is the pause between two looks at a watched folder. Zero means one second.
	Poll time.Duration
}

// Server serves the files of some folders. Close releases them.
type Server struct {
	o     Options
	roots []*root
	mcp   *mcp.Server

	schemas map[string]*jsonschema.Schema // of the arguments, by tool; fixed after Open

	calls *tools.Gate // all calls
	long  *tools.Gate // searches, copies and moves, which pass calls too
	now   func() time.Time

	// Tests replace these.
	filling  func(io.Writer) io.Writer // makes writes fail; nil outside tests
	keeping  func() error              // makes a new entry of the undo folder fail; nil outside tests
	apart    bool                      // moves as if each entry were on a disk of its own
	volatile bool                      // leaves out the waits for the disk

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	group work.Group
	watch watching
}

// Open opens the roots and makes the tools.
func Open(o Options) (*Server, error) {
	roots, err := openRoots(o.Roots)
	if err != nil {
		return nil, err
	}
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	s := &Server{o: o, roots: roots, schemas: map[string]*jsonschema.Schema{}, calls: tools.NewGate(maxRunning, maxWaiting), long: tools.NewGate(maxLong, maxLongWaiting), now: time.Now}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.mcp = mcp.NewServer(&mcp.Implementation{
		Name: "dragoman-filesystem", Title: "Dragoman filesystem server", Version: o.Version,
	}, &mcp.ServerOptions{
		Instructions:       s.instructions(),
		Capabilities:       &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true}},
		SubscribeHandler:   s.subscribe,
		UnsubscribeHandler: s.unsubscribe,
	})
	s.mcp.AddReceivingMiddleware(s.guard)
	s.addTools()
	s.addResources()
	return s, nil
}

// guard refuses requests that the SDK does not handle correctly. If the server lacks a capability,
// the SDK would answer the methods of this capability with empty lists. If a URI has a character
// that is not printable, the SDK cannot repeat the URI and would end the conversation. guard also
// explains wrong arguments.
func (s *Server) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch method {
		case "prompts/list", "prompts/get", "logging/setLevel":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this server has no " + strings.Split(method, "/")[0]}
		case "resources/read":
			p, ok := req.GetParams().(*mcp.ReadResourceParams)
			if ok && strings.ContainsFunc(p.URI, func(r rune) bool { return !unicode.IsPrint(r) }) {
				return nil, invalid(refuse("percent-encode it", "the URI %s has a character that is not printable", quote(p.URI)))
			}
		}
		res, err := next(ctx, method, req)
		if call, ok := res.(*mcp.CallToolResult); ok && err == nil && call != nil {
			if p, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok {
				explain(call, s.schemas[p.Name])
			}
		}
		return res, err
	}
}

// Close ends the watches and closes the roots. It waits for the goroutines of the server.
func (s *Server) Close() error {
	s.stop()
	s.group.Wait()
	var errs []error
	for _, r := range s.roots {
		errs = append(errs, r.dir.Close())
	}
	return errors.Join(errs...)
}

// Serve answers one client, whose messages come from in, until in or ctx ends.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	return lines.Serve(ctx, s.mcp, in, out)
}

// instructions tells a model what the server does.
func (s *Server) instructions() string {
	text := "This server reads and changes files in one folder. Paths are relative to it; . is the folder itself."
	if len(s.roots) > 1 {
		text = "This server reads and changes files in these folders: " + s.rootNames() + ". Begin each path with the name of a folder, for example " + s.roots[0].name + "/notes.txt."
	}
	switch {
	case s.o.ReadOnly:
		text += " It cannot change anything."
	case s.o.Undo.Size > 0:
		text += " Files that a call replaces or deletes stay in " + undoFolder + " for a while. The answer contains the path, and move_file moves the file back."
	}
	return text + " Long answers come in parts, and each part says how to get the next one."
}

// tool describes a tool. In and Out are the types of its handler's input and output.
type tool struct {
	name, title, description string

	long        bool // a call may take long, so few of them run at the same time
	writes      bool // the tool changes files
	destroys    bool // the tool may replace or remove files
	idempotent  bool // a second call with the same arguments changes nothing
	confirm     bool // a client with confirmations should ask its user first
	undo        bool // a change by the tool can be undone
	restrictIn  func(map[string]*jsonschema.Schema)
	restrictOut func(map[string]*jsonschema.Schema)
}

// add registers a tool. A tool that writes is left out if the server is read-only.
func add[In, Out any](s *Server, t tool, run func(context.Context, *mcp.CallToolRequest, In) (*mcp.CallToolResult, Out, error)) {
	if t.writes && s.o.ReadOnly {
		return
	}
	name := t.name
	if s.o.Prefixed {
		name = Prefix + name
	}
	no := false
	m := &mcp.Tool{
		Name: name, Title: t.title, Description: t.description,
		InputSchema: tools.Schema[In](t.restrictIn), OutputSchema: tools.Schema[Out](t.restrictOut),
		Annotations: &mcp.ToolAnnotations{
			Title: t.title, ReadOnlyHint: !t.writes, IdempotentHint: t.idempotent || !t.writes, DestructiveHint: &t.destroys, OpenWorldHint: &no,
		},
		Meta: mcp.Meta{tools.DialectKey: map[string]any{
			"confirmationRequired": t.confirm, "undoSupported": t.undo && s.o.Undo.Size > 0,
		}},
	}
	s.schemas[name] = m.InputSchema.(*jsonschema.Schema)
	mcp.AddTool(s.mcp, m, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		var none Out
		done, err := s.begin(ctx, t.long)
		if err != nil {
			return nil, none, err
		}
		defer done()
		return run(ctx, req, in)
	})
}

// begin waits until a call may run. It returns a function, which must be called when the call ends.
// The limits on long calls that run and wait leave room for other calls.
func (s *Server) begin(ctx context.Context, long bool) (end func(), err error) {
	endLong := func() {}
	if long {
		if endLong, err = s.long.Enter(ctx); err != nil {
			return nil, crowded(err)
		}
	}
	endCall, err := s.calls.Enter(ctx)
	if err != nil {
		endLong()
		return nil, crowded(err)
	}
	return func() { endCall(); endLong() }, nil
}

// crowded turns the error of a full gate into a refusal. It returns other errors unchanged.
func crowded(err error) error {
	var full *tools.FullError
	if errors.As(err, &full) {
		return refuse("wait for the answers of some calls first", "%v", full)
	}
	return err
}

func (s *Server) addTools() {
	s.addList()
	s.addRead()
	s.addMetadata()
	s.addSearch()
	s.addWatch()
	s.addWrite()
	s.addMove()
	s.addCopy()
	s.addDelete()
}

// integers sets the bounds of an integer argument.
func integers(p *jsonschema.Schema, least, most float64) {
	p.Minimum, p.Maximum = &least, &most
}

// exactMost is the largest integer that every client can send exactly.
const exactMost = 1 << 53

// words sets the values that a text argument may have.
func words(p *jsonschema.Schema, values ...any) { p.Enum = values }

// stamp is the format of times in answers.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
