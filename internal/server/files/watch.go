package files

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/server/tools"
)

// Limits of watches.
const (
	watchMost   = 256
	watchedMost = 20_000  // the maximum number of entries of one watch
	entriesMost = 100_000 // the maximum number of entries of all watches
	urisMost    = 1000    // the maximum number of URIs of all subscriptions
	changesMost = 1000    // the maximum number of changes that one watch remembers
	waitMost    = 50      // the maximum time that a call waits, in seconds; shorter than the usual timeout of a client
	waitersMost = 8
	watchIdle   = 30 * time.Minute // a watch without a subscription ends if no request uses it for this time
)

type watchIn struct {
	Path      string `json:"path,omitempty" jsonschema:"The folder to watch."`
	Recursive *bool  `json:"recursive,omitempty" jsonschema:"Also watch the folders in it. The default is true."`
	Since     string `json:"since,omitempty" jsonschema:"The cursor of the previous answer. The answer has the changes since then."`
	Wait      int    `json:"wait,omitempty" jsonschema:"With since: wait up to this many seconds for a change. The default is 0."`
}

type watchOut struct {
	Path       string    `json:"path"`
	URI        string    `json:"uri" jsonschema:"The folder as a resource. Clients that support subscriptions can subscribe to it."`
	Cursor     string    `json:"cursor" jsonschema:"Pass it as since to get the changes after this answer."`
	Changes    []changed `json:"changes"`
	Missed     bool      `json:"missed,omitempty" jsonschema:"There were more changes than the server remembers. List the folder again."`
	Entries    int       `json:"entries" jsonschema:"How many entries are watched."`
	Incomplete bool      `json:"incomplete,omitempty" jsonschema:"The folder has more entries than can be watched. Watch a smaller one."`
}

// changed is one change in a watched folder.
type changed struct {
	Path string `json:"path"`
	Kind string `json:"kind" jsonschema:"created, modified or deleted"`
	Time string `json:"time" jsonschema:"When the server noticed it."`
}

func (s *Server) addWatch() {
	add(s, tool{
		name: "watch_folder", title: "Watch a folder",
		description: "Notice changes in a folder. The first call begins the watch and returns a cursor. Later calls with that cursor return what was created, modified and deleted since, and may wait for a change. Clients can also subscribe to the returned URI.",
		restrictIn:  func(p map[string]*jsonschema.Schema) { tools.Range(p["wait"], 0, waitMost) },
	}, s.watchFolder)
}

// mark has the properties of an entry that a poll compares.
type mark struct {
	kind     fs.FileMode
	size     int64
	modified int64
	identity uint64
}

// watch is one watched folder or file. Its fields are guarded by watching.mu.
type watch struct {
	id        string
	at        place
	recursive bool

	state      map[string]mark // the mark of each entry, by its path relative to the watched place; "." is this place itself
	incomplete bool
	changes    []changed
	first      int             // the number of changes[0]
	news       chan struct{}   // closed when a poll finds the next change
	subscribed map[string]bool // the URIs with a subscription; the SDK too has at most one subscription for each URI
	used       time.Time

	// The SDK registers a subscription only after Server.subscribe has returned. It does not notify
	// the subscriber of changes before that. So the server notifies the subscriber again later.
	// pending contains, for each new subscription by its URI, the number of the first change that
	// the SDK may have missed, and the number of polls to wait before the second notification.
	pending map[string]repeat
}

type repeat struct{ number, looks int }

// watching contains all watches of a server.
type watching struct {
	mu      sync.Mutex
	all     []*watch
	waiters int
	started bool
}

