package files

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// kinds returns the changes as texts.
func kinds(all []changed) (texts []string) {
	for _, c := range all {
		texts = append(texts, c.Kind+" "+c.Path)
	}
	return texts
}

func TestWatch(t *testing.T) {
	r := open(t, Options{Poll: time.Hour}) // the test itself looks for changes
	look := func() { r.s.lookAtAll(context.Background()) }
	r.put("w/old", "old")
	r.put("w/sub/deep", "deep")
	var out watchOut
	r.OK("watch_folder", args{"path": "w"}, &out)
	if out.Cursor == "" || len(out.Changes) != 0 || out.Entries != 4 || !strings.HasSuffix(out.URI, "/w") {
		t.Fatalf("%+v", out)
	}
	first := out.Cursor
	r.put("w/new", "new")
	r.put("w/sub/deep", "deeper")
	if err := os.Remove(r.path("w/old")); err != nil {
		t.Fatal(err)
	}
	r.OK("write_file", args{"path": "w/written", "content": "x"}, nil)
	r.OK("delete_file", args{"path": "w/written"}, nil)
	look()
	r.OK("watch_folder", args{"path": "w", "since": first}, &out)
	want := []string{"deleted w/old", "modified w/sub/deep", "created w/new"}
	if got := kinds(out.Changes); !slices.Equal(got, want) {
		t.Errorf("the changes are %v, want %v", got, want)
	}
	second := out.Cursor
	out = watchOut{}
	r.OK("watch_folder", args{"path": "w", "since": second}, &out)
	if len(out.Changes) != 0 || out.Cursor != second {
		t.Errorf("without a change: %+v", out)
	}
	if err := os.RemoveAll(r.path("w")); err != nil {
		t.Fatal(err)
	}
	look()
	r.put("w/back", "")
	look()
	r.OK("watch_folder", args{"path": "w", "since": second}, &out)
	got := kinds(out.Changes)
	if !slices.Contains(got, "deleted w") || !slices.Contains(got, "created w/back") {
		t.Errorf("the folder went and came back: %v", got)
	}
	for i := range changesMost + 10 {
		r.put(fmt.Sprintf("w/many/%d", i), "")
	}
	look()
	out = watchOut{}
	r.OK("watch_folder", args{"path": "w", "since": second}, &out)
	if !out.Missed || len(out.Changes) != changesMost {
		t.Errorf("after many changes: %d, missed: %v", len(out.Changes), out.Missed)
	}
	out = watchOut{}
	r.OK("watch_folder", args{"path": "w", "since": "another.1"}, &out)
	if !out.Missed {
		t.Error("the cursor of another server is accepted")
	}
	r.Refused("watch_folder", args{"path": "w/back"}, "not a folder")
	r.Refused("watch_folder", args{"path": "none"}, "does not exist")
}

// TestWatchWait waits for a change.
func TestWatchWait(t *testing.T) {
	r := open(t, Options{Poll: time.Millisecond})
	var out watchOut
	r.OK("watch_folder", args{"path": "."}, &out)
	r.put("new", "x")
	until := time.Now().Add(deadline)
	cursor := out.Cursor
	for len(out.Changes) == 0 && time.Now().Before(until) {
		r.OK("watch_folder", args{"path": ".", "since": cursor, "wait": 20}, &out)
	}
	if got := kinds(out.Changes); !slices.Contains(got, "created new") {
		t.Errorf("the changes are %v", got)
	}
}

// TestSubscribeRepeats checks that the server announces a change twice if the change comes while
// the SDK registers the subscription. The SDK may drop the first announcement.
func TestSubscribeRepeats(t *testing.T) {
	r := open(t, Options{Poll: time.Hour})
	at, err := r.s.one(".")
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.s.watchOf(t.Context(), at, true, at.uri())
	if err != nil {
		t.Fatal(err)
	}
	var told []int
	for i := range 5 {
		if i == 0 {
			r.put("new", "")
		}
		state, _, err := r.s.look(t.Context(), at, true, watchedMost)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, len(r.s.compare(w, state, false)))
	}
	if !slices.Equal(told, []int{1, 1, 0, 0, 0}) {
		t.Errorf("told %v times", told)
	}
}

// TestWatchBound watches more folders than the server can watch.
func TestWatchBound(t *testing.T) {
	t.Parallel()
	r := open(t, Options{Poll: time.Hour})
	for i := range watchMost + 4 {
		r.put(fmt.Sprintf("d%d/f", i), "")
		r.OK("watch_folder", args{"path": fmt.Sprintf("d%d", i)}, nil)
	}
	if n := len(r.s.watch.all); n != watchMost {
		t.Errorf("%d watches", n)
	}
	list, err := r.Client.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != watchMost+1 {
		t.Errorf("%d resources, %v", len(list.Resources), err)
	}
}

