package daemon

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/work"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/issuers"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// entry says who may come in. Its gate has the keys and the people of the store.
type entry struct {
	gate   *access.Gate
	desk   *access.Desk
	roster *access.Roster
	ledger *access.Ledger // nil if we have no authorization server
	egress *egress.Client // makes the requests to issuers
	log    *slog.Logger

	resources *access.Resources // see protect
	issuers   *issuers.Set      // nil if no tokens of others count
	login     *issuers.Login    // nil if nobody signs in at a provider
	turn      chan struct{}     // a lock: contains one value while update runs
	forged    int               // the rows about people that others have written; has the lock turn
}

// Refused is the error of a Serve that would let in nobody, or everybody.
type Refused struct {
	Text string // what is wrong: a sentence without a full stop that begins with a small letter
	Next string // what to do, in the same form
}

func (e *Refused) Error() string { return e.Text }

// newEntry returns the entry for an address, with the keys and people that there are now. If other machines can
// reach the address, its clients need keys, so somebody must have one, or come in by invitation and make one.
func newEntry(ctx context.Context, o *ServeOptions, address string) (*entry, error) {
	local := isLocal(address)
	e := &entry{gate: access.NewGate(o.Open || local && !o.Config.Access.LoopbackKeys), desk: access.NewDesk(o.safe), egress: egress.New(egress.Options{Allow: o.Config.Egress.Allow}), log: o.Log, turn: make(chan struct{}, 1)}
	e.roster = access.NewRoster(e.desk, e.gate)
	if err := e.useOwn(o, local); err != nil {
		return nil, err
	}
	keys, err := e.update(ctx)
	if err != nil {
		return nil, err
	}
	e.desk.Then(func(ctx context.Context) { _, _ = e.update(ctx) }) // if that fails, follow tries again, and logs it
	e.protect(o)
	e.login = e.loginOf(o)
	if seats, _ := keys.InForce(time.Now()); len(seats) == 0 && !e.roster.People().Any() && !e.others(o) && !local && !o.Open {
		_, port, _ := net.SplitHostPort(address)
		return nil, &Refused{
			"other machines can reach " + strconv.Quote(address) + ", and nobody has an API key",
			"make one with `dragoman keys add NAME`, listen on 127.0.0.1:" + port + ", or let everybody in with dragoman.allowUnauthenticatedNetworkAccess: true if a firewall controls who can connect",
		}
	}
	return e, nil
}

// update gives the gate the people and the keys of the store, and returns the keys. Several may call it at once:
// the gate never gets older ones than it has.
func (e *entry) update(ctx context.Context) (*access.Keys, error) {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	before, people := e.gate.Keys(), e.forged
	keys, err := before, error(nil)
	if !e.desk.Has(before) { // most changes are about something else
		keys, err = e.desk.Keys(ctx)
	}
	if err == nil {
		err = e.roster.Refresh(ctx) // before the keys, which may act for new people
	}
	if err == nil && e.ledger != nil {
		err = e.ledger.Update(ctx)
	}
	if err != nil {
		return nil, err
	}
	if keys != before {
		keys.NameOwners(e.roster.People().Name)
		e.gate.Use(keys)
	}
	if n := keys.Forged(); n > before.Forged() {
		e.log.Warn("the database has API keys that dragoman hasn't made", "keys", n)
	}
	if e.forged = e.roster.People().Forged() + e.ledger.Forged(); e.forged > people {
		e.log.Warn("the database has people, roles or grants that dragoman hasn't made", "rows", e.forged)
	}
	return keys, nil
}

// What the clients of a key are told when it has ended, and when the person whom it acts for has lost the role
// that it needs.
var (
	errKeyEnded error = &mcp.Error{
		Origin: mcp.FromGateway, Cause: "key_ended", Outcome: mcp.OutcomeUnknown,
		Message: "the API key was revoked or has expired; ask for a new one",
	}
	errRoleEnded error = &mcp.Error{
		Origin: mcp.FromGateway, Cause: "key_ended", Outcome: mcp.OutcomeUnknown,
		Message: "the person whom the API key acts for may not use it any more; ask an admin of the project",
	}
)

// follow keeps the gate's keys and people those of the store until ctx ends. It calls end for the seat of each key
// and of each grant that was revoked, has expired, or acts for a person who may not use it any more. A key that has ended with its
// project is refused, but its calls end as the project's do, which gives them time. inFile returns the projects
// that the configuration file declares. If somebody has other roles in a project, follow calls regraded for it.
func (e *entry) follow(ctx context.Context, s *store.Store, inFile func() []string, end func(seat string, cause error), regraded func(project string)) {
	var ending sync.WaitGroup
	defer ending.Wait()
	seats, _ := e.gate.Seats(time.Now())
	people := e.roster.People()
	for before, snapshot := s.Snapshot(), s.Snapshot(); ; before, snapshot = snapshot, s.Snapshot() {
		keys, err := e.update(ctx)
		if err != nil && ctx.Err() != nil {
			return
		}
		if err != nil {
			e.log.Warn("the API keys could not be read, so nobody can come in with one", "cause", err.Error())
			keys = &access.Keys{}
			e.gate.Use(keys)
			if e.ledger != nil {
				_ = e.ledger.Update(ctx) // which fails for the same reason, and leaves none in force
			}
		}
		now := time.Now()
		inForce, next := e.gate.Seats(now)
		left, _ := keys.InForce(now)
		ended := map[string]bool{}
		for text := range seats {
			seat, why := access.SeatOf(text), errKeyEnded
			switch {
			case left[seat]:
				why = errRoleEnded
			case access.IsGrant(seat):
				why = errGrantEnded
			}
			if !inForce[text] && !ended[seat] && !endedWithProject(seat, before, snapshot, inFile) {
				ended[seat] = true
				ending.Go(func() { end(seat, why) })
			}
		}
		seats = inForce
		known := people
		people = e.roster.People()
		for project := range people.Regraded(known) {
			regraded(project)
		}
		if !wait(ctx, snapshot.Replaced(), next) {
			return
		}
	}
}

// usesTogether is how long the uses of keys wait for further ones, to be written in one change.
const usesTogether = 10 * time.Second

// keepUses writes down when keys were last used, until ctx ends, and then what is left. While no key is used, it does
// nothing.
func (e *entry) keepUses(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-e.desk.Used():
			_ = work.Sleep(ctx, usesTogether)
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		_, err := e.desk.KeepUses(last)
		cancel()
		if err != nil { // the next use is another attempt
			e.log.Debug("when API keys were used could not be stored", "cause", err.Error())
		}
	}
}

// endedWithProject reports whether a key was revoked because its project was removed from the store: homes
// brings that to its end.
func endedWithProject(seat string, before, now *store.Snapshot, inFile func() []string) bool {
	id, _ := strings.CutPrefix(seat, access.KeySubject)
	k, ok := before.Key(id)
	if !ok {
		return false
	}
	_, was := before.Project(k.Project)
	_, is := now.Project(k.Project)
	return was && !is && !slices.Contains(inFile(), k.Project)
}

// wait waits until a channel is closed or a time has come, of which zero never comes. It returns false if
// ctx has ended.
func wait(ctx context.Context, change <-chan struct{}, next time.Time) bool {
	var due <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-change:
	case <-due:
	}
	return true
}
