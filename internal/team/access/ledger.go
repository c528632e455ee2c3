package access

import (
	"context"
	"crypto/hmac"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Ledger keeps what people have allowed the clients of our authorization server: it makes codes, exchanges them
// for tokens, and refreshes and revokes those. It is safe for concurrent use. What may be asked of it in which
// form is up to package authserver.
type Ledger struct {
	desk   *Desk
	gate   *Gate
	looked atomic.Int64 // when look has looked, in nanoseconds
	turn   sync.Mutex   // held while the gate gets other tokens, so that it never gets older ones
}

// NewLedger returns a ledger that keeps grants where a desk keeps its keys, and tells a gate of each change. The gate
// accepts its tokens from now on, so NewLedger must be called before the gate is used.
func NewLedger(d *Desk, g *Gate) *Ledger {
	l := &Ledger{desk: d, gate: g}
	g.grants.Store(&Grants{})
	g.Accept(accessMark, l)
	g.Accept(refreshMark, l)
	g.Accept(codeMark, l)
	return l
}

// What clients are told of a token that lets nobody in. Strangers learn no more of it, but one that was right until it
// expired is nothing to record.
var (
	errToken = &httpdoor.Denied{Code: "invalid_token", Reason: "this token is unknown, expired, revoked or for another endpoint"}
	errOld   = &httpdoor.Denied{Code: errToken.Code, Reason: errToken.Reason, Usual: true}
)

// Principal implements Tokens. A token for another endpoint is refused as a wrong one is (2025-06-18 §Authorization,
// "Token Audience Binding and Validation"; the same later). All our endpoints are at one base, so it's the path that counts.
//
// Wrong tokens don't count as guesses: nobody can guess one, each client sends an expired one from time to time, and
// all people of a vendor come from the same few addresses.
func (l *Ledger) Principal(ctx context.Context, _, text string, at httpdoor.Target) (*identity.Principal, error) {
	x := l.gate.grants.Load().find(text, time.Now())
	if x == nil && l.look(ctx, text) {
		x = l.gate.grants.Load().find(text, time.Now())
	}
	if x == nil && l.gate.grants.Load().find(text, time.Time{}) != nil {
		return nil, errOld
	}
	if x == nil || !l.gate.people.Load().admits(x, l.gate.own != "") || !x.covers(at) {
		return nil, errToken
	}
	return &x.who, nil
}

// lookEvery is how often tokens that we don't know make us look into the database.
const lookEvery = 200 * time.Millisecond

// look makes the grants those of the database, in case another process has just made the one of a token. It does
// nothing, and returns false, for what can't be a token, and more often than every lookEvery.
func (l *Ledger) look(ctx context.Context, text string) bool {
	now, last := time.Now().UnixNano(), l.looked.Load()
	if _, _, ok := parse(accessMark, text); !ok || now-last < int64(lookEvery) || !l.looked.CompareAndSwap(last, now) {
		return false
	}
	return l.desk.safe.Store().Refresh(ctx) == nil && l.Update(ctx) == nil
}

// Roles implements Tokens: a token opens endpoints, and no page.
func (l *Ledger) Roles(who *identity.Principal, project string) []identity.Role {
	p := l.gate.people.Load()
	x := l.gate.grants.Load().of(who)
	if x == nil || !p.admits(x, l.gate.own != "") || !p.callsIn(who.Subject, project) {
		return nil
	}
	return callerOnly
}

var callerOnly = []identity.Role{identity.Caller}

// ErrGrant says that a code or a refresh token is not in force, for whatever reason.
const ErrGrant = Mistake("this grant was used, revoked or has expired, or was never made")

// ErrReplay is like ErrGrant. The code or the refresh token had been used before, so everything that came of it
// was revoked: somebody else may have it.
const ErrReplay = Mistake("this was used before, so everything that came of it was revoked")

// Fits is asked whether a client may use a grant. It returns nil, or why not.
type Fits func(client string, t *Terms) error

// Issued are the tokens that a client gets.
type Issued struct {
	Access  string
	Life    time.Duration // how long Access is good
	Refresh string
	Terms   Terms
	Subject string
	Grant   string // its id
}

// Key returns a key for a use that has nothing to do with grants.
func (l *Ledger) Key(ctx context.Context, use string) ([32]byte, error) {
	mac, err := l.desk.mac(ctx, identityOfHouse)
	return mac.derive("authorization server: " + use), err
}

// identityOfHouse is the actor of what happens by itself.
const identityOfHouse = "dragoman"

// Begin makes a grant, and returns the code with which the client gets its tokens, once and within codeLife. If
// consent isn't "", it is kept as what the subject has agreed to.
func (l *Ledger) Begin(ctx context.Context, subject, client, consent string, terms Terms) (code string, err error) {
	m, err := l.macs(ctx, subject)
	if err != nil {
		return "", err
	}
	id, seed, now := NewID(), NewSecret(), time.Now().UTC()
	x := grantText{Terms: terms, Seed: seed[:], Made: now}
	row := store.Grant{ID: id.String(), Subject: subject, Client: client, Open: true, Until: after(codeRevokes)}
	if err := m.sign(&row, &x); err != nil {
		return "", err
	}
	err = l.desk.safe.Store().Write(ctx, subject, func(t *store.Tx) error {
		if err := t.Consent(consent, subject, client); err != nil {
			return err
		}
		return t.AddGrant(row)
	})
	return textOf(codeMark, id, m.codes.of(row.ID, x.Seed, 0)), err
}

// Consented reports whether a subject has agreed to something; see Begin.
func (l *Ledger) Consented(ctx context.Context, consent string) (bool, error) {
	return l.desk.safe.Store().Consented(ctx, consent)
}

// Redeem exchanges a code for tokens. The errors are ErrGrant, ErrReplay, that of fits, and those of the store.
func (l *Ledger) Redeem(ctx context.Context, code string, fits Fits) (Issued, error) {
	return l.change(ctx, codeMark, code, func(m *grantMACs, secret *Secret, row *store.Grant, x *grantText, now time.Time) (string, error) {
		if s := m.codes.of(row.ID, x.Seed, 0); !hmac.Equal(s[:], secret[:]) {
			return "", ErrGrant
		}
		switch age := now.Sub(x.Made); {
		case !row.Open && age < codeRevokes:
			return "", ErrReplay
		case !row.Open, age >= codeLife:
			return "", ErrGrant
		}
		if err := fits(row.Client, &x.Terms); err != nil {
			return "", err
		}
		row.Open, x.At, x.Until = false, now, now.Add(tokenLife)
		return "got tokens", nil
	})
}

// Refresh exchanges a refresh token for its successor and an access token. Until that successor is used, the same
// request gets the same answer, for graceLife at most: clients lose answers, or ask from two machines. After
// that, the error is ErrReplay, and the grant is revoked. The other errors are those of Redeem.
func (l *Ledger) Refresh(ctx context.Context, token string, fits Fits) (Issued, error) {
	return l.change(ctx, refreshMark, token, func(m *grantMACs, secret *Secret, row *store.Grant, x *grantText, now time.Time) (string, error) {
		turn := m.turnOf(row.ID, x, secret)
		switch {
		case row.Open || turn < 0:
			return "", ErrGrant
		case turn < x.Turn-1, turn < x.Turn && now.Sub(x.At) > graceLife:
			return "", ErrReplay
		}
		if err := fits(row.Client, &x.Terms); err != nil {
			return "", err
		}
		if turn == x.Turn {
			x.Turn, x.At = x.Turn+1, now
		}
		// Another access token is made only when half of the life is over. So no more than two are good at once,
		// however many processes of a client refresh.
		if x.Until.Sub(now) < tokenLife/2 {
			x.Token, x.Last, x.Until = x.Token+1, x.Until, now.Add(tokenLife)
		}
		return "", nil
	})
}

// mostTurns is how many refresh tokens of a grant we recognise. One that is older is nothing at all.
const mostTurns = 5000

// turnOf returns the number of a refresh token, or -1 if it's none of the grant.
func (m *grantMACs) turnOf(id string, x *grantText, secret *Secret) int {
	for n := x.Turn; n >= max(0, x.Turn-mostTurns); n-- {
		if s := m.refresh.of(id, x.Seed, n); hmac.Equal(s[:], secret[:]) {
			return n
		}
	}
	return -1
}

// change lets f change the grant of a code or a token, and returns the tokens that are then in force. f returns
// what has happened, for the acts.
func (l *Ledger) change(ctx context.Context, mark, text string, f func(*grantMACs, *Secret, *store.Grant, *grantText, time.Time) (string, error)) (got Issued, err error) {
	id, secret, ok := parse(mark, text)
	if !ok {
		return Issued{}, ErrGrant
	}
	m, err := l.macs(ctx, identityOfHouse)
	if err != nil {
		return Issued{}, err
	}
	var refused error // which must not undo that a grant was revoked
	actor := grantSeat + id.String()
	err = l.desk.safe.Store().Write(ctx, actor, func(t *store.Tx) error {
		refused = nil
		row, there, err := t.Grant(id.String())
		if err != nil {
			return err
		}
		now := time.Now().UTC()
		x, signed := m.read(&row)
		if !there || !signed || !now.Before(row.Until) || !l.gate.people.Load().knows(row.Subject) {
			return ErrGrant
		}
		before := x
		action, err := f(m, &secret, &row, &x, now)
		if err == ErrReplay {
			refused = err
			_, err = t.EndGrant(row.ID, "replayed, so revoked")
		}
		if err != nil || refused != nil {
			return err
		}
		got = l.issue(m, &row, &x, now)
		if x.Turn == before.Turn && x.Token == before.Token && action == "" {
			return nil // the answer before, once more
		}
		row.Until = earlier(now.Add(idleLife), x.Made.Add(GrantLife))
		if err := m.sign(&row, &x); err != nil {
			return err
		}
		return t.SetGrant(row, action)
	})
	if err == nil || refused != nil {
		_ = l.Update(context.WithoutCancel(ctx)) // before the client has the tokens; if it fails, nobody comes in
	}
	if err == nil {
		err = refused
	}
	if err != nil {
		return Issued{}, err
	}
	return got, nil
}

func (l *Ledger) issue(m *grantMACs, row *store.Grant, x *grantText, now time.Time) Issued {
	id := ID([]byte(row.ID))
	return Issued{
		Access: textOf(accessMark, id, m.access.of(row.ID, x.Seed, x.Token)), Life: x.Until.Sub(now),
		Refresh: textOf(refreshMark, id, m.refresh.of(row.ID, x.Seed, x.Turn)),
		Terms:   x.Terms, Subject: row.Subject, Grant: row.ID,
	}
}

// Revoke ends the grant of an access or refresh token, if the client with an id has it. It does nothing for any
// other text (RFC 7009 §2.2).
func (l *Ledger) Revoke(ctx context.Context, client, token string) error {
	mark := refreshMark
	if strings.HasPrefix(token, accessMark) {
		mark = accessMark
	}
	id, secret, ok := parse(mark, token)
	if !ok {
		return nil
	}
	m, err := l.macs(ctx, identityOfHouse)
	if err != nil {
		return err
	}
	return l.end(ctx, grantSeat+id.String(), func(t *store.Tx) (bool, error) {
		row, there, err := t.Grant(id.String())
		x, signed := m.read(&row)
		if !there || !signed || err != nil || row.Client != client {
			return there, err
		}
		is := mark == refreshMark && m.turnOf(row.ID, &x, &secret) >= 0
		for n := x.Token; mark == accessMark && n >= max(0, x.Token-mostTurns) && !is; n-- {
			s := m.access.of(row.ID, x.Seed, n)
			is = hmac.Equal(s[:], secret[:])
		}
		if !is {
			return true, nil
		}
		return t.EndGrant(row.ID, "revoked")
	})
}

// End ends the grant with an id, and reports whether there was one.
func (l *Ledger) End(ctx context.Context, actor, id string) (there bool, err error) {
	err = l.end(ctx, actor, func(t *store.Tx) (bool, error) {
		there, err = t.EndGrant(id, "revoked")
		return there, err
	})
	return there, err
}

// RemoveClient removes a client that has registered, with its grants, and reports whether there was any of it.
func (l *Ledger) RemoveClient(ctx context.Context, actor, id string) (there bool, err error) {
	err = l.end(ctx, actor, func(t *store.Tx) (bool, error) {
		there, err = t.RemoveOAuthClient(id)
		return there, err
	})
	return there, err
}

func (l *Ledger) end(ctx context.Context, actor string, f func(*store.Tx) (bool, error)) error {
	err := l.desk.safe.Store().Write(ctx, actor, func(t *store.Tx) error {
		_, err := f(t)
		return err
	})
	if err == nil {
		_ = l.Update(context.WithoutCancel(ctx))
	}
	return err
}

// Allowed is a grant, as people see it.
type Allowed struct {
	store.Grant
	Terms
}

// All returns the grants in force, sorted by time.
func (l *Ledger) All() []Allowed {
	g, now := l.gate.grants.Load(), time.Now()
	var all []Allowed
	for _, row := range l.desk.safe.Store().Snapshot().Grants() {
		if id, ok := ParseID(row.ID); ok {
			if x := g.byID[id]; x != nil && x.inForce(now) {
				all = append(all, Allowed{x.row, x.terms})
			}
		}
	}
	return all
}

// Forged returns how many grants somebody else has written into the database. It is 0 for nil.
func (l *Ledger) Forged() int {
	if l == nil {
		return 0
	}
	return l.gate.grants.Load().forged
}

// Update makes the tokens of the store's snapshot those in force, after the people who have allowed them. If it
// fails, no token is in force.
func (l *Ledger) Update(ctx context.Context) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	rows := l.desk.safe.Store().Snapshot().Grants()
	if len(rows) == 0 {
		l.gate.grants.Store(&Grants{})
		return nil
	}
	m, err := l.macs(ctx, identityOfHouse)
	if err != nil {
		l.gate.grants.Store(&Grants{})
		return err
	}
	l.gate.grants.Store(newGrants(m, rows, l.gate.people.Load().Name, l.gate.grants.Load()))
	return nil
}

func (l *Ledger) macs(ctx context.Context, actor string) (*grantMACs, error) {
	mac, err := l.desk.mac(ctx, actor)
	if err != nil {
		return nil, err
	}
	m := newGrantMACs(mac)
	return &m, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		a = b
	}
	return a.Truncate(time.Second)
}

// Calls reports whether a subject may use the endpoints of any project.
func (l *Ledger) Calls(subject string) bool { return l.gate.people.Load().callsAny(subject) }
