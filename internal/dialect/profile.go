package dialect

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Profile describes how servers of one kind deviate from MCP: how they are opened, where their
// data is, what their errors mean, and which messages they must not get. It contains only data.
// Builtin returns the built-in profiles. Users can write others in the configuration. A profile
// is immutable once in use, and may be shared.
type Profile struct {
	Name  string // the name for --dialect and for the configuration
	About string // one line for users

	Detect Detect
	Open   Opening
	Tools  Tools
	Errors Errors

	// Never lists the methods of requests and notifications that must not be sent to such a
	// server. A * at the end matches any suffix.
	Never []string
	// Bridge is the name of the adapter, for a server that does not speak MCP at all. It is "" for
	// all other servers. If a profile has a bridge, only its Open.NoInitialized and
	// Errors.WrongParams are used.
	Bridge string
	// MaxMessage is the number of bytes of the longest message that the server can read, with the
	// line end. 0 means no known limit.
	MaxMessage int
}

// Detect says which members of an initialize result identify a server of this kind. It is used
// if no dialect is configured. The zero value matches nothing.
type Detect struct {
	Has   []Path // members that must be present and not null
	Lacks []Path // members that must be absent, null or ""
}

// Opening says how the handshake with such a server works.
type Opening struct {
	NoProbe bool // server/discover must not be sent
	// NoParams sends initialize without params. Otherwise initialize has the usual params with the
	// members in Params set. A nil Value removes a member.
	NoParams bool
	Params   []jsonrpc.Field
	// Version is the version that Dragoman offers first. Unknown means the newest version.
	Version mcp.Revision
	// NoInitialized says that notifications/initialized must not be sent.
	NoInitialized bool
	// Pushed says that the server sends its manifest unsolicited, and may refuse initialize.
	Pushed bool
	// Identity contains the possible paths of the server's name and version. If there are no paths,
	// serverInfo is used.
	Identity []Path
}

// Tools says where the tools are and how their members are named. The zero value means
// tools/list, as in MCP.
type Tools struct {
	// Manifest is the member of the initialize result that contains all tools. It is "" for
	// servers with tools/list.
	Manifest Path
	// These paths lead to a tool's schema, to the flag that says whether the user must confirm
	// each call, and to the flag that says whether a call can be undone. The first path that
	// exists is used.
	Schema, Confirm, Undo []Path
	// Repair converts the idioms of OpenAPI and draft 4 in schemas to JSON Schema 2020-12.
	Repair bool
	// Wrap converts a result of tools/call to a CallToolResult if it is not one.
	Wrap bool
}

// Errors describes the meaning of non-standard error codes and texts.
type Errors struct {
	NotReady, WrongVersion, WrongParams []Sign
	// Tool contains the codes that mean that a tool has failed. The model gets such an error.
	Tool []ToolError
}

// Sign identifies an error by its code, as a number or a word, or by a part of its message, in
// lower case.
type Sign string

// ToolError is an error code with its meaning, as a text for a model.
type ToolError struct {
	Code  int64
	Means string
}

// Path is the path to a member of an object: names separated by dots.
type Path string

// find returns the value at the path. The path starts at an object.
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

// HasManifest reports whether there is a list of tools at the place that the profile names.
func (p *Profile) HasManifest(raw []byte, result jsonrpc.Span) bool {
	return p.Tools.Manifest != "" && jsonrpc.KindOf(raw, p.Tools.Manifest.find(raw, result)) == '['
}

// Suppresses reports whether a method must not be sent to servers of this profile. A nil Profile
// suppresses nothing.
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
// quotes, and low is its message in lower case.
func HasSign(signs []Sign, code, low string) bool {
	return slices.ContainsFunc(signs, func(s Sign) bool {
		text := string(s)
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return text == code
		}
		return strings.EqualFold(text, code) || strings.Contains(low, strings.ToLower(text))
	})
}

// InitializeParams returns the parameters of initialize. These are the standard parameters with the
// profile's changes. Nil means that initialize has no params.
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
