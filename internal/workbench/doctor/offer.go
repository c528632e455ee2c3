package doctor

import (
	"fmt"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/base/tokens"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Offer has the server's name and version, and says what the server offers. A server that could not
// be opened has the zero Offer.
type Offer struct {
	// Name and Version come from the server. They have limited length, only printable characters,
	// and no known secrets. They may be "".
	Name, Version string
	// Ready is how long the server took until its first message. On a pipe, the time begins when the
	// process starts. Over HTTP, it begins with the first request. 0 means that no message arrived.
	Ready time.Duration
	// Lists has the number of items of each list that was read, in the order of the requests.
	Lists []ListOffer
	// Tokens is an estimate of the tokens that tools and instructions need in a model's context
	// (package tokens). 0 means that the server has neither tools nor instructions.
	Tokens int
}

// ListOffer is the size of one list.
type ListOffer struct {
	Kind  string // "tools", "resources", "resourceTemplates" or "prompts"
	Items int
}

// offered has the parts of the offer that the probes have seen. The mutex of exam guards it.
type offered struct {
	name, version string
	instructions  int            // the estimated tokens of the instructions
	items, cost   map[string]int // the number of items, and the estimated tokens of all items; by the result member that has the list
}

// nameLimit is the maximum length in bytes of the name, and of the version.
const nameLimit = 80

// introduce stores the server's name and version, and the tokens of its instructions, from an answer
// to initialize or server/discover.
func (e *exam) introduce(q *question) {
	raw := q.msg.Raw
	info := q.msg.ResultMember("serverInfo")
	if info.IsZero() {
		info = jsonrpc.Find(raw, q.msg.ResultMember(mcp.KeyMeta), mcp.KeyServerInfo) // the server's description in a modern answer
	}
	if info.IsZero() {
		info = q.msg.ResultMember("server_info") // the server's description in a manifest
	}
	text := func(key string) string {
		s, _ := jsonrpc.Text(raw, jsonrpc.Find(raw, info, key))
		return e.redact([]byte(excerpt.Cut(s, nameLimit)))
	}
	name, version := text("name"), text("version")
	instructions, _ := jsonrpc.Text(raw, q.msg.ResultMember("instructions"))
	cost := tokens.Text(instructions)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.offered.name == "" {
		e.offered.name, e.offered.version = name, version
	}
	e.offered.instructions = max(e.offered.instructions, cost)
}

// offers stores the number of items of a list, and the tokens of all items. A list may differ between
// revisions, so offers keeps the largest numbers.
func (e *exam) offers(member string, items, cost int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	o := &e.offered
	if o.items == nil {
		o.items, o.cost = map[string]int{}, map[string]int{}
	}
	o.items[member] = max(o.items[member], items)
	o.cost[member] = max(o.cost[member], cost)
}

// offerLocked returns the offer. The caller holds e.mu.
func (e *exam) offerLocked() Offer {
	o := Offer{Name: e.offered.name, Version: e.offered.version, Tokens: e.offered.instructions}
	if len(e.state.started) > 0 {
		o.Ready = e.state.started[0]
	}
	for _, l := range serverLists {
		if n, ok := e.offered.items[l.member]; ok {
			o.Lists = append(o.Lists, ListOffer{l.member, n})
		}
		o.Tokens += e.offered.cost[l.member]
	}
	return o
}

// append appends the members that describe the offer to dst, a JSON object without its closing
// brace.
func (o Offer) append(dst []byte) []byte {
	for _, m := range [][2]string{{"name", o.Name}, {"version", o.Version}} {
		if m[1] != "" {
			dst = append(jsonrpc.AppendQuote(append(dst, ','), m[0]), ':')
			dst = jsonrpc.AppendQuote(dst, m[1])
		}
	}
	if o.Ready > 0 {
		dst = fmt.Appendf(dst, `,"readyMs":%d`, o.Ready.Milliseconds())
	}
	if len(o.Lists) == 0 {
		return dst
	}
	dst = append(dst, `,"offers":{`...)
	for i, l := range o.Lists {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `"%s":%d`, l.Kind, l.Items)
	}
	return fmt.Appendf(dst, `},"contextTokens":%d`, o.Tokens)
}
