package upstream

import (
	"context"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Upstream manages one server. New creates it and Close ends it. Its parts do the work, and each of
// them says which methods of the others it uses.
type Upstream struct {
	*core
	broker   *broker
	dialer   *dialer
	healer   *healer
	watchdog *watchdog
	hub      *hub
	lister   *lister
	operator *operator
}

// New returns an upstream. It does not start the server.
func New(spec Spec, o Options) *Upstream {
	c := newCore(spec, o)
	u := &Upstream{
		core: c, broker: &broker{core: c}, dialer: &dialer{core: c}, healer: &healer{core: c},
		watchdog: &watchdog{core: c}, hub: &hub{core: c}, lister: &lister{core: c}, operator: &operator{core: c},
	}
	u.broker.dialer, u.broker.healer, u.broker.watchdog, u.broker.hub, u.broker.operator = u.dialer, u.healer, u.watchdog, u.hub, u.operator
	u.dialer.broker, u.dialer.hub, u.dialer.lister, u.dialer.watchdog = u.broker, u.hub, u.lister, u.watchdog
	u.healer.broker, u.healer.watchdog = u.broker, u.watchdog
	u.watchdog.broker = u.broker
	u.hub.broker, u.hub.lister, u.hub.watchdog = u.broker, u.lister, u.watchdog
	u.lister.broker = u.broker
	u.operator.broker, u.operator.hub = u.broker, u.hub
	return u
}

// Name returns the configured name.
func (u *Upstream) Name() string { return u.spec.Name }

// Scope returns the credential scope of a client. Clients without their own credentials share the
// scope "".
func (u *Upstream) Scope(f *mcp.ClientInfo) string { return u.scopeOf(f) }

// Hello returns the server information from the handshake. If necessary, it opens the server for
// the client f, which may be nil. While the server is unavailable, Hello returns an error with the
// reason. It never returns information from an earlier handshake.
func (u *Upstream) Hello(ctx context.Context, f *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	l, err := u.broker.acquire(ctx, f, mcp.Need{})
	if err != nil {
		return nil, err
	}
	defer l.release()
	return l.s.server.Hello(), nil
}

// Forward queues a notification from the client f for the client's sessions. The notifications are
// sent in the order in which they were queued. Forward does not wait for the server, because it is
// called on the goroutine that reads from the client. A modern server has no sessions, so Forward
// drops a notification for such a server and publishes a loss. Each request to a modern server
// describes the client anyway.
func (u *Upstream) Forward(f *mcp.ClientInfo, raw []byte, method string) {
	u.broker.forward(f, raw, method)
}

// List reads all pages of a list on behalf of the client f, which may be nil. It returns the items
// as the server wrote them. complete is false if a bound was reached or a cursor was repeated. In
// this case List returns the items that it has read.
func (u *Upstream) List(ctx context.Context, f *mcp.ClientInfo, method string) (items [][]byte, complete bool, err error) {
	return u.lister.list(ctx, f, method)
}

// ListPages does the same as List, and also passes each page of the list to the function page. A
// page is a response with a result.
func (u *Upstream) ListPages(ctx context.Context, f *mcp.ClientInfo, method string, page func(*jsonrpc.Message)) (items [][]byte, complete bool, err error) {
	return u.lister.listPages(ctx, f, method, page)
}

// Subscribe registers the client f for notifications. The function deliver is called with each
// notification on the goroutine that reads from the server, and must not block. asker answers
// server requests outside calls. If asker is nil, these requests are refused.
func (u *Upstream) Subscribe(f *mcp.ClientInfo, deliver func(*jsonrpc.Message), asker mcp.Subscriber) *Subscriber {
	return u.hub.subscribe(f, deliver, asker)
}

// SetLevel answers logging/setLevel. A legacy server gets the most verbose level of all clients
// in the pool. Each client still gets only the messages that its own level allows.
func (u *Upstream) SetLevel(ctx context.Context, c *mcp.Call) (*mcp.Reply, error) {
	return u.hub.setLevel(ctx, c)
}

// KeepOpen sets whether the server is kept open: whether we open it again in the background when it
// has no session left. KeepOpen does not open a server that no client has needed yet.
func (u *Upstream) KeepOpen(keep bool) { u.healer.keepOpen(keep) }

// SetTimes changes the timeouts of future handshakes and calls, and the interval of pings.
func (u *Upstream) SetTimes(t Times) { u.watchdog.setTimes(t) }

// Stop ends all sessions and keeps the server stopped. Calls then fail at once, and only Start,
// Restart or Probe opens the server again. If the server is already stopped, Stop does nothing. by says
// how the operator did it and who that was, such as "in the console (ada)"; the status and the log repeat it.
func (u *Upstream) Stop(by string) error { return u.operator.stop(by) }

// Start opens a server that is stopped, idle or failed, without waiting for the next scheduled
// attempt. If the server has a session or is being restarted, Start does nothing.
func (u *Upstream) Start(by string) error { return u.operator.start(by) }

// Restart ends all sessions and then opens the server again, even if it was stopped.
func (u *Upstream) Restart(by string) error { return u.operator.restart(by, false) }

// Probe does the same as Restart. It also removes the stored revision and transport of the server,
// so that Dragoman detects both again.
func (u *Upstream) Probe(by string) error { return u.operator.restart(by, true) }

// Close ends all sessions and child processes, and waits until they have ended. When ctx ends,
// Close kills the remaining children.
func (u *Upstream) Close(ctx context.Context) { u.operator.close(ctx) }
