package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxName is the longest name, in bytes, that all clients and models accept.
const maxName = 64

// Names gives every item of every server a name of its own. A name depends on the
// server's name and the item's alone, so it is the same whether there is one server or
// fifty, in any order. The zero value is ready.
type Names struct {
	Separator string // "__" when empty
}

func (n Names) separator() string {
	if n.Separator == "" {
		return "__"
	}
	return n.Separator
}

// Join returns the name under which a server's item is offered. It is injective: if the
// plain form could be read in two ways, is too long, or has characters that clients
// refuse, it ends with a hash of both parts.
func (n Names) Join(server, item string) string {
	sep := n.separator()
	plain := server + sep + item
	// The first separator is ours, so the name can be split again.
	clear := strings.Index(plain, sep) == len(server) && !strings.HasSuffix(server, sep[:1]) && !strings.HasPrefix(item, sep[len(sep)-1:])
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

// mayBe reports whether an offered name may be that of an item of a server.
func (n Names) mayBe(server, offered string) bool {
	return strings.HasPrefix(offered, clean(server+n.separator())) || hashed(offered)
}

// hashed reports whether a name ends like one with a hash. A plain name that does gets a
// hash as well, so that no plain name equals one with a hash.
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

// safe reports whether all characters are those that 2025-11-25 §Tools, "Tool
// Names" recommends. A slash and a dot are among them.
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
