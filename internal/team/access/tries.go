package access

import (
	"hash/maphash"
	"net/netip"
	"sync/atomic"
	"time"
)

const (
	triesPerMinute = 10   // wrong credentials of one address before we answer 429
	tryCells       = 4096 // 32 KiB, however many addresses there are
)

// Tries counts what each address tries within some time. Addresses share cells, so nobody can fill the table. Two
// addresses in one cell are counted together. That hurts nobody who has a credential: of those only wrong ones are
// counted, and only wrong ones are slowed down. Create one with NewTries. It is safe for concurrent use.
type Tries struct {
	most, span uint64 // how many an address has in a span of so many seconds
	seed       maphash.Seed
	cells      [tryCells]atomic.Uint64 // the number of the span since 1970, and in the lowest 16 bits that of the tries
}

// NewTries returns a table in which each address has a number of tries within a span of whole seconds.
func NewTries(most int, span time.Duration) *Tries {
	return &Tries{most: uint64(most), span: uint64(span / time.Second), seed: maphash.MakeSeed()}
}

// Take counts a try of an address. It returns how long the address shall wait, or 0 if it has tried only a few times.
func (t *Tries) Take(addr string, now time.Time) time.Duration {
	const n = 16
	cell, span := &t.cells[maphash.String(t.seed, Network(addr))%tryCells], uint64(now.Unix())/t.span
	for {
		old := cell.Load()
		count := uint64(1)
		if old>>n == span {
			count = min(old&(1<<n-1)+1, 1<<n-1)
		}
		if !cell.CompareAndSwap(old, span<<n|count) {
			continue
		}
		if count <= t.most {
			return 0
		}
		return time.Unix(int64((span+1)*t.span), 0).Sub(now)
	}
}

// Network returns what we count together: an IPv4 address, or the /64 of an IPv6 address, of which one
// host has all addresses.
func Network(addr string) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil {
		return addr
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return addr
	}
	return p.String()
}
