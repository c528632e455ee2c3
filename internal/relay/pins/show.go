package pins

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Lines returns a definition for people: a line for each value, with its path, in a fixed order. A text of
// several lines takes several. Everything that nobody could see, or that would reorder what stands around it, is
// drawn as its code point: <U+200B>. What could be taken for something else is quoted: the name a.b, which isn't b
// in a, and the text true.
func Lines(raw []byte) string {
	var b strings.Builder
	appendLines(&b, "", raw, jsonrpc.Whole(raw))
	return b.String()
}

func appendLines(b *strings.Builder, path string, raw []byte, at jsonrpc.Span) {
	empty := true
	switch jsonrpc.KindOf(raw, at) {
	case '{':
		for _, m := range sorted(raw, at) {
			key, _ := jsonrpc.Text(raw, m.Key)
			if key == "" || strings.ContainsAny(key, `.[]: "\`) {
				key = quote(key)
			}
			if path != "" {
				key = path + "." + key
			}
			appendLines(b, key, raw, m.Value)
			empty = false
		}
	case '[':
		i := 0
		for e := range jsonrpc.Elements(raw, at) {
			appendLines(b, fmt.Sprintf("%s[%d]", path, i), raw, e)
			i++
			empty = false
		}
	}
	value := string(at.Of(raw))
	if jsonrpc.KindOf(raw, at) == '"' {
		if value, _ = jsonrpc.Text(raw, at); value != "" && (value[0] == '"' || value == "{}" || value == "[]" || isPlain(value)) {
			value = quote(value)
		}
	} else if !empty {
		return
	}
	for i, line := range strings.Split(value, "\n") {
		if i == 0 {
			line = path + ": " + line
		} else {
			line = "  | " + line
		}
		b.WriteString(draw(line) + "\n")
	}
}

// isPlain reports whether a text reads like a JSON value without quotes and parts.
func isPlain(text string) bool {
	return !strings.ContainsAny(text, "\"{[\n") && jsonrpc.Valid([]byte(text), jsonrpc.Limits{Bytes: len(text) + 1}) == nil
}

func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// draw replaces what nobody could see in a line.
func draw(line string) string {
	var b strings.Builder
	before := rune(0)
	for _, r := range jsonrpc.Shown(line) {
		if r != '\t' && excerpt.Invisible(r, before) {
			fmt.Fprintf(&b, "<U+%04X>", r)
		} else {
			b.WriteRune(r)
		}
		before = r
	}
	return b.String()
}

// Diff returns what has changed between two definitions as a unified diff of their Lines. If these are the same, it's
// one of the bytes that the server has sent. If before is nil, Diff returns all lines of after as added.
func Diff(before, after []byte) string {
	old, now := "", Lines(after)
	if before != nil {
		if old = Lines(before); old == now {
			old, now = draw(string(before))+"\n", draw(string(after))+"\n"
		}
	}
	text, err := udiff.ToUnified("approved", "now", old, udiff.Lines(old, now), 1)
	if err != nil {
		return now // can't be: the edits come from the same text
	}
	return text
}
