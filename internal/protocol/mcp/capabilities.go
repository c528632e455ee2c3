package mcp

import (
	"bytes"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
)

// capability is one member of a client's capabilities that a revision or an official extension
// defines. Its value is an object, or a boolean if flag is set.
type capability struct {
	name    string
	flag    bool
	members []capability
	// bare is the canonical form of an object without members. "" means {}.
	bare string
	// group says that an object without members declares nothing, so the canonical form omits it.
	group bool
}

// clientCapabilities lists the members of ClientCapabilities that may change the behaviour of a
// server, from the schemas of all revisions. The member experimental is left out, because its
// meaning is not specified. The canonical form has its members in this order.
var clientCapabilities = []capability{
	// 2025-11-25 and 2026-07-28 §Elicitation, "Capabilities": an empty object is equivalent to form
	// mode. Earlier revisions have only form mode.
	{name: "elicitation", bare: `{"form":{}}`, members: []capability{{name: "form"}, {name: "url"}}},
	{name: "extensions", group: true, members: []capability{{name: ExtensionTasks}, {name: ExtensionApps}, {name: ExtensionSkills}}},
	{name: "roots", members: []capability{{name: "listChanged", flag: true}}},
	{name: "sampling", members: []capability{{name: "context"}, {name: "tools"}}},
	{name: "tasks", members: []capability{
		{name: "cancel"}, {name: "list"},
		{name: "requests", members: []capability{
			{name: "elicitation", members: []capability{{name: "create"}}},
			{name: "sampling", members: []capability{{name: "createMessage"}}},
		}},
	}},
}

// ExtensionApps is the extension for tools with a user interface. A client declares it together
// with the media types of the pages that it can show.
const (
	ExtensionApps = "io.modelcontextprotocol/ui"
	appsValue     = `{"mimeTypes":["text/html;profile=mcp-app"]}`
	appsType      = "text/html;profile=mcp-app"
)

// CanonicalCapabilities returns a client's capabilities object in a canonical form. The form
// contains only members that a revision or an official extension defines, in a fixed order, and
// then the extensions of vendors. The form is a valid capabilities object, and declares only
// capabilities that caps declares. So Dragoman can send the form to a server on behalf of every
// client with the same form.
//
// CanonicalCapabilities returns nil for a client that declares neither elicitation, roots nor
// sampling, and no extension that may change what it gets. A legacy server treats all such clients
// alike.
func CanonicalCapabilities(caps []byte) []byte {
	if !Askable(caps) && !extended(caps) {
		return nil
	}
	return appendCanonical(make([]byte, 0, 64), caps, jsonrpc.Whole(caps), clientCapabilities)
}

// extended reports whether a client declares an extension on which a server's lists may depend.
// Servers offer tools with pages only to clients that show them (SEP-1865, "Capability
// Negotiation"). The extension for tasks changes no list.
func extended(caps []byte) bool {
	if len(caps) <= 2 {
		return false
	}
	all := jsonrpc.Find(caps, jsonrpc.Whole(caps), "extensions")
	return listsApps(caps, jsonrpc.Find(caps, all, ExtensionApps)) || jsonrpc.KindOf(caps, jsonrpc.Find(caps, all, ExtensionSkills)) == '{' ||
		len(otherExtensions(caps, all)) > 0
}

// Authorizes reports whether an extension concerns only Dragoman and one of its peers: clients
// authorize themselves to Dragoman, and Dragoman to servers.
func Authorizes(extension string) bool {
	return extension == ExtensionClientCredentials || extension == ExtensionEnterprise || strings.HasPrefix(extension, "io.modelcontextprotocol/auth/")
}

// The extensions by which a client says that it authorizes itself without a person at each server.
const (
	ExtensionClientCredentials = "io.modelcontextprotocol/oauth-client-credentials"
	ExtensionEnterprise        = "io.modelcontextprotocol/enterprise-managed-authorization"
)

// ForHop returns the capabilities that Dragoman declares to one server: those in caps without the extensions
// that concern a client and Dragoman, and with ours, which concerns Dragoman and this server. caps may be nil, and
// ours "".
func ForHop(caps []byte, ours string) []byte {
	// Each such name contains auth, if it has no escapes, and hardly any client declares one.
	if ours == "" && !bytes.Contains(caps, []byte("auth")) && bytes.IndexByte(caps, '\\') < 0 {
		return caps
	}
	if len(caps) == 0 {
		caps = []byte("{}")
	}
	var set []jsonrpc.Field
	if ours != "" {
		set = []jsonrpc.Field{{Key: ours, Value: []byte("{}")}}
	}
	var e jsonrpc.Edits
	if all := jsonrpc.Find(caps, jsonrpc.Whole(caps), "extensions"); jsonrpc.KindOf(caps, all) == '{' {
		e.Object(WhyCapabilities, caps, all, func(key []byte) bool { return Authorizes(string(key)) }, set...)
	} else if ours != "" {
		e.Object(WhyCapabilities, caps, jsonrpc.Whole(caps), nil, jsonrpc.Field{Key: "extensions", Value: jsonrpc.ObjectOf(set[0])})
	}
	return jsonrpc.Splice(nil, caps, &e)
}

