package catalog

import (
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// SignIn is the name of the tool with which a person signs in to a server, among the tools of this server. A
// model can only call what it sees, so the tool is there while the server's own tools can't be listed for
// want of a sign-in.
const SignIn = "sign_in"

// SignInTool returns the tool with which a person signs in to a server, under the name that clients see.
func SignInTool(offered, server string) []byte {
	out := jsonrpc.AppendQuote([]byte(`{"name":`), offered)
	out = jsonrpc.AppendQuote(append(out, `,"description":`...), server+" needs a sign-in before its tools can be listed and called. This tool signs you in, or says who can.")
	return append(out, `,"inputSchema":{"type":"object","properties":{},"additionalProperties":false},"annotations":{"readOnlyHint":false,"openWorldHint":true}}`...)
}

// signInItemLocked returns the item for the tool with which the clients of an audience sign in to a server, or
// nil if they don't need it.
func (c *Catalog) signInItemLocked(a *knownAudience, method string, u Source) *item {
	if method != mcp.MethodListTools || !c.mustSignInLocked(a, method, u) {
		return nil
	}
	prefix := c.prefix(u)
	if prefix == "" {
		prefix = u.Name() // several servers may have no prefix
	}
	offered := c.Names.Join(prefix, SignIn)
	return &item{offered: offered, json: SignInTool(offered, u.Name()), server: u.Name(), target: Target{Server: u, Name: SignIn, Quoted: []byte(`"` + SignIn + `"`), SignsIn: true}}
}

// mustSignInLocked reports whether the clients of an audience see no list of a server because somebody has to
// sign in first.
func (c *Catalog) mustSignInLocked(a *knownAudience, method string, u Source) bool {
	if !c.SignsIn[u.Name()] {
		return false
	}
	if p := c.seenLocked(method, u, a); p != nil && (p.have || !p.kept.IsZero()) {
		return false
	}
	return c.lists[serverListKey{method, u.Name(), a.at(u.Name())}].mustSignIn()
}

// mustSignIn reports whether the last reading of a list failed for want of a sign-in. The list may be nil.
func (p *serverList) mustSignIn() bool {
	return p != nil && p.failed != "" && p.cause != nil && p.cause.Failure != nil && p.cause.Failure.Class == failure.NeedsSignIn
}

// everything is the server information for a server that can't say yet what it has. A client that has shaken
// hands learns of no further capabilities.
var everything = &mcp.ServerInfo{Revision: mcp.Latest, Capabilities: []byte(`{"prompts":{},"resources":{},"tools":{}}`)}

// Renewed records that a credential scope at a server has got credentials, or has lost them. What was read in
// this scope is read again when a client asks for it, or at once if one listens to changes.
func (c *Catalog) Renewed(server, scope string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.slowFailures, server)
	var again []serverListKey
	for key, p := range c.lists {
		if key.server == server && key.audience.scope == scope {
			p.fresh, p.changed = false, true
			if p.have || p.reading != nil && !p.reading.finished.IsZero() {
				again = append(again, key)
			}
		}
	}
	c.readAgainLocked(again)
}
