package console

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// Limits and intervals of the live values.
const (
	mostConsoles = 128             // the maximum number of open streams
	feedPause    = time.Second     // the time between two checks of an open page
	feedQuiet    = 5 * time.Second // the time between two checks of an open page while no events arrive
	linePause    = 5 * time.Second // the minimum time between two changes of the lines in the diagram
	mostBatches  = 200             // how many batches a feed keeps, for streams that continue after an interruption
)

// Live collects the live values of a page, which change while the page is open. Templates write
// each live value with a method of Live, so the page and its stream show the same value. The caller
// must make text from peers safe to show. IDs must be unique in a page. A Live is not safe for
// concurrent use.
type Live struct {
	patches []patch
}

// patch is one live value, as the console sends it to the page. kind determines which fields are
// used.
type patch struct {
	ID    string `json:"id"`
	Text  string `json:"text"`
	Class string `json:"class,omitempty"`
	D     string `json:"d,omitempty"`     // the shape of an SVG path: its attribute d
	Width string `json:"width,omitempty"` // the stroke width of an SVG path
	Hash  string `json:"hash,omitempty"`  // the hash of a section; the page reloads the section when the hash changes
	kind  patchKind
}

type patchKind uint8

const (
	textPatch patchKind = iota
	linePatch
	sectionPatch
	countPatch
	progressPatch
)

// MarshalJSON encodes only the fields that patches of this kind use.
func (p patch) MarshalJSON() ([]byte, error) {
	out := map[string]string{"id": p.ID}
	switch p.kind {
	case textPatch:
		out["text"], out["class"] = p.Text, p.Class
	case linePatch:
		out["class"], out["d"], out["width"] = p.Class, p.D, p.Width
	case sectionPatch:
		out["hash"] = p.Hash
	case countPatch:
		out["count"] = p.Text
	case progressPatch:
		out["value"] = p.Text
	}
	return json.Marshal(out)
}

// Text returns an HTML element whose text and class can change while the page is open.
func (l *Live) Text(id, class, text string) template.HTML {
	l.patches = append(l.patches, patch{ID: id, Class: class, Text: text})
	return element("span", id, class, text)
}

// Tspan is like Text, but for a tspan element in an SVG text.
func (l *Live) Tspan(id, class, text string) template.HTML {
	l.patches = append(l.patches, patch{ID: id, Class: class, Text: text})
	return element("tspan", id, class, text)
}

func element(name, id, class, text string) template.HTML {
	attr := ""
	if class != "" {
		attr = ` class="` + template.HTMLEscapeString(class) + `"`
	}
	if id != "" {
		attr = ` id="` + template.HTMLEscapeString(id) + `"` + attr
	}
	return template.HTML(fmt.Sprintf(`<%s%s>%s</%s>`, name, attr, template.HTMLEscapeString(text), name))
}

// Line returns an SVG path. Its class, shape and width can change while the page is open.
func (l *Live) Line(id, class, d string, width float64) template.HTML {
	w := strconv.FormatFloat(width, 'f', 1, 64)
	l.patches = append(l.patches, patch{ID: id, Class: class, D: d, Width: w, kind: linePatch})
	attr := ""
	if class != "" {
		attr = ` class="` + class + `"`
	}
	return template.HTML(fmt.Sprintf(`<path id="%s"%s d="%s" stroke-width="%s"/>`, id, attr, d, w))
}

// Progress returns a progress bar that can change while the page is open. part is from 0 to 1.
func (l *Live) Progress(id, label string, part float64) template.HTML {
	value := strconv.FormatFloat(max(0, min(1, part)), 'f', 4, 64)
	l.patches = append(l.patches, patch{ID: id, Text: value, kind: progressPatch})
	return template.HTML(fmt.Sprintf(`<progress id="%s" max="1" value="%s" aria-label="%s"></progress>`, id, value, template.HTMLEscapeString(label)))
}

// Section returns the attributes of a section. The page reloads the section when one of the parts
// changes. parts must identify the rows of the section. parts must not contain values that Text
// updates.
func (l *Live) Section(id string, parts ...any) template.HTMLAttr {
	h := fnv.New64a()
	for _, p := range parts {
		fmt.Fprintf(h, "%v\x00", p)
	}
	hash := strconv.FormatUint(h.Sum64(), 36)
	l.patches = append(l.patches, patch{ID: id, Hash: hash, kind: sectionPatch})
	return template.HTMLAttr(fmt.Sprintf(`id="%s" data-hash="%s"`, id, hash))
}

