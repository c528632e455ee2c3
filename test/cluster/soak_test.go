//go:build unix

package cluster

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/test/built"
)

const (
	// envSoak says how long the soak takes.
	envSoak = "DRAGOMAN_CLUSTER_SOAK"
	// soakers is how many clients call at the same time. Half of them have sessions.
	soakers = 24
	// hangs is how long a call may take before it counts as one without an end.
	hangs = time.Minute
)

// TestSoak lets clients call while replicas are killed and drained and the database is away, and does the accounts: each
// call ends in a result, an error, or a connection that's gone, and none is run twice. What a replica needs doesn't grow.
// It does all that behind a balancer of ours, and behind HAProxy.
func TestSoak(t *testing.T) {
	needLong(t)
	length := 2 * time.Minute
	if text := os.Getenv(envSoak); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", envSoak, err)
		}
	}
	program := built.Dragoman(t)
	t.Run("ours", func(t *testing.T) {
		t.Parallel()
		soak(t, program, length, func(t *testing.T, c *built.Cluster) string {
			front := httptest.NewServer(c)
			t.Cleanup(func() {
				front.CloseClientConnections()
				front.Close()
			})
			return front.URL
		})
	})
	t.Run("haproxy", func(t *testing.T) {
		t.Parallel()
		tool(t, "haproxy")
		soak(t, program, length, func(t *testing.T, c *built.Cluster) string {
			at := free(t)
			run(t, haproxy(t, example(t, "haproxy.cfg", c, at)), healthy("http://"+at))
			return "http://" + at
		})
	})
}

// phase is what goes on meanwhile.
type phase string

const (
	quiet  phase = "quiet"
	killed phase = "killed"
	drains phase = "drained"
	away   phase = "database away"
)

// entry is a kind of call, and how it has ended.
type entry struct {
	phase phase
	home  bool // whether one replica has what the call needs: a client's session, or one with a legacy server
	end   string
}

// How a call ends. An error of ours is named by its cause and outcome.
const (
	result = "result"
	gone   = "connection gone"
	lost   = "session lost" // 404: begin a new one
)

// ledger is the account of all calls.
type ledger struct {
	*servers
	mu      sync.Mutex
	now     phase
	sent    int
	entries map[entry]int
	slowest map[phase]time.Duration
	wrong   []string
}

func (l *ledger) is(p phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = p
}

// send notes that a call is sent, and in which phase.
func (l *ledger) send() phase {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	return l.now
}

// ends notes how a call has ended, and whether the servers saw it as often as that says. A call that has begun in one phase
// and ended in another belongs to the one in which more may go wrong.
func (l *ledger) ends(began phase, home bool, mark, end string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.ran(mark)
	switch {
	case n > 1:
		l.accuse("%s was run %d times", mark, n)
	case end == result && n != 1:
		l.accuse("%s has a result, and was run %d times", mark, n)
	case n != 0 && (end == lost || strings.HasSuffix(end, "not_sent")):
		l.accuse("%s was run, but ended with %q", mark, end)
	case took >= hangs:
		l.accuse("%s has no end", mark)
	}
	in := began
	if in == quiet {
		in = l.now
	}
	if why := wrong(in, home, end); why != "" {
		l.accuse("%s: %q, %v, after %v: %s", mark, end, in, took, why)
	}
	l.entries[entry{in, home, end}]++
	l.slowest[in] = max(l.slowest[in], took)
}

func (l *ledger) accuse(format string, args ...any) {
	if l.wrong = append(l.wrong, fmt.Sprintf(format, args...)); len(l.wrong) > 30 {
		l.wrong = l.wrong[:30]
	}
}

// wrong says what is wrong with a call that ends so, or "".
func wrong(in phase, home bool, end string) string {
	switch {
	case end == result:
	case in == killed && end == gone:
		// It was in flight there. A connection between client and balancer says no more.
	case home && in == killed && strings.HasPrefix(end, "replica_"):
		// It was passed on to the replica that was killed.
	default:
		return "this must not happen now"
	}
	return ""
}

// soaking is one run.
type soaking struct {
	*testing.T
	*ledger
	c     *built.Cluster
	relay *relay
	base  string
	marks atomic.Int64
	queue sync.WaitGroup
}

