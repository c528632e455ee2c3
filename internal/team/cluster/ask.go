package cluster

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// localHeader says that the local user of a replica asks. Others can't check that: it's whoever runs that process, and so
// could be a replica.
const localHeader = "Dragoman-Local"

// asLocal is the key of the context of requests with that header.
type asLocal struct{}

// Passed reports whether another replica has passed on the request with a context. Such a request is about this replica
// alone.
func Passed(ctx context.Context) bool { return ctx.Value(hopped{}) != nil }

// Local reports whether another replica has passed on the request with a context, and says that its local user sent it.
func Local(ctx context.Context) bool { return ctx.Value(asLocal{}) != nil }

// Others returns the other replicas that live, the oldest first.
func (c *Cluster) Others() []Member {
	return slices.DeleteFunc(slices.Clone(c.Members()), func(m Member) bool { return !m.Lives() || c.mine(m.Incarnation) })
}

// Label returns the name of a replica if no other one that lives has the same, and otherwise also its incarnation.
func (c *Cluster) Label(m *Member) string {
	for _, x := range c.Members() {
		if x.Lives() && x.Name == m.Name && x.Incarnation != m.Incarnation {
			return mark(m.Name, m.Incarnation)
		}
	}
	return m.Name
}

// Ask sends a request of who to another replica, which checks by itself who that is. The body of the answer must be closed.
func (c *Cluster) Ask(r *http.Request, who *identity.Principal, body []byte, incarnation string) (*http.Response, error) {
	l := c.linkTo(r.Context(), incarnation)
	if l == nil {
		return nil, errUnreachable
	}
	if r = r.Clone(r.Context()); who == identity.Local {
		// What it has shows this process alone who it is.
		for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "Origin"} {
			r.Header.Del(name)
		}
		r.Host = "localhost"
		r.Header.Set(localHeader, "1")
	}
	resp, _, err := l.pass(r, body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusMisdirectedRequest {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%w: another process is at its address", errUnreachable)
	}
	return resp, nil
}