// New returns the attributes of a hidden button that reloads the page. When there are new rows, the
// page shows the button and the number of new rows. total is the current number of rows.
func (l *Live) New(id string, total uint64) template.HTMLAttr {
	n := strconv.FormatUint(total, 10)
	l.patches = append(l.patches, patch{ID: id, Text: n, kind: countPatch})
	return template.HTMLAttr(fmt.Sprintf(`id="%s" data-count="%s" hidden`, id, n))
}

// feeds updates the live values of all open pages. All browser windows with the same page share one
// feed if their users may see the same, so additional windows cause no additional work. Nobody gets a byte that was
// computed for somebody who may see more: a feed belongs to a page and a class of viewers.
type feeds struct {
	pages   http.Handler
	states  *states
	log     *slog.Logger
	streams *admin.Streams
	epoch   int64
	news    atomic.Uint64 // how often changed was called
	wake    chan struct{} // capacity 1; signals that a reader has joined

	mu  sync.Mutex
	all map[feedKey]*feed // the open feeds
	ids int64             // the number of feeds so far
}

// feedKey is what a feed belongs to: the URL of a page, and a class of viewers.
type feedKey struct{ url, class string }

// feed has the live values of one page, for all readers of the page in one class of viewers.
type feed struct {
	feedKey
	as      viewer // for whom the page is computed
	name    string // which feed this is; a reader who continues after an interruption may have had another one
	readers int    // the number of streams that read the feed; guarded by feeds.mu

	mu    sync.Mutex
	state map[string]patch // the current values, by ID; nil before the first check
	order []string         // the IDs of the values in state, in the order in which they appeared
	seq   uint64           // the number of the newest batch
	past  []batch          // the newest batches, oldest first
	more  chan struct{}    // closed at the next batch
	lines time.Time        // when a line of the diagram last changed
	seen  uint64           // feeds.news at the last check
	look  time.Time        // the time of the last check
	moves bool             // the page can change without events; see View.Moving
}

type batch struct {
	seq     uint64
	patches []patch
}

func newFeeds(pages http.Handler, s *states, log *slog.Logger, streams *admin.Streams) *feeds {
	return &feeds{pages: pages, states: s, log: log, streams: streams, epoch: time.Now().UnixMilli(), wake: make(chan struct{}, 1), all: map[feedKey]*feed{}}
}

// changed counts an event, so that run checks the open pages again. It must be fast, because the
// console calls it for each event.
func (f *feeds) changed() { f.news.Add(1) }

// join returns the feed of a page for a class of viewers, and adds a reader to the feed. as is one of the class.
func (f *feeds) join(of feedKey, as viewer) *feed {
	f.mu.Lock()
	x := f.all[of]
	if x == nil {
		f.ids++
		x = &feed{feedKey: of, as: as, name: strconv.FormatInt(f.epoch, 36) + "." + strconv.FormatInt(f.ids, 36), more: make(chan struct{})}
		f.all[of] = x
	}
	x.readers++
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return x
}

// leave removes a reader from a feed. It discards the feed if no reader is left.
func (f *feeds) leave(x *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x.readers--; x.readers == 0 {
		delete(f.all, x.feedKey)
	}
}

// open returns the feeds that have readers.
func (f *feeds) open() (all []*feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.all {
		all = append(all, x)
	}
	return all
}

// run checks each open page about once a second until ctx ends or gone is closed. While no page is open, run does
// nothing.
func (f *feeds) run(ctx context.Context, gone <-chan struct{}) {
	t := time.NewTicker(feedPause)
	t.Stop()
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gone:
			return
		case <-f.wake:
			t.Reset(feedPause)
		case <-t.C:
		}
		all, news, now := f.open(), f.news.Load(), time.Now()
		if len(all) == 0 {
			t.Stop()
			continue
		}
		for _, x := range all {
			if x.due(news, now) {
				values, moves := f.render(x.url, x.as)
				x.add(values, moves, now)
			}
		}
	}
}

