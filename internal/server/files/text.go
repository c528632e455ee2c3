package files

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Encodings of text, as they appear in arguments and results.
const (
	utf8Plain  = "utf-8"
	utf8Marked = "utf-8-bom"
	utf16Less  = "utf-16le" // little endian
	utf16More  = "utf-16be" // big endian
)

// Kinds of line ends, as they appear in arguments and results.
const (
	endsLF    = "lf"
	endsCRLF  = "crlf"
	endsMixed = "mixed"
)

// headSize is the number of bytes at the beginning of a file that show whether the file is text.
const headSize = 8 << 10

// charset is the encoding of a file. The zero value means that the file is not text.
type charset struct {
	name string
	bom  int // the length of the byte order mark in bytes
}

// unit returns the number of bytes in one code unit.
func (c charset) unit() int64 {
	if c.name == utf16Less || c.name == utf16More {
		return 2
	}
	return 1
}

func (c charset) order() binary.ByteOrder {
	if c.name == utf16More {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// charsetOf guesses the encoding of a file from head, the beginning of the file. whole means that
// head is the whole file. A file in UTF-16 must begin with a byte order mark. A file without this
// mark that contains a NUL byte is not text.
func charsetOf(head []byte, whole bool) charset {
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		return charset{utf8Marked, 3}
	case bytes.HasPrefix(head, []byte("\xff\xfe\x00\x00")): // the file is UTF-32, which this server does not read
		return charset{}
	case bytes.HasPrefix(head, []byte("\xff\xfe")):
		return charset{utf16Less, 2}
	case bytes.HasPrefix(head, []byte("\xfe\xff")):
		return charset{utf16More, 2}
	case bytes.IndexByte(head, 0) >= 0:
		return charset{}
	}
	if !whole {
		head = head[:wholeRunes(head)]
	}
	if utf8.Valid(head) {
		return charset{name: utf8Plain}
	}
	return charset{}
}

// wholeRunes returns the length of b without an incomplete rune at its end.
func wholeRunes(b []byte) int {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return len(b) - i
			}
			break
		}
	}
	return len(b)
}

// decode converts raw, which has no byte order mark, to a string. It returns false if raw is not
// valid in the encoding c. Otherwise, encode converts the string to exactly raw again.
func (c charset) decode(raw []byte) (string, bool) {
	if c.unit() == 1 {
		return string(raw), utf8.Valid(raw)
	}
	if len(raw)%2 != 0 {
		return "", false
	}
	units := make([]uint16, len(raw)/2)
	_, _ = binary.Decode(raw, c.order(), units) // the lengths match
	text := string(utf16.Decode(units))
	return text, bytes.Equal(c.encode(text), raw) // half of a surrogate pair becomes U+FFFD
}

// encode converts text to the encoding c, without a byte order mark.
func (c charset) encode(text string) []byte {
	if c.unit() == 1 {
		return []byte(text)
	}
	out, _ := binary.Append(nil, c.order(), utf16.Encode([]rune(text))) // a slice of integers has a fixed size
	return out
}

// mark returns the byte order mark of c, or nil if c has none.
func (c charset) mark() []byte {
	switch c.name {
	case utf8Marked:
		return []byte("\xef\xbb\xbf")
	case utf16Less:
		return []byte("\xff\xfe")
	case utf16More:
		return []byte("\xfe\xff")
	}
	return nil
}

// endsOf returns the kind of line ends in text, or "" if text has no line end.
func endsOf(text string) string {
	all, crlf := strings.Count(text, "\n"), strings.Count(text, "\r\n")
	switch {
	case all == 0:
		return ""
	case crlf == 0:
		return endsLF
	case crlf == all:
		return endsCRLF
	}
	return endsMixed
}

// mimeOf returns the MIME type of a file. For text, the type depends on the extension in name. For
// other files, it depends on head, the beginning of the file.
func mimeOf(name string, head []byte, c charset) string {
	if c.name == "" {
		return http.DetectContentType(head)
	}
	switch strings.ToLower(name[strings.LastIndexByte(name, '.')+1:]) {
	case "html", "htm":
		return "text/html"
	case "md", "markdown":
		return "text/markdown"
	case "json":
		return "application/json"
	case "xml":
		return "application/xml"
	case "yaml", "yml":
		return "application/yaml"
	case "csv":
		return "text/csv"
	case "css":
		return "text/css"
	case "js", "mjs":
		return "text/javascript"
	case "svg":
		return "image/svg+xml"
	}
	return "text/plain"
}

// isPicture reports whether clients can show files of this MIME type as images.
func isPicture(mime string) bool {
	switch mime {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}