// eventually calls do again and again until c delivers a notification, and returns this
// notification.
func (r *rig) eventually(c <-chan string, do func(i int)) string {
	r.T.Helper()
	until := time.Now().Add(deadline)
	for i := 0; time.Now().Before(until); i++ {
		do(i)
		select {
		case v := <-c:
			return v
		case <-time.After(10 * time.Millisecond):
		}
	}
	r.T.Fatal("nothing came")
	return ""
}

func TestSubscriptions(t *testing.T) {
	for _, version := range []string{"", "2025-11-25"} {
		t.Run("version "+version, func(t *testing.T) {
			r := openVersion(t, Options{Poll: time.Millisecond}, version)
			r.put("w/f", "1")
			var out watchOut
			// The server may not yet have registered the client for list changes, so the test makes
			// several changes.
			r.eventually(r.lists, func(i int) {
				r.put(fmt.Sprintf("l%d/f", i), "")
				r.OK("watch_folder", args{"path": fmt.Sprintf("l%d", i)}, nil)
			})
			r.OK("watch_folder", args{"path": "w"}, &out)
			if err := r.Client.Subscribe(t.Context(), &mcp.SubscribeParams{URI: out.URI}); err != nil {
				t.Fatal(err)
			}
			if uri := r.eventually(r.updated, func(i int) { r.put("w/f", strings.Repeat("x", i%50)) }); uri != out.URI {
				t.Errorf("%s changed, not %s", uri, out.URI)
			}
			r.put("w/f", "changed")
			res, err := r.Client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: out.URI + "/f"})
			if err != nil || res.Contents[0].Text != "changed" {
				t.Errorf("%+v %v", res, err)
			}
			res, err = r.Client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: out.URI})
			if err != nil || res.Contents[0].Text != "f\n" {
				t.Errorf("%+v %v", res, err)
			}
			if err := r.Client.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: out.URI}); err != nil {
				t.Error(err)
			}
			if _, err := r.Client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: out.URI + "/none"}); err == nil {
				t.Error("a file that does not exist was read")
			}
		})
	}
}

// TestSubscribeBounds subscribes to one URI twice, to many files, and with many spellings of a URI.
func TestSubscribeBounds(t *testing.T) {
	t.Parallel()
	r := openWith(t, Options{Poll: time.Hour}, func(s *Server) { s.volatile = true })
	subscribe := func(uri string) error {
		return r.s.subscribe(t.Context(), &mcp.SubscribeRequest{Params: &mcp.SubscribeParams{URI: uri}})
	}
	unsubscribe := func(uri string) {
		if err := r.s.unsubscribe(t.Context(), &mcp.UnsubscribeRequest{Params: &mcp.UnsubscribeParams{URI: uri}}); err != nil {
			t.Error(err)
		}
	}
	base := place{root: r.s.roots[0], rel: "."}.uri()
	for i := range watchMost + 1 {
		r.put(fmt.Sprintf("f%d", i), "")
	}
	for i := range watchMost {
		for range 2 {
			if err := subscribe(fmt.Sprintf("%s/f%d", base, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := fmt.Sprintf("%s/f%d", base, watchMost)
	if err := subscribe(last); err == nil || !strings.Contains(err.Error(), "already watches 256") {
		t.Errorf("one watch more: %v", err)
	}
	unsubscribe(base + "/f0")
	if err := subscribe(last); err != nil {
		t.Errorf("after the end of a subscription: %v", err)
	}
	var err error
	for i := 0; err == nil && i <= urisMost; i++ {
		err = subscribe(base + strings.Repeat("/.", i+1) + "/f1")
	}
	if err == nil || !strings.Contains(err.Error(), "1000 URIs") {
		t.Errorf("many spellings: %v", err)
	}
}

// TestWatchEntries watches folders that have too many entries together.
func TestWatchEntries(t *testing.T) {
	s, err := Open(Options{Roots: []string{t.TempDir()}, Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	state := map[string]mark{}
	for i := range watchedMost {
		state[fmt.Sprint(i)] = mark{}
	}
	add := func(uri string) ([]*watch, error) {
		w := &watch{at: place{root: s.roots[0], rel: "d", name: "d"}, state: state, subscribed: map[string]bool{}, pending: map[string]repeat{}, used: time.Now()}
		w.subscribeLocked(uri)
		return s.addWatched(w)
	}
	for i := range entriesMost / watchedMost {
		uri := "u"
		if i == 0 {
			uri = ""
		}
		if removed, err := add(uri); err != nil || len(removed) > 0 {
			t.Fatalf("watch %d: %d removed, %v", i, len(removed), err)
		}
	}
	if removed, err := add("u"); err != nil || len(removed) != 1 {
		t.Errorf("%d removed, %v", len(removed), err)
	}
	if _, err := add("u"); err == nil || !strings.Contains(err.Error(), "at most 100000") {
		t.Errorf("%v", err)
	}
}
