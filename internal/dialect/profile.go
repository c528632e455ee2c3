package dialect

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Profile describes how the servers of one kind depart from MCP: how they are
// opened, where things stand, what their errors mean and what they must be spared.
// It is data and nothing else; those that we know are in Builtin, and a user writes
// others in the configuration. It is not written to once it is in use, and may be
// shared.
type Profile struct {
	Name  string // by which --dialect and a configuration choose it
	About string // one line for people

	Detect Detect
	Open   Opening
	Tools  Tools
	Errors Errors

	// Never are the methods of requests and notifications that such a server is not
	// sent; one that ends with * stands for all that begin so.
	Never []string
	// Bridge is the name of what makes MCP of a server that speaks none, "" for all
	// others. Of the rest of a profile with a bridge only Open.NoInitialized and
	// Errors.WrongParams are obeyed, by the bridge.
	Bridge string
	// MaxMessage is how long a message may be that it reads, in bytes with the line's
	// end; 0 means that no bound is known.
	MaxMessage int
}

// Detect says by which members of its initialize result a server of this kind is
// recognised where no dialect is configured. The zero value recognises none.
type Detect struct {
	Has   []Path // all of them are there, and not null
	Lacks []Path // none of them is there, other than as null or ""
}

// Opening says how a conversation begins.
type Opening struct {
	NoProbe bool // server/discover is not sent
	// NoParams sends initialize without params. Otherwise they are the usual ones
	// with the members of Params set; a nil Value takes one away.
	NoParams bool
	Params   []jsonrpc.Field
	// Version is offered first; Unknown offers the newest.
	Version mcp.Revision
	// NoInitialized leaves notifications/initialized out.
	NoInitialized bool
	// Pushed says that the manifest comes as an answer to nothing, and that
	// initialize may be refused.
	Pushed bool
	// Identity is where the server says what it is; none means serverInfo.
	Identity []Path
}

// Tools says where tools stand and how they are spelled. The zero value is that of
// MCP: tools/list, untouched.
type Tools struct {
	// Manifest is the member of the initialize result that holds all tools; "" for
	// servers that have to be asked with tools/list.
	Manifest Path
	// Of a tool: its schema, whether its user has to confirm each call, and whether
	// a call can be undone. The first path at which something stands counts.
	Schema, Confirm, Undo []Path
	// Repair turns the OpenAPI and draft 4 idioms of schemas into JSON Schema 2020-12.
	Repair bool
	// Wrap turns the result of a call that is no CallToolResult into one.
	Wrap bool
}

// Errors says what errors mean whose codes and words are not those of the standard.
type Errors struct {
	NotReady, WrongVersion, WrongParams []Sign
	// Tool are the codes by which a tool says that it has failed, for the model to
	// read.
	Tool []ToolError
}

// Sign is one thing by which an error is recognised: its code, as a number or as a
// word, or a part of its message, in small letters.
type Sign string

// ToolError is an error code with what it means, in words for a model.
type ToolError struct {
	Code  int64
	Means string
}

// Path leads to a member of an object: names with dots between them.
type Path string

// find returns the value that the path leads to from an object.
func (p Path) find(raw []byte, obj jsonrpc.Span) jsonrpc.Span {
	rest, more := string(p), p != ""
	for more {
		var name string
		name, rest, more = strings.Cut(rest, ".")
		obj = jsonrpc.Find(raw, obj, name)
	}
	return obj
}

// first is the name of the path's first member.
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

// Recognise returns the first of the profiles whose marks an initialize result
// bears, nil for none.
func Recognise(all []*Profile, raw []byte, result jsonrpc.Span) *Profile {
	for _, p := range all {
		if p.recognises(raw, result) {
			return p
		}
	}
	return nil
}

func (p *Profile) recognises(raw []byte, result jsonrpc.Span) bool {
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

// HasManifest reports whether a list of tools stands where the profile has it.
func (p *Profile) HasManifest(raw []byte, result jsonrpc.Span) bool {
	return p.Tools.Manifest != "" && jsonrpc.KindOf(raw, p.Tools.Manifest.find(raw, result)) == '['
}

// Spares reports whether such a server is never sent a method. A nil Profile spares
// nothing.
func (p *Profile) Spares(method string) bool {
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

// Shows reports whether an error bears one of the signs. code is the error's as it
// stands, without quotes; low its message in small letters.
func Shows(signs []Sign, code, low string) bool {
	return slices.ContainsFunc(signs, func(s Sign) bool {
		text := string(s)
		if _, err := strconv.ParseInt(text, 10, 64); err == nil {
			return text == code
		}
		return strings.EqualFold(text, code) || strings.Contains(low, strings.ToLower(text))
	})
}

// InitializeParams returns the parameters of initialize: the standard ones, changed as the
// profile says. nil stands for none at all.
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
