package store

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// The kinds of objects of our own authorization server. Only grants are in the snapshot, because only they are
// needed at each request.
const (
	grantKind   = "grant"
	clientKind  = "client"
	consentKind = "consent"
)

// OAuthClient is a client that has registered with our authorization server. Package authserver says what the
// text means, and signs it.
type OAuthClient struct {
	ID   string
	Text string
	Sum  []byte

	Made time.Time // set by the store
	Used time.Time // when somebody has last allowed it something; zero if nobody has
}

// Grant is what somebody has allowed a client. Package access says what the text means, and signs it.
type Grant struct {
	ID      string
	Subject string // of who has allowed it
	Client  string // its id, which may be a URL
	Text    string
	Sum     []byte
	Open    bool      // the client has not got any tokens yet
	Until   time.Time // when it ends, unless it's used

	Made time.Time // set by the store
}

// Grants returns all grants whose clients have got tokens, also expired ones, sorted by time.
func (s *Snapshot) Grants() []Grant {
	return slices.SortedFunc(maps.Values(s.grants), func(a, b Grant) int {
		return cmp.Or(a.Made.Compare(b.Made), cmp.Compare(a.ID, b.ID))
	})
}

// Grant returns the grant with an id, and whether there is one.
func (s *Snapshot) Grant(id string) (Grant, bool) {
	x, ok := s.grants[id]
	return x, ok
}

const grantColumns = "id, subject, client, text, sum, open, made, until"

// AddGrant adds a grant, whose id must be new, and forgets those that have expired.
func (t *Tx) AddGrant(x Grant) error {
	// The texts have the order of the times, but for fractions of a second.
	if err := t.t.Exec("DELETE FROM oauth_grants WHERE until <= ?", textOf(time.Now().Truncate(time.Second))); err != nil {
		return err
	}
	err := t.t.Exec("INSERT INTO oauth_grants ("+grantColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?)", x.ID, x.Subject, x.Client, x.Text, x.Sum, number(x.Open), t.t.Now, textOf(x.Until))
	if err != nil {
		return err
	}
	return t.did("allowed", grantKind, x.ID, about{became: x.facts()})
}

// Grant returns a grant as the transaction finds it, and whether there is one.
func (t *Tx) Grant(id string) (x Grant, there bool, err error) {
	err = t.t.Each(func(scan func(...any) error) (err error) {
		x, err = scanGrant(scan)
		there = err == nil
		return err
	}, "SELECT "+grantColumns+" FROM oauth_grants WHERE id = ?", id)
	return x, there, err
}

// SetGrant replaces the text, the sum, the openness and the end of a grant. If action is "", it's no act.
func (t *Tx) SetGrant(x Grant, action string) error {
	err := t.t.Exec("UPDATE oauth_grants SET text = ?, sum = ?, open = ?, until = ? WHERE id = ?", x.Text, x.Sum, number(x.Open), textOf(x.Until), x.ID)
	if err != nil {
		return err
	}
	if action == "" {
		return t.changed("used", grantKind, x.ID)
	}
	return t.did(action, grantKind, x.ID, about{became: x.facts()})
}

// EndGrant removes a grant, and reports whether there was one. action says why.
func (t *Tx) EndGrant(id, action string) (bool, error) {
	x, there, err := t.Grant(id)
	if err != nil || !there {
		return false, err
	}
	if err := t.t.Exec("DELETE FROM oauth_grants WHERE id = ?", id); err != nil {
		return false, err
	}
	return true, t.did(action, grantKind, id, about{was: x.facts()})
}

// facts returns what the acts say of a grant.
func (x *Grant) facts() facts { return facts{"subject": x.Subject, "client": x.Client} }

// endGrants removes the grants and the consents that have a value in a column, and returns the number of grants.
func (t *Tx) endGrants(column, value string) (int, error) {
	ids, err := sqldb.All(t.t, scanText, "SELECT id FROM oauth_grants WHERE "+column+" = ? ORDER BY id", value)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if _, err := t.EndGrant(id, "revoked"); err != nil {
			return 0, err
		}
	}
	return len(ids), t.t.Exec("DELETE FROM oauth_consents WHERE "+column+" = ?", value)
}

