package access

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// localRoles are all roles: each of viewer, operator and admin includes the one before.
var localRoles = []identity.Role{identity.Caller, identity.Admin}

// Roles returns the roles that who has now in a project: a key has its own, in the project that it was
// made for. The local user has them all, so who asks must know that nobody else can be the local user
// there; [Gate.Visitor] never says so.
func (g *Gate) Roles(who *identity.Principal, project string) []identity.Role {
	if who == identity.Local {
		return localRoles
	}
	if k := g.keys.Load().Of(who); k != nil && k.Project == project && k.InForce(time.Now()) {
		return []identity.Role{k.Role}
	}
	return nil
}
