package runtime

import (
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Gate stands before the servers, whichever way a request comes in: at an endpoint, through `dragoman
// run`, or in a session that a command or a trial opens. The zero Gate is open.
type Gate struct {
	// Policy decides which calls are allowed. The chain is still empty, so it allows every call. A project
	// puts authorise, limit and confirm before it, which have the rules and limits of its configuration; see
	// rules.chain. What they let pass may then need somebody to sign in; see gateway.SignIn.
	Policy policy.Chain
	// Audit hears of every request, also of those that Policy refuses. Nil means no auditor.
	Audit policy.Auditor
}

// Single returns a handler for clients of one server, whose configuration is c. All handlers of single
// servers come from here, so that none is beside the gate. The caller may set the fields that its
// clients need.
func (g Gate) Single(b *bridge.Bridge, u gateway.Upstream, listens *gateway.ListenQuota, c config.Server) *gateway.Single {
	return &gateway.Single{Bridge: b, Policy: g.Policy, Audit: g.Audit, Listens: listens, Upstream: u, Vet: Vet(c)}
}