// due reports whether the method run must check the page now. If so, due records the check. news is
// the current value of feeds.news.
func (x *feed) due(news uint64, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != nil && (x.seen == news && !x.moves || now.Sub(x.look) < feedPause/2) && now.Sub(x.look) < feedQuiet {
		return false
	}
	x.seen, x.look = news, now
	return true
}

// render computes a page for a viewer. It returns the page's live values, and whether the page can change
// without events. render recovers from panics. It runs outside of an HTTP handler, so a panic would
// otherwise end the program.
func (f *feeds) render(page string, as viewer) (values []patch, moves bool) {
	defer func() {
		if p := recover(); p != nil {
			values, moves = nil, false
			path, _, _ := strings.Cut(page, "?")
			f.log.Error("a page of the console could not be made", "page", excerpt.Line(path, 400), "cause", excerpt.Line(fmt.Sprint(p), 400))
		}
	}()
	r, err := http.NewRequest(http.MethodGet, page, nil)
	if err != nil {
		return nil, false
	}
	s := f.states.begin(as, true)
	f.pages.ServeHTTP(nowhere{}, withState(r, s))
	return s.live.patches, s.moving
}

// nowhere is an http.ResponseWriter that discards the response.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

// add stores the values that the page has now, and sends the changed values to the readers. moves
// says whether the page can change without events. at is the current time.
func (x *feed) add(now []patch, moves bool, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.moves = moves
	first := x.state == nil
	if first {
		x.state = make(map[string]patch, len(now))
	}
	moving := at.Sub(x.lines) >= linePause
	var changed []patch
	for _, p := range now {
		was, known := x.state[p.ID]
		if known && (was == p || p.kind == linePatch && !moving) {
			continue
		}
		if !known {
			x.order = append(x.order, p.ID)
		}
		if p.kind == linePatch {
			x.lines = at
		}
		x.state[p.ID] = p
		changed = append(changed, p)
	}
	if len(x.order) > 4*len(now)+64 { // remove values that the page no longer has
		x.state, x.order = make(map[string]patch, len(now)), nil
		for _, p := range now {
			x.state[p.ID] = p
			x.order = append(x.order, p.ID)
		}
	}
	if len(changed) == 0 {
		return
	}
	x.seq++
	x.past = append(x.past, batch{x.seq, changed})
	if len(x.past) > mostBatches {
		x.past = append([]batch(nil), x.past[len(x.past)-mostBatches/2:]...)
	}
	close(x.more)
	x.more = make(chan struct{})
}

// after returns the changes since the batch with the number seq. If known is false, or if the feed
// no longer has these changes, after returns all values. now is the number of the newest batch. The
// feed closes more when it adds the next batch.
func (x *feed) after(seq uint64, known bool) (patches []patch, now uint64, more <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.state == nil, known && seq == x.seq:
	case known && seq < x.seq && len(x.past) > 0 && x.past[0].seq <= seq+1:
		for _, b := range x.past {
			if b.seq > seq {
				patches = append(patches, b.patches...)
			}
		}
	default:
		for _, id := range x.order {
			patches = append(patches, x.state[id])
		}
	}
	return patches, x.seq, x.more
}

// serve handles GET /console/events?page=URL. It sends the live values of a page as an event
// stream, as a viewer of a class gets them, who may see the page.
func (f *feeds) serve(w http.ResponseWriter, r *http.Request, as viewer, class string) {
	page, err := url.Parse(r.URL.Query().Get("page"))
	if err != nil || page.IsAbs() || page.Host != "" || !strings.HasPrefix(page.Path, prefix+"/") || len(page.RawQuery) > 2048 {
		http.Error(w, "page must be the path of a page of the console", http.StatusBadRequest)
		return
	}
	x := f.join(feedKey{pageURL(page), class}, as)
	defer f.leave(x)
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("last")
	}
	name, rest, _ := strings.Cut(last, "-")
	seq, err := strconv.ParseUint(rest, 36, 64)
	known := err == nil && name == x.name
	f.streams.Serve(w, r, func(out []byte) ([]byte, <-chan struct{}, bool) {
		patches, now, more := x.after(seq, known)
		if len(patches) > 0 {
			data, err := json.Marshal(patches)
			if err == nil {
				out = eventstream.AppendEvent(out, x.name+"-"+strconv.FormatUint(now, 36), "patch", data)
			}
		}
		if now > 0 {
			seq, known = now, true
		}
		return out, more, false
	})
}
