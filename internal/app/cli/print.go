package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/screen"
)

// printRaw prints JSON byte for byte. If stdout is a terminal, it replaces control characters with
// equivalent JSON escapes.
func (w *world) printRaw(out io.Writer, raw []byte) error {
	if w.screen {
		raw = excerpt.JSON(raw)
	}
	_, err := out.Write(raw)
	return err
}

// printJSON prints a value as JSON, on one line or indented.
func (w *world) printJSON(v any, indent string) error {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	out.SetIndent("", indent)
	if err := out.Encode(v); err != nil {
		return err
	}
	return w.printRaw(w.stdout, b.Bytes())
}

// printItems prints raw JSON objects as one JSON array. Each object starts on a new line.
func (w *world) printItems(items [][]byte) error {
	out := bufio.NewWriter(w.stdout)
	_ = out.WriteByte('[')
	for i, raw := range items {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_ = out.WriteByte('\n')
		_ = w.printRaw(out, bytes.TrimSpace(raw))
	}
	if len(items) > 0 {
		_ = out.WriteByte('\n')
	}
	_, _ = out.WriteString("]\n")
	return out.Flush()
}

// widestName is the maximum width of the first column of a table, in terminal cells. Without this
// limit, one long name could move all descriptions off the screen.
const widestName = 48

// printTable prints names and descriptions in two columns. On a terminal, it cuts descriptions so
// that the lines fit the width of the terminal. It does not cut names, because users copy them.
func (w *world) printTable(rows [][2]string) error {
	t := screen.Table{Columns: []screen.Column{{Whole: true, Most: widestName}, {}}}
	for _, r := range rows {
		t.Rows = append(t.Rows, screen.Cells(r[0], r[1]))
	}
	return w.print(t)
}

// printRows does the same for facts about something, without those that are "".
func (w *world) printRows(rows [][2]string) error {
	return w.printTable(slices.DeleteFunc(rows, func(r [2]string) bool { return r[1] == "" }))
}

// print prints a table to stdout. If stdout is a terminal, the table fits its width and may have
// colours.
func (w *world) print(t screen.Table) error {
	if w.screen {
		t.Width, t.Colour = w.width, w.status.colour
	}
	_, err := io.WriteString(w.stdout, t.Text())
	return err
}

// printer prints the content of one result.
type printer struct {
	*world
	w       *bufio.Writer
	raw     []byte
	name    string
	files   *saver
	asJSON  bool // the result is printed as JSON, so the printer only saves files
	printed bool
}

func newPrinter(w *world, result []byte, name string, asJSON bool, files *saver) *printer {
	return &printer{world: w, w: bufio.NewWriter(w.stdout), raw: result, name: name, files: files, asJSON: asJSON}
}

// print prints the result. If asJSON is true, it prints the bytes that the server sent. content
// prints or saves the parts of the result. print does not call content if asJSON is true and no
// files are saved.
func (p *printer) print(content func() error) error {
	if p.asJSON {
		if err := p.printRaw(p.w, append(p.raw[:len(p.raw):len(p.raw)], '\n')); err != nil {
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

// text prints text to stdout and adds a newline at the end if the text has none. If asJSON is true,
// it prints nothing.
func (p *printer) text(s string) {
	p.printed = true
	if p.asJSON {
		return
	}
	if p.screen {
		// Text from a server must not control the terminal.
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
			p.notice(kind, "content", item.End-item.Start)
		}
	}
	return nil
}

// resource prints or saves an embedded resource.
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

// binary saves base64 data to a file. If the printer saves no files, binary prints the type and
// size of the data to stderr.
func (p *printer) binary(data jsonrpc.Span, mime, otherwise, name string) error {
	p.printed = true
	if p.files == nil {
		p.notice(mime, otherwise, base64Length(p.raw, data))
		return nil
	}
	b, err := decode(p.raw, data)
	if err != nil {
		return err
	}
	return p.save(name, b)
}

// save saves data to a file and prints the path of the file. It prints the path to stdout, or to
// stderr if asJSON is true.
func (p *printer) save(name string, data []byte) error {
	path, err := p.files.save(name, data)
	if err != nil {
		return err
	}
	p.printed = true
	if p.asJSON {
		p.status.Printf("saved %s", path)
		return nil
	}
	_, _ = p.w.WriteString(clean(path) + "\n")
	return nil
}

func (w *world) notice(kind, otherwise string, size int) {
	if kind == "" {
		kind = otherwise
	}
	if !w.quiet {
		w.status.line("[" + excerpt.Word(kind, 100) + ", " + bytesOf(size) + "]")
	}
}

func textOf(raw []byte, obj jsonrpc.Span, key string) string {
	s, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, obj, key))
	return jsonrpc.Shown(s)
}

// base64Length returns the number of bytes that a JSON string encodes in base64.
func base64Length(raw []byte, s jsonrpc.Span) int {
	b := bytes.TrimRight(bytes.Trim(s.Of(raw), `"`), "=")
	return len(b) * 3 / 4
}
