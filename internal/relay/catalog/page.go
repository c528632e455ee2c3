package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// pageSize is the maximum number of items in one page of a merged list.
const pageSize = 500

// Page answers a client's list request with one page. cursor is the cursor that the client sent. It
// is absent for the first page. The list may change between two pages. If all is true, Page waits
// until all servers have been read or ctx ends. This is useful for clients that request a list only
// once.
func (v View) Page(ctx context.Context, m *mcp.Method, cursor jsonrpc.Value, all bool) (*mcp.Reply, error) {
	start, place := "", 0
	if !cursor.Absent() {
		text, ok := cursor.Text()
		if start, place, ok = openCursor(m.Name, text, ok); !ok {
			// An invalid cursor must get this error code: §Pagination, "Error Handling", in all
			// revisions.
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "cursor is not valid: Dragoman did not return it"}
		}
	}
	c, a := v.c, v.c.audience(v.client)
	if all {
		c.settle(ctx, a, m.Name)
	}
	l := c.list(ctx, a, m.Name)
	key := pageKey{list: l, shown: l.shown(v.show), tasks: v.client != nil && v.client.Revision.Can(mcp.ExperimentalTasks), missing: string(v.appendMissing(nil, a, m.Name))}
	var items []item
	if key.place = min(place, len(l.items)); start != "" {
		items = l.only(key.shown)
		if i := slices.IndexFunc(items, func(x item) bool { return x.offered == start }); i >= 0 {
			key.place = i + 1
		}
	}
	if have := c.keptPage(key); have != nil {
		return &mcp.Reply{Msg: have}, nil
	}
	if items == nil {
		items = l.only(key.shown)
	}
	reply := mcp.Answer(key.encode(m, items))
	c.keepPage(a, key, *reply.Msg)
	return reply, nil
}

// pageKey determines every byte of a page. Since the list is that of one audience, a page never goes to
// clients of another one.
type pageKey struct {
	list    *mergedList
	shown   string // see mergedList.shown
	place   int    // the number of items before the page
	tasks   bool   // whether the client's revision has experimental tasks
	missing string // the member that names the missing servers, or ""
}

// encode returns the page. items are all items that the client sees.
func (k *pageKey) encode(m *mcp.Method, items []item) []byte {
	place := min(k.place, len(items))
	items = items[place:]
	more := len(items) > pageSize
	if more {
		items = items[:pageSize]
	}
	size := len(m.ListKey) + len(k.missing) + 512
	for i := range items {
		size += len(items[i].json) + 1
	}
	out := append(jsonrpc.AppendQuote(append(make([]byte, 0, size), '{'), m.ListKey), ':', '[')
	for i := range items {
		x := &items[i]
		if i > 0 {
			out = append(out, ',')
		}
		if x.mayBeTask && k.tasks {
			out = appendMayBeTask(out, x.json)
			continue
		}
		out = append(out, x.json...)
	}
	out = append(out, ']')
	if more {
		out = append(out, `,"nextCursor":`...)
		out = jsonrpc.AppendQuote(out, makeCursor(m.Name, items[len(items)-1].offered, place+len(items)))
	}
	return append(append(out, k.missing...), '}')
}

// These constants limit the pages that a catalog keeps.
const (
	maxPages     = 64
	maxPageBytes = 4 << 20 // of all of them; one has at most half of it
)

// pageCache keeps what clients ask for again and again: pages of merged lists, as they were sent to other
// clients of the same audience. A page goes with its list, or when it was unused for the longest time.
type pageCache struct {
	all   map[pageKey]*keptPage
	bytes int
	uses  uint64
}

type keptPage struct {
	msg  jsonrpc.Message
	used uint64
}

// keptPage returns the page with the given key, or nil. The bytes of the message are shared.
func (c *Catalog) keptPage(key pageKey) *jsonrpc.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pages.all[key]
	if p == nil {
		return nil
	}
	c.pages.uses++
	p.used = c.pages.uses
	m := p.msg
	return &m
}

// keepPage keeps a page if its list is still the one that clients of the audience get.
func (c *Catalog) keepPage(a *knownAudience, key pageKey, m jsonrpc.Message) {
	m.Raw = slices.Clip(m.Raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(m.Raw) > maxPageBytes/2 || c.merged[mergedListKey{key.list.method, a.Audience}] != key.list || c.pages.all[key] != nil {
		return
	}
	for len(c.pages.all) >= maxPages || c.pages.bytes+len(m.Raw) > maxPageBytes {
		var oldest pageKey
		for k, p := range c.pages.all {
			if o := c.pages.all[oldest]; o == nil || p.used < o.used {
				oldest = k
			}
		}
		c.pages.drop(oldest)
	}
	if c.pages.all == nil {
		c.pages.all = make(map[pageKey]*keptPage)
	}
	c.pages.uses++
	c.pages.all[key] = &keptPage{m, c.pages.uses}
	c.pages.bytes += len(m.Raw)
}

func (p *pageCache) drop(key pageKey) {
	p.bytes -= len(p.all[key].msg.Raw)
	delete(p.all, key)
}

// dropMergedLocked removes a merged list and its pages.
func (c *Catalog) dropMergedLocked(key mergedListKey) {
	for k := range c.pages.all {
		if k.list == c.merged[key] {
			c.pages.drop(k)
		}
	}
	delete(c.merged, key)
}

// appendMayBeTask appends a tool and declares that the tool may be called as a task.
func appendMayBeTask(out, tool []byte) []byte {
	var e jsonrpc.Edits
	e.Object(mcp.WhyToolTask, tool, jsonrpc.Whole(tool), nil, mayBeTask)
	return jsonrpc.Splice(out, tool, &e)
}

// makeCursor returns a cursor. The cursor contains the name of the last item of a page, so that
// items added later do not shift the next page. The cursor also contains the number of items that
// the client has seen, in case the last item is removed later. The checksum in the cursor shows
// that Dragoman made the cursor. The cursor contains no secrets.
func makeCursor(method, after string, place int) string {
	text := method + "\x00" + strconv.Itoa(place) + "\x00" + after
	sum := sha256.Sum256([]byte("drg1\x00" + text))
	return base64.RawURLEncoding.EncodeToString(append(sum[:6], text...))
}

// openCursor returns the values that a cursor contains. ok is false if makeCursor did not make the
// cursor. isText must be false if the client's cursor was not a string.
func openCursor(method, cursor string, isText bool) (after string, place int, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || !isText || len(b) < 6 {
		return "", 0, false
	}
	text, ok := strings.CutPrefix(string(b[6:]), method+"\x00")
	number, after, found := strings.Cut(text, "\x00")
	place, err = strconv.Atoi(number)
	if !ok || !found || err != nil || place < 0 || makeCursor(method, after, place) != cursor {
		return "", 0, false
	}
	return after, place, true
}
