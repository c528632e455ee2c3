package store

import (
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

const (
	flowKind         = "flow"
	registrationKind = "registration"
)

// Flow is a sign-in that is under way. It's in the store, and not in a process, so that whichever process hears
// of the person's consent can finish it.
type Flow struct {
	ID string // made from the state, which only the issuer and the browser know
	SignIn
	Sealed []byte // what is needed to finish the flow, sealed for all of the above; empty while it's being prepared

	Began   time.Time // set by the store
	Until   time.Time
	Opened  time.Time // when a browser was opened for it
	Taken   time.Time // when somebody who finishes it has shown a sign of life
	Outcome string    // why it has failed, for people
}

// sealedFor implements Sealable.
func (x *Flow) sealedFor() string { return idOf(flowKind, x.ID, x.Project, x.Server, x.Subject) }

// Open reports whether a person may still finish the flow.
func (x *Flow) Open(now time.Time) bool { return x.Outcome == "" && now.Before(x.Until) }

// Ready reports whether the flow has been prepared, so that a browser can be opened for it.
func (x *Flow) Ready() bool { return len(x.Sealed) > 0 }

// Flow returns the flow of a sign-in, and whether there is one. It may have ended.
func (s *Snapshot) Flow(of SignIn) (Flow, bool) {
	x, ok := s.flows[of]
	return x, ok
}

// FlowWith returns the flow with an id, and whether there is one. It may have ended.
func (s *Snapshot) FlowWith(id string) (Flow, bool) {
	for _, x := range s.flows {
		if x.ID == id {
			return x, true
		}
	}
	return Flow{}, false
}

// Waits reports whether a flow of one of some subjects waits for somebody.
func (s *Snapshot) Waits(now time.Time, subjects ...string) bool {
	for _, x := range s.flows {
		if x.Open(now) && x.Ready() && slices.Contains(subjects, x.Subject) {
			return true
		}
	}
	return false
}

// BeginFlow adds a flow, unless one is under way for the same sign-in, and reports whether it did. It forgets
// those whose time is over.
func (t *Tx) BeginFlow(x Flow, now time.Time) (bool, error) {
	list, err := allFlows(t.t)
	if err != nil {
		return false, err
	}
	for _, y := range list {
		if y.SignIn == x.SignIn && y.Open(now) {
			return false, nil
		}
		if y.SignIn == x.SignIn || !now.Before(y.Until) {
			if err := t.t.Exec("DELETE FROM flows WHERE id = ?", y.ID); err != nil {
				return false, err
			}
		}
	}
	err = t.t.Exec("INSERT INTO flows ("+flowColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, '', '', '')", x.ID, x.Project, x.Server, x.Subject, nonNil(x.Sealed), t.t.Now, textOf(x.Until))
	if err != nil {
		return false, err
	}
	return true, t.changed("began", flowKind, x.name())
}

// ExtendFlow lets a flow that is being prepared live until a time. Whoever prepares it calls this again and
// again, so that others soon notice if that one is gone. It reports whether the flow is still there.
func (t *Tx) ExtendFlow(id string, until time.Time) (bool, error) {
	n, err := t.t.Count("FROM flows WHERE id = ?", id)
	if n == 0 || err != nil {
		return false, err
	}
	if err := t.t.Exec("UPDATE flows SET until = ? WHERE id = ?", textOf(until), id); err != nil {
		return false, err
	}
	return true, t.changed("extended", flowKind, id)
}

// ReadyFlow replaces a flow that was being prepared by one that is ready, and reports whether it was still
// there.
func (t *Tx) ReadyFlow(prepared string, x Flow) (bool, error) {
	n, err := t.t.Count("FROM flows WHERE id = ? AND outcome = ''", prepared)
	if n == 0 || err != nil {
		return false, err
	}
	if err := t.t.Exec("UPDATE flows SET id = ?, sealed = ?, until = ? WHERE id = ?", x.ID, x.Sealed, textOf(x.Until), prepared); err != nil {
		return false, err
	}
	return true, t.changed("ready", flowKind, x.ID)
}

// OpenFlow notes that a browser is about to be opened for a flow, and reports whether it may. It may not if
// that was noted before, if the flow has ended, or if a browser has been opened for another one since
// a time, and the person isn't back from there yet: people get one page after the other.
func (t *Tx) OpenFlow(id string, now, since time.Time) (bool, error) {
	list, err := allFlows(t.t)
	if err != nil {
		return false, err
	}
	may := false
	for _, y := range list {
		switch {
		case !y.Open(now):
		case y.ID == id:
			may = y.Opened.IsZero()
		case y.Opened.After(since) && y.Taken.IsZero():
			return false, nil
		}
	}
	if !may {
		return false, nil
	}
	if err := t.t.Exec("UPDATE flows SET opened = ? WHERE id = ?", textOf(now), id); err != nil {
		return false, err
	}
	return true, t.changed("opened", flowKind, id)
}

// TakeFlow notes that somebody finishes a flow, and reports whether they may: once, and only while it's
// open.
func (t *Tx) TakeFlow(id string, now time.Time) (bool, error) {
	list, err := allFlows(t.t)
	i := slices.IndexFunc(list, func(x Flow) bool { return x.ID == id && x.Open(now) && x.Taken.IsZero() })
	if err != nil || i < 0 {
		return false, err
	}
	if err := t.t.Exec("UPDATE flows SET taken = ? WHERE id = ?", textOf(now), id); err != nil {
		return false, err
	}
	return true, t.changed("taken", flowKind, id)
}

// TouchFlow notes that whoever finishes a flow is still there.
func (t *Tx) TouchFlow(id string, now time.Time) error {
	n, err := t.t.Count("FROM flows WHERE id = ? AND taken <> ''", id)
	if n == 0 || err != nil {
		return err
	}
	if err := t.t.Exec("UPDATE flows SET taken = ? WHERE id = ?", textOf(now), id); err != nil {
		return err
	}
	return t.changed("touched", flowKind, id)
}

// failureTime is how long people can read why a flow has failed.
const failureTime = time.Hour

// EndFlow ends a flow: with the reason for which it has failed, which stays for an hour or until the next flow of the same
// sign-in, or with "" if it has done its work, and then it's forgotten. A failure is an act, since somebody may have tried what they shouldn't. It reports whether there
// was a flow.
func (t *Tx) EndFlow(id, outcome string) (bool, error) {
	var of SignIn
	err := t.t.Row("SELECT project, server, subject FROM flows WHERE id = ?", []any{id}, &of.Project, &of.Server, &of.Subject)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if outcome == "" {
		err = t.t.Exec("DELETE FROM flows WHERE id = ?", id)
	} else {
		err = t.t.Exec("UPDATE flows SET outcome = ?, until = ? WHERE id = ?", outcome, textOf(time.Now().Add(failureTime)), id)
		if err == nil {
			err = t.noted("failed to sign in", credentialKind, of.name(), about{project: of.Project, became: facts{"why": outcome}})
		}
	}
	if err != nil {
		return false, err
	}
	return true, t.changed("ended", flowKind, id)
}

const flowColumns = "id, project, server, subject, sealed, began, until, opened, taken, outcome"

func readFlows(t *sqldb.Tx, into *Snapshot) error {
	list, err := allFlows(t)
	into.flows = make(map[SignIn]Flow, len(list))
	for _, x := range list {
		into.flows[x.SignIn] = x
	}
	return err
}

func allFlows(t *sqldb.Tx) ([]Flow, error) {
	return sqldb.All(t, func(scan func(...any) error) (x Flow, err error) {
		var began, until, opened, taken string
		if err := scan(&x.ID, &x.Project, &x.Server, &x.Subject, &x.Sealed, &began, &until, &opened, &taken, &x.Outcome); err != nil {
			return x, err
		}
		return x, moments(began, &x.Began, until, &x.Until, opened, &x.Opened, taken, &x.Taken)
	}, "SELECT "+flowColumns+" FROM flows ORDER BY began")
}

// Registration is a client that we have registered at an issuer.
type Registration struct {
	Issuer, Redirect, Client string
	Sealed                   []byte    // the client, sealed for the issuer and the redirect
	Until                    time.Time // of the client's secret; zero means that it doesn't expire

	Made time.Time // set by the store
}

// sealedFor implements Sealable.
func (x *Registration) sealedFor() string { return idOf(registrationKind, x.Issuer, x.Redirect) }

// Registration returns our client at an issuer for a redirect URI, and whether there is one.
func (s *Snapshot) Registration(issuer, redirect string) (Registration, bool) {
	x, ok := s.registrations[idOf(registrationKind, issuer, redirect)]
	return x, ok
}

// SetRegistration keeps a registration, unless there's another one for the same issuer and redirect URI than
// the client that it's to replace, which is "" for none. It reports whether it did.
func (t *Tx) SetRegistration(x Registration, replaces string) (bool, error) {
	has, err := sqldb.All(t.t, scanText, "SELECT client FROM registrations WHERE id = ?", x.sealedFor())
	if err != nil || len(has) > 0 && has[0] != replaces {
		return false, err
	}
	err = t.t.Exec("INSERT INTO registrations (id, issuer, redirect, client, sealed, until, made) VALUES (?, ?, ?, ?, ?, ?, ?) "+
		"ON CONFLICT (id) DO UPDATE SET client = excluded.client, sealed = excluded.sealed, until = excluded.until, made = excluded.made",
		x.sealedFor(), x.Issuer, x.Redirect, x.Client, x.Sealed, textOf(x.Until), t.t.Now)
	if err == nil {
		err = t.boundRegistrations(x.sealedFor())
	}
	if err != nil {
		return false, err
	}
	return true, t.did("made", registrationKind, x.Issuer, about{became: facts{"client": x.Client, "redirect": x.Redirect}})
}

// mostRegistrations is how many registrations are kept, but for those with which somebody is signed in.
const mostRegistrations = 300

// boundRegistrations forgets the oldest registrations if there are too many, but not the one with an id: a server may name
// another issuer each time. Whoever signs in there again registers again.
func (t *Tx) boundRegistrations(but string) error {
	n, err := t.t.Count("FROM registrations")
	if err != nil || n <= mostRegistrations {
		return err
	}
	return t.t.Exec("DELETE FROM registrations WHERE id IN (SELECT id FROM registrations r WHERE id <> ? AND NOT EXISTS "+
		"(SELECT 1 FROM credentials c WHERE c.issuer = r.issuer AND c.client = r.client) ORDER BY made, id LIMIT ?)", but, n-mostRegistrations)
}

// RemoveRegistration forgets a client that the issuer no longer knows. If another one has replaced it
// meanwhile, that one stays.
func (t *Tx) RemoveRegistration(x Registration) error {
	const where = "FROM registrations WHERE id = ? AND client = ?"
	n, err := t.t.Count(where, x.sealedFor(), x.Client)
	if n == 0 || err != nil {
		return err
	}
	if err := t.t.Exec("DELETE "+where, x.sealedFor(), x.Client); err != nil {
		return err
	}
	return t.did("removed", registrationKind, x.Issuer, about{was: facts{"client": x.Client, "redirect": x.Redirect}})
}

func readRegistrations(t *sqldb.Tx, into *Snapshot) error {
	list, err := allRegistrations(t)
	into.registrations = make(map[string]Registration, len(list))
	for _, x := range list {
		into.registrations[x.sealedFor()] = x
	}
	return err
}

func allRegistrations(t *sqldb.Tx) ([]Registration, error) {
	return sqldb.All(t, func(scan func(...any) error) (x Registration, err error) {
		var until, made string
		if err := scan(&x.Issuer, &x.Redirect, &x.Client, &x.Sealed, &until, &made); err != nil {
			return x, err
		}
		return x, moments(until, &x.Until, made, &x.Made)
	}, "SELECT issuer, redirect, client, sealed, until, made FROM registrations")
}
