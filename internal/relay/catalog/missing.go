package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// missing returns the servers whose items are missing from a list because the catalog never read
// their lists. starting contains the servers whose list may still arrive. failed contains the
// servers whose last reading failed. A server whose list was read at least once is not missing,
// because clients see its last list. The same is true for a kept list; see Keeper.
func (v View) missing(a *knownAudience, method string) (starting, failed []string) {
	known := v.Servers()
	c := v.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range known {
		switch p := c.lastLocked(method, u, a); {
		case p != nil && p.have || c.keptLocked(serverListKey{method, u.Name(), a.at(u.Name())}):
		case p != nil && p.failed != "":
			failed = append(failed, u.Name())
		default:
			starting = append(starting, u.Name())
		}
	}
	return starting, failed
}

// unread returns a server for which may is true, and of whose list no reading has ever succeeded. why and
// cause describe why the last reading failed; cause may be nil. If there is no such server, server is "".
func (v View) unread(method string, may func(Source) bool) (server, why string, cause *mcp.Error) {
	known := v.Servers()
	c, a := v.c, v.c.audience(v.client)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range known {
		if !may(u) {
			continue
		}
		if p := c.lastLocked(method, u, a); p != nil && !p.have && p.failed != "" {
			return u.Name(), p.failed, p.cause
		}
	}
	return "", "", nil
}

// unlisted returns the servers without a prefix that are missing from a list. Each of them may have any
// name.
func (v View) unlisted(method string) []string {
	starting, failed := v.missing(v.c.audience(v.client), method)
	return slices.DeleteFunc(append(starting, failed...), func(server string) bool { return v.c.prefixOf(server) != "" })
}

// maxNamed is how many servers someOf names.
const maxNamed = 5

func someOf(servers []string) string {
	if more := len(servers) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(servers[:maxNamed], ", "), more)
	}
	return strings.Join(servers, ", ")
}

// lastLocked returns the list of a server that an audience sees. If no reading has succeeded yet,
// lastLocked returns the entry with the result of the last reading.
func (c *Catalog) lastLocked(method string, u Source, a *knownAudience) *serverList {
	p := c.seenLocked(method, u, a)
	if p == nil || !p.have {
		if own := c.lists[serverListKey{method, u.Name(), a.at(u.Name())}]; own != nil {
			return own
		}
	}
	return p
}

// appendMissing appends a _meta member to a list result whose JSON object is still open. The _meta
// contains the names of the servers that are missing from the list. Without it, a client that
// requests a list only once, when it starts, could not know that servers are missing.
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
