package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// world is a database and a network in the memory of a test, with replicas that it can stop and cut off.
type world struct {
	mu    sync.Mutex
	rows  map[string]*Member
	seen  map[string]time.Time
	away  bool                    // nobody reaches the database
	meets func(from, to int) bool // who can call whom; nil for everybody
	all   []*replica

	seats         map[seatKey]*seat
	ids           []string // of sessions
	names         []string // of seats at servers
	asked, served int

	wrong []string // who was buried although it runs and was never away alone
}

// replica is one process of a world, and its rows as it sees them.
type replica struct {
	rows    // has what the model doesn't use
	w       *world
	c       *Cluster
	stop    context.CancelFunc
	killed  time.Time
	stopped time.Time         // since when it's stopped; zero if it runs
	cut     time.Time         // since when it doesn't reach the database alone
	lonely  time.Time         // since when it reaches no other replica
	late    time.Time         // until when it doesn't notice that the database is back
	hurt    time.Time         // until when it was stopped or cut off
	table   map[string]uint64 // by id: in which term a session came here
	ahead   time.Duration     // by how much its clock is
}

var errAway = errors.New("the database is away")

func (r *replica) reach() error {
	if r.w.away || !r.cut.IsZero() || !r.stopped.IsZero() || time.Now().Before(r.late) {
		return errAway
	}
	return nil
}

func (r *replica) join(_ context.Context, m *Member) error {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if err := r.reach(); err != nil {
		return err
	}
	row := *m
	row.Started = time.Now()
	r.w.rows[m.Incarnation], r.w.seen[m.Incarnation] = &row, time.Now()
	return nil
}

func (r *replica) beat(_ context.Context, incarnation string, s State, reaches bool) (bool, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	row := r.w.rows[incarnation]
	if err := r.reach(); err != nil || row == nil || !row.Lives() {
		return false, err
	}
	row.State, row.Reaches, r.w.seen[incarnation] = s, reaches, time.Now()
	return true, nil
}

func (r *replica) bury(_ context.Context, m *Member) (bool, error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	row := r.w.rows[m.Incarnation]
	if err := r.reach(); err != nil || !row.Lives() || r.w.seen[m.Incarnation].String() != m.seen {
		return false, err
	}
	row.State = Dead
	n, _ := strconv.Atoi(row.Name[1:])
	if x := r.w.all[n]; x.killed.IsZero() && x.stopped.IsZero() && x.cut.IsZero() && time.Since(x.hurt) > 5*time.Second {
		r.w.wrong = append(r.w.wrong, fmt.Sprintf("replica %d runs, and %s buried it", n, r.c.o.Name))
	}
	return true, nil
}

func (r *replica) members(context.Context) (list []Member, err error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if err := r.reach(); err != nil {
		return nil, err
	}
	for name, row := range r.w.rows {
		m := *row
		m.Silence, m.seen, m.clock = time.Since(r.w.seen[name]), r.w.seen[name].String(), time.Now().Add(-r.ahead)
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Member) int { return a.Started.Compare(b.Started) })
	return list, nil
}

func (r *replica) Close() error { return nil }

// call is what a replica finds out about another one.
func (r *replica) call(_ context.Context, m *Member) finding {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	n, _ := strconv.Atoi(m.Name[1:])
	me, _ := strconv.Atoi(r.c.o.Name[1:])
	switch x := r.w.all[n]; {
	case !r.lonely.IsZero(), r.w.meets != nil && !r.w.meets(me, n):
		return silent
	case !x.killed.IsZero():
		return refused
	case !x.stopped.IsZero():
		return silent
	}
	return answered
}

func (w *world) start(t *testing.T) {
	r := &replica{w: w, table: map[string]uint64{}}
	w.mu.Lock()
	name := fmt.Sprint(len(w.all))
	w.all = append(w.all, r)
	w.mu.Unlock()
	var err error
	if r.c, err = newCluster(Options{Name: "r" + name, rows: r}); err != nil {
		t.Fatal(err)
	}
	r.c.find, r.c.hear = r.call, r.ask
	r.c.reach = func(ctx context.Context, m *Member) bool { return r.call(ctx, m) == answered }
	if err := r.c.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	r.c.group.Go(func() { r.c.live(ctx) })
	w.names = append(w.names, "server "+name)
	for range 3 {
		id := r.c.Seal("use", []byte("facts"))
		r.table[id] = r.c.Term()
		w.ids = append(w.ids, id)
	}
}

