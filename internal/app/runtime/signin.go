package runtime

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// NewSignIn returns what asks people to sign in to servers.
func NewSignIn(by gateway.Signer, version string) *gateway.SignIn {
	return &gateway.SignIn{Signer: by, Info: info(version)}
}

// KeepHello makes a handler keep what its server says of itself, in a folder, for the next process. key is for the
// names of the files; see Options.TaskKey.
func KeepHello(h *gateway.Single, c config.Server, folder string, key []byte, log *slog.Logger) {
	if c.Fingerprint = cmp.Or(c.Fingerprint, c.URL); folder != "" {
		h.Kept = (&listFiles{folder: folder, key: key, log: log}).shelf(event.DefaultProject, c)
	}
}

// signers are what signs people in to the servers of a project, by the server's name. A server of default that
// the project only uses is signed in to like one of default. The zero value is ready to use.
type signers struct {
	now atomic.Pointer[map[string]gateway.Signer]
}

func (s *signers) of(server string) gateway.Signer {
	if all := s.now.Load(); all != nil {
		return (*all)[server]
	}
	return nil
}

// CanSignIn implements gateway.Signer.
func (s *signers) CanSignIn(server string) bool {
	by := s.of(server)
	return by != nil && by.CanSignIn(server)
}

// SignedIn implements gateway.Signer.
func (s *signers) SignedIn(who *identity.Principal, server string) bool {
	by := s.of(server)
	return by != nil && !who.Looks() && by.SignedIn(who, server)
}

// SignIn implements gateway.Signer.
func (s *signers) SignIn(ctx context.Context, who *identity.Principal, server string) (*gateway.SigningIn, error) {
	by := s.of(server)
	switch {
	case by == nil:
		return nil, fmt.Errorf("server %q is no longer in the configuration", server)
	case who.Looks():
		return nil, ErrOnlyLooks
	}
	return by.SignIn(ctx, who, server)
}

// setSigners makes the enabled servers of a configuration those to which people can sign in.
func (p *Project) setSigners(order []*server) {
	of := p.runtime.opts.SignIn
	if of == nil {
		return
	}
	all := make(map[string]gateway.Signer, len(order))
	for _, x := range order {
		all[x.Name()] = of(x.home)
	}
	p.signers.now.Store(&all)
}

// SignedIn records that a credential scope at a server of the project has got credentials, or has lost them.
// The server is opened again when it's next needed, and clients are told that the lists may have changed, in
// all projects that have the server.
func (p *Project) SignedIn(server, scope string) {
	x := p.server(server)
	if x == nil {
		return
	}
	if x.home != p.name {
		if own := p.runtime.Project(x.home); own != nil {
			own.SignedIn(server, scope)
		}
		return
	}
	x.Renewed(scope)
	for _, q := range p.runtime.Projects() {
		if q != p && (p != p.runtime.own || !q.Shares(server)) {
			continue
		}
		q.mu.Lock()
		all, one := q.gateway, q.singles[server]
		q.mu.Unlock()
		if all != nil {
			all.SignedIn(server, scope)
		}
		if one != nil {
			one.SignedIn(scope)
		}
	}
}
