package daemon

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/relay/limits"
	"github.com/dragoman-mcp/dragoman/internal/team/cluster"
)

// shareEvery is how often replicas tell each other what parties use of their limits.
const shareEvery = time.Second

// shareLimits divides limits among the replicas until ctx ends. No call waits for it. While nobody uses much, it asks
// nobody, and while the database can't be reached, each replica counts alone.
func (d *daemon) shareLimits(ctx context.Context) {
	for work.Sleep(ctx, shareEvery) == nil {
		var others []limits.Use
		if mine := d.runtime.Traffic().Hot(); len(mine) > 0 && !d.project.Current().Limits.Alone {
			others = d.exchange(ctx, mine)
		}
		d.runtime.Traffic().Share(others)
	}
}

// exchange tells the other replicas what parties use here, and returns what they use there.
func (d *daemon) exchange(ctx context.Context, mine []limits.Use) (others []limits.Use) {
	told := make([]cluster.Usage, 0, len(mine))
	by := make(map[string]limits.Party, len(mine))
	for _, u := range mine {
		party, err := json.Marshal(u.Party)
		if err != nil {
			continue // can't happen
		}
		by[string(party)] = u.Party
		told = append(told, cluster.Usage{Party: string(party), Demand: u.Demand, InFlight: u.InFlight})
	}
	heard, err := d.opts.replicas.Exchange(ctx, told)
	if err != nil {
		return nil // that the database is away is said where heartbeats fail
	}
	for _, u := range heard {
		if p, ok := by[u.Party]; ok {
			others = append(others, limits.Use{Party: p, Demand: u.Demand, InFlight: u.InFlight})
		}
	}
	return others
}
