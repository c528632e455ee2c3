package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/screen"
)

// printRaw prints JSON byte for byte as a peer sent it. On a terminal it replaces control
// characters with equivalent JSON escapes.
func (a *app) printRaw(w io.Writer, raw []byte) error {
	if a.screen {
		raw = excerpt.JSON(raw)
	}
	_, err := w.Write(raw)
	return err
}

// printJSON prints a value as JSON, on one line or indented.
func (a *app) printJSON(v any, indent string) error {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", indent)
	if err := out.Encode(v); err != nil {
		return err
	}
	return a.printRaw(a.stdout, b.Bytes())
}

// printItems prints raw objects as one JSON array, one object per line.
func (a *app) printItems(items [][]byte) error {
	w := bufio.NewWriter(a.stdout)
	_ = w.WriteByte('[')
	for i, raw := range items {
		if i > 0 {
			_ = w.WriteByte(',')
		}
		_ = w.WriteByte('\n')
		_ = a.printRaw(w, bytes.TrimSpace(raw))
	}
	if len(items) > 0 {
		_ = w.WriteByte('\n')
	}
	_, _ = w.WriteString("]\n")
	return w.Flush()
}

// widestName bounds the width of the first column in cells, so that one long name does not
// push all descriptions off the screen.
const widestName = 48

// printTable prints names and descriptions in two columns. On a terminal it cuts lines to
// the width of the terminal. Names are not cut, because users copy them.
func (a *app) printTable(rows [][2]string) error {
	t := screen.Table{Columns: []screen.Column{{Whole: true, Most: widestName}, {}}}
	for _, r := range rows {
		t.Rows = append(t.Rows, screen.Cells(r[0], r[1]))
	}
	return a.print(t)
}

// print prints a table to stdout. If stdout is a terminal, the table has colours and the width of
// the terminal.
func (a *app) print(t screen.Table) error {
	if a.screen {
		t.Width, t.Colour = a.width, a.status.colour
	}
	_, err := io.WriteString(a.stdout, t.Text())
	return err
}

// printAs prints a result. If asJSON is set, it prints the bytes that the server sent. Otherwise it
// prints the content of the member that key names. If files is not nil, it saves content that is
// not text. If the server does not name a file, the name of the file begins with the parameter
// name.
func (a *app) printAs(result []byte, key, name string, asJSON bool, files *saver) error {
	p := a.printer(result, name, asJSON, files)
	err := p.print(func() error {
		for item := range jsonrpc.Elements(result, jsonrpc.Find(result, jsonrpc.Whole(result), key)) {
			if err := p.item(item); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	structured := !jsonrpc.Find(result, jsonrpc.Whole(result), "structuredContent").IsZero()
	if !p.printed && structured && !a.quiet && !asJSON {
		a.status.Printf("the result has only structured content; --json prints it")
	}
	return nil
}

// printer prints the content of one result.
type printer struct {
	app     *app
	w       *bufio.Writer
	raw     []byte
	name    string
	files   *saver
	asJSON  bool // the result was printed already; only files are saved
	printed bool
}

func (a *app) printer(result []byte, name string, asJSON bool, files *saver) *printer {
	return &printer{app: a, w: bufio.NewWriter(a.stdout), raw: result, name: name, files: files, asJSON: asJSON}
}

// print prints the result. If asJSON is set, it prints the server's bytes. The function content
// prints or saves the parts of the result. It is not called if only the bytes are needed.
func (p *printer) print(content func() error) error {
	if p.asJSON {
		if err := p.app.printRaw(p.w, append(p.raw[:len(p.raw):len(p.raw)], '\n')); err != nil {
			return err
		}
		if p.files == nil {
			return p.w.Flush()
		}
	}
	if err := content(); err != nil {
		_ = p.w.Flush()
		return err
	}
	return p.w.Flush()
}

// text prints text to stdout, with a newline at the end.
func (p *printer) text(s string) {
	p.printed = true
	if p.asJSON {
		return
	}
	if p.app.screen {
		// Text of a server must not control the terminal.
		s = cleanLines(strings.ReplaceAll(s, "\r\n", "\n"))
	}
	_, _ = p.w.WriteString(s)
	if !strings.HasSuffix(s, "\n") {
		_ = p.w.WriteByte('\n')
	}
}

// item prints one content block (2025-11-25 §Tools, "Tool Result").
func (p *printer) item(item jsonrpc.Span) error {
	member := func(key string) string { return textOf(p.raw, item, key) }
	switch kind := member("type"); kind {
	case "text":
		p.text(member("text"))
	case "image", "audio":
		return p.binary(jsonrpc.Find(p.raw, item, "data"), member("mimeType"), kind, nameOf("", member("mimeType"), p.name))
	case "resource_link":
		p.text(member("uri"))
	case "resource":
		return p.resource(jsonrpc.Find(p.raw, item, "resource"))
	default:
		p.printed = true
		if !p.asJSON {
			p.app.notice(kind, "content", item.End-item.Start)
		}
	}
	return nil
}

// resource prints an embedded resource, or saves it.
func (p *printer) resource(inner jsonrpc.Span) error {
	uri, mime := textOf(p.raw, inner, "uri"), textOf(p.raw, inner, "mimeType")
	text := jsonrpc.Find(p.raw, inner, "text")
	switch {
	case text.IsZero():
		return p.binary(jsonrpc.Find(p.raw, inner, "blob"), mime, uri, nameOf(uri, mime, p.name))
	case p.files == nil:
		s, _ := jsonrpc.Text(p.raw, text)
		p.text(jsonrpc.Shown(s))
		return nil
	}
	s, _ := jsonrpc.Text(p.raw, text)
	return p.save(nameOf(uri, mime, p.name), []byte(jsonrpc.Shown(s)))
}

// binary saves base64 data. If files are not saved, it prints a line that mentions the data.
func (p *printer) binary(data jsonrpc.Span, mime, otherwise, name string) error {
	p.printed = true
	if p.files == nil {
		p.app.notice(mime, otherwise, base64Length(p.raw, data))
		return nil
	}
	b, err := decode(p.raw, data)
	if err != nil {
		return err
	}
	return p.save(name, b)
}

// save saves data and prints the path of the file to stdout, or with --json to stderr.
func (p *printer) save(name string, data []byte) error {
	path, err := p.files.save(name, data)
	if err != nil {
		return err
	}
	p.printed = true
	if p.asJSON {
		p.app.status.Printf("saved %s", path)
		return nil
	}
	_, _ = p.w.WriteString(clean(path) + "\n")
	return nil
}

func (a *app) notice(kind, otherwise string, size int) {
	if kind == "" {
		kind = otherwise
	}
	if !a.quiet {
		a.status.line("[" + excerpt.Word(kind, 100) + ", " + bytesOf(size) + "]")
	}
}

func textOf(raw []byte, obj jsonrpc.Span, key string) string {
	s, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, obj, key))
	return jsonrpc.Shown(s)
}

// base64Length returns the number of bytes that a JSON string of base64 encodes.
func base64Length(raw []byte, s jsonrpc.Span) int {
	b := bytes.TrimRight(bytes.Trim(s.Of(raw), `"`), "=")
	return len(b) * 3 / 4
}
