package cli

import (
	"bufio"
	"bytes"
	"io"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/screen"
)

// printRaw prints JSON byte for byte as a peer sent it. On a terminal it writes control
// characters as JSON escapes, which mean the same.
func (a *app) printRaw(w io.Writer, raw []byte) error {
	if a.screen {
		raw = excerpt.JSON(raw)
	}
	_, err := w.Write(raw)
	return err
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

// print prints a table to stdout, with colours and at the width of the terminal if it is
// one.
func (a *app) print(t screen.Table) error {
	if a.screen {
		t.Width, t.Colour = a.width, a.status.colour
	}
	_, err := io.WriteString(a.stdout, t.Text())
	return err
}

// printContent prints the result of a tool for people. Text goes to stdout unchanged. For
// all other content a note goes to stderr.
func (a *app) printContent(raw []byte) error {
	whole := jsonrpc.Whole(raw)
	w := bufio.NewWriter(a.stdout)
	printed := false
	text := func(s string) {
		printed = true
		if a.screen {
			// Text of a server must not control the terminal.
			s = cleanLines(strings.ReplaceAll(s, "\r\n", "\n"))
		}
		_, _ = w.WriteString(s)
		if !strings.HasSuffix(s, "\n") {
			_ = w.WriteByte('\n')
		}
	}
	for item := range jsonrpc.Elements(raw, jsonrpc.Find(raw, whole, "content")) {
		member := func(key string) string { return textOf(raw, item, key) }
		switch kind := member("type"); kind {
		case "text":
			text(member("text"))
		case "image", "audio":
			printed = true
			a.notice(member("mimeType"), kind, base64Length(raw, jsonrpc.Find(raw, item, "data")))
		case "resource_link":
			text(member("uri"))
		case "resource":
			inner := jsonrpc.Find(raw, item, "resource")
			if t := jsonrpc.Find(raw, inner, "text"); !t.IsZero() {
				s, _ := jsonrpc.Text(raw, t)
				text(jsonrpc.Shown(s))
				continue
			}
			printed = true
			a.notice(textOf(raw, inner, "mimeType"), textOf(raw, inner, "uri"), base64Length(raw, jsonrpc.Find(raw, inner, "blob")))
		default:
			printed = true
			a.notice(kind, "content", item.End-item.Start)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !printed && !jsonrpc.Find(raw, whole, "structuredContent").IsZero() && !a.quiet {
		a.status.Printf("the result has only structured content; --json prints it")
	}
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
