package load

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Crowd is a group of clients that make calls at the same time.
type Crowd struct {
	clients []*Client
	all     []time.Duration // the latencies of the last slice; Run reuses its memory
}

// Slice holds the results of one slice: the calls that a crowd made during a period.
type Slice struct {
	Calls    int
	Elapsed  time.Duration // the time from the first write to the last answer
	P50, P99 time.Duration
}

// Gather opens the sessions of n clients that dial returns.
func Gather(dial func(number int) *Client, n int) (*Crowd, error) {
	c := &Crowd{}
	for i := range n {
		client := dial(i)
		c.clients = append(c.clients, client)
		client.taken = make([]time.Duration, 0, 8<<10)
		if err := client.Open(); err != nil {
			c.Disperse()
			return nil, fmt.Errorf("client %d: %w", i, err)
		}
	}
	return c, nil
}

// Disperse closes the connections of all clients. It does not end the sessions.
func (c *Crowd) Disperse() {
	for _, client := range c.clients {
		client.Close()
	}
}

// Prepare sets the size of the text for the following calls.
func (c *Crowd) Prepare(size int) {
	for _, client := range c.clients {
		client.Prepare(size)
	}
}

// Run lets all clients make calls until d has passed. Then it waits for the calls in flight and
// includes them in the results. A client stops after a wrong answer. Run then returns an error
// after all clients have stopped.
func (c *Crowd) Run(d time.Duration) (Slice, error) {
	var wg sync.WaitGroup
	errs := make([]error, len(c.clients))
	start := time.Now()
	end := start.Add(d)
	for i, client := range c.clients {
		wg.Go(func() {
			errs[i] = client.run(end)
		})
	}
	wg.Wait()
	s := Slice{Elapsed: time.Since(start)}
	for i, err := range errs {
		if err != nil {
			return Slice{}, fmt.Errorf("client %d: %w", i, err)
		}
	}
	c.all = c.all[:0]
	for _, client := range c.clients {
		c.all = append(c.all, client.taken...)
	}
	slices.Sort(c.all)
	s.Calls = len(c.all)
	s.P50, s.P99 = Quantile(c.all, 0.50), Quantile(c.all, 0.99)
	return s, nil
}

// run makes calls until end, but at least one call.
func (c *Client) run(end time.Time) error {
	c.taken = c.taken[:0]
	for {
		taken, err := c.Call()
		if err != nil {
			return err
		}
		c.taken = append(c.taken, taken)
		if !time.Now().Before(end) {
			return nil
		}
	}
}

// Quantile returns the element of sorted at the quantile q, which is from 0 to 1. It returns the
// zero value if sorted is empty.
func Quantile[T any](sorted []T, q float64) T {
	if len(sorted) == 0 {
		var zero T
		return zero
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
