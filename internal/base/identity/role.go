package identity

// Role says what a principal may do in a project. Caller stands alone: it uses the MCP endpoints, and
// nothing else. Viewer, Operator and Admin each include the one before. The zero value is no role. A
// Principal doesn't hold its roles: they are looked up for each request, so that a session of
// yesterday doesn't keep yesterday's role.
type Role uint8

const (
	Caller   Role = iota + 1
	Viewer        // sees the state, the messages and the pages of the console
	Operator      // also starts and stops servers, calls their tools, and changes what is recorded
	Admin         // also decides which commands run on this machine, and who may come in
)

// Includes reports whether who has the role r may do what needs at least the role least. It is false
// if either is the zero value.
func (r Role) Includes(least Role) bool {
	return least != 0 && (r == least || least >= Viewer && r > least)
}

func (r Role) String() string {
	switch r {
	case Caller:
		return "caller"
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	case Admin:
		return "admin"
	}
	return "none"
}

// RoleOf returns the role with a name, as String returns it.
func RoleOf(name string) (r Role, ok bool) {
	for _, r := range []Role{Caller, Viewer, Operator, Admin} {
		if r.String() == name {
			return r, true
		}
	}
	return 0, false
}
