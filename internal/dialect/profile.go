package dialect

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Profile describes how servers of one kind deviate from MCP: how they are opened,
// where their data is, what their errors mean and what they must not be sent. It is
// only data. The built-in profiles are in Builtin; users write others in the
// configuration. A profile is immutable once in use and may be shared.
type Profile struct {
	Name  string // selects it, in --dialect and in the configuration
	About string // one line for people

	Detect Detect
	Open   Opening
	Tools  Tools
	Errors Errors

	// Never are the methods of requests and notifications that such a server is not
	// sent. A trailing * matches any suffix.
	Never []string
	// Bridge is the name of the adapter for a server that does not speak MCP, "" for
	// all others. A profile with a bridge uses only Open.NoInitialized and
	// Errors.WrongParams.
	Bridge string
	// MaxMessage is the longest message that the server can read, in bytes with the
	// line end. 0 means no known limit.
	MaxMessage int
}

// Detect says which members of an initialize result identify a server of this kind, if
// no dialect is configured. The zero value matches nothing.
type Detect struct {
	Has   []Path // all of them are present and not null
	Lacks []Path // none of them is present, except as null or ""
}

// Opening says how a conversation begins.
type Opening struct {
	NoProbe bool // server/discover is not sent
	// NoParams sends initialize without params. Otherwise they are the usual ones with
	// the members of Params set. A nil Value removes a member.
	NoParams bool
	Params   []jsonrpc.Field
	// Version is offered first; Unknown offers the newest.
	Version mcp.Revision
	// NoInitialized omits notifications/initialized.
	NoInitialized bool
	// Pushed says that the server sends its manifest unsolicited, and that it may
	// refuse initialize.
	Pushed bool
	// Identity is where the server has its name and version. None means serverInfo.
	Identity []Path
}

// Tools says where tools are and what their members are named. The zero value is that
// of MCP: tools/list, unchanged.
type Tools struct {
	// Manifest is the member of the initialize result that holds all tools, "" for
	// servers with tools/list.
	Manifest Path
	// For each tool: its schema, whether the user must confirm each call, and whether a
	// call can be undone. The first path that exists is used.
	Schema, Confirm, Undo []Path
	// Repair converts OpenAPI and draft 4 idioms in schemas to JSON Schema 2020-12.
	Repair bool
	// Wrap turns the result of a call that is not a CallToolResult into one.
	Wrap bool
}

// Errors gives the meaning of non-standard error codes and texts.
type Errors struct {
	NotReady, WrongVersion, WrongParams []Sign
	// Tool are the codes that mean a tool has failed, to be reported to the model.
	Tool []ToolError
}

// Sign identifies an error: by its code, as a number or a word, or by a part of its
// message, in lower case.
type Sign string

// ToolError is an error code with its meaning, as a text for a model.
type ToolError struct {
	Code  int64
	Means string
}

// Path is the path to a member of an object: names separated by dots.
type Path string

// find returns the value at the path, starting from an object.
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

// DetectProfile returns the first profile that matches an initialize result, nil if
// none does.
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

// HasManifest reports whether there is a list of tools where the profile expects it.
func (p *Profile) HasManifest(raw []byte, result jsonrpc.Span) bool {
	return p.Tools.Manifest != "" && jsonrpc.KindOf(raw, p.Tools.Manifest.find(raw, result)) == '['
}

// Suppresses reports whether such a server is never sent a method. A nil Profile
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

// HasSign reports whether an error has one of the signs. code is the error's code
// without quotes, low its message in lower case.
func HasSign(signs []Sign, code, low string) bool {
	return slices.ContainsFunc(signs, func(s Sign) bool {
		text := string(s)
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return text == code
		}
		return strings.EqualFold(text, code) || strings.Contains(low, strings.ToLower(text))
	})
}

// InitializeParams returns the parameters of initialize: the standard ones with the
// profile's changes. Nil means none.
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
