package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the maximum length in bytes of a name that all clients and models accept.
const maxName = 64

// Names gives each item of each server a unique name. A name depends only on the names of the
// server and of the item. So it does not depend on the number or the order of the servers. The
// zero value is ready.
type Names struct {
	Separator string // empty means "__"
}

func (n Names) separator() string {
	if n.Separator == "" {
		return "__"
	}
	return n.Separator
}

// plain returns the name of a server's item without a hash.
func (n Names) plain(server, item string) string {
	if server == "" {
		return item
	}
	return server + n.separator() + item
}

// Join returns the name under which a server's item is offered. The parameter server is the prefix
// of the server; "" means that the items of the server keep their own names. Different items of
// servers with a prefix always get different names. If the plain form is ambiguous, too long, or
// has characters that clients refuse, the name ends with a hash of server and item.
func (n Names) Join(server, item string) string {
	sep := n.separator()
	plain := n.plain(server, item)
	// The first separator in the name is the one that Join added, so the name can be split
	// again.
	clear := server == "" || strings.Index(plain, sep) == len(server) && !strings.HasSuffix(server, sep[:1]) && !strings.HasPrefix(item, sep[len(sep)-1:])
	if clear && len(plain) <= maxName && safe(plain) && !hashed(plain) {
		return plain
	}
	sum := sha256.Sum256([]byte(server + "\x00" + item))
	tail := "_h" + hex.EncodeToString(sum[:5])
	head := clean(plain)
	if len(head) > maxName-len(tail) {
		head = head[:maxName-len(tail)]
	}
	return head + tail
}

// mayBe reports whether an offered name can belong to an item of a server.
func (n Names) mayBe(server, offered string) bool {
	return server == "" || strings.HasPrefix(offered, clean(server+n.separator())) || hashed(offered)
}

// hashed reports whether a name looks as if it ends with a hash. A plain name of this form gets
// a hash too, so it never equals a name with a hash.
func hashed(s string) bool {
	const n = 12
	if len(s) < n || s[len(s)-n:len(s)-n+2] != "_h" {
		return false
	}
	for _, c := range s[len(s)-n+2:] {
		if !strings.ContainsRune("0123456789abcdef", c) {
			return false
		}
	}
	return true
}

// safe reports whether a name has only characters that 2025-11-25 §Tools, "Tool Names"
// recommends. They include slash and dot.
func safe(s string) bool {
	return !strings.ContainsFunc(s, unsafe)
}

func unsafe(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' || r == '/')
}

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unsafe(r) {
			return '_'
		}
		return r
	}, s)
}
