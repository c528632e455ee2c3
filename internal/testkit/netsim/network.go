package netsim

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
)

// backlog is the number of connections to one listener that may wait to be accepted.
const backlog = 128

// Network connects dialers with listeners by address. Its methods are safe for concurrent
// use. Names are not resolved: "api.test:80" is a valid address.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	shapes    map[string]func(nth int) Options
	holes     map[string]bool
	dials     map[string]int
	live      map[*Conn]string // the dialing end of each open link, with the address that it dialed
	port      int              // the source port of the last dial
}

// NewNetwork returns a network without listeners.
func NewNetwork() *Network {
	return &Network{
		listeners: make(map[string]*listener),
		shapes:    make(map[string]func(int) Options),
		holes:     make(map[string]bool),
		dials:     make(map[string]int),
		live:      make(map[*Conn]string),
		port:      49151,
	}
}

// Shape sets the options of links to an address. f is called with 0 for the next dial, with 1 for
// the dial after it, and so on. If f is nil, links have no faults.
func (n *Network) Shape(address string, f func(nth int) Options) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shapes[address], n.dials[address] = f, 0
}

// Swallow makes dials to an address hang until the context of the dial ends. If hang is false,
// dials to the address work again.
func (n *Network) Swallow(address string, hang bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holes[address] = hang
}

// Reset resets all open links to an address.
func (n *Network) Reset(address string) {
	n.mu.Lock()
	live := maps.Clone(n.live)
	n.mu.Unlock()
	for c, to := range live {
		if to == address {
			c.Reset()
		}
	}
}

// Listen starts to accept connections to an address of the form host:port. For port 0, Listen
// chooses a free port, which the listener's Addr returns.
func (n *Network) Listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, &net.AddrError{Err: "invalid port", Addr: address}
	}
	if number == 0 {
		for number = 1024; ; number++ {
			address = net.JoinHostPort(host, strconv.FormatUint(number, 10))
			if n.listeners[address] == nil {
				break
			}
		}
	}
	if n.listeners[address] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	l := &listener{
		network: n, address: address, local: tcpAddr(host, int(number)),
		arrived: make(chan *Conn, backlog), closed: make(chan struct{}),
	}
	n.listeners[address] = l
	return l, nil
}

// tcpAddr returns the address of host. If host is a name, the IP address is 192.0.2.1, which is in
// a range for documentation (RFC 5737).
func tcpAddr(host string, port int) net.Addr {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		ip = netip.MustParseAddr("192.0.2.1")
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port)))
}

// DialContext connects to an address, with the source address 127.0.0.1. It can be used in
// http.Transport. A dial takes the sum of the latencies of both directions.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return n.DialFrom("127.0.0.1")(ctx, network, address)
}

// DialFrom returns a function like DialContext that uses another source IP address.
func (n *Network) DialFrom(host string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		c, err := n.dial(ctx, host, address)
		if err != nil {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
		}
		return c, nil
	}
}

func (n *Network) dial(ctx context.Context, from, address string) (*Conn, error) {
	n.mu.Lock()
	var o Options
	if f := n.shapes[address]; f != nil {
		o = f(n.dials[address])
	}
	n.dials[address]++
	n.port++
	source, hole := tcpAddr(from, n.port), n.holes[address]
	n.mu.Unlock()

	if hole {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if rtt := o.Up.Latency + o.Down.Latency; rtt > 0 {
		if work.Sleep(ctx, rtt) != nil {
			return nil, ctx.Err()
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[address]
	if l == nil {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	a, b := newLink(o, source, l.local)
	select {
	case l.arrived <- b:
	default:
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	n.live[a] = address
	a.onClose = func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.live, a)
	}
	return a, nil
}

type listener struct {
	network *Network
	address string
	local   net.Addr
	arrived chan *Conn // a dial sends to this channel under network.mu, while the listener is open
	closed  chan struct{}
	once    sync.Once
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
	default:
		select {
		case c := <-l.arrived:
			return c, nil
		case <-l.closed:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.local, Err: net.ErrClosed}
}

// Close implements net.Listener. It resets connections that were not yet accepted.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.listeners, l.address)
		l.network.mu.Unlock()
		close(l.closed)
		for {
			select {
			case c := <-l.arrived:
				c.Reset()
				_ = c.Close()
			default:
				return
			}
		}
	})
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.local }