func soak(t *testing.T, program string, length time.Duration, balancer func(*testing.T, *built.Cluster) string) {
	s := &soaking{T: t, ledger: &ledger{now: quiet, entries: map[entry]int{}, slowest: map[phase]time.Duration{}}}
	s.c, s.servers = start(t, program, built.ClusterOptions{
		Args: []string{"--no-console"}, Env: []string{"GOGC=50"},
		// All clients come from one address.
		Settings: map[string]any{"limits": map[string]any{"initializePerSecond": 1000}, "record": "off"},
		Through: func(url string) (at string, err error) {
			s.relay, at = newRelay(t, url)
			return at, nil
		},
	})
	s.servers.delay = func() time.Duration { return rand.N(100 * time.Millisecond) }
	s.base = balancer(t, s.c)
	living, end := context.WithTimeout(t.Context(), length)
	defer end()
	for i := range soakers {
		p := newPerson(t, s.base)
		s.queue.Go(func() { s.client(living, p, i%2 == 1, []string{"new", "old"}[i/2%2]) })
	}
	samples := s.disturb(living)
	end()
	s.queue.Wait()
	s.judge(samples)
	s.rest()
}

// client calls one tool after the other until ctx ends.
func (s *soaking) client(ctx context.Context, p *person, legacy bool, server string) {
	var session []string
	for ctx.Err() == nil {
		if legacy && session == nil {
			var err error
			if session, err = p.open(context.WithoutCancel(ctx)); err != nil {
				pause(ctx, 100*time.Millisecond) // it's no call, and its client tries again
				continue
			}
		}
		id := s.marks.Add(1)
		mark := fmt.Sprintf("mark-1-%d", id)
		began, at := s.send(), time.Now()
		end := s.call(p, session, server, mark, int(id))
		s.ends(began, legacy || server == "old", mark, end, time.Since(at))
		if legacy && (end == lost || end == result && rand.IntN(50) == 0) {
			s.leave(p, session, end) // so that all replicas have sessions, also those that were started again
			session = nil
		}
		if end != result {
			pause(ctx, 100*time.Millisecond)
		}
		pause(ctx, rand.N(40*time.Millisecond))
	}
}

// leave ends a session that there still is.
func (s *soaking) leave(p *person, session []string, end string) {
	if end == lost {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	defer cancel()
	if a, err := p.do(ctx, http.MethodDelete, "/mcp", "", session...); err == nil {
		_ = a.Body.Close()
	}
}

// call makes one call, and says how it has ended.
func (s *soaking) call(p *person, session []string, server, mark string, id int) string {
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	defer cancel()
	tool, arguments := server+"__echo", fmt.Sprintf(`{"text":%q}`, mark)
	var m *message
	var err error
	if session == nil {
		m, err = p.call(ctx, tool, arguments, "")
	} else {
		var a *answer
		if a, err = p.post(ctx, "/mcp", toolCall(id, tool, arguments), session...); err == nil {
			m, err = a.final()
		}
	}
	var status *errStatus
	switch {
	case errors.As(err, &status) && status.code == http.StatusNotFound:
		return lost
	case errors.As(err, &status) && status.code != http.StatusBadGateway && status.code != http.StatusServiceUnavailable:
		return status.Error() // those two are how balancers say that the connection is gone
	case err != nil:
		return gone
	case m.Error != nil:
		return strings.TrimSpace(cmp.Or(m.Error.Data.Cause, m.Error.Message) + " " + m.Error.Data.Outcome)
	case m.text() != mark:
		return "a wrong answer: " + m.text()
	}
	return result
}

// reading is what a replica needs at some moment, and how many rows there are.
type reading struct{ heap, goroutines, descriptors, rows float64 }

// disturb kills and drains replicas in turn and takes the database away, until ctx ends. The first replica lives
// throughout, and it's the one whose needs are read, at the end of each round.
func (s *soaking) disturb(ctx context.Context) (samples []reading) {
	pause(ctx, 5*time.Second)
	for turn := 0; ctx.Err() == nil; turn++ {
		victim := s.c.Replicas[1+turn%2]
		s.is(killed)
		victim.Kill()
		pause(ctx, 3*time.Second)
		s.again(victim)
		pause(ctx, 9*time.Second) // the others have buried it, and clients have begun new sessions
		s.is(quiet)
		pause(ctx, 2*time.Second)

		other := s.c.Replicas[2-turn%2]
		s.is(drains)
		if err := other.Stop(); err != nil {
			s.Error(err)
		}
		s.again(other)
		pause(ctx, 4*time.Second)
		s.is(quiet)
		pause(ctx, 2*time.Second)

		s.is(away)
		s.relay.set(true)
		pause(ctx, []time.Duration{4 * time.Second, 12 * time.Second}[turn%2])
		s.relay.set(false)
		pause(ctx, 2*time.Second)
		s.is(quiet)
		pause(ctx, time.Second)
		if r, err := s.read(); err != nil {
			s.Error(err)
		} else if ctx.Err() == nil {
			samples = append(samples, r)
			s.Logf("round %d: %.1f MiB of heap, %.0f goroutines, %.0f descriptors, %.0f rows", turn+1, r.heap/(1<<20), r.goroutines, r.descriptors, r.rows)
		}
	}
	return samples
}

func (s *soaking) again(r *built.Replica) {
	if err := r.Start(context.Background()); err != nil {
		s.Error(err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d): // the replicas are other processes, in real time
	}
}

// read reads what the first replica needs. Of its heap it takes the least of some looks, in which there's little garbage.
func (s *soaking) read() (least reading, err error) {
	for i := range 10 {
		now := reading{}
		values := map[string]*float64{"go_memstats_heap_alloc_bytes": &now.heap, "go_goroutines": &now.goroutines, "process_open_fds": &now.descriptors}
		resp, err := http.Get(s.c.Replicas[0].URL() + "/metrics")
		if err != nil {
			return least, err
		}
		found := 0
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), " ")
			if to := values[name]; to != nil {
				*to, _ = strconv.ParseFloat(value, 64)
				found++
			}
		}
		_ = resp.Body.Close()
		if found != len(values) {
			return least, fmt.Errorf("the metrics have %d of %d values", found, len(values))
		}
		if i == 0 {
			least = now
		}
		least = reading{min(least.heap, now.heap), min(least.goroutines, now.goroutines), min(least.descriptors, now.descriptors), 0}
		time.Sleep(100 * time.Millisecond)
	}
	least.rows, err = s.rows()
	return least, err
}

