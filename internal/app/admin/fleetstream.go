package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// EventMissing is the name of the events that say that another replica's events are missing from now on. Its data is a
// Missing. When they come again, nothing says so but they.
const EventMissing = "missing"

const (
	followAgain = 2 * time.Second // between two looks for replicas whose stream isn't open
	mostHeard   = 64              // how many events of others wait for a reader; then we read no more of theirs
)

// follower reads the streams of the other replicas for one reader.
type follower struct {
	fleet *fleet
	asked *http.Request // of the reader
	uri   string
	name  string // of the events to pass on
	heard chan []byte

	mu   sync.Mutex
	open map[string]bool // the homes of the replicas whose streams are being read
	last map[string]string
	gone map[string]bool // those of which the reader knows that they are missing
}

// follow returns a Next with the events of next, and with those of a name that the other replicas send for the same
// path. They have no id, since a reader who comes back knows only where the events of one process are: it gets those of
// the others from then on. Call end after use.
func (f *fleet) follow(r *http.Request, route string, query url.Values, name string, next Next) (_ Next, end func()) {
	if len(f.of(r)) == 0 {
		return next, func() {}
	}
	ctx, cancel := context.WithCancel(r.Context())
	if lastEventID(r) != "" {
		query.Set("limit", "0")
	}
	query.Del("after")
	x := &follower{fleet: f, asked: r.Clone(ctx), uri: f.path(route, query), name: name, heard: make(chan []byte, mostHeard), open: map[string]bool{}, last: map[string]string{}, gone: map[string]bool{}}
	x.asked.Header.Del("Last-Event-ID")
	var running sync.WaitGroup
	running.Go(func() { x.run(ctx) })
	return func(out []byte) ([]byte, <-chan struct{}, bool) {
			out, more, last := next(out)
			for { // Serve asks again soon, also if next has nothing new
				select {
				case e := <-x.heard:
					out = append(out, e...)
					continue
				default:
				}
				return out, more, last
			}
		}, func() {
			cancel()
			running.Wait()
		}
}

// run opens the streams of the other replicas, also of those that come later, until ctx ends.
func (x *follower) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		for _, to := range x.fleet.of(x.asked) {
			if x.begin(to.Home) {
				running.Go(func() { x.read(ctx, to) })
			}
		}
		if work.Sleep(ctx, followAgain) != nil {
			return
		}
	}
}

// begin reports whether nobody reads the stream of a replica yet.
func (x *follower) begin(home string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.open[home]
	x.open[home] = true
	return !was
}

// read passes on the events of a replica until its stream ends.
func (x *follower) read(ctx context.Context, of Other) {
	x.mu.Lock()
	r, known := x.asked, x.last[of.Home]
	x.mu.Unlock()
	if known != "" {
		r = r.Clone(ctx)
		r.Header.Set("Last-Event-ID", known)
	}
	resp, err := x.fleet.ask(ctx, r, of, http.MethodGet, x.uri, nil)
	if err == nil {
		if resp.StatusCode == http.StatusOK {
			x.pass(ctx, of, eventstream.NewReader(resp.Body, eventstream.Limits{}))
		}
		_ = resp.Body.Close()
	}
	x.mu.Lock()
	x.open[of.Home] = false
	told := x.gone[of.Home]
	x.gone[of.Home] = true
	x.mu.Unlock()
	if !told && ctx.Err() == nil {
		data, _ := json.Marshal(Missing{of.Name, unreachable}) // strings can be encoded
		x.say(ctx, EventMissing, data)
	}
}

func (x *follower) pass(ctx context.Context, of Other, in *eventstream.Reader) {
	for {
		e, err := in.Next()
		if err != nil || e.Name == EventEnd {
			return
		}
		if e.Name == x.name && !x.say(ctx, e.Name, e.Data) {
			return
		}
		x.mu.Lock()
		if e.HasID {
			x.last[of.Home] = e.ID
		}
		x.gone[of.Home] = false
		x.mu.Unlock()
	}
}

func (x *follower) say(ctx context.Context, name string, data []byte) bool {
	select {
	case x.heard <- eventstream.AppendEvent(nil, "", name, data):
		return true
	case <-ctx.Done():
		return false
	}
}
