package bridge

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// ParkedReport describes a call that waits for a retry of the client.
type ParkedReport struct {
	Server, Principal, Method string
	Since                     time.Time
	Questions                 int // number of open server requests
}

// ParkedCalls returns the calls that wait for a retry of the client, oldest first.
func (b *Bridge) ParkedCalls() []ParkedReport {
	b.parkMu.Lock()
	all := slices.Collect(maps.Values(b.parked))
	out := make([]ParkedReport, len(all))
	for i, p := range all {
		out[i] = ParkedReport{Server: p.server, Principal: p.first.Client.Who.Key(), Method: p.first.Msg.Method, Since: p.since}
	}
	b.parkMu.Unlock()
	for i, p := range all {
		p.mu.Lock()
		out[i].Questions = len(p.open)
		p.mu.Unlock()
	}
	slices.SortFunc(out, func(x, y ParkedReport) int {
		return cmp.Or(x.Since.Compare(y.Since), cmp.Compare(x.Server, y.Server))
	})
	return out
}
