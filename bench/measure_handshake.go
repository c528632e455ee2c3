package main

import (
	"context"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/bench/internal/load"
	"github.com/dragoman-mcp/dragoman/bench/internal/report"
	"github.com/dragoman-mcp/dragoman/bench/internal/words"
)

// measureHandshakes measures how long a client needs to open a session. The client connects and
// sends server/discover (modern), or initialize and notifications/initialized (legacy). In each
// round, measureHandshakes makes one handshake through each contestant, one after the other.
func (s *stage) measureHandshakes(ctx context.Context, r *report.Report) error {
	say("handshake: %d each", s.handshakes)
	taken := map[*contestant][]time.Duration{}
	for range s.handshakes {
		for _, c := range s.fit() {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			d, err := c.shakeHands()
			if err != nil {
				s.drop(c, err)
				continue
			}
			taken[c] = append(taken[c], d)
		}
	}
	direct := map[string]float64{} // the median latency of the direct connection, for each client era
	for _, c := range s.fit() {
		all := slices.Sorted(slices.Values(taken[c]))
		h := report.Handshake{
			Who: c.Who, Opening: "initialize, initialized", Times: len(all),
			P50: micros(load.Quantile(all, 0.50)), P99: micros(load.Quantile(all, 0.99)),
		}
		if c.client == words.Modern {
			h.Opening = "server/discover"
		}
		if c.Path == report.Direct { // the direct connections come before all other contestants; see stage.line
			direct[c.Client] = h.P50
		} else if base := direct[c.Client]; base > 0 {
			h.Ratio = h.P50 / base
		}
		r.Handshakes = append(r.Handshakes, h)
	}
	return nil
}

func (c *contestant) shakeHands() (time.Duration, error) {
	start := time.Now()
	client := load.Dial(c.addr, c.client, 0)
	defer client.Close()
	open := client.Open
	if c.client == words.Modern {
		open = client.Discover
	}
	if err := open(); err != nil {
		return 0, err
	}
	taken := time.Since(start)
	return taken, client.Leave()
}
