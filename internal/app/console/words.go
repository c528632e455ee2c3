package console

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// number formats an integer with commas between groups of three digits, for example "12,345".
func number[T int | int64 | uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// anyNumber is like number, but accepts any type, for templates. It formats a value of another type
// with fmt.Sprint.
func anyNumber(n any) string {
	switch n := n.(type) {
	case int:
		return number(n)
	case uint64:
		return number(n)
	case int64:
		return number(n)
	}
	return fmt.Sprint(n)
}

// plural returns "1 server" or "12 servers".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + one + "s"
}

var smallNumbers = [...]string{"no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}

// inWords returns a number for use in a sentence: as a word up to twelve, and as digits above
// twelve.
func inWords(n int) string {
	if n >= 0 && n < len(smallNumbers) {
		return smallNumbers[n]
	}
	return number(n)
}

// upper returns s with a capital letter at the beginning.
func upper(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// clock returns a time as an HTML element. The element shows the same text that the function when
// returns. The title attribute contains the time in UTC.
func clock(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s UTC">%s</time>`, t.UTC().Format(time.RFC3339), t.UTC().Format("2006-01-02 15:04:05"), when(t)))
}

// when returns a time as text, in the time zone of this machine.
func when(t time.Time) string {
	now := time.Now()
	local := t.Local()
	if y, m, d := local.Date(); y == now.Year() && m == now.Month() && d == now.Day() {
		return local.Format("15:04:05")
	}
	if local.Year() == now.Year() {
		return local.Format("2 Jan 15:04:05")
	}
	return local.Format("2 Jan 2006 15:04:05")
}

// spanText formats a duration with about two significant digits, for example "0.61 s", "2.1 s", "60
// s" or "4 min".
func spanText(d time.Duration) string {
	switch s := d.Seconds(); {
	case d <= 0:
		return "0 ms"
	case d < 50*time.Microsecond:
		return "<0.1 ms"
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(float64(d)/1e6, 'f', 1, 64) + " ms"
	case d < 100*time.Millisecond:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case s < 1:
		return strconv.FormatFloat(s, 'f', 2, 64) + " s"
	case s < 10:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case s < 120:
		return strconv.FormatFloat(s, 'f', 0, 64) + " s"
	case s < 7200:
		return strconv.Itoa(int(d.Minutes())) + " min"
	case s < 48*3600:
		return strconv.Itoa(int(d.Hours())) + " h"
	}
	return strconv.Itoa(int(d.Hours())/24) + " d"
}

// upText formats how long the program has been running, for example "6 d 4 h".
func upText(d time.Duration) string {
	switch h, m := int(d.Hours()), int(d.Minutes()); {
	case h >= 24:
		return fmt.Sprintf("%d d %d h", h/24, h%24)
	case h > 0:
		return fmt.Sprintf("%d h %d min", h, m%60)
	default:
		return fmt.Sprintf("%d min", m)
	}
}

// bytesText formats a size in bytes.
func bytesText(n int) string {
	switch {
	case n < 10_000:
		return number(n) + " B"
	case n < 10_000_000:
		return number(n/1000) + " kB"
	}
	return number(n/1_000_000) + " MB"
}

// pathOf returns the path of a page of the console. It escapes each of the parts.
func pathOf(parts ...string) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, p := range parts {
		b.WriteString("/" + admin.PathName(p))
	}
	return b.String()
}

// queryWith returns the query q with key set to value. It removes key if value is "", and always
// removes the key "page".
func queryWith(q url.Values, key, value string) string {
	out := url.Values{}
	for k, v := range q {
		if k != key && k != "page" && len(v) > 0 && v[0] != "" {
			out[k] = v[:1]
		}
	}
	if value != "" {
		out.Set(key, value)
	}
	return "?" + out.Encode()
}

// sortLink returns the heading of a table column, with a link that sorts the table by this column.
func sortLink(q url.Values, key, title, class string) template.HTML {
	now := q.Get("sort")
	next, aria := key, ""
	switch now {
	case key:
		next, aria = "-"+key, ` aria-sort="ascending"`
	case "-" + key:
		next, aria = "", ` aria-sort="descending"`
	}
	if class != "" {
		aria += ` class="` + class + `"`
	}
	return template.HTML(fmt.Sprintf(`<th scope="col"%s><a href="%s">%s</a>`, aria, template.HTMLEscapeString(queryWith(q, "sort", next)), template.HTMLEscapeString(title)))
}

// revision returns a label for the revision with this date, as HTML. It returns "" if date is not a
// known revision.
func revision(date string) template.HTML {
	r, ok := mcp.ParseRevision(date)
	switch {
	case !ok:
		return ""
	case r.Modern():
		return template.HTML(`<span class="rev new">` + date + `</span>`)
	}
	return template.HTML(`<span class="rev">` + date + `</span>`)
}

// eraGlyph returns an icon for the era of a client and the era of a server, followed by the text
// "relayed" or "translated".
func eraGlyph(from, to string) template.HTML {
	path, text := eraPath(from, to)
	if path == "" {
		return ""
	}
	return template.HTML(`<span class="era">` + eraOpen + path + `</svg>` + text + `</span>`)
}

// eraMark returns the same icon as eraGlyph, but hides the text from everybody except users of
// screen readers.
func eraMark(from, to string) template.HTML {
	path, text := eraPath(from, to)
	if path == "" {
		return ""
	}
	return template.HTML(`<span class="era">` + eraOpen + path + `</svg><span class="vh">` + text + ` </span></span>`)
}

const eraOpen = `<svg class="g" width="44" height="12" viewBox="0 0 44 12" aria-hidden="true">`

// eraPath returns the SVG paths of the icon for two eras, and the text "relayed" or "translated".
// Both are "" if an era is not known.
func eraPath(from, to string) (path, text string) {
	text = "relayed"
	switch modern := mcp.Latest.Era(); {
	case from == "" || to == "":
		return "", ""
	case from == modern && to == modern:
		path = `<path class="d" d="M0 6h44"/>`
	case from != modern && to != modern:
		path = `<path d="M0 6h44"/>`
	case from == modern:
		path, text = `<path class="d" d="M0 6h17"/><path d="M27 6h17"/><path class="k" d="m22 1 5 5-5 5-5-5z"/>`, "translated"
	default:
		path, text = `<path d="M0 6h17"/><path class="d" d="M27 6h17"/><path class="k" d="m22 1 5 5-5 5-5-5z"/>`, "translated"
	}
	return path, text
}

// markOf returns the CSS class and the label for the state of a server.
func markOf(state string) (class, word string) {
	switch state {
	case "ready":
		return "ok", "ready"
	case "idle":
		return "idle", "idle"
	case "starting":
		return "busy", "starting"
	case "failed":
		return "bad", "failed"
	case "unresponsive":
		return "bad", "unresponsive"
	case "disabled", "stopped":
		return "off", state
	}
	return "idle", state
}

// stateMark returns the label for the state of a server as HTML.
func stateMark(state string) template.HTML {
	class, word := markOf(state)
	return element("span", "", "st "+class, word)
}
