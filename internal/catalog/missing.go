package catalog

import (
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// missing returns the servers of which a list has nothing because they have not been
// read yet: those that may still come, and those that could not be read. A server that
// was read once is shown as it was, and is not missing.
func (v View) missing(a *knownAudience, method string) (starting, failed []string) {
	known := v.Servers()
	c := v.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range known {
		switch p := c.lastLocked(method, u, a); {
		case p != nil && p.have:
		case p != nil && p.failed != "":
			failed = append(failed, u.Name())
		default:
			starting = append(starting, u.Name())
		}
	}
	return starting, failed
}

// unread returns the server whose prefix a name begins with, if its list has never been
// read, and why not; "" otherwise. cause may be nil.
func (v View) unread(method, name string) (server, why string, cause *mcp.Error) {
	known := v.Servers()
	c, a := v.c, v.c.audience(v.client)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range known {
		if !strings.HasPrefix(name, clean(c.prefix(u)+c.Names.separator())) {
			continue
		}
		if p := c.lastLocked(method, u, a); p != nil && !p.have && p.failed != "" {
			return u.Name(), p.failed, p.cause
		}
	}
	return "", "", nil
}

// lastLocked returns what an audience sees of a server, or the last reading for it where
// there is nothing to see.
func (c *Catalog) lastLocked(method string, u Source, a *knownAudience) *serverList {
	p := c.seenLocked(method, u, a)
	if p == nil || !p.have {
		if own := c.lists[serverListKey{method, u.Name(), a.Audience}]; own != nil {
			return own
		}
	}
	return p
}

// appendMissing appends to the result of a list, which is still open, the _meta that
// says which servers are missing in it. Clients that list once and early cannot know
// it otherwise.
func (v View) appendMissing(dst []byte, a *knownAudience, method string) []byte {
	starting, failed := v.missing(a, method)
	if len(starting)+len(failed) == 0 {
		return dst
	}
	dst = append(dst, `,"`+mcp.KeyMeta+`":{"`+mcp.KeyMissing+`":{`...)
	if len(starting) > 0 {
		dst = jsonrpc.AppendStrings(append(dst, `"starting":`...), starting)
		if len(failed) > 0 {
			dst = append(dst, ',')
		}
	}
	if len(failed) > 0 {
		dst = jsonrpc.AppendStrings(append(dst, `"failed":`...), failed)
	}
	return append(dst, `}}`...)
}