// AddOAuthClient adds a client, whose id must be new. It forgets clients that nobody has allowed anything for a
// day, and those that nobody has used for ninety. If there are still most that wait for somebody, the oldest makes
// room, if it has waited for PatientClient. If it hasn't, AddOAuthClient adds nothing and returns false.
func (t *Tx) AddOAuthClient(x OAuthClient, most int) (bool, error) {
	now := time.Now().Truncate(time.Second)
	err := t.t.Exec("DELETE FROM oauth_clients WHERE used = '' AND made <= ?", textOf(now.Add(-UnusedClient)))
	if err == nil {
		err = t.t.Exec("DELETE FROM oauth_clients WHERE used <> '' AND used <= ? AND id NOT IN (SELECT client FROM oauth_grants)", textOf(now.Add(-ForgottenClient)))
	}
	if err != nil {
		return false, err
	}
	n, err := t.t.Count("FROM oauth_clients WHERE used = ''")
	if err == nil && n >= most {
		const patient = "FROM oauth_clients WHERE used = '' AND made <= ?"
		before := textOf(now.Add(-PatientClient))
		if n, err = t.t.Count(patient, before); err != nil || n == 0 {
			return false, err
		}
		err = t.t.Exec("DELETE FROM oauth_clients WHERE id = (SELECT id "+patient+" ORDER BY made, id LIMIT 1)", before)
	}
	if err != nil {
		return false, err
	}
	err = t.t.Exec("INSERT INTO oauth_clients (id, text, sum, made, used) VALUES (?, ?, ?, ?, '')", x.ID, x.Text, x.Sum, t.t.Now)
	if err != nil {
		return false, err
	}
	return true, t.did("registered", clientKind, x.ID, about{})
}

// How long a client is kept that nobody has allowed anything yet, if there are many and if there are few of
// these, and one that nobody uses any more.
const (
	PatientClient   = 15 * time.Minute // a sign-in takes ten at most
	UnusedClient    = 24 * time.Hour
	ForgottenClient = 90 * 24 * time.Hour
)

// RemoveOAuthClient removes a client with its grants and consents, and reports whether there was any of it. The
// id may also be the URL of a document.
func (t *Tx) RemoveOAuthClient(id string) (bool, error) {
	n, err := t.t.Count("FROM oauth_clients WHERE id = ?", id)
	if err != nil {
		return false, err
	}
	ended, err := t.endGrants("client", id)
	if err != nil || n+ended == 0 {
		return false, err
	}
	if err := t.t.Exec("DELETE FROM oauth_clients WHERE id = ?", id); err != nil {
		return false, err
	}
	return true, t.did("removed", clientKind, id, about{})
}

// OAuthClient returns the client with an id, and whether there is one.
func (s *Store) OAuthClient(ctx context.Context, id string) (x OAuthClient, there bool, err error) {
	err = s.read(ctx, func(t *sqldb.Tx) error {
		return t.Each(func(scan func(...any) error) error {
			var made, used string
			there = true
			if err := scan(&x.ID, &x.Text, &x.Sum, &made, &used); err != nil {
				return err
			}
			return moments(made, &x.Made, used, &x.Used)
		}, "SELECT id, text, sum, made, used FROM oauth_clients WHERE id = ?", id)
	})
	return x, there && err == nil, err
}

// Consented reports whether somebody has allowed what an id was made from.
func (s *Store) Consented(ctx context.Context, id string) (is bool, err error) {
	err = s.read(ctx, func(t *sqldb.Tx) error {
		n, err := t.Count("FROM oauth_consents WHERE id = ?", id)
		is = n > 0
		return err
	})
	return is, err
}

// Consent notes that a subject has allowed a client something, so that nobody forgets the client. If id isn't "",
// Consented reports from now on that it was allowed.
func (t *Tx) Consent(id, subject, client string) error {
	if err := t.t.Exec("UPDATE oauth_clients SET used = ? WHERE id = ?", t.t.Now, client); err != nil || id == "" {
		return err
	}
	return t.t.Exec("INSERT INTO oauth_consents (id, subject, client, made) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING", id, subject, client, t.t.Now)
}

func readGrants(t *sqldb.Tx, into *Snapshot) error {
	into.grants = map[string]Grant{}
	return t.Each(func(scan func(...any) error) error {
		x, err := scanGrant(scan)
		into.grants[x.ID] = x
		return err
	}, "SELECT "+grantColumns+" FROM oauth_grants WHERE open = 0")
}

// scanGrant reads the row of a grant, which has grantColumns.
func scanGrant(scan func(...any) error) (x Grant, err error) {
	var open int
	var made, until string
	if err := scan(&x.ID, &x.Subject, &x.Client, &x.Text, &x.Sum, &open, &made, &until); err != nil {
		return x, err
	}
	x.Open = open != 0
	return x, moments(made, &x.Made, until, &x.Until)
}
