package mcp

import (
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// SubscriptionFilter selects the notifications that a client gets outside of calls. A modern client
// sends it in subscriptions/listen (2026-07-28 §Subscriptions). A legacy client sends
// resources/subscribe for each URI, and gets list_changed notifications without asking.
type SubscriptionFilter struct {
	Tools, Prompts, Resources bool            // true selects the list_changed notifications of the list
	URIs                      map[string]bool // the resources whose update notifications are selected
}

// MaxWatched and MaxWatchedBytes limit how many resources one modern listen or one legacy session
// may watch. The limits are needed because Dragoman keeps the URIs while the client is connected.
const (
	MaxWatched      = 1000
	MaxWatchedBytes = 256 << 10 // total length of the URIs in bytes
)

// Lists returns the methods of the list_changed notifications that are selected.
func (i SubscriptionFilter) Lists() (methods []string) {
	for _, x := range []struct {
		selected bool
		method   string
	}{{i.Tools, NoteToolsChanged}, {i.Prompts, NotePromptsChanged}, {i.Resources, NoteResourcesChanged}} {
		if x.selected {
			methods = append(methods, x.method)
		}
	}
	return methods
}

// OverLimit reports whether the filter exceeds MaxWatched or MaxWatchedBytes.
func (i SubscriptionFilter) OverLimit() bool {
	size := 0
	for uri := range i.URIs {
		size += len(uri)
	}
	return len(i.URIs) > MaxWatched || size > MaxWatchedBytes
}

// Empty reports whether the filter does not select any notification.
func (i SubscriptionFilter) Empty() bool {
	return !i.Tools && !i.Prompts && !i.Resources && len(i.URIs) == 0
}

// JSON returns the filter as the notifications object of a subscriptions/listen request or of its
// acknowledgement.
func (i SubscriptionFilter) JSON() []byte {
	out := []byte{'{'}
	flag := func(name string, on bool) {
		if !on {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), `":true`...)
	}
	flag("toolsListChanged", i.Tools)
	flag("promptsListChanged", i.Prompts)
	flag("resourcesListChanged", i.Resources)
	if len(i.URIs) > 0 {
		uris := make([]string, 0, len(i.URIs))
		for uri := range i.URIs {
			uris = append(uris, uri)
		}
		slices.Sort(uris)
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, `"resourceSubscriptions":[`...)
		for n, uri := range uris {
			if n > 0 {
				out = append(out, ',')
			}
			out = jsonrpc.AppendQuote(out, uri)
		}
		out = append(out, ']')
	}
	return append(out, '}')
}

// ParseSubscriptionFilter reads the notifications object of a subscriptions/listen request. It
// ignores unknown members. If a member has the wrong type, the error names this member.
func ParseSubscriptionFilter(raw []byte, at jsonrpc.Span) (SubscriptionFilter, error) {
	i := SubscriptionFilter{URIs: map[string]bool{}}
	if jsonrpc.KindOf(raw, at) != '{' {
		return i, errors.New("notifications must be an object")
	}
	flags := map[string]*bool{"toolsListChanged": &i.Tools, "promptsListChanged": &i.Prompts, "resourcesListChanged": &i.Resources}
	for name, to := range flags {
		v := jsonrpc.Find(raw, at, name)
		switch jsonrpc.KindOf(raw, v) {
		case 0:
		case 't':
			*to = true
		case 'f':
		default:
			return i, errors.New(name + " must be a boolean")
		}
	}
	list := jsonrpc.Find(raw, at, "resourceSubscriptions")
	switch jsonrpc.KindOf(raw, list) {
	case 0:
	case '[':
		for e := range jsonrpc.Elements(raw, list) {
			uri, ok := jsonrpc.Text(raw, e)
			if !ok || !utf8.ValidString(uri) {
				return i, errors.New("resourceSubscriptions must be an array of strings")
			}
			i.URIs[uri] = true
		}
	default:
		return i, errors.New("resourceSubscriptions must be an array of strings")
	}
	return i, nil
}