// rows counts all rows of the database, besides those of replicas that have ended. These stay for a day.
func (s *soaking) rows() (n float64, err error) {
	db, err := sql.Open("pgx", s.c.Database.URL)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tables, err := db.Query("SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname LIKE 'dragoman%'")
	if err != nil {
		return 0, err
	}
	var names []string
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			return 0, err
		}
		names = append(names, name)
	}
	if err := tables.Err(); err != nil || len(names) == 0 {
		return 0, fmt.Errorf("%d tables, %w", len(names), err)
	}
	for _, name := range names {
		where := ""
		if strings.HasSuffix(name, ".replicas") {
			where = " WHERE state IN ('ready', 'draining')"
		}
		var rows float64
		if err := db.QueryRow("SELECT count(*) FROM " + name + where).Scan(&rows); err != nil {
			return 0, err
		}
		n += rows
	}
	return n, nil
}

// judge does the accounts, and compares the needs at the end with those in the middle.
func (s *soaking) judge(samples []reading) {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	all := 0
	for _, e := range slices.SortedFunc(maps.Keys(s.entries), func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(fmt.Sprint(a.home), fmt.Sprint(b.home)), cmp.Compare(a.end, b.end))
	}) {
		all += s.entries[e]
		where := map[bool]string{false: "at any replica", true: "at one replica"}[e.home]
		s.Logf("%-14s %-14s %-40.40s %6d", e.phase, where, e.end, s.entries[e])
	}
	s.Logf("%d sent, slowest: %v", s.sent, s.slowest)
	if all != s.sent || s.sent < 1000 {
		s.Errorf("%d calls were sent, and %d have ended", s.sent, all)
	}
	for _, w := range s.ledger.wrong {
		s.Error(w)
	}
	if len(samples) < 4 {
		return // too short to see a slope
	}
	half := samples[len(samples)/2:]
	middle := samples[len(samples)/4 : len(samples)/2]
	for _, g := range []struct {
		name string
		of   func(reading) float64
		most float64 // above a tenth
	}{
		{"heap", func(r reading) float64 { return r.heap }, 2 << 20},
		{"goroutines", func(r reading) float64 { return r.goroutines }, 20},
		{"descriptors", func(r reading) float64 { return r.descriptors }, 20},
		{"rows", func(r reading) float64 { return r.rows }, 3},
	} {
		before, after := least(middle, g.of), least(half, g.of)
		if after > before*1.1+g.most {
			s.Errorf("%s grow: %.0f in the second quarter, %.0f in the second half", g.name, before, after)
		}
	}
}

func least(all []reading, of func(reading) float64) float64 {
	n := of(all[0])
	for _, r := range all {
		n = min(n, of(r))
	}
	return n
}

// rest waits until a replica without clients needs hardly more than one that nobody has used.
func (s *soaking) rest() {
	s.relay.set(false)
	var now reading
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		var err error
		if now, err = s.read(); err != nil {
			s.Fatal(err)
		}
		if now.goroutines < 120 && now.descriptors < 80 {
			s.Logf("at rest: %.1f MiB of heap, %.0f goroutines, %.0f descriptors", now.heap/(1<<20), now.goroutines, now.descriptors)
			return
		}
	}
	s.Errorf("two minutes after the last call, a replica has %.0f goroutines and %.0f descriptors", now.goroutines, now.descriptors)
}
