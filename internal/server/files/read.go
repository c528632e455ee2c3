package files

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

// Limits of one result of read_file.
const (
	readUsual    = 128 << 10 // the default number of bytes of the file
	readMost     = 1 << 20   // the maximum number of bytes of the file
	linesUsual   = 2000
	linesMost    = 100_000
	pictureMost  = 4 << 20 // the maximum size of a file that is sent as an image, in bytes
	scanningStep = 256 << 10
)

type readIn struct {
	Path   string `json:"path" jsonschema:"The file."`
	Offset *int64 `json:"offset,omitempty" jsonschema:"Begin at this byte. Use the next_offset of the previous answer to continue."`
	Limit  int    `json:"limit,omitempty" jsonschema:"The most bytes of the file to return. The default is 131072."`
	Line   int64  `json:"line,omitempty" jsonschema:"Begin at this line; the first line is 1. A negative number counts from the end: -20 returns the last 20 lines."`
	Lines  int    `json:"lines,omitempty" jsonschema:"The most lines to return. The default is 2000."`
	As     string `json:"as,omitempty" jsonschema:"How to return the content. auto (the default) returns text as text, pictures as images and everything else as base64."`
}

type readOut struct {
	Path       string `json:"path"`
	Kind       string `json:"kind" jsonschema:"text, binary or image"`
	MIMEType   string `json:"mime_type"`
	Size       int64  `json:"size" jsonschema:"Bytes of the whole file."`
	Modified   string `json:"modified"`
	Version    string `json:"version" jsonschema:"Changes when the file changes. Pass it to write_file as if_version."`
	Encoding   string `json:"encoding,omitempty" jsonschema:"utf-8, utf-8-bom, utf-16le or utf-16be. The text is without the byte order mark."`
	Newlines   string `json:"newlines,omitempty" jsonschema:"Line ends in this part: lf, crlf or mixed. The text has them as they are."`
	Offset     int64  `json:"offset" jsonschema:"The first byte of this part."`
	Bytes      int64  `json:"bytes" jsonschema:"Bytes of this part in the file."`
	Line       int64  `json:"line,omitempty" jsonschema:"The line in which this part begins, if it is known."`
	Text       string `json:"text,omitempty" jsonschema:"The text of this part. Absent if it is empty."`
	Base64     string `json:"base64,omitempty" jsonschema:"The bytes of this part, if it is not text."`
	End        bool   `json:"end" jsonschema:"This part reaches the end of the file."`
	NextOffset int64  `json:"next_offset,omitempty" jsonschema:"Present unless this is the end. Pass it as offset."`
	NextLine   int64  `json:"next_line,omitempty" jsonschema:"Present if this part ends with a whole line. Pass it as line."`
}

func (s *Server) addRead() {
	add(s, tool{
		name: "read_file", title: "Read a file",
		description: "Read a file, or a part of it by bytes or by lines. Text is returned as text in every encoding, pictures as images, and other files as base64. A long file is returned in parts: to get the next part, pass next_offset or next_line.",
		restrictIn: func(p map[string]*jsonschema.Schema) {
			tools.Range(p["offset"], 0, exactMost)
			tools.Range(p["line"], -exactMost, exactMost)
			tools.Range(p["limit"], 4, readMost)
			tools.Range(p["lines"], 1, linesMost)
			words(p["as"], "auto", "base64")
		},
		restrictOut: func(p map[string]*jsonschema.Schema) { words(p["kind"], "text", "binary", "image") },
	}, s.read)
}

func (s *Server) read(ctx context.Context, _ *mcp.CallToolRequest, in readIn) (*mcp.CallToolResult, readOut, error) {
	if in.Offset != nil && (in.Line != 0 || in.Lines != 0) {
		return nil, readOut{}, refuse("use offset and limit, or line and lines", "offset and line cannot be used together")
	}
	if in.Offset != nil && *in.Offset < 0 {
		return nil, readOut{}, refuse("use 0 or more; a negative line counts from the end", "the offset %d is negative", *in.Offset)
	}
	at, err := s.one(in.Path)
	if err != nil {
		return nil, readOut{}, err
	}
	f, fi, err := s.regular(at)
	if err != nil {
		return nil, readOut{}, err
	}
	defer func() { _ = f.Close() }()
	out, picture, err := readPart(ctx, f, fi, in)
	if err != nil {
		return nil, readOut{}, s.failed("read", at, err)
	}
	out.Path, out.Modified, out.Version = at.name, stamp(fi.ModTime()), version(fi)
	res := &mcp.CallToolResult{}
	switch out.Kind {
	case "image":
		res.Content = []mcp.Content{&mcp.ImageContent{Data: picture, MIMEType: out.MIMEType}}
	case "text":
		res.Content = []mcp.Content{&mcp.TextContent{Text: out.Text}}
		if !out.End {
			res.Content = append(res.Content, &mcp.TextContent{
				Text: fmt.Sprintf("[This is bytes %d to %d of %d. To continue, call read_file with offset %d.]", out.Offset, out.Offset+out.Bytes, out.Size, out.NextOffset),
			})
		}
	default:
		res = nil // the SDK then sends the structured result as a text
	}
	return res, out, nil
}

