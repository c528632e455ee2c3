package requirements

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/requirements/store"
)

// The formats of exports.
const (
	Markdown = "markdown"
	ReqIF    = "reqif"
)

// maxExport is the maximum size of the texts in an export that a tool returns. MaxExport is the
// maximum size of the texts in an export to a file. Both are in bytes.
const (
	maxExport = 4 << 20
	MaxExport = 256 << 20
)

type exportIn struct {
	Format string `json:"format" jsonschema:"markdown for people, reqif for requirements tools (ReqIF, XML)"`
	Root   string `json:"root,omitempty" jsonschema:"the id of an item; only it and what belongs to it is exported"`
}

type exportOut struct {
	Format  string `json:"format"`
	Content string `json:"content"`
	Items   int    `json:"items" jsonschema:"the number of exported items"`
}

func (s *Server) addExport() {
	add(s, tool{
		name: "export_items", title: "Export items",
		description: "Returns all items, or one with everything that belongs to it, as Markdown or ReqIF. Relations and comments are included.",
		restrict:    func(p map[string]*jsonschema.Schema) { words(p["format"], []string{Markdown, ReqIF}) },
	}, func(ctx context.Context, _ *mcp.CallToolRequest, in exportIn) (exportOut, error) {
		d, err := s.store.Dump(ctx, in.Root, maxExport)
		if err != nil {
			return exportOut{}, err
		}
		var b strings.Builder
		if err := write(&b, in.Format, d, s.o.Version); err != nil {
			return exportOut{}, err
		}
		return exportOut{Format: in.Format, Content: b.String(), Items: len(d.Items)}, nil
	})
}

// ExportOptions say what Export writes.
type ExportOptions struct {
	Format  string // Markdown or ReqIF
	Root    string // only the item with this id and everything below it; "" means all items
	Version string // of Dragoman
}

// Export writes the items of a database to w.
func Export(ctx context.Context, s *store.Store, w io.Writer, o ExportOptions) error {
	d, err := s.Dump(ctx, o.Root, MaxExport)
	if err != nil {
		return err
	}
	return write(w, o.Format, d, o.Version)
}

func write(w io.Writer, format string, d store.Dump, version string) error {
	if format == ReqIF {
		return writeReqIF(w, d, version)
	}
	return writeMarkdown(w, d)
}

// walk calls visit for each item, and then for the children of the item. It begins with the items
// whose parent is root or is not in the dump. It stops when visit returns false.
func walk(d store.Dump, root string, visit func(it store.Item, depth int) bool) {
	has, children := map[string]bool{}, map[string][]store.Item{}
	for _, it := range d.Items {
		has[it.ID] = true
	}
	for _, it := range d.Items {
		parent := it.Parent
		if !has[parent] {
			parent = root
		}
		children[parent] = append(children[parent], it)
	}
	var down func(parent string, depth int) bool
	down = func(parent string, depth int) bool {
		for _, it := range children[parent] {
			if !visit(it, depth) || !down(it.ID, depth+1) {
				return false
			}
		}
		return true
	}
	down(root, 0)
}

// errWriter keeps the first error of w, so that its users need not check each write. After an
// error, it writes nothing more.
type errWriter struct {
	w   io.Writer
	err error
}

func (e *errWriter) printf(format string, args ...any) {
	if e.err == nil {
		_, e.err = fmt.Fprintf(e.w, format, args...)
	}
}

func writeMarkdown(w io.Writer, d store.Dump) error {
	out := &errWriter{w: w}
	links, remarks := map[string][]store.Relation{}, map[string][]store.Comment{}
	for _, r := range d.Relations {
		links[r.Source] = append(links[r.Source], r)
	}
	for _, c := range d.Comments {
		remarks[c.Item] = append(remarks[c.Item], c)
	}
	out.printf("# Requirements\n")
	walk(d, "", func(it store.Item, depth int) bool {
		out.printf("\n%s %s %s\n\n", strings.Repeat("#", depth+2), it.ID, heading(it.Title))
		kind := strings.ReplaceAll(string(it.Kind), "_", " ")
		if it.Type != "" {
			kind = strings.ReplaceAll(it.Type, "_", " ") + " " + kind
		}
		out.printf("*%s, %s, %s priority*\n", kind, strings.ReplaceAll(string(it.Status), "_", " "), it.Priority)
		if it.Description != "" {
			out.printf("\n%s\n", it.Description)
		}
		if len(links[it.ID]) > 0 {
			out.printf("\n")
			for _, r := range links[it.ID] {
				out.printf("- %s %s\n", strings.ReplaceAll(r.Type, "_", " "), r.Target)
			}
		}
		for _, c := range remarks[it.ID] {
			state := ""
			if c.Resolved {
				state = ", resolved"
			}
			author := c.Author.Name
			if author == "" {
				author = "unknown"
			}
			if c.Author.ID != "" {
				state = ", verified" + state
			}
			out.printf("\n> **%s** %s (%s%s)\n>\n> %s\n", c.ID, heading(author), c.Created[:10], state, strings.ReplaceAll(c.Text, "\n", "\n> "))
		}
		return out.err == nil
	})
	return out.err
}

// heading escapes the characters in s that Markdown would treat as markup.
func heading(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "<", `\<`, "[", `\[`, "#", `\#`).Replace(s)
}
