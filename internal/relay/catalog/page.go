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
	items := c.list(ctx, a, m.Name).visible(v.show)
	if start != "" {
		if i := slices.IndexFunc(items, func(x item) bool { return x.offered == start }); i >= 0 {
			place = i + 1
		}
	}
	place = min(place, len(items))
	items = items[place:]
	more := len(items) > pageSize
	if more {
		items = items[:pageSize]
	}
	out := append(jsonrpc.AppendQuote([]byte{'{'}, m.ListKey), ':', '[')
	for i := range items {
		x := &items[i]
		if i > 0 {
			out = append(out, ',')
		}
		if x.mayBeTask && v.client.Revision.Can(mcp.ExperimentalTasks) {
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
	out = v.appendMissing(out, a, m.Name)
	return mcp.Answer(append(out, '}')), nil
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
