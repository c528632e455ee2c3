package admin

import (
	"net/http"
	"net/url"
	"strings"
)

// PathName returns name as one element of a URL path. It escapes name with url.PathEscape, and first
// puts "~" before five names that cannot be path elements:
//
//   - "." and "..": HTTP clients remove them, even if they are escaped.
//   - "" and "/": http.ServeMux matches neither an empty element nor "%2F".
//   - "add": /console/servers/add is a page of the console.
//
// A name that consists of one or more "~" and one of these five names also gets another "~", so that
// different names never become the same element.
func PathName(name string) string {
	if needsTilde(name) {
		name = "~" + name
	}
	return url.PathEscape(name)
}

// needsTilde reports whether PathName puts "~" before a name.
func needsTilde(name string) bool {
	switch strings.TrimLeft(name, "~") {
	case "", ".", "..", "/", "add":
		return true
	}
	return false
}

// ReadPathNames removes the "~" that PathName has added to the names of servers and tools in the path
// of a request. A handler must call it exactly once, before it reads the names with PathValue.
func ReadPathNames(r *http.Request) {
	for _, key := range []string{"name", "tool"} {
		rest, ok := strings.CutPrefix(r.PathValue(key), "~")
		if ok && needsTilde(rest) {
			r.SetPathValue(key, rest)
		}
	}
}
