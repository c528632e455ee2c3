package failure

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/pattern"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// Weights of a line of stderr, from the least useful to the most useful.
const (
	noise   = iota // a line that is never useful
	trail          // a stack frame or a source line that belongs to an error
	neutral        // any other line
	hint           // a line with a word such as "failed"
	problem        // a line that begins with the name of an error
	telling        // a line that names the cause of the failure
)

var (
	noiseLine = pattern.Later(`(?i)^([^\pL\pN]*$|node:internal|\s*throw \w+;$|\s*requireStack: \[|\s+at .*\(node:internal|\s+at node:internal|npm (notice|warn)\b|\(node:\d+\) .*warning|\(use .node --trace|node\.js v\d|info:? |debug:? |\[?(notice|info|debug)\]|installed \d+ packages|resolved \d+ packages|need to install the following)`)
	// npmAside is a line of npm that is empty, belongs to a list of details, or gives general advice.
	npmAside  = pattern.Later(`(?i)^npm (err!|error)( (\d{3}|network|notarget|e\w+))? *($|at |(errno|syscall|path|code:|errno:|syscall:|address:|port:|type:) |\}|a complete log of this run|note that you can|tarball, folder|this is a problem related|in most cases|if you are behind|'proxy' config|this is related to npm)`)
	uvCause   = pattern.Later(`^\s+(×|[├╰]─▶) `) // uv indents its causes
	trailLine = pattern.Later(`^(\s+at |\s+\^|\s+File "|\s*throw |\s*\.{3}|node:internal|file://\S+:\d+$|/\S+:\d+$|goroutine \d+ |\t/|\s+\S|\}|\{|Traceback |created by |exit status \d|stack backtrace|note: run with|Require stack:|\s*- /)`)
	causeLine = pattern.Later(`(?i)(cannot find (module|package)|module_?not_?found|no module named|\benoent\b|\beacces\b|\beaddrinuse\b|no such file|command not found|^panic: |panicked at|^fatal error: |npm (err!|error) \d{3} |no matching version found|request to \S+ failed|environment variable|env var\b|unbound variable|out of memory|no solution found|not found in the package registry|is not in this registry|could not (resolve|find)|error: unknown (option|command))`)
	errorLine = pattern.Later(`^\s*(Uncaught |\[?\w*\]? ?)?([A-Za-z_$][\w$.]*(Error|Exception|Exit|Interrupt)|[Ee]rror|ERROR|FATAL|[Ff]atal|npm (ERR!|error))\b`)
	wordLine  = pattern.Later(`(?i)\b(error|failed|failure|fatal|missing|required|denied|refused|invalid|not found|unable|cannot|can't|could not|must be set|not set|undefined|usage:)\b`)
)

// weigh returns the weight of a line of stderr.
func weigh(line string) int {
	switch {
	case strings.TrimSpace(line) == "" || noiseLine().MatchString(line), npmAside().MatchString(line):
		return noise
	case uvCause().MatchString(line) && causeLine().MatchString(line):
		return telling
	case trailLine().MatchString(line):
		return trail
	case causeLine().MatchString(line):
		return telling
	case errorLine().MatchString(line):
		return problem
	case wordLine().MatchString(line):
		return hint
	}
	return neutral
}

// maxTrail is the maximum number of lines of stack traces that are shown.
const maxTrail = 4

// rank returns at most MaxEvidence lines of stderr, with the highest weight first. Lines of equal
// weight stay in the order in which they were written. If too many lines have the same weight, rank
// keeps the last of them, because the last line usually says why the process ended. A repeated line
// is returned only once. best is the most useful line, or "" if stderr has none.
func rank(stderr []string) (out []string, best string) {
	type weighed struct{ at, weight int }
	var all []weighed
	seen := map[string]bool{}
	trails := 0
	for i, line := range slices.Backward(stderr) {
		w := weigh(line)
		if w == noise || seen[line] {
			continue
		}
		if w == trail {
			if trails++; trails > maxTrail {
				continue
			}
		}
		seen[line] = true
		all = append(all, weighed{i, w})
	}
	if len(all) == 0 {
		return nil, ""
	}
	slices.SortStableFunc(all, func(a, b weighed) int { return cmp.Compare(b.weight, a.weight) })
	if all[0].weight > trail {
		best = strings.TrimSpace(stderr[all[0].at])
	}
	all = all[:min(len(all), MaxEvidence)]
	// The line that the sentence quotes comes first.
	slices.SortStableFunc(all[1:], func(a, b weighed) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.at, b.at))
	})
	for _, w := range all {
		out = append(out, stderr[w.at])
	}
	return out, best
}

// first returns the lines with one of them moved to the front. If it is not among them, it takes the
// place of the last line.
func first(line string, lines []string) []string {
	same := func(x string) bool { return strings.TrimSpace(x) == line }
	rest := slices.DeleteFunc(slices.Clone(lines), same)
	return append([]string{line}, rest[:min(len(rest), MaxEvidence-1)]...)
}

// binary reports whether lines of stdout are data and not text: they have many bytes that can't be shown.
func binary(lines []string) bool {
	escaped, all := 0, 0
	for _, l := range lines {
		escaped += strings.Count(l, `\x`)
		all += len(l)
	}
	return escaped >= 8 && 20*escaped > all
}

