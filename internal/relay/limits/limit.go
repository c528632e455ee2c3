package limits

import (
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/pattern"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// Scope says what shares the numbers of a [Limit].
type Scope uint8

// The scopes. A key is a credential: an API key, or what a client has got by a sign-in. A person has all of theirs
// together, and a key that acts for nobody counts as a person of its own.
const (
	Key Scope = iota
	Person
	Project
	Server
)

// Scopes returns what a configuration writes for each Scope, in their order.
func Scopes() []string { return []string{"key", "person", "project", "server"} }

// String returns what a configuration writes.
func (s Scope) String() string { return Scopes()[s] }

// Limit bounds what each key, each person, the project or each server may use. A number that is zero is no limit.
// A Limit must not be changed after its first use.
type Limit struct {
	Per Scope
	// Keys, People and Roles say for which keys or persons it is; one that fits is enough. In Keys and People, a *
	// matches any text, and case doesn't count. If all are empty, it's for all.
	Keys, People []string
	Roles        []identity.Role
	Servers      []string // patterns of the servers, if it's for servers; none means all

	Calls    float64 // per second
	Burst    int     // calls at once, if Calls is set; at least 1
	InFlight int     // calls that were sent and aren't answered
	Bytes    int     // of requests and answers, per minute
}

// Everybody reports whether it's for all of its scope.
func (l *Limit) Everybody() bool {
	return len(l.Keys)+len(l.People)+len(l.Roles)+len(l.Servers) == 0
}

// Named reports whether whom it is for depends on who asks.
func (l *Limit) Named() bool { return len(l.Keys)+len(l.People)+len(l.Roles) > 0 }

// First returns the first limit of a list that is for a scope, who and a server, or nil. It's the only one of the
// scope that counts.
func First(list []Limit, per Scope, who policy.Caller, server string) *Limit {
	for i := range list {
		if l := &list[i]; l.Per == per && l.isFor(who, server) {
			return l
		}
	}
	return nil
}

func (l *Limit) isFor(who policy.Caller, server string) bool {
	return l.Everybody() || per(l.Keys, who.Key) || per(l.People, who.Person) || per(l.Servers, server) ||
		slices.ContainsFunc(l.Roles, func(least identity.Role) bool {
			return slices.ContainsFunc(who.Roles, func(has identity.Role) bool { return has.Includes(least) })
		})
}

// per reports whether a name matches one of some patterns.
func per(patterns []string, name string) bool {
	return name != "" && slices.ContainsFunc(patterns, func(p string) bool {
		return pattern.Glob(strings.ToLower(p), strings.ToLower(name))
	})
}