// The canonical form is part of the keys of sessions and lists, so the vendors' extensions in it are
// bounded. Further ones are left out.
const (
	maxExtensions     = 16
	maxExtensionBytes = 2 << 10 // names and settings together
)

type extension struct {
	name     string
	settings []byte
}

// otherExtensions returns the extensions in the object obj that clientCapabilities does not list,
// sorted by name.
func otherExtensions(raw []byte, obj jsonrpc.Span) (all []extension) {
	size := 0
	for m := range jsonrpc.Members(raw, obj) {
		name, _ := jsonrpc.Text(raw, m.Key)
		x := extension{name, m.Value.Of(raw)}
		switch {
		case name == "", name == ExtensionTasks, name == ExtensionApps, name == ExtensionSkills, Authorizes(name):
		case jsonrpc.KindOf(raw, m.Value) != '{', size+len(name)+len(x.settings) > maxExtensionBytes, len(all) == maxExtensions:
		case !slices.ContainsFunc(all, func(y extension) bool { return y.name == name }):
			all, size = append(all, x), size+len(name)+len(x.settings)
		}
	}
	slices.SortFunc(all, func(a, b extension) int { return strings.Compare(a.name, b.name) })
	return all
}

// appendExtensions adds the other extensions to the canonical form of the official ones, which is at
// the end of dst. Nobody but the vendors knows what the settings mean, so they stay as they are.
func appendExtensions(dst, raw []byte, obj jsonrpc.Span) []byte {
	dst = dst[:len(dst)-1]
	for _, x := range otherExtensions(raw, obj) {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(append(jsonrpc.AppendQuote(dst, x.name), ':'), x.settings...)
	}
	return append(dst, '}')
}

// Askable reports whether a client with these capabilities accepts any kind of request from a
// server.
func Askable(caps []byte) bool {
	if len(caps) <= 2 {
		return false
	}
	var at [3]jsonrpc.Span
	jsonrpc.FindAll(caps, jsonrpc.Whole(caps), askableKeys, at[:])
	for _, x := range at {
		if jsonrpc.KindOf(caps, x) == '{' {
			return true
		}
	}
	return false
}

// DeclaresRoots reports whether a client with these capabilities tells a server its roots.
func DeclaresRoots(caps []byte) bool {
	return len(caps) > 2 && jsonrpc.KindOf(caps, jsonrpc.Find(caps, jsonrpc.Whole(caps), "roots")) == '{'
}

var askableKeys = []string{"elicitation", "roots", "sampling"}

// appendCanonical appends the canonical form of the object obj. The form has only the members that
// known lists.
func appendCanonical(dst, raw []byte, obj jsonrpc.Span, known []capability) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for i := range known {
		c := &known[i]
		at := jsonrpc.Find(raw, obj, c.name)
		if c.flag {
			if string(at.Of(raw)) != "true" {
				continue
			}
		} else if jsonrpc.KindOf(raw, at) != '{' {
			continue
		}
		before := len(dst)
		if before > start {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), c.name...), `":`...)
		value := len(dst)
		switch {
		case c.flag:
			dst = append(dst, "true"...)
		case c.name == ExtensionApps && listsApps(raw, at):
			dst = append(dst, appsValue...)
		default:
			dst = appendCanonical(dst, raw, at, c.members)
			if c.name == "extensions" {
				dst = appendExtensions(dst, raw, at)
			}
		}
		if string(dst[value:]) != "{}" {
			continue
		}
		switch {
		case c.group:
			dst = dst[:before]
		case c.bare != "":
			dst = append(dst[:value], c.bare...)
		}
	}
	return append(dst, '}')
}

// listsApps reports whether the value of ExtensionApps lists the media type appsType.
func listsApps(raw []byte, at jsonrpc.Span) bool {
	for e := range jsonrpc.Elements(raw, jsonrpc.Find(raw, at, "mimeTypes")) {
		if s, _ := jsonrpc.Text(raw, e); s == appsType {
			return true
		}
	}
	return false
}

// LacksCapability reports whether need, a part of a capabilities object in raw, contains a
// capability that caps does not declare. If caps is nil, it does not declare any capability.
func LacksCapability(caps, raw []byte, need jsonrpc.Span) bool {
	return lacks(caps, jsonrpc.Whole(caps), raw, need, "")
}

// lacks does the same as LacksCapability for the objects have and need. The member with the name
// implied is treated as declared even if have does not contain it.
func lacks(caps []byte, have jsonrpc.Span, raw []byte, need jsonrpc.Span, implied string) bool {
	for m := range jsonrpc.Members(raw, need) {
		key, _ := jsonrpc.Text(raw, m.Key)
		at := jsonrpc.Find(caps, have, key)
		switch {
		case key == implied && at.IsZero():
		case jsonrpc.KindOf(raw, m.Value) != '{':
			if string(at.Of(caps)) != string(m.Value.Of(raw)) {
				return true
			}
		case jsonrpc.KindOf(caps, at) != '{':
			return true
		default:
			form := ""
			if key == "elicitation" && jsonrpc.Find(caps, at, "url").IsZero() {
				form = "form" // see clientCapabilities
			}
			if lacks(caps, at, raw, m.Value, form) {
				return true
			}
		}
	}
	return false
}
