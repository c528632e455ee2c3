package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// resourceMost is the size in bytes of the largest file that a resource returns. namesMost is the
// maximum number of names that the resource of a folder lists.
const (
	resourceMost = 1 << 20
	namesMost    = 1000
)

// addResources adds a resource for each root, and a template for the URIs of all files and folders
// below the roots.
func (s *Server) addResources() {
	for _, r := range s.roots {
		at := place{root: r, rel: ".", name: r.name}
		s.mcp.AddResource(&mcp.Resource{
			URI: at.uri(), Name: r.name, Title: "Folder " + r.name,
			Description: "A folder that this server may use. Reading it lists its entries.",
		}, s.readResource)
	}
	s.mcp.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: "file:///{+path}", Name: "file", Title: "A file or folder",
		Description: "Any file or folder below the roots, by its absolute path. A folder lists its entries. Subscribers are notified of changes.",
	}, s.readResource)
}

// readResource returns the content of a file, or the names in a folder.
func (s *Server) readResource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	uri := req.Params.URI
	done, err := s.begin(ctx, false)
	if err != nil {
		return nil, invalid(err)
	}
	defer done()
	at, err := s.ofURI(uri)
	if err != nil {
		return nil, invalid(err)
	}
	fi, err := at.dir.Stat(filepath.FromSlash(at.rel))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, mcp.ResourceNotFoundError(uri)
	}
	if err != nil {
		return nil, invalid(s.failed("read", at, err))
	}
	c := &mcp.ResourceContents{URI: uri}
	if fi.IsDir() {
		if c.Text, err = s.names(ctx, at); err != nil {
			return nil, invalid(err)
		}
		c.MIMEType = "text/plain"
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
	}
	f, fi, err := s.regular(at)
	if err != nil {
		return nil, invalid(err)
	}
	defer func() { _ = f.Close() }()
	if fi.Size() > resourceMost {
		return nil, invalid(refuse("read it in parts with the tool read_file", "%s has %d bytes, and the limit for a resource is %d", quote(at.name), fi.Size(), resourceMost))
	}
	raw, err := io.ReadAll(io.LimitReader(f, resourceMost))
	if err != nil {
		return nil, invalid(s.failed("read", at, err))
	}
	head := raw[:min(len(raw), headSize)]
	cs := charsetOf(head, len(raw) < headSize)
	c.MIMEType = mimeOf(fi.Name(), head, cs)
	if cs.name != "" {
		if text, ok := cs.decode(raw[cs.bom:]); ok {
			if c.Text = text; text == "" {
				c.Blob = []byte{} // an empty blob, because the SDK leaves out an empty text
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
		}
		c.MIMEType = "application/octet-stream"
	}
	c.Blob = raw
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
}

// names returns the names in a folder, one on each line. A slash follows the name of a folder.
func (s *Server) names(ctx context.Context, at place) (string, error) {
	dir, err := s.folder(at)
	if err != nil {
		return "", err
	}
	defer func() { _ = dir.Close() }()
	names, total, err := page(ctx, dir, "", namesMost, func(n string) bool { return n[0] != '.' })
	if err != nil {
		return "", s.failed("list", at, err)
	}
	var b strings.Builder
	for i, n := range names {
		if i == namesMost {
			break
		}
		e, err := describe(dir, n)
		if err != nil {
			continue
		}
		b.WriteString(e.Name)
		if e.Type == typeFolder {
			b.WriteByte('/')
		}
		b.WriteByte('\n')
	}
	if total == 0 {
		b.WriteString("(empty)\n")
	}
	if total > namesMost {
		b.WriteString("… there are more; list them with the tool list_dir\n")
	}
	return b.String(), nil
}

// invalid turns a refusal into a JSON-RPC error. It returns other errors unchanged.
func invalid(err error) error {
	var r *refusal
	if errors.As(err, &r) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: r.Error()}
	}
	return err
}

// subscribe begins to watch the file or folder to which a client subscribes.
func (s *Server) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	at, err := s.ofURI(req.Params.URI)
	if err != nil {
		return invalid(err)
	}
	_, err = s.watchOf(ctx, at, true, req.Params.URI)
	return invalid(err)
}

// unsubscribe removes the subscription of a URI. The watch of the file or folder ends later, when
// nothing uses it any more.
func (s *Server) unsubscribe(_ context.Context, req *mcp.UnsubscribeRequest) error {
	at, err := s.ofURI(req.Params.URI)
	if err != nil {
		return invalid(err)
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	for _, w := range s.watch.all {
		if w.at.root != at.root || w.at.rel != at.rel || !w.recursive {
			continue
		}
		delete(w.subscribed, req.Params.URI)
	}
	return nil
}
