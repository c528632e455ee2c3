package interop

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
)

// observer has the methods of a witness that the tools of a server need. A tool reports its own
// events, and waits for events that others report. It never waits for a fixed time.
type observer interface {
	saw(event string)
	await(ctx context.Context, event string) error
}

// witness records the events in this process.
type witness struct {
	http *httptest.Server

	mu     sync.Mutex
	events map[string]chan struct{} // closed when the event has happened
}

func newWitness() *witness {
	w := &witness{events: make(map[string]chan struct{})}
	w.http = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if event := r.URL.Query().Get("await"); event != "" {
			if err := w.await(r.Context(), event); err != nil {
				http.Error(rw, err.Error(), http.StatusGatewayTimeout)
			}
			return
		}
		w.saw(r.URL.Query().Get("saw"))
	}))
	return w
}

func (w *witness) channel(event string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.events[event]
	if c == nil {
		c = make(chan struct{})
		w.events[event] = c
	}
	return c
}

// saw records that an event has happened. Reporting it again has no effect.
func (w *witness) saw(event string) {
	c := w.channel(event)
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// await waits until the event has happened.
func (w *witness) await(ctx context.Context, event string) error {
	select {
	case <-w.channel(event):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the server never reported %q: %w", event, context.Cause(ctx))
	}
}

// releasable returns a context for a request that the client may never answer. The context ends
// when the event "release KEY" has happened. The caller must call done.
func releasable(ctx context.Context, wit observer, key string) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if wit.await(ctx, "release "+key) == nil {
			cancel()
		}
	})
	return ctx, func() {
		cancel()
		waiting.Wait()
	}
}

// remoteWitness is the witness for a server in another process.
type remoteWitness struct{ url string }

func (w remoteWitness) ask(ctx context.Context, what, event string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"?"+what+"="+url.QueryEscape(event), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %q: %s", what, event, resp.Status)
	}
	return nil
}

func (w remoteWitness) saw(event string) { _ = w.ask(context.Background(), "saw", event) }

func (w remoteWitness) await(ctx context.Context, event string) error {
	return w.ask(ctx, "await", event)
}
