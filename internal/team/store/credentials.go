package store

import (
	"cmp"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

const credentialKind = "credential"

// SignIn says who is signed in at which server.
type SignIn struct {
	Project string
	Server  string // the canonical URL
	Subject string // of a principal, or Shared
}

// Shared is the subject of a credential that everybody in a project uses. No principal has it.
const Shared = "shared"

// Credential is what an issuer has given us for a server.
type Credential struct {
	SignIn
	Issuer, Client, Resource string

	Sealed []byte // the tokens, sealed for all of the above
	Until  time.Time
	Renews bool // there is a refresh token
	// Spent says that the issuer no longer renews the tokens, so that the person must sign in again.
	Spent bool

	// Generation is greater than that of every credential that was stored before, and set by the store.
	Generation     int64
	Since, Changed time.Time // of the sign-in, and of the last renewal; set by the store
}

// sealedFor implements Sealable.
func (x *Credential) sealedFor() string {
	return idOf(credentialKind, x.Project, x.Server, x.Subject, x.Issuer, x.Client, x.Resource)
}

// idOf returns a name for texts, which differs if any of them does.
func idOf(kind string, texts ...string) string {
	h := sha256.New()
	for _, s := range append([]string{kind}, texts...) {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		_, _ = h.Write([]byte(s))
	}
	return kind + " " + hex.EncodeToString(h.Sum(nil))
}

// Credentials returns the credentials of a sign-in, the newest first. There are several if the server has
// moved to another issuer.
func (s *Snapshot) Credentials(of SignIn) []Credential { return s.credentials[of] }

// AllCredentials returns the credentials of everybody, sorted by project, server and subject, the newest first.
func (s *Snapshot) AllCredentials() (all []Credential) {
	ids := slices.SortedFunc(maps.Keys(s.credentials), func(a, b SignIn) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Subject, b.Subject))
	})
	for _, id := range ids {
		all = append(all, s.credentials[id]...)
	}
	return all
}

// SetCredential keeps a credential of somebody who has just signed in. It replaces the one with the same issuer,
// client and resource.
func (t *Tx) SetCredential(x Credential) error {
	generation, err := t.t.Take(generations)
	if err != nil {
		return err
	}
	err = t.t.Exec("INSERT INTO credentials ("+credentialColumns+", id, owner, owned_until, fence) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, '', '', 0) "+
		"ON CONFLICT (id) DO UPDATE SET sealed = excluded.sealed, generation = excluded.generation, until = excluded.until, renews = excluded.renews, spent = 0, "+
		"since = excluded.since, changed = excluded.changed, owner = '', owned_until = ''",
		x.Project, x.Server, x.Subject, x.Issuer, x.Client, x.Resource, x.Sealed, generation, textOf(x.Until), number(x.Renews), t.t.Now, t.t.Now, x.sealedFor())
	if err != nil {
		return err
	}
	return t.did("signed in", credentialKind, x.name(), about{project: x.Project, became: facts{"issuer": x.Issuer, "client": x.Client, "until": textOf(x.Until)}})
}

// name is how the acts call a sign-in.
func (x SignIn) name() string { return x.Project + "/" + x.Subject + "/" + x.Server }

// generations is the counter of the generations of all credentials.
const generations = "credential generations"

// Lease is the right to renew a credential, for a while.
type Lease struct {
	Fence int64 // greater than that of every earlier lease of the credential
	// Abandoned says that the one before neither renewed the credential nor gave its right back. It was
	// probably killed, perhaps between the issuer's answer and our disk.
	Abandoned bool
}

// LeaseCredential gives an owner the right to renew a credential, for some time by the database's clock: with those of
// two machines, the later one would take a right that the other still has. If the credential no longer has the
// generation, or if somebody else has the right now, ok is false. It's no act, and no snapshot hears of it.
func (t *Tx) LeaseCredential(x Credential, owner string, most time.Duration) (l Lease, ok bool, err error) {
	now, err := t.t.Clock()
	if err != nil {
		return l, false, err
	}
	id := x.sealedFor()
	var has, hasUntil string
	err = t.t.Row("SELECT owner, owned_until, fence FROM credentials WHERE id = ? AND generation = ? AND spent = 0", []any{id, x.Generation}, &has, &hasUntil, &l.Fence)
	if errors.Is(err, sql.ErrNoRows) {
		return l, false, nil
	}
	if err != nil {
		return l, false, err
	}
	if has != "" {
		end, err := moment(hasUntil)
		if err == nil && end.After(now) && has != owner {
			return l, false, nil
		}
		l.Abandoned = has != owner
	}
	l.Fence++
	return l, true, t.t.Exec("UPDATE credentials SET owner = ?, owned_until = ?, fence = ? WHERE id = ?", owner, textOf(now.Add(most)), l.Fence, id)
}

// EndLease gives the right to renew a credential back. Nothing happens if somebody else has it meanwhile.
func (t *Tx) EndLease(x Credential, fence int64) error {
	return t.t.Exec("UPDATE credentials SET owner = '', owned_until = '' WHERE id = ? AND fence = ?", x.sealedFor(), fence)
}

