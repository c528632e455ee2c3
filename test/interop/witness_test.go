package interop

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
)

// observer is what the tools of a server need of a witness: they report what
// happens in them and wait for what happens elsewhere. Nobody waits for time.
type observer interface {
	saw(event string)
	await(ctx context.Context, event string) error
}

// witness is the observer of everything in this process.
type witness struct {
	http *httptest.Server

	mu     sync.Mutex
	events map[string]chan struct{} // closed when it has happened
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

// saw takes down that an event has happened; each happens once.
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

// await returns when the event has happened.
func (w *witness) await(ctx context.Context, event string) error {
	select {
	case <-w.channel(event):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the server never reported %q: %w", event, context.Cause(ctx))
	}
}

// releasable returns a context for what a client may never answer: it ends when
// the witness says that nobody waits any more. done must be called.
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

// remoteWitness is the witness for a server in a process of its own.
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
