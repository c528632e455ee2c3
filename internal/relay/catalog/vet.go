package catalog

import (
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Vet judges one item when the list of its server is read, before a client sees it. from is the
// revision in which the server sent the item raw. The edits change what clients see of the item, but
// not its name or URI. The verdict is for all clients; what only some of them may see is for a
// [Filter]. Vet must not block. A nil Vet lets everything pass.
type Vet func(kind Kind, server string, from mcp.Revision, raw []byte) (Verdict, jsonrpc.EditList)

// Verdict says what becomes of an item. The zero Verdict lets it pass.
type Verdict struct {
	// Hide is the reason, as a clause, why no client may see the item. Operators see both.
	Hide string
	// Held means that Hide is also the answer to a request that names the item; see View.Held. Without it, the
	// item is as one that doesn't exist.
	Held bool
}

// Judge returns an item of the list that a method reads, as clients see it. If hide is not "", it is the
// reason why they do not.
func (v Vet) Judge(method, server string, from mcp.Revision, raw []byte) (item []byte, hide string) {
	item, verdict := v.judge(method, server, from, raw)
	return item, verdict.Hide
}

func (v Vet) judge(method, server string, from mcp.Revision, raw []byte) ([]byte, Verdict) {
	if v == nil {
		return raw, Verdict{}
	}
	verdict, edits := v(kindOf(method), server, from, raw)
	if edits.Len() > 0 {
		raw = edits.Splice(make([]byte, 0, len(raw)+32), raw)
	}
	return raw, verdict
}

// vetted is a list of a server, divided into what clients see and what they do not.
type vetted struct {
	passed        [][]byte // the items that the Vet lets pass, as the server sent them
	items, hidden [][]byte // the same as the Vet has edited them, divided by Catalog.Expose
	left          []HiddenItem
}

// HiddenItem is an item that a Vet hides, as the server sent it, and the reason.
type HiddenItem struct {
	JSON []byte
	Why  string
	Held bool // see Verdict.Held
}

// vet divides a list of a server.
func (c *Catalog) vet(method, server string, from mcp.Revision, all [][]byte) vetted {
	out := vetted{passed: all}
	items := all
	if c.Vet != nil {
		items, out.passed = make([][]byte, 0, len(all)), make([][]byte, 0, len(all))
		for _, raw := range all {
			item, v := c.Vet.judge(method, server, from, raw)
			if v.Hide != "" {
				out.left = append(out.left, HiddenItem{raw, v.Hide, v.Held})
				continue
			}
			out.passed, items = append(out.passed, raw), append(items, item)
		}
	}
	out.items, out.hidden = splitItems(c.Expose, kindOf(method), server, items)
	return out
}
