package files

import (
	"errors"
	"path"
	"regexp"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
)

// maxPattern is the maximum length of a pattern in bytes.
const maxPattern = 1000

// matcher returns a function that reports whether a path matches a glob. The path is relative to
// the searched folder. A glob without a slash is compared with the last element of the path. A glob
// without a slash and without wildcards matches all names that contain it. If exact is false, the
// case of letters is ignored.
func matcher(glob string, exact bool) (func(rel string) bool, error) {
	if len(glob) > maxPattern {
		return nil, refuse("use a shorter pattern", "the pattern has %d bytes, and the limit is %d", len(glob), maxPattern)
	}
	if glob == "" {
		return func(string) bool { return true }, nil
	}
	whole := strings.Contains(glob, "/")
	expr := ""
	if !whole && !strings.ContainsAny(glob, "*?[{") {
		expr = regexp.QuoteMeta(glob)
	} else {
		var ok bool
		if expr, ok = globExpr(strings.TrimPrefix(glob, "/")); !ok {
			return nil, refuse("close the bracket, or write [[] for a bracket itself", "the pattern %s has a bracket that is not closed", quote(glob))
		}
		expr = "^(?:" + expr + ")$"
	}
	flags := "(?s)"
	if !exact {
		flags = "(?si)"
	}
	re, err := pattern.Compile(flags + expr)
	if errors.Is(err, pattern.ErrTooLarge) {
		return nil, refuse("use a shorter pattern", "the pattern %s is too large", quote(glob))
	}
	if err != nil {
		return nil, refuse("use * ? [a-z] and {a,b} only", "the pattern %s is not valid", quote(glob))
	}
	return func(rel string) bool {
		if !whole {
			rel = path.Base(rel)
		}
		return re.Regexp().MatchString(rel)
	}, nil
}

// globExpr turns a glob into a regular expression. In a glob, ** also matches slashes. globExpr
// returns false if a bracket or a brace is not closed.
func globExpr(glob string) (string, bool) {
	var b strings.Builder
	braces := 0
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; c {
		case '*':
			switch {
			case strings.HasPrefix(glob[i:], "**/"):
				b.WriteString("(?:.*/)?")
				i += 2
			case strings.HasPrefix(glob[i:], "**"):
				b.WriteString(".*")
				i++
			default:
				b.WriteString("[^/]*")
			}
		case '?':
			b.WriteString("[^/]")
		case '[':
			end := strings.IndexByte(glob[i+1:], ']')
			if end == 0 { // the first character of a class may be "]"
				if end = strings.IndexByte(glob[i+2:], ']'); end >= 0 {
					end++
				}
			}
			if end < 0 {
				return "", false
			}
			class := glob[i+1 : i+1+end]
			i += end + 1
			b.WriteByte('[')
			if class[0] == '!' || class[0] == '^' {
				b.WriteString("^/")
				class = class[1:]
			}
			b.WriteString(strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`).Replace(class))
			b.WriteByte(']')
		case '{':
			braces++
			b.WriteString("(?:")
		case '}':
			if braces == 0 {
				b.WriteString(`\}`)
				break
			}
			braces--
			b.WriteByte(')')
		case ',':
			if braces > 0 {
				b.WriteByte('|')
			} else {
				b.WriteByte(',')
			}
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	return b.String(), braces == 0
}
