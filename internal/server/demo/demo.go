// Package demo has the two servers and the two clients of `dragoman serve --demo`. They use the
// official Go SDK and know nothing of Dragoman.
//
// One server supports only the legacy revisions, and the other only the modern ones. Both have
// tools that wait, ask the user and report progress. The servers write no files and open no network
// connections. Each client has a server of its own.
//
// The legacy client speaks 2025-06-18 and has a session, and the modern client speaks 2026-07-28.
// They call the servers through Dragoman, so that a user who has no client yet sees every kind of
// call within ten seconds. Each client follows a fixed script. Errors are part of the scripts, so
// they are neither returned nor logged.
package demo

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	protocol "github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/server/lines"
	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

// The eras that Serve supports.
const (
	Legacy = "legacy"
	Modern = "modern"
)

// Serve runs the server of one era for one client, until in ends or ctx ends. version is the
// program's version.
func Serve(ctx context.Context, era string, in io.Reader, out io.Writer, version string) error {
	ctx, cancel := context.WithCancel(ctx)
	var group work.Group
	defer group.Wait()
	defer cancel()
	switch era {
	case Legacy:
		s := newLegacy(version)
		group.Go(func() { s.tick(ctx) })
		return lines.Serve(ctx, s.Server, in, out)
	case Modern:
		return lines.Serve(ctx, newModern(version).Server, in, out)
	}
	return fmt.Errorf("cannot serve the demo: unknown era %q, expected %s or %s", era, Legacy, Modern)
}

// about describes a tool. restrict changes the schemas of its arguments; it may be nil.
type about struct {
	name, title, text string
	writes            bool
	restrict          func(map[string]*jsonschema.Schema)
}

// add registers a tool. In is the type of its arguments.
func add[In any](s *mcp.Server, t about, run func(context.Context, *mcp.CallToolRequest, In) (*mcp.CallToolResult, error)) {
	no := false
	m := &mcp.Tool{
		Name: t.name, Title: t.title, Description: t.text, InputSchema: tools.Schema[In](t.restrict),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: !t.writes, OpenWorldHint: &no},
	}
	if t.writes {
		m.Annotations.DestructiveHint = &no
	}
	mcp.AddTool(s, m, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		res, err := run(ctx, req, in)
		return res, nil, err
	})
}

// texts limits the lengths of all arguments that are texts.
func texts(p map[string]*jsonschema.Schema) {
	least, most := 1, 1000
	for _, a := range p {
		if a.Type == "string" {
			a.MinLength, a.MaxLength = &least, &most
		}
	}
}

// integer sets the bounds of an integer argument and its default. The argument is required if the default
// is "".
func integer(p *jsonschema.Schema, least, most float64, usual string) {
	tools.Range(p, least, most)
	if usual != "" {
		p.Default = []byte(usual)
	}
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// read returns the handler of a resource whose text may change. The resource does not exist if ok is
// false.
func read(of func(uri string) (text string, ok bool)) mcp.ResourceHandler {
	return func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		uri := req.Params.URI
		s, ok := of(uri)
		if !ok {
			return nil, mcp.ResourceNotFoundError(uri)
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/plain", Text: s}}}, nil
	}
}

// steps waits n times. If the client asked for progress, steps reports each step.
func steps(ctx context.Context, req *mcp.CallToolRequest, n int, pause time.Duration, unit string) error {
	token := req.Params.GetProgressToken()
	for i := 1; i <= n; i++ {
		if err := work.Sleep(ctx, pause); err != nil {
			return err
		}
		if token == nil {
			continue
		}
		p := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(i), Total: float64(n)}
		if revision(req).Can(protocol.ProgressMessages) {
			p.Message = fmt.Sprintf("%d of %d%s", i, n, unit)
		}
		if err := req.Session.NotifyProgress(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// revision returns the revision that the client speaks.
func revision(req *mcp.CallToolRequest) protocol.Revision {
	r, _ := protocol.ParseRevision(req.ProtocolVersion())
	return r
}

// failed returns the result of a tool that failed, with a sentence for the user.
func failed(why string) *mcp.CallToolResult {
	res := text(why)
	res.IsError = true
	return res
}

// ask returns a form with one field.
func ask(message, field string, schema map[string]any) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{field: schema}, "required": []string{field},
	}}
}