// readPart reads the part of a file that the arguments select. If the file is sent as an image,
// picture contains the bytes of the file.
func readPart(ctx context.Context, f *os.File, fi fs.FileInfo, in readIn) (out readOut, picture []byte, err error) {
	head, err := headOf(f)
	if err != nil {
		return out, nil, err
	}
	size := fi.Size()
	cs := charsetOf(head, len(head) < headSize)
	out = readOut{Size: size, MIMEType: mimeOf(fi.Name(), head, cs), Encoding: cs.name, Kind: "text"}
	whole := in.Offset == nil && in.Line == 0 && in.Lines == 0 && in.Limit == 0
	if in.As != "base64" && whole && isPicture(out.MIMEType) && size <= pictureMost {
		if picture, err = io.ReadAll(io.NewSectionReader(f, 0, pictureMost)); err != nil {
			return out, nil, err
		}
		out.Kind, out.Bytes, out.End = "image", int64(len(picture)), true
		return out, picture, nil
	}
	if in.As == "base64" {
		cs = charset{}
	}
	if cs.name == "" && (in.Line != 0 || in.Lines != 0) {
		if in.As == "base64" {
			return out, nil, refuse("use offset and limit", "line and lines cannot be used if as is base64")
		}
		return out, nil, refuse("use offset and limit", "the file is not text, so it has no lines")
	}
	start, lines, line, err := opening{f, size, int64(len(head)), cs}.start(ctx, in)
	if err != nil {
		return out, nil, err
	}
	out.Line = line
	limit := int64(readUsual)
	if in.Limit > 0 {
		limit = int64(in.Limit)
	}
	raw := make([]byte, limit+4)
	n, err := f.ReadAt(raw, start)
	if err != nil && !errors.Is(err, io.EOF) {
		return out, nil, err
	}
	atEnd := errors.Is(err, io.EOF) && int64(n) <= limit
	raw = raw[:n]
	skip, cut := cs.trim(raw, start, int(limit), atEnd)
	raw, start = raw[skip:cut], start+int64(skip)
	atEnd = atEnd && cut == n
	if lines > 0 {
		if k := cs.firstLines(raw, lines); k < len(raw) {
			raw, atEnd = raw[:k], false
		} else if !atEnd {
			if k := cs.lastLine(raw); k > 0 {
				raw = raw[:k] // keep only whole lines, if raw contains at least one
			}
		}
	}
	out.Offset, out.Bytes, out.End = start, int64(len(raw)), atEnd
	if !atEnd {
		out.NextOffset = start + int64(len(raw))
	}
	out.fill(raw, cs)
	return out, nil, nil
}

// fill sets the content to raw: as text if raw can be decoded, otherwise as base64.
func (o *readOut) fill(raw []byte, cs charset) {
	if cs.name != "" {
		if text, ok := cs.decode(raw); ok {
			o.Text, o.Newlines = text, endsOf(text)
			if o.Line > 0 && !o.End && cs.lastLine(raw) == len(raw) {
				o.NextLine = o.Line + cs.count(raw)
			}
			return
		}
		o.MIMEType, o.Line = "application/octet-stream", 0
	}
	o.Kind, o.Encoding = "binary", ""
	o.Base64 = base64.StdEncoding.EncodeToString(raw)
}

// opening is a file whose beginning has been read.
type opening struct {
	f    *os.File
	size int64
	head int64 // the bytes that have been read
	charset
}

// start returns the offset at which the part that the arguments select begins, and how many lines it has
// at most; 0 means that only its length in bytes counts. line is the number of its first line, or 0 if
// that is not known.
func (o opening) start(ctx context.Context, in readIn) (start, lines, line int64, err error) {
	switch {
	case in.Offset != nil:
		if start = *in.Offset; start > o.size && start > o.head {
			return 0, 0, 0, refuse("use an offset below the size", "the file has %d bytes, so there is no byte %d", o.size, start)
		}
	case in.Line < 0:
		lines = int64(in.Lines)
		if start, err = tail(ctx, o.f, o.size, -in.Line, o.charset); err != nil {
			return 0, 0, 0, err
		}
		if in.Lines == 0 {
			lines = min(-in.Line, linesMost)
		}
	case in.Line > 0 || in.Lines > 0:
		if lines = int64(in.Lines); lines == 0 {
			lines = linesUsual
		}
		line = max(in.Line, 1)
		var found int64
		if start, found, err = skipLines(ctx, o.f, int64(o.bom), line-1, o.charset); err != nil {
			return 0, 0, 0, err
		}
		if found < line-1 {
			return 0, 0, 0, refuse("use a smaller line number, or a negative number to count from the end", "the file has %d lines, so there is no line %d", found+1, line)
		}
	}
	if start == 0 {
		start = int64(o.bom)
		if o.name != "" && lines == 0 {
			line = 1
		}
	}
	return start, lines, line, nil
}

