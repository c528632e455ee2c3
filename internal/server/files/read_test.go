package files

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// utf16of returns a text in UTF-16 with a byte order mark.
func utf16of(text, encoding string) string {
	c := charset{name: encoding}
	return string(c.mark()) + string(c.encode(text))
}

func TestReadText(t *testing.T) {
	r := open(t, Options{})
	for _, test := range []struct {
		name, raw, text, encoding, ends string
	}{
		{"plain", "one\ntwo\n", "one\ntwo\n", utf8Plain, endsLF},
		{"empty", "", "", utf8Plain, ""},
		{"crlf", "one\r\ntwo\r\n", "one\r\ntwo\r\n", utf8Plain, endsCRLF},
		{"mixed", "one\r\ntwo\n", "one\r\ntwo\n", utf8Plain, endsMixed},
		{"marked", "\xef\xbb\xbfgrün", "grün", utf8Marked, ""},
		{"less", utf16of("a\r\n😀", utf16Less), "a\r\n😀", utf16Less, endsCRLF},
		{"more", utf16of("a\n漢", utf16More), "a\n漢", utf16More, endsLF},
		{"control", "a\x1b[31mb", "a\x1b[31mb", utf8Plain, ""},
	} {
		r.put(test.name, test.raw)
		var out readOut
		text := r.OK("read_file", args{"path": test.name}, &out)
		if out.Kind != "text" || out.Text != test.text || text != test.text || out.Encoding != test.encoding || out.Newlines != test.ends || !out.End {
			t.Errorf("%s: %q %+v", test.name, text, out)
		}
	}
}

func TestReadBytes(t *testing.T) {
	r := open(t, Options{})
	for _, test := range []struct{ name, raw string }{
		{"nul", "a\x00b"}, {"latin1", "gr\xfcn"}, {"utf32", "\xff\xfe\x00\x00a\x00\x00\x00"}, {"half", utf16of("a", utf16Less) + "\x00"}, {"surrogate", "\xff\xfe\x00\xd8a\x00"},
	} {
		r.put(test.name, test.raw)
		var out readOut
		r.OK("read_file", args{"path": test.name, "as": "auto"}, &out)
		got, err := base64.StdEncoding.DecodeString(out.Base64)
		if err != nil || out.Kind != "binary" || !strings.HasSuffix(test.raw, string(got)) || len(got) < len(test.raw)-2 {
			t.Errorf("%s: %+v %v", test.name, out, err)
		}
	}
	r.put("text", "hello")
	var out readOut
	r.OK("read_file", args{"path": "text", "as": "base64"}, &out)
	if out.Base64 != "aGVsbG8=" || out.Kind != "binary" {
		t.Errorf("as base64: %+v", out)
	}
}

func TestReadPicture(t *testing.T) {
	r := open(t, Options{})
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	r.put("dot.png", b.String())
	res, err := r.Client.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: args{"path": "dot.png"}})
	if err != nil || len(res.Content) != 1 {
		t.Fatalf("%+v %v", res, err)
	}
	picture, ok := res.Content[0].(*mcp.ImageContent)
	if !ok || picture.MIMEType != "image/png" || !bytes.Equal(picture.Data, b.Bytes()) {
		t.Errorf("%+v", res.Content[0])
	}
}

// TestReadParts reads files in parts of every small size. The parts together are the whole file,
// and no part begins or ends within a character.
func TestReadParts(t *testing.T) {
	t.Parallel()
	r := open(t, Options{})
	text := "añ漢😀\r\nzwei\n\ndrei😀😀"
	for _, encoding := range []string{utf8Plain, utf8Marked, utf16Less, utf16More} {
		r.put("f", utf16of(text, encoding))
		for limit := 4; limit < 12; limit++ {
			var all strings.Builder
			offset := int64(0)
			for n := 0; ; n++ {
				var out readOut
				r.OK("read_file", args{"path": "f", "offset": offset, "limit": limit}, &out)
				if !utf8.ValidString(out.Text) || out.Kind != "text" {
					t.Fatalf("%s in parts of %d: %+v", encoding, limit, out)
				}
				all.WriteString(out.Text)
				if out.End {
					break
				}
				if out.NextOffset <= offset || n > 100 {
					t.Fatalf("%s in parts of %d does not get on: %+v", encoding, limit, out)
				}
				offset = out.NextOffset
			}
			if all.String() != text {
				t.Errorf("%s in parts of %d: %q", encoding, limit, all.String())
			}
		}
	}
}

