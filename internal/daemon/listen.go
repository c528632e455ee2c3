package daemon

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
	"github.com/dragoman-mcp/dragoman/internal/telemetry"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
	"github.com/dragoman-mcp/dragoman/internal/work"
)

// drainLimit is how long running calls may take to end once we are told to stop,
// or their server is taken out of the configuration; hangUp is how long their
// clients may take to read why they were cut off.
const (
	drainLimit = 30 * time.Second
	hangUp     = 2 * time.Second
)

// doors are the endpoints that are open. They are looked after from when they are
// added until they are removed or all are closed.
type doors struct {
	life    context.Context
	end     context.CancelCauseFunc
	running work.Group

	mu       sync.Mutex
	all      map[*endpoint]context.CancelFunc
	draining bool
	closed   bool
}

func newDoors() *doors {
	d := &doors{all: make(map[*endpoint]context.CancelFunc)}
	d.life, d.end = context.WithCancelCause(context.Background())
	return d
}

func (d *doors) add(e *endpoint) {
	life, end := context.WithCancel(d.life)
	d.mu.Lock()
	draining := d.draining || d.closed
	d.all[e] = end
	if !d.closed {
		d.running.Go(func() { e.run(life) })
	}
	d.mu.Unlock()
	if draining {
		e.drain()
	}
}

// remove closes an endpoint and the sessions there.
func (d *doors) remove(e *endpoint) {
	d.mu.Lock()
	end := d.all[e]
	delete(d.all, e)
	d.mu.Unlock()
	if end != nil {
		end()
	}
	e.close(errRemoved)
}

var errRemoved = errors.New("the endpoint was removed")

// list returns the endpoints that are open.
func (d *doors) list() []*endpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.all))
}

// counts returns what each endpoint has counted.
func (d *doors) counts() (all []telemetry.Endpoint) {
	for _, e := range d.list() {
		all = append(all, telemetry.Endpoint{Path: e.path(), HTTP: e.http.Counts(), SSE: e.sse.Counts()})
	}
	return all
}

func (d *doors) drain() {
	d.mu.Lock()
	d.draining = true
	d.mu.Unlock()
	for _, e := range d.list() {
		e.drain()
	}
}

// close ends all sessions and waits until nothing runs at any endpoint. What still
// runs is told that the gateway stops. close may be called again.
func (d *doors) close() {
	d.end(mcp.ErrShutdown)
	d.mu.Lock()
	d.closed = true
	all := slices.Collect(maps.Keys(d.all))
	d.mu.Unlock()
	var wait sync.WaitGroup
	for _, e := range all {
		wait.Go(func() { e.close(mcp.ErrShutdown) })
	}
	wait.Wait()
	d.running.Wait()
}

type listenOptions struct {
	address string
	handler http.Handler
	doors   *doors
	log     *slog.Logger
	drain   func()            // ends what would never end by itself, when the stop begins
	limit   time.Duration     // 0 means drainLimit
	ready   func(base string) // called once, with "http://host:port"
}

// listen serves HTTP until ctx ends, then lets what runs come to its end, within
// bounds, and closes the doors. It returns nil after an orderly stop.
func listen(ctx context.Context, o listenOptions) error {
	l, err := net.Listen("tcp", o.address)
	if err != nil {
		o.doors.close()
		return listenError(o.address, err)
	}
	srv := httpdoor.NewHTTPServer(o.handler)
	srv.BaseContext = func(net.Listener) context.Context { return o.doors.life }
	srv.ErrorLog = log.New(serverLog{o.log}, "", 0)
	var running sync.WaitGroup
	defer running.Wait()
	served := make(chan error, 1)
	running.Go(func() { served <- srv.Serve(httpdoor.Listen(l)) })
	if o.ready != nil {
		o.ready("http://" + l.Addr().String())
	}
	select {
	case err := <-served:
		_ = srv.Close()
		o.doors.close()
		return fmt.Errorf("serve %s: %w", o.address, err)
	case <-ctx.Done():
	}
	o.log.Info("stopping: running calls may end")
	if o.drain != nil {
		o.drain()
	}
	o.doors.drain()
	if o.limit <= 0 {
		o.limit = drainLimit
	}
	polite, stop := context.WithTimeout(context.Background(), o.limit)
	defer stop()
	if srv.Shutdown(polite) != nil {
		o.log.Warn("calls are cut off", "after", o.limit.String())
	}
	// What still runs ends with the doors and says so, if its client reads.
	closed := make(chan struct{})
	running.Go(func() {
		defer close(closed)
		o.doors.close()
	})
	short, stopShort := context.WithTimeout(context.Background(), hangUp)
	defer stopShort()
	select {
	case <-closed:
		_ = srv.Shutdown(short)
	case <-short.Done():
	}
	_ = srv.Close()
	return nil
}

// listenError says what is wrong with an address and what to do.
func listenError(address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("address %s is in use: stop the other program or choose another with --listen", address)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("address %s may not be used by this user: choose a port above 1023 with --listen", address)
	}
	return fmt.Errorf("address %s cannot be listened on: %w", address, err)
}