// headOf returns up to headSize bytes from the beginning of a file.
func headOf(f *os.File) ([]byte, error) {
	head := make([]byte, headSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return head[:n], nil
}

// trim returns the bounds of the longest part raw[from:to] that contains only whole characters and
// has at most limit bytes. start is the position of raw in the file. atEnd means that raw reaches
// the end of the file.
func (c charset) trim(raw []byte, start int64, limit int, atEnd bool) (from, to int) {
	to = min(limit, len(raw))
	if c.name == "" {
		return 0, to
	}
	if c.unit() == 2 {
		if start%2 != 0 {
			from = min(1, to)
		}
		if from+2 <= to && c.order().Uint16(raw[from:])&0xfc00 == 0xdc00 {
			from += 2 // skip the second half of a surrogate pair
		}
		if !atEnd {
			to -= (to - from) % 2
			if to-2 >= from && c.order().Uint16(raw[to-2:])&0xfc00 == 0xd800 {
				to -= 2 // leave out the first half of a surrogate pair
			}
		}
		return from, to
	}
	if start > 0 {
		for from < utf8.UTFMax-1 && from < to && !utf8.RuneStart(raw[from]) {
			from++
		}
	}
	if !atEnd {
		to = from + wholeRunes(raw[from:to])
	}
	return from, to
}

// nextEnd returns the position after the first line end in raw, or 0 if raw has no line end.
func (c charset) nextEnd(raw []byte) int {
	if c.unit() == 1 {
		return bytes.IndexByte(raw, '\n') + 1
	}
	for i := 0; i+2 <= len(raw); i += 2 {
		if c.order().Uint16(raw[i:]) == '\n' {
			return i + 2
		}
	}
	return 0
}

// firstLines returns the length in bytes of the first n lines of raw.
func (c charset) firstLines(raw []byte, n int64) int {
	at := 0
	for ; n > 0; n-- {
		k := c.nextEnd(raw[at:])
		if k == 0 {
			return len(raw)
		}
		at += k
	}
	return at
}

// lastLine returns the position after the last line end in raw, or 0 if raw has no line end.
func (c charset) lastLine(raw []byte) int {
	if c.unit() == 1 {
		return bytes.LastIndexByte(raw, '\n') + 1
	}
	for i := len(raw) - len(raw)%2; i >= 2; i -= 2 {
		if c.order().Uint16(raw[i-2:]) == '\n' {
			return i
		}
	}
	return 0
}

// count returns the number of line ends in raw.
func (c charset) count(raw []byte) int64 {
	if c.unit() == 1 {
		return int64(bytes.Count(raw, []byte{'\n'}))
	}
	var n int64
	for i := 0; i+2 <= len(raw); i += 2 {
		if c.order().Uint16(raw[i:]) == '\n' {
			n++
		}
	}
	return n
}

// skipLines skips n lines of a file, beginning at the position at. It returns the position after
// these lines, and the number of lines that it skipped. This number is less than n if the file has
// too few lines.
func skipLines(ctx context.Context, f *os.File, at, n int64, cs charset) (_, found int64, err error) {
	buf := make([]byte, scanningStep)
	for found < n {
		if ctx.Err() != nil {
			return at, found, ctx.Err()
		}
		k, err := f.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return at, found, err
		}
		part := buf[:k]
		if c := cs.count(part); found+c < n {
			found += c
			at += int64(k)
			if errors.Is(err, io.EOF) {
				return at, found, nil
			}
			continue
		}
		at += int64(cs.firstLines(part, n-found))
		found = n
	}
	return at, found, nil
}

// tail returns the position at which the last n lines of a file begin. A line end at the end of the
// file does not begin another line.
func tail(ctx context.Context, f *os.File, size, n int64, cs charset) (int64, error) {
	begin := int64(cs.bom)
	end := size - (size-begin)%cs.unit()
	buf := make([]byte, scanningStep)
	first := true
	for end > begin {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		from := max(begin, end-scanningStep)
		part := buf[:end-from]
		if k, err := f.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		} else if k < len(part) {
			return begin, nil // the file became shorter
		}
		for to := len(part); to > 0; {
			k := cs.lastLine(part[:to])
			if k == 0 {
				break
			}
			if !(first && k == len(part)) {
				if n--; n == 0 {
					return from + int64(k), nil
				}
			}
			to = k - int(cs.unit())
		}
		first = false
		end = from
	}
	return begin, nil
}
