package console

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/transport/eventstream"
)

// The bounds and times of live pages.
const (
	mostConsoles = 128             // the most open streams
	feedPause    = time.Second     // the time between two checks of a page
	feedQuiet    = 5 * time.Second // the time between two checks of a page while no events arrive
	linePause    = 5 * time.Second // the time between two changes of the lines in the diagram
	mostBatches  = 200             // the batches kept for a stream that was interrupted
)

// Live collects the values of a page that change while it is open. A template writes each value
// with a method of Live, so the page and its stream show the same value. Texts of peers must be
// safe to show. Ids must be unique in a page. Not safe for concurrent use.
type Live struct {
	patches []patch
}

// patch is one live value. Empty members mean no change.
type patch struct {
	ID    string `json:"id"`
	Text  string `json:"text"`
	Class string `json:"class,omitempty"`
	D     string `json:"d,omitempty"`     // the attribute d of an SVG path, which is its shape
	Width string `json:"width,omitempty"` // the stroke width of an SVG path
	Hash  string `json:"hash,omitempty"`  // the hash of a section; when it changes, the page loads the section again
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

// MarshalJSON omits the text if the patch does not change it.
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

// Text returns an element with a text that changes in place.
func (l *Live) Text(id, class, text string) template.HTML {
	l.patches = append(l.patches, patch{ID: id, Class: class, Text: text})
	return element("span", id, class, text)
}

// Tspan does the same as Text, inside a text of an SVG.
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

// Line returns a path of an SVG. Its shape and width can change.
func (l *Live) Line(id, class, d string, width float64) template.HTML {
	w := strconv.FormatFloat(width, 'f', 1, 64)
	l.patches = append(l.patches, patch{ID: id, Class: class, D: d, Width: w, kind: linePatch})
	attr := ""
	if class != "" {
		attr = ` class="` + class + `"`
	}
	return template.HTML(fmt.Sprintf(`<path id="%s"%s d="%s" stroke-width="%s"/>`, id, attr, d, w))
}

// Progress returns a bar that fills in place. part is from 0 to 1.
func (l *Live) Progress(id, label string, part float64) template.HTML {
	value := strconv.FormatFloat(max(0, min(1, part)), 'f', 4, 64)
	l.patches = append(l.patches, patch{ID: id, Text: value, kind: progressPatch})
	return template.HTML(fmt.Sprintf(`<progress id="%s" max="1" value="%s" aria-label="%s"></progress>`, id, value, template.HTMLEscapeString(label)))
}

// Section returns the attributes of a section that is loaded again when one of parts changes.
// parts must identify the rows of the section. Values that Text updates must not be in parts.
func (l *Live) Section(id string, parts ...any) template.HTMLAttr {
	h := fnv.New64a()
	for _, p := range parts {
		fmt.Fprintf(h, "%v\x00", p)
	}
	hash := strconv.FormatUint(h.Sum64(), 36)
	l.patches = append(l.patches, patch{ID: id, Hash: hash, kind: sectionPatch})
	return template.HTMLAttr(fmt.Sprintf(`id="%s" data-hash="%s"`, id, hash))
}

// New returns the attributes of a button that loads the page again. The button shows how many
// rows are new. total is the current number of rows.
func (l *Live) New(id string, total uint64) template.HTMLAttr {
	n := strconv.FormatUint(total, 10)
	l.patches = append(l.patches, patch{ID: id, Text: n, kind: countPatch})
	return template.HTMLAttr(fmt.Sprintf(`id="%s" data-count="%s" hidden`, id, n))
}

// feeds updates the live values of all open pages. All browser windows that show the same page
// share one feed, so more windows cause no more work.
type feeds struct {
	c     *Console
	epoch int64
	news  atomic.Uint64 // the number of events; see changed
	wake  chan struct{} // capacity 1; signals an event

	mu  sync.Mutex
	all map[string]*feed // the feeds by the URL of the page
}

// feed has the live values of one page.
type feed struct {
	url     string
	readers int // the number of readers; feeds.mu guards it

	mu    sync.Mutex
	state map[string]patch // the last values
	order []string         // the ids of the last values
	seq   uint64           // the number of the last batch
	past  []batch          // the last batches, oldest first
	more  chan struct{}    // closed at the next batch
	lines time.Time        // the time when lines last changed
	seen  uint64           // feeds.news at the last check
	look  time.Time        // the time of the last check
	moves bool             // the page changes without events
}

type batch struct {
	seq     uint64
	patches []patch
}

func newFeeds(c *Console) *feeds {
	return &feeds{c: c, epoch: time.Now().UnixMilli(), wake: make(chan struct{}, 1), all: map[string]*feed{}}
}

// changed records that something has happened. It is called for each event, so it only counts.
func (f *feeds) changed() { f.news.Add(1) }

// join returns the feed of a page and adds a reader to it.
func (f *feeds) join(page string) *feed {
	f.mu.Lock()
	x := f.all[page]
	if x == nil {
		x = &feed{url: page, more: make(chan struct{})}
		f.all[page] = x
	}
	x.readers++
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return x
}

// leave removes a reader from a feed.
func (f *feeds) leave(x *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x.readers--; x.readers == 0 {
		delete(f.all, x.url)
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

// run checks each open page about once a second until ctx ends. If no page is open, it waits.
func (f *feeds) run(ctx context.Context) {
	t := time.NewTicker(feedPause)
	t.Stop()
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
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
				values, moves := f.render(x.url)
				x.add(values, moves, now)
			}
		}
	}
}

