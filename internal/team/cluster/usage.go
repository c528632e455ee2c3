package cluster

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// Usage is how much of something that has a limit replicas use.
type Usage struct {
	Party    string  `json:"party"`
	Demand   float64 `json:"demand"`
	InFlight int     `json:"in_flight"`
}

// usageWithin is how long the statement of Exchange may take; the next one is due then.
const usageWithin = time.Second

// Exchange tells the others what this replica uses, and returns the sums of what the others have told in the last
// seconds. It must not be called twice at the same time.
func (c *Cluster) Exchange(ctx context.Context, mine []Usage) (others []Usage, err error) {
	ctx, cancel := context.WithTimeout(ctx, usageWithin)
	defer cancel()
	if time.Since(c.swept) >= time.Minute {
		c.swept = time.Now()
		err = c.rows.sweep(ctx)
	}
	if err == nil {
		others, err = c.rows.exchange(ctx, c.me.Load().Incarnation, mine)
	}
	return others, err
}

func (t tables) sweep(ctx context.Context) error {
	return t.Brief(ctx, func(tx *sqldb.Tx) error {
		return tx.Exec("DELETE FROM usage WHERE ctid IN (SELECT ctid FROM usage WHERE written < clock_timestamp() - INTERVAL '1 minute' FOR UPDATE SKIP LOCKED)")
	})
}

// exchange is one statement. What nobody has told for a minute is forgotten now and then; see sweep.
func (t tables) exchange(ctx context.Context, incarnation string, mine []Usage) (others []Usage, err error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	err = t.Brief(ctx, func(tx *sqldb.Tx) error {
		others = nil
		return tx.Each(func(scan func(...any) error) error {
			var u Usage
			err := scan(&u.Party, &u.Demand, &u.InFlight)
			others = append(others, u)
			return err
		}, `WITH mine AS (
	INSERT INTO usage (incarnation, party, demand, in_flight, written)
	SELECT ?, party, demand, in_flight, clock_timestamp() FROM jsonb_to_recordset(?::jsonb) AS x(party TEXT, demand DOUBLE PRECISION, in_flight INTEGER)
	ON CONFLICT (incarnation, party) DO UPDATE SET demand = excluded.demand, in_flight = excluded.in_flight, written = excluded.written
)
SELECT party, SUM(demand), SUM(in_flight)::INTEGER FROM usage WHERE incarnation <> ? AND written > clock_timestamp() - INTERVAL '3 seconds' GROUP BY party`,
			incarnation, string(text), incarnation)
	})
	return others, err
}
