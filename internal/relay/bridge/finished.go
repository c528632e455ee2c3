package bridge

import (
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// finished holds parked calls that ended before their clients retried, for example because the
// server cancelled its request. A client can still get the answer until its requestState expires.
// The number of calls and the bytes of their answers are limited. Above a limit, the party with the
// most finished calls, or the most bytes, loses its oldest call. A retry of that call gets
// errParkLost, which says that the call may have been executed. Bridge.parkMu guards all fields.
// The zero value is ready to use.
type finished struct {
	order []*parkedCall // oldest first
	bytes int64
}

// maxFinished limits the number of finished calls. maxFinishedBytes limits the total size of their
// answers.
const (
	maxFinished      = 256
	maxFinishedBytes = 32 << 20
)

// addLocked adds a finished call and returns the calls that were dropped to make room.
func (f *finished) addLocked(p *parkedCall, b *transport.Budget) (gone []*parkedCall) {
	p.size = int64(answerSize(p))
	f.order = append(f.order, p)
	f.bytes += p.size
	b.Hold(p.size)
	for len(f.order) > maxFinished || f.bytes > maxFinishedBytes {
		held := map[string]int64{}
		most := p.first.Client.Party()
		for _, x := range f.order {
			who := x.first.Client.Party()
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
			if x.first.Client.Party() == most {
				f.removeLocked(x, b)
				gone = append(gone, x)
				break
			}
		}
	}
	return gone
}

// removeLocked removes a call. It has no effect if the call is not in the list.
func (f *finished) removeLocked(p *parkedCall, b *transport.Budget) {
	for i, x := range f.order {
		if x == p {
			f.order = append(f.order[:i:i], f.order[i+1:]...)
			f.bytes -= p.size
			b.Give(p.size)
			return
		}
	}
}

func answerSize(p *parkedCall) int {
	if p.reply == nil {
		return 0
	}
	return len(p.reply.Msg.Raw)
}
