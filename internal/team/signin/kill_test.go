package signin

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

// kills is how many processes TestKill kills with each database, in so many lanes at the same time.
const kills, lanes = 200, 8

// TestKill kills processes at each step of a sign-in and of a renewal. What is left is the old credential or the new one, never
// half of one, and the next process gets to work, after a new sign-in at most.
func TestKill(t *testing.T) {
	points := []string{"before browser", "after callback", "after token", "before commit", "before refresh", "during refresh"}
	both(t, func(t *testing.T, p place) {
		rounds, alive := kills, time.Second
		if testing.Short() {
			rounds = 2 * len(points)
		}
		if raced { // everything takes ten times as long, also to show that it's alive
			rounds, alive = 2*len(points), 5*time.Second
		}
		to := newStrict(t)
		ctx, stop := context.WithCancel(t.Context())
		var people, all sync.WaitGroup
		defer people.Wait()
		defer stop()
		people.Go(func() { to.openAll(ctx) })
		for lane := range lanes {
			// Each lane has a port of its own, or the processes of one would finish the sign-ins of another.
			port, err := freePort(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			back := fmt.Sprintf("http://127.0.0.1:%d/callback", port)
			next := newRig(t, p, to, Settings{Callback: back}, func(o *Options) { o.alive, o.Browser = alive, peer{Server: to.URL}.tab })
			if _, err := next.open(t.Context()); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				for round := lane; round < rounds; round += lanes {
					kill(t, next, to, peer{place: p, Server: to.URL, Callback: back, Subject: fmt.Sprint("p:", round), Kill: points[(round/lanes+lane)%len(points)], Alive: alive, Calls: 1})
				}
			})
		}
		all.Wait()
		to.mu.Lock()
		defer to.mu.Unlock()
		t.Logf("%d kills, %d registrations, %d codes, %d refreshes", rounds, to.counts["register"], to.counts["authorization_code"], to.counts["refresh_token"])
	})
}

// kill runs one round: a process is killed at a step, and next goes on.
func kill(t *testing.T, next *rig, to *strict, p peer) {
	safe := next.safe.Load()
	of := store.SignIn{Project: "default", Server: next.to, Subject: p.Subject}
	a := next.s.account(p.Subject)
	var before *token
	var err error
	renews := p.Kill == "before refresh" || p.Kill == "during refresh"
	if renews {
		next.signIn(t, to, of, p.Subject)
		if before, err = a.current(t.Context(), safe); err != nil || before == nil {
			t.Errorf("%s, %s: signed in: %v", p.Subject, p.Kill, err)
			return
		}
		p.Force = true
	}
	c, out := peertest.Start(t, p)
	for out.Scan() {
		if text := out.Text(); text != "holds the port" {
			t.Errorf("%s, %s: it says %s", p.Subject, p.Kill, text)
		}
	}
	if err := c.Wait(); err == nil {
		t.Errorf("%s, %s: it wasn't killed", p.Subject, p.Kill)
	}
	if err := safe.Store().Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	left, err := a.current(t.Context(), safe)
	switch {
	case err != nil:
		t.Errorf("%s, %s: what is left can't be read: %v", p.Subject, p.Kill, err)
	case renews && (left == nil || left.generation != before.generation || left.refresh.Reveal() != before.refresh.Reveal()), !renews && left != nil:
		t.Errorf("%s, %s: it has left another credential than the old one", p.Subject, p.Kill)
	}
	point := p.Kill
	p.Kill, p.Force = "", false
	if err := p.call(t.Context(), next.s); err != nil {
		t.Errorf("%s, %s: the next process can't call: %v", p.Subject, point, err)
	}
}

// openAll plays the people: it opens each tab for whom it's meant, until ctx ends.
func (s *strict) openAll(ctx context.Context) {
	var tabs sync.WaitGroup
	defer tabs.Wait()
	for done := 0; ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		all := s.tabs[done:]
		s.mu.Unlock()
		for _, link := range all {
			tabs.Go(func() {
				ctx, stop := context.WithTimeout(ctx, 10*time.Second)
				defer stop()
				_, _, _ = s.visit(ctx, link, "")
			})
		}
		done += len(all)
	}
}