// due reports whether a page must be checked.
func (x *feed) due(news uint64, now time.Time) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state != nil && (x.seen == news && !x.moves || now.Sub(x.look) < feedPause/2) && now.Sub(x.look) < feedQuiet {
		return false
	}
	x.seen, x.look = news, now
	return true
}

// render builds a page and returns its live values, and whether it changes without events. It runs
// outside of a request, so it recovers from a panic, which would end the program.
func (f *feeds) render(page string) (values []patch, moves bool) {
	defer func() {
		if p := recover(); p != nil {
			values, moves = nil, false
			path, _, _ := strings.Cut(page, "?")
			f.c.opts.Log.Error("a page of the console could not be made", "page", excerpt.Line(path, 400), "cause", excerpt.Line(fmt.Sprint(p), 400))
		}
	}()
	r, err := http.NewRequest(http.MethodGet, page, nil)
	if err != nil {
		return nil, false
	}
	s := &state{live: &Live{}, feed: true}
	f.c.mux.ServeHTTP(nowhere{}, withState(r, s))
	return s.live.patches, s.moving
}

// nowhere is an http.ResponseWriter that discards the response.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

// add stores the values of a page and sends the changed ones to the readers.
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
	if len(x.order) > 4*len(now)+64 { // drop ids of rows that no longer exist
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

// after returns the changes after the batch seq. If known is false, or if the batch is no longer
// kept, it returns all values. now is the number of the last batch. more is closed at the next
// batch.
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

// serveEvents answers GET /console/events?page=URL with the live values of a page.
func (c *Console) serveEvents(w http.ResponseWriter, r *http.Request) {
	page, err := url.Parse(r.URL.Query().Get("page"))
	if err != nil || page.IsAbs() || page.Host != "" || !strings.HasPrefix(page.Path, prefix+"/") || len(page.RawQuery) > 2048 {
		http.Error(w, "page must be the path of a page of the console", http.StatusBadRequest)
		return
	}
	x := c.feed.join(pageURL(page))
	defer c.feed.leave(x)
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("last")
	}
	epoch, rest, _ := strings.Cut(last, "-")
	seq, err := strconv.ParseUint(rest, 36, 64)
	known := err == nil && epoch == strconv.FormatInt(c.feed.epoch, 36)
	c.streams.Serve(w, r, func(out []byte) ([]byte, <-chan struct{}, bool) {
		patches, now, more := x.after(seq, known)
		if len(patches) > 0 {
			data, err := json.Marshal(patches)
			if err == nil {
				id := strconv.FormatInt(c.feed.epoch, 36) + "-" + strconv.FormatUint(now, 36)
				out = eventstream.AppendEvent(out, id, "patch", data)
			}
		}
		if now > 0 {
			seq, known = now, true
		}
		return out, more, false
	})
}
