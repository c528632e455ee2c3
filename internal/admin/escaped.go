package admin

import (
	"encoding/json"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
)

// maxNested bounds how deeply JSON within strings of JSON is searched for secrets.
const maxNested = 4

// cleanEscaped masks secrets in the strings of raw JSON that have escapes, and in JSON within such
// strings. clean alone does not find a secret that is written with escapes. Strings without a
// secret do not change. The JSON may be cut off. The caller still has to apply clean to the result.
func cleanEscaped(clean func(string) string, raw string, depth int) string {
	if depth == 0 || !strings.Contains(raw, `\`) {
		return raw
	}
	var out strings.Builder
	from := 0
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		start := i + 1
		for i = start; i < len(raw) && raw[i] != '"'; i++ {
			if raw[i] == '\\' {
				i++
			}
		}
		end := min(i, len(raw))
		inside := raw[start:end]
		if !strings.Contains(inside, `\`) {
			continue
		}
		text, ok := unescaped(inside)
		if !ok {
			continue
		}
		if masked := clean(cleanEscaped(clean, text, depth-1)); masked != text {
			out.WriteString(raw[from:start])
			quoted := jsonrpc.AppendQuote(nil, masked)
			out.Write(quoted[1 : len(quoted)-1])
			from = end
		}
	}
	return out.String() + raw[from:]
}

// unescaped decodes the inside of a JSON string. If the end of the string is cut off within an
// escape, unescaped leaves this escape out.
func unescaped(inside string) (text string, ok bool) {
	const longest = len(`\u00e`)
	for cut := 0; cut <= min(longest, len(inside)); cut++ {
		if json.Unmarshal([]byte(`"`+inside[:len(inside)-cut]+`"`), &text) == nil {
			return text, true
		}
	}
	return "", false
}