// missingPatterns match lines of stderr that say that an environment variable is missing. The group
// in each pattern is the name of the variable.
var missingPatterns = []func() *regexp.Regexp{
	pattern.Later(`\b([A-Z][A-Z0-9]*_[A-Z0-9_]+|[A-Z][A-Z0-9]{3,})(?: (?:environment|env\.?) ?(?:variable|var))?(?: is| was| are)?(?: (?:not set|not defined|undefined|missing|required|unset|empty|not provided|not configured|not found|must be (?:set|provided|defined))|: unbound variable|: parameter (?:null or )?not set)`),
	pattern.Later(`(?i:(?:missing|required|set|provide|define|need|no|expected|export|specify|lacks?)\b[^A-Z\n]{0,40}?(?:environment|env\.?) ?(?:variables?|vars?):? *["'` + "`" + `$]?)([A-Z][A-Z0-9_]{2,})`),
	pattern.Later(`(?i:(?:environment|env\.?) ?(?:variables?|vars?)):? *["'` + "`" + `$]?([A-Z][A-Z0-9_]{2,})["'` + "`" + `]?(?i: (?:is |was |must be |has )?(?:not |missing|required|undefined|unset|set|empty|provided|defined))`),
	pattern.Later(`(?i:(?:please set|must set|missing(?: required)?|set the)) ["'` + "`" + `$]?([A-Z][A-Z0-9]*_[A-Z0-9_]+)`),
	pattern.Later(`^KeyError: '([A-Z][A-Z0-9_]{2,})'`),
}

// notVariables lists words in capitals that are not names of variables.
var notVariables = map[string]bool{"ERROR": true, "FATAL": true, "ENOENT": true, "EACCES": true, "MODULE_NOT_FOUND": true, "ERR_MODULE_NOT_FOUND": true, "JSON": true, "HTTP": true, "HTTPS": true, "NULL": true, "PATH": false}

// missingVariable returns the name of an environment variable that a line of stderr reports as
// missing, and the line. Both are "" if no line reports a missing variable.
func missingVariable(stderr []string) (name, line string) {
	for _, l := range slices.Backward(stderr) {
		if weigh(l) == noise {
			continue
		}
		for _, p := range missingPatterns {
			if m := p().FindStringSubmatch(l); m != nil && !notVariables[m[1]] && !strings.HasPrefix(m[1], "ERR_") && len(m[1]) <= 64 {
				return m[1], strings.TrimSpace(l)
			}
		}
	}
	return "", ""
}

// httpEvidence returns the evidence in an HTTP response: its status, some of its headers and the
// text of its body. said is the text of the body alone.
func (f *Facts) httpEvidence() (out []string, said string) {
	line := "HTTP " + strconv.Itoa(f.Status)
	if text := http.StatusText(f.Status); text != "" {
		line += " " + text
	}
	if t := excerpt.Line(f.ContentType, 40); t != "" {
		line += " (" + t + ")"
	}
	out = append(out, line)
	if f.Location != "" {
		out = append(out, "Location: "+f.say(f.Location, maxLine))
	}
	if f.Challenge != "" {
		out = append(out, "WWW-Authenticate: "+f.say(challengeText(f.Challenge), maxLine))
	}
	if said = bodyText(f.Body); said != "" {
		said = f.say(said, maxQuoted)
		out = append(out, "body: "+strconv.Quote(said))
	}
	return out, said
}

var challengePart = pattern.Later(`\b(realm|error|error_description|resource_metadata|authorization_uri|scope)="([^"]*)"`)

// challengeText returns the scheme and the known parameters of a challenge. It leaves out
// everything else, because that may be a token.
func challengeText(challenge string) string {
	scheme, _, _ := strings.Cut(strings.TrimSpace(challenge), " ")
	out := strings.TrimSuffix(scheme, ",")
	for _, m := range challengePart().FindAllStringSubmatch(challenge, -1) {
		out += "; " + m[1] + " " + strconv.Quote(m[2])
	}
	return out
}

var (
	titleTag = pattern.Later(`(?is)<title[^>]*>(.*?)</title>`)
	headTag  = pattern.Later(`(?is)<h1[^>]*>(.*?)</h1>`)
	anyTag   = pattern.Later(`(?s)<[^>]*>`)
)

// bodyText returns the text of the body of an error response: the text of a JSON error or problem,
// the title of a page, or the body itself if it is plain text.
func bodyText(body []byte) string {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return ""
	case body[0] == '{' && json.Valid(body):
		return jsonText(body, jsonrpc.Whole(body), 0)
	case body[0] == '<':
		for _, tag := range []*regexp.Regexp{titleTag(), headTag()} {
			if m := tag.FindSubmatch(body); m != nil {
				if s := strings.TrimSpace(html.UnescapeString(anyTag().ReplaceAllString(string(m[1]), " "))); s != "" {
					return s
				}
			}
		}
		return ""
	}
	return string(body)
}

// jsonText returns the text of an error in the forms that servers use: JSON-RPC, OAuth, RFC
// 9457 and similar ones.
func jsonText(raw []byte, at jsonrpc.Span, depth int) string {
	keys := [...]string{"error_description", "detail", "message", "title", "error", "errors", "reason"}
	var found [len(keys)]jsonrpc.Span
	jsonrpc.FindAll(raw, at, keys[:], found[:])
	for _, one := range found {
		if s, ok := jsonrpc.Text(raw, one); ok && strings.TrimSpace(s) != "" {
			return s
		}
		if depth < 2 && jsonrpc.KindOf(raw, one) == '{' {
			if s := jsonText(raw, one, depth+1); s != "" {
				return s
			}
		}
	}
	return ""
}
