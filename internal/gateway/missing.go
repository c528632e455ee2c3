package gateway

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// missing returns the servers of which a list has nothing because they have not been
// read yet: those that may still come, and those that could not be read. A server that
// was read once is shown as it was, and is not missing.
func (c *catalog) missing(a *audience, method string) (starting, failed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.servers {
		p := c.seenPartLocked(method, u, a)
		if p != nil && p.have {
			continue
		}
		if own := c.parts[serverListKey{method, u.Name(), a.key}]; own != nil {
			p = own
		}
		if p != nil && p.failed != "" {
			failed = append(failed, u.Name())
		} else {
			starting = append(starting, u.Name())
		}
	}
	return starting, failed
}

// unread returns the server with whose prefix a name begins, if its list has never been
// read, and why not; nil otherwise.
func (c *catalog) unread(a *audience, method, name string) (u Upstream, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.servers {
		if !strings.HasPrefix(name, clean(c.prefix(u)+c.names.separator())) {
			continue
		}
		p := c.seenPartLocked(method, u, a)
		if p == nil || !p.have {
			if own := c.parts[serverListKey{method, u.Name(), a.key}]; own != nil {
				p = own
			}
		}
		if p != nil && !p.have && p.failed != "" {
			return u, p.failed
		}
	}
	return nil, ""
}

// appendMissing appends to the result of a list, which is still open, the _meta that
// says which servers are missing in it. Clients that list once and early cannot know
// it otherwise.
func (c *catalog) appendMissing(dst []byte, a *audience, method string) []byte {
	starting, failed := c.missing(a, method)
	if len(starting)+len(failed) == 0 {
		return dst
	}
	dst = append(dst, `,"`+mcp.KeyMeta+`":{"`+mcp.KeyMissing+`":{`...)
	if len(starting) > 0 {
		dst = appendNames(append(dst, `"starting":`...), starting)
		if len(failed) > 0 {
			dst = append(dst, ',')
		}
	}
	if len(failed) > 0 {
		dst = appendNames(append(dst, `"failed":`...), failed)
	}
	return append(dst, `}}`...)
}

func appendNames(dst []byte, names []string) []byte {
	dst = append(dst, '[')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonrpc.AppendQuote(dst, name)
	}
	return append(dst, ']')
}
