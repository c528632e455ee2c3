package dialect

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Profile describes how a kind of server deviates from MCP: how to open such a server, where its
// data is, what its errors mean, and which messages Dragoman must not send to it. A profile contains
// only data. Builtin returns the built-in profiles. Users can define more profiles in the
// configuration. After its first use, a profile must not be modified. Several servers may share a
// profile.
type Profile struct {
	Name  string // the name of the profile in --dialect and in the configuration
	About string // a description for users, in one line

	Detect Detect
	Open   Opening
	Tools  Tools
	Errors Errors

	// Never lists the methods of requests and notifications that Dragoman must not send to the
	// server. A * at the end matches any suffix.
	Never []string
	// Bridge is the name of the adapter for a server that does not speak MCP at all. For all other
	// servers, Bridge is "". If Bridge is not "", Dragoman uses only Open.NoInitialized and
	// Errors.WrongParams of the profile.
	Bridge string
	// MaxMessage is the maximum length in bytes of a message that the server can read, including the
	// line end. 0 means that no limit is known.
	MaxMessage int
}

// Detect says by which members of the initialize result Dragoman recognizes a server with this
// profile. Dragoman uses Detect only if no dialect is configured. The zero value matches nothing.
type Detect struct {
	Has   []Path // members that must be present and not null
	Lacks []Path // members that must be absent, null or ""
}

// Opening describes the handshake with a server that has this profile.
type Opening struct {
	NoProbe bool // Dragoman must not send server/discover
	// If NoParams is true, Dragoman sends initialize without params. Otherwise Params has changes to
	// the usual params: each field sets a member, or removes the member if its Value is nil.
	NoParams bool
	Params   []jsonrpc.Field
	// Version is the version that Dragoman offers first. Unknown means the newest legacy revision.
	Version mcp.Revision
	// NoInitialized says that Dragoman must not send notifications/initialized.
	NoInitialized bool
	// Pushed says that the server sends its manifest without a request, and may refuse initialize.
	Pushed bool
	// Identity has the paths at which the object with the server's name and version may be. If
	// Identity is empty, that object is serverInfo.
	Identity []Path
}

// Tools says where the server lists its tools, and how the members of a tool are named. The zero
// value means tools/list, as in MCP.
type Tools struct {
	// Manifest is the member of the initialize result that contains all tools. It is "" for
	// servers with tools/list.
	Manifest Path
	// Schema has the paths at which the schema of a tool may be. Confirm has the paths of the flag
	// that says whether the user must confirm each call. Undo has the paths of the flag that says
	// whether a call can be undone. In each list, the first path that exists in the tool is used.
	Schema, Confirm, Undo []Path
	// If Repair is true, keywords of OpenAPI 3.0 and of drafts 4 to 7 in the schemas are converted to
	// JSON Schema 2020-12.
	Repair bool
	// If Wrap is true, a result of tools/call that is not a CallToolResult is converted to a
	// CallToolResult.
	Wrap bool
}

// Errors describes the meaning of non-standard error codes and texts.
type Errors struct {
	NotReady, WrongVersion, WrongParams []Sign
	// Tool has the error codes that mean that a tool has failed. Dragoman converts such an error to a
	// result, so that the model sees the error.
	Tool []ToolError
}

// Sign identifies an error by its code (a number or a word) or by a part of its message. Case is
// ignored.
type Sign string

// ToolError is an error code. Means explains the code to a model.
type ToolError struct {
	Code  int64
	Means string
}

// Path is the path to a member of an object: names separated by dots.
type Path string

// find returns the value at the path. The path starts at obj.
func (p Path) find(raw []byte, obj jsonrpc.Span) jsonrpc.Span {
	rest, more := string(p), p != ""
	for more {
		var name string
		name, rest, more = strings.Cut(rest, ".")
		obj = jsonrpc.Find(raw, obj, name)
	}
	return obj
}

// first returns the first name of the path.
func (p Path) first() string {
	name, _, _ := strings.Cut(string(p), ".")
	return name
}

func findFirst(raw []byte, obj jsonrpc.Span, paths []Path) (jsonrpc.Span, Path) {
	for _, p := range paths {
		if at := p.find(raw, obj); !at.IsZero() {
			return at, p
		}
	}
	return jsonrpc.Span{}, ""
}

// DetectProfile returns the first profile that matches an initialize result, or nil if no profile
// matches.
func DetectProfile(all []*Profile, raw []byte, result jsonrpc.Span) *Profile {
	for _, p := range all {
		if p.matches(raw, result) {
			return p
		}
	}
	return nil
}

func (p *Profile) matches(raw []byte, result jsonrpc.Span) bool {
	if len(p.Detect.Has) == 0 {
		return false
	}
	for _, path := range p.Detect.Has {
		if k := jsonrpc.KindOf(raw, path.find(raw, result)); k == 0 || k == 'n' {
			return false
		}
	}
	for _, path := range p.Detect.Lacks {
		at := path.find(raw, result)
		if k := jsonrpc.KindOf(raw, at); k != 0 && k != 'n' && string(at.Of(raw)) != `""` {
			return false
		}
	}
	return p.Tools.Manifest == "" || p.HasManifest(raw, result)
}

// HasManifest reports whether the result has a list of tools at the path Tools.Manifest.
func (p *Profile) HasManifest(raw []byte, result jsonrpc.Span) bool {
	return p.Tools.Manifest != "" && jsonrpc.KindOf(raw, p.Tools.Manifest.find(raw, result)) == '['
}

// Suppresses reports whether Dragoman must not send a method to servers with this profile. For a
// nil Profile, it returns false.
func (p *Profile) Suppresses(method string) bool {
	if p == nil {
		return false
	}
	return slices.ContainsFunc(p.Never, func(n string) bool {
		if head, open := strings.CutSuffix(n, "*"); open {
			return strings.HasPrefix(method, head)
		}
		return n == method
	})
}

// HasSign reports whether an error matches one of the signs. code is the error's code without
// quotes, and low is the error's message in lower case.
func HasSign(signs []Sign, code, low string) bool {
	return slices.ContainsFunc(signs, func(s Sign) bool {
		text := string(s)
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return text == code
		}
		return strings.EqualFold(text, code) || strings.Contains(low, strings.ToLower(text))
	})
}

// InitializeParams returns the params of initialize: the standard params with the profile's changes.
// It returns nil if initialize must not have params.
func (o *Opening) InitializeParams(standard []byte) []byte {
	if o.NoParams {
		return nil
	}
	if len(o.Params) == 0 {
		return standard
	}
	var gone []string
	var set []jsonrpc.Field
	for _, f := range o.Params {
		if f.Value == nil {
			gone = append(gone, f.Key)
		} else {
			set = append(set, f)
		}
	}
	return spliceObject(standard, func(k []byte) bool { return slices.Contains(gone, string(k)) }, set...)
}
