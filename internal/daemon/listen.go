package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// drainLimit is how long running calls may take to end once we are told to stop.
const drainLimit = 30 * time.Second

type listenOptions struct {
	address   string
	handler   http.Handler
	endpoints []*endpoint
	log       *slog.Logger
	drain     func()            // ends what would never end by itself, when the stop begins
	ready     func(base string) // called once, with "http://host:port"
}

// listen serves HTTP until ctx ends, then lets what runs come to its end, within
// bounds. It returns nil after an orderly stop.
func listen(ctx context.Context, o listenOptions) error {
	l, err := net.Listen("tcp", o.address)
	if err != nil {
		return listenError(o.address, err)
	}
	life, cancel := context.WithCancel(context.Background())
	defer cancel()
	srv := httpdoor.NewHTTPServer(o.handler)
	srv.BaseContext = func(net.Listener) context.Context { return life }
	srv.ErrorLog = slog.NewLogLogger(o.log.Handler(), slog.LevelDebug)
	var running sync.WaitGroup
	defer running.Wait()
	for _, e := range o.endpoints {
		running.Go(func() { e.run(life) })
	}
	served := make(chan error, 1)
	running.Go(func() { served <- srv.Serve(l) })
	if o.ready != nil {
		o.ready("http://" + l.Addr().String())
	}
	select {
	case err := <-served:
		cancel()
		closeEndpoints(o.endpoints)
		return fmt.Errorf("serve %s: %w", o.address, err)
	case <-ctx.Done():
	}
	o.log.Info("stopping: running calls may end")
	if o.drain != nil {
		o.drain()
	}
	for _, e := range o.endpoints {
		e.drain()
	}
	polite, stop := context.WithTimeout(context.Background(), drainLimit)
	defer stop()
	if srv.Shutdown(polite) != nil {
		o.log.Warn("calls were cut off", "after", drainLimit.String())
	}
	cancel()
	_ = srv.Close()
	closeEndpoints(o.endpoints)
	return nil
}

func closeEndpoints(all []*endpoint) {
	for _, e := range all {
		e.close()
	}
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
