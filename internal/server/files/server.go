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

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/server/lines"
	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

// Limits of a Server. maxLong long calls and waitersMost calls that wait for changes leave two of
// the maxRunning places for other calls.
const (
	maxRunning     = 16  // the maximum number of calls that run at the same time
	maxWaiting     = 256 // the maximum number of calls that wait until another call ends
	maxLong        = 6   // the maximum number of long calls (searches, copies and moves) that run at the same time
	maxLongWaiting = 256 // the maximum number of long calls that wait until another long call ends
)

// Prefix is the beginning of the name of each tool if Options.Prefixed is set.
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
	// Undo limits the undo folder of each root. If Undo.Size is 0, the server does not keep
	// replaced or deleted files.
	Undo Undo
	// Poll is the pause between two checks of a watched folder. Zero means one second.
	Poll time.Duration
}

// Server serves the files of some folders. Close closes the folders.
type Server struct {
	o     Options
	roots []*root
	mcp   *mcp.Server

	schemas map[string]*jsonschema.Schema // the schema of each tool's arguments, by the name of the tool; not changed after Open

	calls *tools.Gate // all calls
	long  *tools.Gate // only searches, copies and moves; each of them also needs a place in calls
	now   func() time.Time

	// Only tests set these fields.
	filling  func(io.Writer) io.Writer // makes writes fail; nil outside tests
	keeping  func() error              // makes the creation of an undo entry fail; nil outside tests
	apart    bool                      // if true, move_file treats each entry as if it were on another disk
	volatile bool                      // if true, the server does not wait until data is on the disk

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	group work.Group
	watch watching
}

// Open creates a Server: it opens the roots, and registers the tools and the resources.
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

// guard rejects requests that the SDK does not handle correctly. The server declares no capability
// for prompts or logging, but the SDK would answer requests for them without an error. The SDK
// cannot repeat a URI in an error if the URI has a character that is not printable, and would end
// the conversation. guard also rewrites the errors for wrong tool arguments; see explain.
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

// Close ends the watches, waits for the goroutines of the server, and closes the roots.
func (s *Server) Close() error {
	s.stop()
	s.group.Wait()
	var errs []error
	for _, r := range s.roots {
		errs = append(errs, r.dir.Close())
	}
	return errors.Join(errs...)
}

// Serve serves one client until in ends or ctx ends. It reads the messages of the client from in,
// and writes the messages for the client to out.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	return lines.Serve(ctx, s.mcp, in, out)
}

// instructions returns a text that tells a model what the server does.
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

// tool describes a tool.
type tool struct {
	name, title, description string

	long        bool // a call can take long, so fewer of these calls may run at the same time
	writes      bool // the tool changes files
	destroys    bool // the tool may replace or remove files
	idempotent  bool // a second call with the same arguments changes nothing
	confirm     bool // clients that support confirmations should ask the user before a call
	undo        bool // what a call changes can be undone
	restrictIn  func(map[string]*jsonschema.Schema)
	restrictOut func(map[string]*jsonschema.Schema)
}

// add registers t with the handler run. In and Out are the types of the tool's arguments and
// result. If the server is read-only, add leaves out a tool that changes files.
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

// begin waits until a call may run. The caller must call end when the call has ended. A long call
// also waits for a place in s.long, so that long calls leave places for other calls.
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

// crowded turns a *tools.FullError into a refusal. It returns other errors unchanged.
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

// exactMost is the largest integer argument. A client that stores numbers as float64 can send all
// integers up to 2^53 exactly.
const exactMost = 1 << 53

// words sets the values that p allows.
func words(p *jsonschema.Schema, values ...any) { p.Enum = values }

// stamp returns t as it appears in results: in UTC, with milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
