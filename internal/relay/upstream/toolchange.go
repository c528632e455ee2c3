package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
)

// This file notices changed tools. A tool that somebody has allowed may get another description
// later, which tells the model something else. So each list that a server sends is compared with the
// last one that it sent to clients of the same kind, also after a restart of the server, whether a
// client or Dragoman itself asked for it. Where pins do the same with what was approved, only tools that come and go
// are reported here.

// toolMemory remembers hashes of a server's tools. The zero value is ready to use.
type toolMemory struct {
	mu    sync.Mutex
	lists byAudience[*toolList] // the keys begin with the era of the client
	// logged contains the last state of each tool that a change was reported for, so that a change is
	// reported once, and not once for each list. The zero toolHash says that the tool was removed.
	logged map[string]toolHash
}

// toolList is what one list contained. Its tools are found by their names, because their order has
// no meaning.
type toolList struct {
	asOf  time.Time // when the last reading began
	whole bool      // false while only pages of a longer list were seen, so that others may exist
	tools map[string]*knownTool
}

// toolHash is the SHA-256 of a tool in a canonical form; see appendCanonical.
type toolHash [sha256.Size]byte

// String returns the hash in the usual notation.
func (h toolHash) String() string { return "sha256:" + hex.EncodeToString(h[:]) }

// knownTool describes a tool in the last list that had it.
type knownTool struct {
	raw   uint64 // a hash of the tool's bytes, to skip the canonical form of a tool that is the same
	hash  toolHash
	parts [len(toolParts) + 1]uint64 // a hash of each of toolParts, and of everything else
	gone  bool                       // the last list did not have the tool; if it comes back, it is compared too
}

// toolParts are the members of a tool that a change names.
var toolParts = [...]string{"title", "description", "inputSchema", "outputSchema", "annotations"}

// These constants bound a toolMemory and the changes in one event.
const (
	maxKnownTools   = 10_000 // in one list
	maxShownChanges = 5
)

var toolSeed = maphash.MakeSeed()

// seeTools compares a list of tools that the client f gets with the last one, and publishes what has
// changed. began is when the request was sent. If whole is false, tools is one page of a longer list,
// so nothing is known about tools that it does not contain.
func (l *lister) seeTools(f *mcp.ClientInfo, began time.Time, tools [][]byte, whole bool) {
	if f == nil {
		return // such a request may use a session that was opened for other capabilities
	}
	scope := l.scopeOf(f)
	key := get(l.core, func(st *state) string { return l.audienceKey(st, f, scope) })
	if key != "" && f.Revision.Legacy() {
		key = "legacy " + key // a server of both eras may have other tools in each
	}
	c := l.memory.compare(key, began, tools, whole)
	if c != nil && l.opts.Pinned != nil && l.opts.Pinned() {
		c.Changed, c.Changes = nil, 0
	}
	if c != nil && c.Changes+c.Additions+c.Removals > 0 {
		level := slog.LevelInfo // a server may come and go with its tools
		if len(c.Changed) > 0 {
			level = slog.LevelWarn
		}
		l.opts.Events.Publish(event.Event{
			Kind: event.Changed, Level: level, Server: l.spec.Name, Method: mcp.MethodListTools, Detail: c.String(), Change: c,
		})
	}
}

// seeReply records what the reply to a client's own request shows: items that were cut out, and tools.
func (l *lister) seeReply(f *mcp.ClientInfo, began time.Time, a *mcp.Attempt, reply *mcp.Reply) {
	if reply.Cut != nil {
		left := map[string]string{}
		noteCut(reply.Cut, left)
		l.leaveOut(a.Msg.Method, left, true)
	}
	if a.Msg.Method != mcp.MethodListTools || reply.Msg.Kind != jsonrpc.Result {
		return
	}
	var tools [][]byte
	for e := range jsonrpc.Elements(reply.Msg.Raw, reply.Msg.ResultMember(a.Method.ListKey)) {
		tools = append(tools, e.Of(reply.Msg.Raw))
	}
	l.seeTools(f, began, tools, a.Msg.Param("cursor").IsZero() && reply.Msg.ResultMember("nextCursor").IsZero())
}