func (s *Server) watchFolder(ctx context.Context, _ *mcp.CallToolRequest, in watchIn) (*mcp.CallToolResult, watchOut, error) {
	var none watchOut
	at, err := s.one(in.Path)
	if err != nil {
		return nil, none, err
	}
	dir, err := s.folder(at)
	if err != nil {
		return nil, none, err
	}
	_ = dir.Close()
	w, err := s.watchOf(ctx, at, in.Recursive == nil || *in.Recursive, "")
	if err != nil {
		return nil, none, err
	}
	out, news := s.since(w, in.Since)
	if in.Since == "" || in.Wait == 0 || len(out.Changes) > 0 || out.Missed {
		return nil, out, nil
	}
	if !s.waiter(1) {
		return nil, none, refuse("call again without wait", "%d calls are already waiting for changes", waitersMost)
	}
	defer s.waiter(-1)
	timer := time.NewTimer(time.Duration(in.Wait) * time.Second)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
		return nil, none, ctx.Err()
	}
	out, _ = s.since(w, in.Since)
	return nil, out, nil
}

// waiter adds n to the number of calls that wait for a change. If the sum would exceed waitersMost,
// waiter changes nothing and returns false.
func (s *Server) waiter(n int) bool {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	if n > 0 && s.watch.waiters+n > waitersMost {
		return false
	}
	s.watch.waiters += n
	return true
}

// watchOf returns the watch of a place, and creates the watch if it does not exist. uri is the URI
// of a new subscription, or "" if the caller does not subscribe.
func (s *Server) watchOf(ctx context.Context, at place, recursive bool, uri string) (*watch, error) {
	if w, err := s.findWatch(at, recursive, uri); w != nil || err != nil {
		return w, err
	}
	state, incomplete, err := s.look(ctx, at, recursive, watchedMost)
	if err != nil {
		return nil, err
	}
	w := &watch{
		id: rand.Text()[:8], at: at, recursive: recursive, state: state, incomplete: incomplete,
		first: 1, news: make(chan struct{}), subscribed: map[string]bool{}, used: time.Now(), pending: map[string]repeat{},
	}
	w.subscribeLocked(uri)
	removed, err := s.addWatched(w)
	if err != nil {
		return nil, err
	}
	s.announce(w, removed...)
	return w, nil
}

// findWatch returns the existing watch of a place, or nil. It also adds a subscription for uri,
// unless uri is "". It returns an error if uri is new and there are too many URIs.
func (s *Server) findWatch(at place, recursive bool, uri string) (*watch, error) {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	for _, w := range s.watch.all {
		if w.at.root == at.root && w.at.rel == at.rel && w.recursive == recursive {
			if uri != "" && !w.subscribed[uri] && s.watch.urisLocked() >= urisMost {
				return nil, errManyURIs
			}
			w.used = time.Now()
			w.subscribeLocked(uri)
			return w, nil
		}
	}
	return nil, nil
}

var errManyURIs = refuse("end a subscription first", "the server already has subscriptions for %d URIs", urisMost)

// urisLocked returns the number of URIs of all subscriptions. The caller holds mu.
func (w *watching) urisLocked() (n int) {
	for _, o := range w.all {
		n += len(o.subscribed)
	}
	return n
}

// entriesLocked returns the number of watched entries. The caller holds mu.
func (w *watching) entriesLocked() (n int) {
	for _, o := range w.all {
		n += len(o.state)
	}
	return n
}

// subscribeLocked adds a subscription for uri, unless uri is "". The caller holds watching.mu, or
// is the only user of w.
func (w *watch) subscribeLocked(uri string) {
	if uri != "" {
		w.subscribed[uri] = true
		w.pending[uri] = repeat{number: w.first + len(w.changes), looks: 2}
	}
}

// repeatsLocked is called once for each poll. It returns the URIs in pending whose subscribers must
// get a second notification now. The caller holds watching.mu.
func (w *watch) repeatsLocked() (uris []string) {
	for uri, p := range w.pending {
		if p.looks--; p.looks > 0 {
			w.pending[uri] = p
			continue
		}
		delete(w.pending, uri)
		if w.first+len(w.changes) > p.number && w.subscribed[uri] {
			uris = append(uris, uri)
		}
	}
	return uris
}

