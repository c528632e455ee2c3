package mirror

import (
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// CodeMismatch is the error code HeaderMismatch. Every error that this package returns for a client
// has this code (2026-07-28 §Streamable HTTP, "Server Validation").
const CodeMismatch = -32020

// MaxSafe is the largest integer that may be mirrored. -MaxSafe is the smallest.
const MaxSafe = 1<<53 - 1

// HeadersFor returns the headers for a call with these arguments, which must have been scanned. Null and absent values get no header (2026-07-28 §Streamable HTTP,
// table of "Server Behavior for Custom Headers"). Objects and arrays do not get headers either,
// because the specification does not allow a schema to mirror them.
func HeadersFor(params []Param, arguments jsonrpc.Value) []Header {
	var out []Header
	for i := range params {
		p := &params[i]
		value := arguments.Get(p.Path...)
		var text string
		switch value.Kind() {
		case '"':
			s, _ := value.Text()
			// Half of a surrogate pair cannot be encoded in UTF-8. Like most JSON libraries, this
			// code replaces it by U+FFFD.
			text = EncodeValue(jsonrpc.Shown(s))
		case '0':
			text = string(value.Raw())
			if n, ok := integer(text); ok {
				text = strconv.FormatInt(n, 10)
			}
			// A number that is not a safe integer is sent unchanged, so that the server reports an
			// invalid value and not a missing header.
		case 't', 'f':
			text = string(value.Raw())
		default:
			continue
		}
		if out == nil {
			out = make([]Header, 0, len(params))
		}
		out = append(out, Header{p.Header, text})
	}
	return out
}

// CheckHeaders checks the Mcp-Param-* headers of a call against its arguments. It ignores headers
// whose parameter is not in params (2026-07-28 §Streamable HTTP, "Server Behavior for Custom Headers"). The error has no id.
func CheckHeaders(params []Param, arguments jsonrpc.Value, got []Header) *jsonrpc.Error {
	for i := range params {
		if err := params[i].check(arguments, got); err != nil {
			return err
		}
	}
	return nil
}

// CheckValue checks a header that must be present exactly once, such as Mcp-Name. The decoded value
// of the header must equal body, the value in the request body. got contains the values of the
// header as received. The error has no id.
func CheckValue(name string, got []string, body string) *jsonrpc.Error {
	switch len(got) {
	case 0:
		return mismatch(name + " header is missing, but the body has the value '" + excerpt.Cut(body, maxRepeated) + "'")
	case 1:
	default:
		return mismatch(name + " header appears more than once")
	}
	text, err := DecodeValue(got[0])
	if err != nil {
		return mismatch(name + " header value is not valid Base64")
	}
	if text != body {
		return differ(name, text, body)
	}
	return nil
}

func (p *Param) check(arguments jsonrpc.Value, got []Header) *jsonrpc.Error {
	var header *Header
	for i := range got {
		if !strings.EqualFold(got[i].Name, p.Header) {
			continue
		}
		if header != nil {
			return mismatch(p.Header + " header appears more than once")
		}
		header = &got[i]
	}
	value := arguments.Get(p.Path...)
	kind := value.Kind()
	var body string
	switch kind {
	case '"':
		body, _ = value.Text()
		body = jsonrpc.Shown(body)
	case '0', 't', 'f':
		body = string(value.Raw())
	}
	switch {
	case header == nil && (kind == 0 || kind == 'n'):
		return nil
	case header == nil:
		return mismatch(p.Header + " header is missing, but the body has the value '" + excerpt.Cut(body, maxRepeated) + "'")
	}
	text, err := DecodeValue(header.Value)
	switch {
	case err != nil:
		return mismatch(p.Header + " header value is not valid Base64")
	case kind == 0 || kind == 'n':
		return mismatch(p.Header + " header is present, but the body does not contain the value")
	case kind == '{' || kind == '[':
		return mismatch(p.Header + " header is present, but the value in the body cannot be sent as a header")
	case kind == '0':
		want, ok := integer(body)
		if !ok {
			return mismatch(p.Header + " header is present, but the value in the body is not an integer between -(2^53-1) and 2^53-1")
		}
		if n, ok := integer(text); !ok || n != want {
			return differ(p.Header, text, body)
		}
	case text != body:
		return differ(p.Header, text, body)
	}
	return nil
}

func mismatch(text string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: CodeMismatch, Message: "Header mismatch: " + text}
}

func differ(name, header, body string) *jsonrpc.Error {
	return mismatch(name + " header value '" + excerpt.Cut(header, maxRepeated) + "' does not match body value '" + excerpt.Cut(body, maxRepeated) + "'")
}

// integer returns the value of a decimal number in any notation (42, 42.0, 4.2e1). It returns false
// if s is not the text of an integer between -MaxSafe and MaxSafe. It does not use float64, because
// float64 would round 1.00000000000000000001 to 1.
func integer(s string) (int64, bool) {
	rest, negative := strings.CutPrefix(s, "-")
	mantissa, exponent, hasExp := cutByte(rest, 'e', 'E')
	whole, fraction, hasDot := strings.Cut(mantissa, ".")
	if whole == "" || !isDigits(whole) || !isDigits(fraction) || hasDot && fraction == "" {
		return 0, false
	}
	exp := 0
	if hasExp {
		unsigned := strings.TrimPrefix(strings.TrimPrefix(exponent, "+"), "-")
		if unsigned == "" || !isDigits(unsigned) || len(exponent)-len(unsigned) > 1 {
			return 0, false
		}
		if unsigned = strings.TrimLeft(unsigned, "0"); len(unsigned) > 6 {
			unsigned = "999999" // limits the exponent, so that Atoi cannot overflow
		}
		exp, _ = strconv.Atoi("0" + unsigned)
		if exponent[0] == '-' {
			exp = -exp
		}
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	exp -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	exp += len(digits) - len(trimmed)
	if trimmed == "" {
		return 0, true
	}
	if exp < 0 || exp > 16 || len(trimmed)+exp > 16 {
		return 0, false
	}
	n, err := strconv.ParseInt(trimmed+"0000000000000000"[:exp], 10, 64)
	if err != nil || n > MaxSafe {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

func cutByte(s string, a, b byte) (before, after string, found bool) {
	for i := range len(s) {
		if s[i] == a || s[i] == b {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
