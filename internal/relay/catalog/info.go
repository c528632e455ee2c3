package catalog

import (
	"context"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/dialect"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Identity is how Dragoman describes itself when it serves several servers: its name, version and
// instructions.
type Identity struct {
	Name, Title, Version string
	// Instructions returns Dragoman's own instructions for a client, or "" if there are none. It
	// also returns "" if it cannot read the instructions, so that the handshake can continue. Nil
	// means no instructions.
	Instructions func(ctx context.Context, client *mcp.ClientInfo) string
	Join         InstructionsOrder
	// From is the server whose instructions are among Dragoman's own, so that clients don't get them
	// twice. "" means none.
	From string
}

// InstructionsOrder defines whose instructions a client gets, and in which order.
type InstructionsOrder string

// These values define the order of Dragoman's own instructions and the servers' instructions. The
// zero value means OwnFirst.
const (
	OwnFirst       InstructionsOrder = "own-first"
	UpstreamsFirst InstructionsOrder = "upstreams-first"
	OwnOnly        InstructionsOrder = "own-only"
	UpstreamsOnly  InstructionsOrder = "upstreams-only"
)

// hello returns the server information of Dragoman itself. Its capabilities include the
// capabilities of all servers; see union.
func (f *Identity) hello(ctx context.Context, client *mcp.ClientInfo, names []string, hellos []*mcp.ServerInfo) *mcp.ServerInfo {
	return &mcp.ServerInfo{
		Info:         f.info(),
		Capabilities: union(hellos),
		Instructions: f.instructions(ctx, client, names, hellos),
	}
}

func (f *Identity) info() []byte {
	out := jsonrpc.AppendQuote([]byte(`{"name":`), f.Name)
	if f.Title != "" {
		out = jsonrpc.AppendQuote(append(out, `,"title":`...), f.Title)
	}
	return append(jsonrpc.AppendQuote(append(out, `,"version":`...), f.Version), '}')
}

// instructions joins Dragoman's instructions and the servers' instructions. A heading with the
// server's name is above the instructions of each server. The result is a JSON string. If there are
// no instructions, it is an empty JSON string, because some clients require the member although it
// is optional (all revisions, InitializeResult and DiscoverResult).
func (f *Identity) instructions(ctx context.Context, client *mcp.ClientInfo, names []string, hellos []*mcp.ServerInfo) []byte {
	var own string
	if f.Instructions != nil && f.Join != UpstreamsOnly {
		own = strings.TrimSpace(f.Instructions(ctx, client))
	}
	var theirs []string
	if f.Join != OwnOnly {
		for i, h := range hellos {
			if h == nil || names[i] == f.From {
				continue
			}
			text, _ := jsonrpc.Text(h.Instructions, jsonrpc.Whole(h.Instructions))
			if text = strings.TrimSpace(text); text != "" {
				theirs = append(theirs, "## "+names[i]+"\n\n"+text)
			}
		}
	}
	parts := theirs
	switch {
	case own == "":
	case f.Join == UpstreamsFirst:
		parts = append(parts, own)
	default:
		parts = append([]string{own}, parts...)
	}
	return jsonrpc.AppendQuote(nil, strings.Join(parts, "\n\n"))
}

// union returns the capabilities of all servers together. The members tools, prompts and resources
// always declare listChanged, even if no server does, because merged lists change when a server
// connects or disconnects.
func union(hellos []*mcp.ServerInfo) []byte {
	var logging, completions, tools, prompts, resources, subscribe, tasks bool
	for _, h := range hellos {
		if h == nil {
			// Most servers have tools. A client would never ask for the tools of a server that is
			// still starting if it did not learn about them now.
			tools = true
			continue
		}
		logging = logging || has(h.Capabilities, "logging")
		completions = completions || has(h.Capabilities, "completions") || dialect.CompletesUndeclared(h.Revision, h.Capabilities)
		tools = tools || has(h.Capabilities, "tools")
		prompts = prompts || has(h.Capabilities, "prompts")
		tasks = tasks || h.Tasks() != mcp.NoTasks
		if has(h.Capabilities, "resources") {
			resources = true
			at := jsonrpc.Find(h.Capabilities, jsonrpc.Whole(h.Capabilities), "resources")
			if string(jsonrpc.Find(h.Capabilities, at, "subscribe").Of(h.Capabilities)) == "true" {
				subscribe = true
			}
		}
	}
	out := []byte{'{'}
	add := func(on bool, member string) {
		if !on {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, member...)
	}
	add(completions, `"completions":{}`)
	add(logging, `"logging":{}`)
	add(prompts, `"prompts":{"listChanged":true}`)
	add(resources && subscribe, `"resources":{"listChanged":true,"subscribe":true}`)
	add(resources && !subscribe, `"resources":{"listChanged":true}`)
	// This value has the form of 2025-11-25. The codecs convert it to the client's revision.
	add(tasks, `"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}`)
	// If no server has a capability, declare tools: the servers may offer tools later.
	add(tools || len(out) == 1, `"tools":{"listChanged":true}`)
	return append(out, '}')
}