// compare remembers a list and returns the changes since the last one, or nil if there are none.
func (m *toolMemory) compare(key string, began time.Time, tools [][]byte, whole bool) *event.ListChange {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lists.get(key)
	if l == nil {
		l = &toolList{tools: make(map[string]*knownTool, len(tools))}
		m.lists.put(key, l)
	}
	if began.Before(l.asOf) {
		return nil // the list is older than the one that was compared last
	}
	l.asOf = began
	var c event.ListChange
	listed := make(map[string][]byte, len(tools)) // of two tools with one name, clients see the first
	for _, raw := range tools {
		if name := toolKey(raw); name != "" && listed[name] == nil && len(listed) < maxKnownTools {
			listed[name] = raw
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.tools)) {
		t := l.tools[name]
		if listed[name] != nil {
			continue
		}
		if whole && !t.gone {
			t.gone = true
			if m.isNews(name, toolHash{}) {
				add(&c.Removed, &c.Removals, name)
			}
		}
		if t.gone && len(l.tools) > maxKnownTools {
			delete(l.tools, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		m.compareTool(l, &c, name, listed[name])
	}
	l.whole = l.whole || whole
	if c.Changes+c.Additions+c.Removals == 0 {
		return nil
	}
	return &c
}

// compareTool remembers one tool of a list, and adds its change to c.
func (m *toolMemory) compareTool(l *toolList, c *event.ListChange, name string, raw []byte) {
	before, now := l.tools[name], &knownTool{raw: maphash.Bytes(toolSeed, raw)}
	switch {
	case before == nil && len(l.tools) >= 2*maxKnownTools:
		return
	case before != nil && before.raw == now.raw:
		now.hash, now.parts = before.hash, before.parts
	default:
		now.hash, now.parts = hashTool(raw)
	}
	l.tools[name] = now
	switch {
	case before == nil && l.whole, before != nil && before.gone && before.hash == now.hash:
		if m.isNews(name, now.hash) {
			add(&c.Added, &c.Additions, name)
		}
	case before != nil && before.hash != now.hash && m.isNews(name, now.hash):
		if c.Changes++; len(c.Changed) < maxShownChanges {
			c.Changed = append(c.Changed, event.ItemChange{
				Name: excerpt.Cut(jsonrpc.Shown(name), maxToolName), Parts: before.changed(now), Before: before.hash.String(), After: now.hash.String(),
			})
		}
	}
}

// isNews records the state of a tool, and reports whether it was not already reported for another
// list.
func (m *toolMemory) isNews(name string, state toolHash) bool {
	if now, ok := m.logged[name]; ok && now == state {
		return false
	}
	if m.logged == nil || len(m.logged) >= maxKnownTools {
		m.logged = make(map[string]toolHash)
	}
	m.logged[name] = state
	return true
}

// add counts a name, and keeps it if there is room.
func add(names *[]string, count *int, name string) {
	if *count++; len(*names) < maxShownChanges {
		*names = append(*names, excerpt.Cut(jsonrpc.Shown(name), maxToolName))
	}
}

// toolKey returns the name of a tool, or "" if it has none. A hash replaces the end of a long name.
func toolKey(raw []byte) string {
	name, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, jsonrpc.Whole(raw), "name"))
	if len(name) <= maxToolName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return name[:maxToolName] + hex.EncodeToString(sum[:8])
}

// changed names the parts of a tool that differ from another state of the tool.
func (t *knownTool) changed(now *knownTool) (parts []string) {
	for i := range t.parts {
		switch {
		case t.parts[i] == now.parts[i]:
		case i < len(toolParts):
			parts = append(parts, toolParts[i])
		default:
			parts = append(parts, "other members")
		}
	}
	return parts
}

// hashTool returns the hash of a tool and the hashes of its parts.
func hashTool(raw []byte) (hash toolHash, parts [len(toolParts) + 1]uint64) {
	whole := appendCanonical(nil, raw, jsonrpc.Whole(raw))
	for m := range jsonrpc.Members(whole, jsonrpc.Whole(whole)) {
		key, _ := jsonrpc.Text(whole, m.Key)
		at := slices.Index(toolParts[:], key)
		if at < 0 {
			at = len(toolParts)
		}
		parts[at] ^= maphash.Bytes(toolSeed, whole[m.Key.Start:m.Value.End])
	}
	return sha256.Sum256(whole), parts
}

// appendCanonical appends a JSON value in a form that has the same bytes for all ways to write the
// value: without white space, with sorted members, and with the usual escapes. Some servers write the
// members of an object in another order each time. Numbers stay as they are.
func appendCanonical(dst, raw []byte, at jsonrpc.Span) []byte {
	sep := ""
	switch jsonrpc.KindOf(raw, at) {
	case '{':
		type member struct {
			key   string
			value jsonrpc.Span
		}
		var all []member
		for m := range jsonrpc.Members(raw, at) {
			key, _ := jsonrpc.Text(raw, m.Key)
			all = append(all, member{key, m.Value})
		}
		slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.key, b.key) })
		dst = append(dst, '{')
		for _, m := range all {
			dst = append(jsonrpc.AppendQuote(append(dst, sep...), m.key), ':')
			dst = appendCanonical(dst, raw, m.value)
			sep = ","
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for e := range jsonrpc.Elements(raw, at) {
			dst = appendCanonical(append(dst, sep...), raw, e)
			sep = ","
		}
		return append(dst, ']')
	case '"':
		text, _ := jsonrpc.Text(raw, at)
		return jsonrpc.AppendQuote(dst, text)
	}
	return append(dst, at.Of(raw)...)
}