// check looks at all rows. calm is the last time at which the database was away.
func (w *world) check(t *testing.T, now, calm time.Time) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) > 0 {
		t.Error(w.wrong)
	}
	ready, off := 0, 0
	for i, r := range w.all {
		if r.killed.IsZero() && r.c.CutOff() {
			if off++; r.lonely.IsZero() && now.Sub(r.hurt) > 10*time.Second {
				t.Errorf("replica %d reaches the others, and says that it doesn't", i)
			}
		} else if x := min(now.Sub(r.lonely), now.Sub(r.hurt), now.Sub(calm)); !r.lonely.IsZero() && r.stopped.IsZero() && r.cut.IsZero() && now.After(r.late) && x > 20*time.Second {
			t.Errorf("replica %d has reached nobody for %s, and is ready", i, x)
		}
		row := w.rows[r.c.me.Load().Incarnation]
		switch away := cmp.Or(r.stopped, r.cut); {
		case !r.killed.IsZero():
			// Everybody else may have to become steady first.
			if limit := 2*staleAfter + 5*lookEvery; row.Lives() && now.Sub(r.killed) > limit && now.Sub(calm) > limit {
				t.Errorf("replica %d was killed %s ago, and is %s", i, now.Sub(r.killed), row.State)
			}
		case row.State == Dead && away.IsZero() && min(now.Sub(r.hurt), now.Sub(calm), now.Sub(r.late)) > 5*time.Second: // it joins again
			t.Errorf("replica %d runs and is dead", i)
		case row.State == Dead && !r.stopped.IsZero() && now.Sub(w.seen[row.Incarnation]) < staleAfter:
			t.Errorf("replica %d is dead after %s", i, now.Sub(w.seen[row.Incarnation]))
		case row.State == Ready:
			ready++
		}
	}
	if off > len(w.all)/2 {
		t.Errorf("%d of %d are cut off", off, len(w.all))
	}
	if ready < len(w.all)/2 {
		t.Errorf("only %d of %d are ready", ready, len(w.all))
	}
}

// TestTC32 also lets clients of legacy sessions, and those without a session, ask any replica, and replicas leave. No
// session may ever have two replicas that would serve it, nor may a seat at a server, and most requests find one.
//
// It lets forty replicas live for twenty minutes of simulated time, while at random the database goes away, and
// replicas are killed, stopped and cut off. Nobody may be buried who could be asked and was never away for as long as
// it takes, and everybody who is killed must be buried in time. CLUSTER_SEED repeats a run.
func TestTC32(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("CLUSTER_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("CLUSTER_SEED=%d", seed)
	const replicas, length = 40, 20 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := &world{rows: map[string]*Member{}, seen: map[string]time.Time{}, seats: map[seatKey]*seat{}}
		defer func() {
			if t.Logf("%d of %d requests were served", w.served, w.asked); w.served < w.asked*8/10 {
				t.Error("too few requests were served")
			}
		}()
		for range replicas {
			w.start(t)
		}
		defer func() {
			for _, r := range w.all {
				r.stop()
				r.c.group.Wait()
			}
		}()
		var awayUntil, calm time.Time // calm is the last time at which the database was away
		calm = time.Now()
		for end := time.Now().Add(length); time.Now().Before(end); {
			time.Sleep(time.Second)
			w.mu.Lock()
			now := time.Now()
			switch {
			case w.away && now.After(awayUntil):
				w.away = false
				for _, r := range w.all {
					r.late = now.Add(time.Duration(random.IntN(8)) * time.Second)
				}
			case !w.away && random.IntN(120) == 0:
				w.away, awayUntil = true, now.Add(time.Duration(random.IntN(90))*time.Second)
			}
			if w.away {
				calm = now
			}
			kill, leave := -1, -1
			for i, r := range w.all {
				if !r.killed.IsZero() {
					continue
				}
				for _, since := range []*time.Time{&r.stopped, &r.cut, &r.lonely} {
					if !since.IsZero() && random.IntN(8) == 0 {
						*since, r.hurt = time.Time{}, now
					} else if since.IsZero() && random.IntN(2000) == 0 {
						*since = now
					}
				}
				switch random.IntN(20_000) {
				case 0:
					kill = i
				case 1:
					leave = i
				}
			}
			w.mu.Unlock()
			if kill >= 0 {
				w.mu.Lock()
				w.all[kill].killed = now
				w.mu.Unlock()
				w.all[kill].stop()
			}
			if leave >= 0 && leave != kill {
				w.all[leave].leave(t.Context())
			}
			for range 15 {
				if r := w.all[random.IntN(len(w.all))]; r.runs() {
					w.request(t.Context(), r, w.ids[random.IntN(len(w.ids))])
					w.callServer(t.Context(), r, w.names[random.IntN(len(w.names))], random.IntN(20) == 0)
				}
			}
			for _, r := range w.all {
				if r.runs() {
					_ = r.c.writeDue(t.Context())
				}
			}
			w.check(t, now, calm)
			w.checkSeats(t)
			w.checkChairs(t, now.Sub(calm))
			if t.Failed() {
				return
			}
		}
	})
}
