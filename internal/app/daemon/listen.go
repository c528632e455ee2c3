package daemon

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// hangUp is how long clients have to read the errors of the calls that Dragoman ended.
const hangUp = 2 * time.Second

type listenOptions struct {
	address   string
	cert      *httpdoor.Certificate // nil without TLS
	handler   http.Handler
	endpoints *runtime.Endpoints
	log       *slog.Logger
	part      func() time.Duration  // listen calls part when ctx has ended; until it returns, everything is served. It returns another limit, or 0, and may be nil
	drain     func()                // listen calls drain when it begins to stop; drain must end the requests that would not end by themselves
	settle    func(context.Context) // listen calls settle when none of its requests runs any more; it may wait for others until its context ends. It may be nil
	limit     time.Duration         // how long running requests may take to finish; 0 means runtime.DrainLimit
	ready     func(base string)     // listen calls ready once, when it accepts connections; base has the form "http://host:port" or "https://host:port"
	// both makes listen serve both loopback addresses if address is one of them, and is called
	// before ready if no other program can listen at the other one. It may be nil.
	both func()
}

// listen serves HTTP until ctx ends. Then it waits for running requests, at most for o.limit, and
// closes the endpoints. It returns nil if it ended because of ctx.
func listen(ctx context.Context, o listenOptions) error {
	l, err := net.Listen("tcp", o.address)
	if err != nil {
		o.endpoints.Close()
		return listenError(o.address, err)
	}
	var second net.Listener
	if o.both != nil {
		var ours bool
		if second, ours = twin(l.Addr()); ours {
			o.both()
		}
	}
	srv := httpdoor.NewHTTPServer(atOneAddress(o.handler, l, second))
	srv.BaseContext = func(net.Listener) context.Context { return o.endpoints.Context() }
	srv.ErrorLog = log.New(serverLog{o.log}, "", 0)
	var running sync.WaitGroup
	defer running.Wait()
	served := make(chan error, 2)
	scheme := "http://"
	if o.cert != nil {
		scheme, srv.TLSConfig = "https://", o.cert.Config()
		running.Go(func() { served <- srv.ServeTLS(l, "", "") })
	} else {
		running.Go(func() { served <- srv.Serve(l) })
	}
	if second != nil {
		running.Go(func() { served <- srv.Serve(second) })
	}
	if o.ready != nil {
		o.ready(scheme + l.Addr().String())
	}
	select {
	case err := <-served:
		_ = srv.Close()
		o.endpoints.Close()
		return fmt.Errorf("serve %s: %w", o.address, err)
	case <-ctx.Done():
	}
	o.stop(srv)
	return nil
}

// stop waits for running requests, at most for o.limit, and then ends those that are left.
func (o *listenOptions) stop(srv *httpdoor.Server) {
	var closing sync.WaitGroup
	defer closing.Wait()
	o.log.Info("stopping: waiting for running calls")
	if o.part != nil {
		o.limit = cmp.Or(o.part(), o.limit)
	}
	if o.drain != nil {
		o.drain()
	}
	o.endpoints.Drain()
	if o.limit <= 0 {
		o.limit = runtime.DrainLimit
	}
	polite, stop := context.WithTimeout(context.Background(), o.limit)
	defer stop()
	ended := srv.Shutdown(polite) == nil
	if o.settle != nil {
		o.settle(polite)
		ended = polite.Err() == nil
	}
	if !ended {
		o.log.Warn("ending the calls that are still running", "after", o.limit.String())
	}
	// Closing the endpoints ends the requests that are still running. The clients of these requests
	// get an error.
	closed := make(chan struct{})
	closing.Go(func() {
		defer close(closed)
		o.endpoints.Close()
	})
	short, stopShort := context.WithTimeout(context.Background(), hangUp)
	defer stopShort()
	select {
	case <-closed:
		_ = srv.Shutdown(short)
	case <-short.Done():
	}
	_ = srv.Close()
}

// twin listens on the port of addr at the other loopback address. ours is false if another program
// can listen there. If the machine does not have that address, nobody can, and l is nil.
func twin(addr net.Addr) (l net.Listener, ours bool) {
	at, ok := addr.(*net.TCPAddr)
	if !ok {
		return nil, false
	}
	other := net.IPv6loopback
	switch {
	case at.IP.Equal(net.IPv6loopback):
		other = net.IPv4(127, 0, 0, 1)
	case !at.IP.Equal(net.IPv4(127, 0, 0, 1)):
		return nil, false
	}
	l, err := net.Listen("tcp", (&net.TCPAddr{IP: other, Port: at.Port}).String())
	if err == nil {
		return l, true
	}
	all, err := net.InterfaceAddrs()
	return nil, err == nil && !slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(other)
	})
}

// atOneAddress returns a handler for which all requests arrive at the address of l. The second
// listener may be nil. The commands of the user know only the first address, so every text and file
// of this process names that one.
func atOneAddress(next http.Handler, l, second net.Listener) http.Handler {
	if second == nil {
		return next
	}
	other := second.Addr().String()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && at.String() == other {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, l.Addr()))
		}
		next.ServeHTTP(w, r)
	})
}

// listenError describes why Dragoman cannot listen on address, and what the user can do. The result
// is a *failure.Failure.
func listenError(address string, err error) error {
	facts := failure.Facts{Listen: address, Given: true}
	f := failure.Of(err, facts)
	if f.Class == failure.PortInUse {
		facts.Holder = holderOf(address)
		f = failure.Of(err, facts)
	}
	return f
}

// isLocal reports whether only processes on this machine can connect to the listen address.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && transport.IsLoopback(host)
}