func TestReadLines(t *testing.T) {
	r := open(t, Options{})
	for _, encoding := range []string{utf8Plain, utf8Marked, utf16Less, utf16More} {
		var b strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&b, "line %d %s\n", i+1, strings.Repeat("x", i%200))
		}
		r.put("f", utf16of(b.String(), encoding))
		lines := strings.SplitAfter(strings.TrimSuffix(b.String(), "\n"), "\n")
		lines[len(lines)-1] += "\n"
		want := func(from, n int) string { return strings.Join(lines[from-1:from-1+n], "") }
		var out readOut
		r.OK("read_file", args{"path": "f", "line": 1, "lines": 3}, &out)
		if out.Text != want(1, 3) || out.NextLine != 4 || out.End {
			t.Errorf("%s: the first lines: %+v", encoding, out)
		}
		r.OK("read_file", args{"path": "f", "line": out.NextLine, "lines": 2}, &out)
		if out.Text != want(4, 2) || out.Line != 4 {
			t.Errorf("%s: the lines after: %+v", encoding, out)
		}
		out = readOut{}
		r.OK("read_file", args{"path": "f", "line": 4321, "lines": 10}, &out)
		if out.Text != want(4321, 10) {
			t.Errorf("%s: lines in the middle: %q", encoding, out.Text)
		}
		out = readOut{}
		r.OK("read_file", args{"path": "f", "line": -7}, &out)
		if out.Text != want(4994, 7) || !out.End {
			t.Errorf("%s: the last lines: %+v", encoding, out)
		}
		r.OK("read_file", args{"path": "f", "line": -3000, "lines": 2}, &out)
		if out.Text != want(2001, 2) {
			t.Errorf("%s: lines from the end: %q", encoding, out.Text)
		}
		r.Refused("read_file", args{"path": "f", "line": 6000}, "there is no line 6000")
	}
	r.put("long", strings.Repeat("y", 3000)+"\nend")
	var out readOut
	r.OK("read_file", args{"path": "long", "line": 1, "limit": 1000}, &out)
	if len(out.Text) != 1000 || out.NextOffset != 1000 || out.NextLine != 0 {
		t.Errorf("a long line: %d bytes, next %d", len(out.Text), out.NextOffset)
	}
}

func TestReadRefuses(t *testing.T) {
	r := open(t, Options{})
	r.put("a", "text")
	r.put("bin", "\x00")
	r.Refused("read_file", args{"path": "b"}, "does not exist")
	r.Refused("read_file", args{"path": "."}, "is a folder")
	r.Refused("read_file", args{"path": "a/b"}, "not a folder")
	r.Refused("read_file", args{"path": "a", "offset": 5}, "there is no byte 5")
	r.Refused("read_file", args{"path": "a", "offset": -1}, "offset must be an integer from 0 to 9007199254740992")
	r.Refused("read_file", args{"path": "a", "offset": 1, "line": 1}, "cannot be used together")
	r.Refused("read_file", args{"path": "bin", "line": 1}, "no lines")
	r.Refused("read_file", args{"path": strings.Repeat("x", 300)}, "too long")
	if os.Getuid() != 0 {
		if err := os.Chmod(r.path("a"), 0); err != nil {
			t.Fatal(err)
		}
		r.Refused("read_file", args{"path": "a"}, "no permission")
	}
}

func TestMetadata(t *testing.T) {
	r := open(t, Options{})
	r.put("a.md", "one\r\ntwo\r\n")
	var out metadataOut
	r.OK("get_metadata", args{"path": "a.md"}, &out)
	if out.Type != typeFile || out.Size != 10 || out.MIMEType != "text/markdown" || out.Newlines != endsCRLF || !strings.HasPrefix(out.URI, "file:///") {
		t.Errorf("%+v", out)
	}
	for link, outside := range map[string]bool{"a.md": false, "/etc/passwd": true, "../x": true, "none": false} {
		_ = os.Remove(r.path("l"))
		if err := os.Symlink(link, r.path("l")); err != nil {
			skipUnsupported(t, "this system makes no symlinks", err)
		}
		out = metadataOut{}
		r.OK("get_metadata", args{"path": "l"}, &out)
		if out.Type != typeSymlink || out.Outside != outside || out.Target != link {
			t.Errorf("%s: %+v", link, out)
		}
	}
}