// addWatched adds w, and starts the polls if w is the first watch. If there are too many watches or
// entries, it removes watches without a subscription and returns them. It removes the least
// recently used watches first. It returns an error if too many watches have a subscription, or if
// there are too many URIs.
func (s *Server) addWatched(w *watch) (removed []*watch, err error) {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	if s.watch.urisLocked()+len(w.subscribed) > urisMost {
		return nil, errManyURIs
	}
	all := slices.Clone(s.watch.all)
	entries := s.watch.entriesLocked() + len(w.state)
	for len(all) >= watchMost || entries > entriesMost {
		oldest := -1
		for i, o := range all {
			if len(o.subscribed) == 0 && (oldest < 0 || o.used.Before(all[oldest].used)) {
				oldest = i
			}
		}
		switch {
		case oldest >= 0:
			removed = append(removed, all[oldest])
			entries -= len(all[oldest].state)
			all = slices.Delete(all, oldest, oldest+1)
		case len(all) >= watchMost:
			return nil, refuse("end a subscription first", "the server already watches %d files and folders", watchMost)
		default:
			return nil, refuse("end a subscription first, or watch a smaller folder", "%s has %d entries, and the server watches at most %d at the same time", quote(w.at.name), len(w.state), entriesMost)
		}
	}
	s.watch.all = append(all, w)
	if !s.watch.started {
		s.watch.started = s.group.Go(s.poll)
	}
	return removed, nil
}

// announce adds the place of w to the list of resources, unless w is nil. It removes the places of
// the removed watches from the list. Roots always stay in the list.
func (s *Server) announce(w *watch, removed ...*watch) {
	for _, o := range removed {
		if !s.isRoot(o.at) {
			s.mcp.RemoveResources(o.at.uri())
		}
	}
	if w != nil && !s.isRoot(w.at) {
		s.mcp.AddResource(&mcp.Resource{URI: w.at.uri(), Name: w.at.name, Title: "Watched: " + w.at.name}, s.readResource)
	}
}

func (s *Server) isRoot(at place) bool { return at.rel == "." }

// since returns the changes of w after a cursor, and a channel that is closed at the next change.
func (s *Server) since(w *watch, cursor string) (watchOut, <-chan struct{}) {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	out := watchOut{
		Path: w.at.name, URI: w.at.uri(), Entries: len(w.state), Incomplete: w.incomplete, Changes: []changed{},
		Cursor: w.id + "." + strconv.Itoa(w.first+len(w.changes)),
	}
	if cursor == "" {
		return out, w.news
	}
	id, number, _ := strings.Cut(cursor, ".")
	from, err := strconv.Atoi(number)
	switch {
	case err != nil || id != w.id || from > w.first+len(w.changes):
		out.Missed = true // the cursor is from another watch, or from an earlier run of the server
	case from < w.first:
		out.Missed = true
		out.Changes = slices.Clone(w.changes)
	default:
		out.Changes = append(out.Changes, w.changes[from-w.first:]...)
	}
	return out, w.news
}

// poll checks all watches repeatedly until the server is closed. If a check takes long, the pause
// after it is longer.
func (s *Server) poll() {
	pause := s.o.Poll
	for work.Sleep(s.ctx, pause) == nil {
		began := time.Now()
		s.lookAtAll(s.ctx)
		pause = max(s.o.Poll, 10*time.Since(began))
	}
}

// lookAtAll checks each watch once, and notifies the subscribers of changes. It also removes idle
// watches.
func (s *Server) lookAtAll(ctx context.Context) {
	s.watch.mu.Lock()
	all := slices.Clone(s.watch.all)
	s.watch.mu.Unlock()
	left := entriesMost
	for _, w := range all {
		state, incomplete, err := s.look(ctx, w.at, w.recursive, min(watchedMost, left))
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			state, incomplete = map[string]mark{}, false // the place was deleted, or cannot be read at the moment
		}
		left = max(1, left-len(state))
		for _, uri := range s.compare(w, state, incomplete) {
			_ = s.mcp.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri})
		}
	}
	s.announce(nil, s.idle()...)
}

