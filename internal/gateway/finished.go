package gateway

import (
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// finished are parked calls that are over before their clients have come back: the
// server has taken its question back, say. Each client may still come for the answer,
// until its state expires. When there are too many of them, or their answers are too
// large, the oldest goes of the client that has most; that one is told that the call
// is over and may have been executed. It is guarded by Relay.parkMu. The zero value is
// ready.
type finished struct {
	order []*parked // oldest first
	bytes int64
}

// The bounds of what finished calls hold.
const (
	maxFinished      = 256
	maxFinishedBytes = 32 << 20
)

// addLocked takes in a call that is over, and returns those that have to go for it.
func (f *finished) addLocked(p *parked, b *transport.Budget) (gone []*parked) {
	p.size = int64(answerSize(p))
	f.order = append(f.order, p)
	f.bytes += p.size
	b.Hold(p.size)
	for len(f.order) > maxFinished || f.bytes > maxFinishedBytes {
		held := map[string]int64{}
		most := party(p.first.Client)
		for _, x := range f.order {
			who := party(x.first.Client)
			if f.bytes > maxFinishedBytes {
				held[who] += x.size
			} else {
				held[who]++
			}
			if held[who] > held[most] {
				most = who
			}
		}
		for _, x := range f.order {
			if party(x.first.Client) == most {
				f.removeLocked(x, b)
				gone = append(gone, x)
				break
			}
		}
	}
	return gone
}

// removeLocked takes a call out, if it is there.
func (f *finished) removeLocked(p *parked, b *transport.Budget) {
	for i, x := range f.order {
		if x == p {
			f.order = append(f.order[:i:i], f.order[i+1:]...)
			f.bytes -= p.size
			b.Give(p.size)
			return
		}
	}
}

func answerSize(p *parked) int {
	if p.reply == nil {
		return 0
	}
	return len(p.reply.Msg.Raw)
}
