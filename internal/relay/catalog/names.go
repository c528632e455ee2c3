package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the maximum length of a name in bytes that all clients and models accept.
const maxName = 64

// Names gives each item of each server a unique name. A name depends only on the names of the
// server and of the item, not on the number or the order of the servers. The zero value is ready to
// use.
type Names struct {
	Separator string // empty means "__"
}

func (n Names) separator() string {
	if n.Separator == "" {
		return "__"
	}
	return n.Separator
}

// plain returns the prefix and the name of an item, without a hash.
func (n Names) plain(server, item string) string {
	if server == "" {
		return item
	}
	return server + n.separator() + item
}

// Join returns the name under which clients see an item of a server. server is the prefix of the
// server. If it is "", the items of the server keep their own names. For servers with a prefix,
// different items always get different names. If the plain form is too long or ambiguous, or has
// characters that clients refuse, the name ends with a hash of server and item.
func (n Names) Join(server, item string) string {
	sep := n.separator()
	plain := n.plain(server, item)
	// A plain name is clear if its first separator is the one that Join added, so that the name can
	// be split again.
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

// mayBe reports whether an offered name can be the name of an item of a server. server is the
// prefix of the server.
func (n Names) mayBe(server, offered string) bool {
	return server == "" || strings.HasPrefix(offered, clean(server+n.separator())) || hashed(offered)
}

// hashed reports whether the end of a name has the form of a hash. Join also adds a hash to plain
// names of this form, so a plain name never equals a name with a hash.
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

// safe reports whether a name has only the characters that 2025-11-25 §Tools, "Tool Names"
// recommends, and slashes. The revision does not list the slash, but SEP-986 allows it.
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

// Renames are other names that clients see for tools and prompts of servers. A nil Renames has none. They must not be
// changed after their first use.
type Renames struct{ shown, own map[namedItem]string }

type namedItem struct {
	kind         Kind
	server, name string
}

// Add makes clients see a tool or a prompt of a server under another name. If another one has got that name, Add does
// nothing.
func (r *Renames) Add(kind Kind, server, own, shown string) {
	if r.shown == nil {
		r.shown, r.own = make(map[namedItem]string), make(map[namedItem]string)
	}
	if _, taken := r.own[namedItem{kind, server, shown}]; taken {
		return
	}
	r.shown[namedItem{kind, server, own}], r.own[namedItem{kind, server, shown}] = shown, own
}

// Shown returns the name under which clients see an item, without the prefix of the server. It returns false if they
// don't see it, because another item has got its name.
func (r *Renames) Shown(kind Kind, server, own string) (string, bool) {
	if r == nil {
		return own, true
	}
	if shown, ok := r.shown[namedItem{kind, server, own}]; ok {
		return shown, true
	}
	_, taken := r.own[namedItem{kind, server, own}]
	return own, !taken
}

// Own returns the server's own name of the item that clients see under a name. It returns false if they see none.
func (r *Renames) Own(kind Kind, server, shown string) (string, bool) {
	if r == nil {
		return shown, true
	}
	if own, ok := r.own[namedItem{kind, server, shown}]; ok {
		return own, true
	}
	_, renamed := r.shown[namedItem{kind, server, shown}]
	return shown, !renamed
}
