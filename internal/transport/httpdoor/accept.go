package httpdoor

import (
	"net/http"
	"strings"
)

// IsJSON reports whether the headers declare the body as JSON in UTF-8. For the media types that a
// browser may send without a CORS preflight, IsJSON returns false.
func IsJSON(h http.Header) bool {
	values := h["Content-Type"]
	if len(values) != 1 || len(h["Content-Encoding"]) != 0 {
		return false
	}
	v := values[0]
	if v == "application/json" {
		return true
	}
	media, params, more := strings.Cut(v, ";")
	if !strings.EqualFold(strings.TrimSpace(media), "application/json") {
		return false
	}
	for more {
		var p string
		p, params, more = strings.Cut(params, ";")
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "charset") {
			value = strings.Trim(strings.TrimSpace(value), `"`)
			if !strings.EqualFold(value, "utf-8") && !strings.EqualFold(value, "utf8") {
				return false
			}
		}
	}
	return true
}

// Accepts reports whether the Accept header allows a response in JSON, and a response as
// server-sent events. If the header is absent, Accepts returns false for both, because clients must
// send the header (2026-07-28 §Streamable HTTP, "Sending Messages" 2, and every revision before).
func Accepts(h http.Header) (json, events bool) {
	for _, v := range h["Accept"] {
		switch v {
		case "application/json, text/event-stream", "text/event-stream, application/json", "*/*":
			return true, true
		}
		for more := true; more; {
			var r string
			r, v, more = strings.Cut(v, ",")
			media, params, _ := strings.Cut(r, ";")
			if refusesAll(params) {
				continue
			}
			switch media = strings.TrimSpace(media); {
			case media == "*/*":
				json, events = true, true
			case strings.EqualFold(media, "application/json"), strings.EqualFold(media, "application/*"):
				json = true
			case strings.EqualFold(media, "text/event-stream"), strings.EqualFold(media, "text/*"):
				events = true
			}
		}
	}
	return json, events
}

// refusesAll reports whether the parameters of a media range contain q=0, which excludes the range.
func refusesAll(params string) bool {
	for more := params != ""; more; {
		var p string
		p, params, more = strings.Cut(params, ";")
		p = strings.TrimSpace(p)
		if len(p) > 2 && (p[0] == 'q' || p[0] == 'Q') && p[1] == '=' {
			return strings.Trim(p[2:], "0.") == ""
		}
	}
	return false
}
