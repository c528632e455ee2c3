package admin

import (
	"net/http"
	"net/url"
	"strings"
)

// PathName returns a name as one element of the path of a URL, escaped with url.PathEscape. HTTP
// clients remove the elements "." and "..", even escaped ones. http.ServeMux matches neither an
// empty element nor "%2F" alone. The path /console/servers/add is a page, and not a server with
// the name add. So these five names get "~" in front. To keep all elements different, names that
// consist of "~" and one of these names get another "~".
func PathName(name string) string {
	if needsTilde(name) {
		name = "~" + name
	}
	return url.PathEscape(name)
}

// needsTilde reports whether PathName puts "~" in front of a name.
func needsTilde(name string) bool {
	switch strings.TrimLeft(name, "~") {
	case "", ".", "..", "/", "add":
		return true
	}
	return false
}

// ReadPathNames replaces the names of servers and tools in the path of a request, as PathName
// writes them, by the names that they mean. A handler must call it once, before it reads them
// with PathValue.
func ReadPathNames(r *http.Request) {
	for _, key := range []string{"name", "tool"} {
		rest, ok := strings.CutPrefix(r.PathValue(key), "~")
		if ok && needsTilde(rest) {
			r.SetPathValue(key, rest)
		}
	}
}
