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
	r := open(t, Options{Poll: time.Hour}) // the test looks itself
	look := func() { r.s.lookAtAll(context.Background()) }
	r.put("w/old", "old")
	r.put("w/sub/deep", "deep")
	var out watchOut
	r.ok("watch_folder", args{"path": "w"}, &out)
	if out.Cursor == "" || len(out.Changes) != 0 || out.Entries != 4 || !strings.HasSuffix(out.URI, "/w") {
		t.Fatalf("%+v", out)
	}
	first := out.Cursor
	r.put("w/new", "new")
	r.put("w/sub/deep", "deeper")
	if err := os.Remove(r.path("w/old")); err != nil {
		t.Fatal(err)
	}
	r.ok("write_file", args{"path": "w/written", "content": "x"}, nil)
	r.ok("delete_file", args{"path": "w/written"}, nil)
	look()
	r.ok("watch_folder", args{"path": "w", "since": first}, &out)
	want := []string{"deleted w/old", "modified w/sub/deep", "created w/new"}
	if got := kinds(out.Changes); !slices.Equal(got, want) {
		t.Errorf("the changes are %v, want %v", got, want)
	}
	second := out.Cursor
	out = watchOut{}
	r.ok("watch_folder", args{"path": "w", "since": second}, &out)
	if len(out.Changes) != 0 || out.Cursor != second {
		t.Errorf("without a change: %+v", out)
	}
	if err := os.RemoveAll(r.path("w")); err != nil {
		t.Fatal(err)
	}
	look()
	r.put("w/back", "")
	look()
	r.ok("watch_folder", args{"path": "w", "since": second}, &out)
	got := kinds(out.Changes)
	if !slices.Contains(got, "deleted w") || !slices.Contains(got, "created w/back") {
		t.Errorf("the folder went and came back: %v", got)
	}
	for i := range changesMost + 10 {
		r.put(fmt.Sprintf("w/many/%d", i), "")
	}
	look()
	out = watchOut{}
	r.ok("watch_folder", args{"path": "w", "since": second}, &out)
	if !out.Missed || len(out.Changes) != changesMost {
		t.Errorf("after many changes: %d, missed: %v", len(out.Changes), out.Missed)
	}
	out = watchOut{}
	r.ok("watch_folder", args{"path": "w", "since": "another.1"}, &out)
	if !out.Missed {
		t.Error("the cursor of another server is accepted")
	}
	r.refused("watch_folder", args{"path": "w/back"}, "not a folder")
	r.refused("watch_folder", args{"path": "none"}, "does not exist")
}

// TestWatchWait waits for a change.
func TestWatchWait(t *testing.T) {
	r := open(t, Options{Poll: time.Millisecond})
	var out watchOut
	r.ok("watch_folder", args{"path": "."}, &out)
	r.put("new", "x")
	until := time.Now().Add(deadline)
	cursor := out.Cursor
	for len(out.Changes) == 0 && time.Now().Before(until) {
		r.ok("watch_folder", args{"path": ".", "since": cursor, "wait": 20}, &out)
	}
	if got := kinds(out.Changes); !slices.Contains(got, "created new") {
		t.Errorf("the changes are %v", got)
	}
}

// TestWatchBound watches more folders than the server can.
func TestWatchBound(t *testing.T) {
	r := open(t, Options{Poll: time.Hour})
	for i := range watchMost + 4 {
		r.put(fmt.Sprintf("d%d/f", i), "")
		r.ok("watch_folder", args{"path": fmt.Sprintf("d%d", i)}, nil)
	}
	if n := len(r.s.watch.all); n != watchMost {
		t.Errorf("%d watches", n)
	}
	list, err := r.client.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != watchMost+1 {
		t.Errorf("%d resources, %v", len(list.Resources), err)
	}
}

// wait returns the next value of a channel.
func wait[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(deadline):
		t.Fatal("nothing came")
	}
	return v
}

func TestSubscriptions(t *testing.T) {
	for _, version := range []string{"", "2025-11-25"} {
		t.Run("version "+version, func(t *testing.T) {
			r := openVersion(t, Options{Poll: time.Millisecond}, version)
			r.put("w/f", "1")
			var out watchOut
			r.ok("watch_folder", args{"path": "w"}, &out)
			wait(t, r.lists)
			if err := r.client.Subscribe(t.Context(), &mcp.SubscribeParams{URI: out.URI}); err != nil {
				t.Skip("the client of the SDK cannot subscribe: ", err)
			}
			r.put("w/f", "changed")
			if uri := wait(t, r.updated); uri != out.URI {
				t.Errorf("%s changed, not %s", uri, out.URI)
			}
			res, err := r.client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: out.URI + "/f"})
			if err != nil || res.Contents[0].Text != "changed" {
				t.Errorf("%+v %v", res, err)
			}
			res, err = r.client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: out.URI})
			if err != nil || res.Contents[0].Text != "f\n" {
				t.Errorf("%+v %v", res, err)
			}
			if err := r.client.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: out.URI}); err != nil {
				t.Error(err)
			}
			if _, err := r.client.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: out.URI + "/none"}); err == nil {
				t.Error("a file that does not exist was read")
			}
		})
	}
}