// RenewCredential replaces the tokens of a credential that still has the generation that x has, and returns
// the new one, or 0 if it has another. It takes no fence: whoever has the answer of an issuer that
// rotates has the only tokens that are good, even if the lease has ended meanwhile.
func (t *Tx) RenewCredential(x Credential) (generation int64, err error) {
	id := x.sealedFor()
	n, err := t.t.Count("FROM credentials WHERE id = ? AND generation = ?", id, x.Generation)
	if n == 0 || err != nil {
		return 0, err
	}
	if generation, err = t.t.Take(generations); err != nil {
		return 0, err
	}
	err = t.t.Exec("UPDATE credentials SET sealed = ?, generation = ?, until = ?, renews = ?, spent = 0, changed = ?, owner = '', owned_until = '' WHERE id = ?",
		x.Sealed, generation, textOf(x.Until), number(x.Renews), t.t.Now, id)
	if err != nil {
		return 0, err
	}
	return generation, t.changed("renewed", credentialKind, x.name())
}

// SpendCredential says that the issuer no longer renews a credential, and replaces what is sealed. If the
// credential has another generation, or another lease than that of fence, it stays as it is, and the result is
// false.
func (t *Tx) SpendCredential(x Credential, fence int64) (bool, error) {
	id := x.sealedFor()
	n, err := t.t.Count("FROM credentials WHERE id = ? AND generation = ? AND fence = ?", id, x.Generation, fence)
	if n == 0 || err != nil {
		return false, err
	}
	err = t.t.Exec("UPDATE credentials SET sealed = ?, renews = 0, spent = 1, owner = '', owned_until = '' WHERE id = ?", x.Sealed, id)
	if err != nil {
		return false, err
	}
	return true, t.did("expired", credentialKind, x.name(), about{project: x.Project})
}

// RemoveCredentials signs somebody out of a server, and returns what there was.
func (t *Tx) RemoveCredentials(of SignIn) ([]Credential, error) {
	const where = " FROM credentials WHERE project = ? AND server = ? AND subject = ?"
	list, err := sqldb.All(t.t, scanCredential, "SELECT "+credentialColumns+where+" ORDER BY generation DESC", of.Project, of.Server, of.Subject)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if err := t.t.Exec("DELETE"+where, of.Project, of.Server, of.Subject); err != nil {
		return nil, err
	}
	return list, t.did("signed out", credentialKind, of.name(), about{project: of.Project, was: facts{"issuer": list[0].Issuer, "client": list[0].Client}})
}

// removeCredentials signs everybody out who has a value in a column, which is the project or the subject,
// and ends their flows.
func (t *Tx) removeCredentials(column, value string) error {
	list, err := sqldb.All(t.t, func(scan func(...any) error) (x SignIn, err error) {
		err = scan(&x.Project, &x.Server, &x.Subject)
		return x, err
	}, "SELECT DISTINCT project, server, subject FROM credentials WHERE "+column+" = ? ORDER BY project, server, subject", value)
	if err != nil {
		return err
	}
	for _, x := range list {
		if _, err := t.RemoveCredentials(x); err != nil {
			return err
		}
	}
	n, err := t.t.Count("FROM flows WHERE "+column+" = ?", value)
	if n == 0 || err != nil {
		return err
	}
	if err := t.t.Exec("DELETE FROM flows WHERE "+column+" = ?", value); err != nil {
		return err
	}
	return t.changed("ended", flowKind, value)
}

const credentialColumns = "project, server, subject, issuer, client, resource, sealed, generation, until, renews, spent, since, changed"

func readCredentials(t *sqldb.Tx, into *Snapshot) error {
	into.credentials = map[SignIn][]Credential{}
	list, err := allCredentials(t)
	for _, x := range list {
		into.credentials[x.SignIn] = append(into.credentials[x.SignIn], x)
	}
	return err
}

// allCredentials returns the credentials of everybody, the newest first.
func allCredentials(t *sqldb.Tx) ([]Credential, error) {
	return sqldb.All(t, scanCredential, "SELECT "+credentialColumns+" FROM credentials ORDER BY generation DESC")
}

// scanCredential reads the row of a credential, which has credentialColumns.
func scanCredential(scan func(...any) error) (x Credential, err error) {
	var until, since, changed string
	var renews, spent int64
	err = scan(&x.Project, &x.Server, &x.Subject, &x.Issuer, &x.Client, &x.Resource, &x.Sealed, &x.Generation, &until, &renews, &spent, &since, &changed)
	x.Renews, x.Spent = renews != 0, spent != 0
	return x, errors.Join(err, moments(until, &x.Until, since, &x.Since, changed, &x.Changed))
}

// moments reads times of the database. Its arguments are pairs of a text and a *time.Time; "" is the zero time.
func moments(pairs ...any) (err error) {
	for ; len(pairs) > 1 && err == nil; pairs = pairs[2:] {
		if text, _ := pairs[0].(string); text != "" {
			into, _ := pairs[1].(*time.Time)
			*into, err = moment(text)
		}
	}
	return err
}

// number returns a truth as the database has it.
func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