// idle removes the watches that have no subscription and that nobody has used for watchIdle, and
// returns them.
func (s *Server) idle() (gone []*watch) {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	now := time.Now()
	s.watch.all = slices.DeleteFunc(s.watch.all, func(w *watch) bool {
		old := len(w.subscribed) == 0 && now.Sub(w.used) > watchIdle
		if old {
			gone = append(gone, w)
		}
		return old
	})
	return gone
}

// compare stores the new state of a watch. It returns the URIs whose subscribers must be notified.
func (s *Server) compare(w *watch, state map[string]mark, incomplete bool) []string {
	at := stamp(time.Now())
	var news []changed
	tell := func(rel, kind string) {
		p := place{root: w.at.root, rel: path.Join(w.at.rel, rel)}
		news = append(news, changed{Path: s.display(p.root, p.rel), Kind: kind, Time: at})
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	for _, rel := range slices.Sorted(maps.Keys(w.state)) {
		was := w.state[rel]
		switch is, ok := state[rel]; {
		case !ok:
			tell(rel, "deleted")
		case is != was && !(is.kind.IsDir() && was.kind.IsDir() && is.identity == was.identity):
			tell(rel, "modified") // a change in a folder is reported for the changed entry, not for the folder
		}
	}
	for _, rel := range slices.Sorted(maps.Keys(state)) {
		if _, ok := w.state[rel]; !ok {
			tell(rel, "created")
		}
	}
	w.state, w.incomplete = state, incomplete
	if len(news) == 0 {
		return w.repeatsLocked()
	}
	w.changes = append(w.changes, news...)
	if over := len(w.changes) - changesMost; over > 0 {
		w.changes = slices.Clone(w.changes[over:])
		w.first += over
	}
	close(w.news)
	w.news = make(chan struct{})
	w.repeatsLocked() // count this poll; all subscribers are notified anyway
	return slices.Sorted(maps.Keys(w.subscribed))
}

// look returns the marks of a watched place and of the entries below it. The map has no more
// entries than the limit most. The bool is true if look left out entries.
func (s *Server) look(ctx context.Context, at place, recursive bool, most int) (map[string]mark, bool, error) {
	fi, err := at.dir.Stat(filepath.FromSlash(at.rel))
	if err != nil {
		return nil, false, s.failed("watch", at, err)
	}
	state := map[string]mark{".": markOf(fi)}
	if !fi.IsDir() {
		return state, false, nil
	}
	dir, err := s.folder(at)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = dir.Close() }()
	l := looking{state: state, most: most, recursive: recursive}
	l.below(ctx, dir, "", 0)
	return state, l.incomplete, nil
}

// looking collects the marks of the entries below a watched place.
type looking struct {
	state      map[string]mark
	most       int // entries
	recursive  bool
	incomplete bool // a limit left out entries
}

// below adds the marks of the entries of dir. rel is the path of dir relative to the watched place.
func (l *looking) below(ctx context.Context, dir *os.Root, rel string, depth int) {
	_ = eachName(dir, func(names []string) error {
		for _, n := range names {
			if isUndo(n) && rel == "" || strings.HasPrefix(n, tempPrefix) || !utf8.ValidString(n) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if len(l.state) >= l.most {
				l.incomplete = true
				return fmt.Errorf("more than %d entries", l.most)
			}
			fi, err := dir.Lstat(n)
			if err != nil {
				continue
			}
			l.state[path.Join(rel, n)] = markOf(fi)
			if !l.recursive || !fi.IsDir() {
				continue
			}
			if depth == searchDepth {
				l.incomplete = true
				continue
			}
			if sub, err := dir.OpenRoot(n + string(os.PathSeparator) + "."); err == nil {
				l.below(ctx, sub, path.Join(rel, n), depth+1)
				_ = sub.Close()
			}
		}
		return nil
	})
}

func markOf(fi fs.FileInfo) mark {
	return mark{kind: fi.Mode(), size: fi.Size(), modified: fi.ModTime().UnixNano(), identity: identity(fi)}
}
