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

// tries counts the wrong credentials of each address within a minute. Addresses share cells, so nobody
// can fill the table. Two addresses in one cell are counted together, which hurts nobody who has a
// credential: only wrong ones are counted, and only wrong ones are slowed down. The zero value isn't
// usable; see newTries.
type tries struct {
	seed  maphash.Seed
	cells [tryCells]atomic.Uint64 // the minute since 1970, and in the lowest 16 bits the number
}

func newTries() *tries { return &tries{seed: maphash.MakeSeed()} }

// wrong counts a wrong credential that an address has sent. It returns how long the address shall wait,
// or 0 if it has sent only a few.
func (t *tries) wrong(addr string, now time.Time) time.Duration {
	const n = 16
	cell, minute := &t.cells[maphash.String(t.seed, network(addr))%tryCells], uint64(now.Unix()/60)
	for {
		old := cell.Load()
		count := uint64(1)
		if old>>n == minute {
			count = min(old&(1<<n-1)+1, 1<<n-1)
		}
		if !cell.CompareAndSwap(old, minute<<n|count) {
			continue
		}
		if count <= triesPerMinute {
			return 0
		}
		return time.Unix(int64(minute+1)*60, 0).Sub(now)
	}
}

// network returns what we count together: an IPv4 address, or the /64 of an IPv6 address, of which one
// host has all addresses.
func network(addr string) string {
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
