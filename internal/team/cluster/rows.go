package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

//go:embed migrations/*.sql
var migrations embed.FS

// rows are the rows of the replicas. Each method is one transaction, and returns when ctx ends.
type rows interface {
	// join adds a replica that lives, and forgets those that have ended long ago.
	join(ctx context.Context, m *Member) error
	// beat writes that a replica lives, in which state, and whether it reaches most of its neighbours. alive is false if its
	// row says that it doesn't live.
	beat(ctx context.Context, incarnation string, s State, reaches bool) (alive bool, err error)
	// bury writes that a replica is dead, if nothing has changed in its row.
	bury(ctx context.Context, m *Member) (done bool, err error)
	// members returns all replicas, the oldest first.
	members(ctx context.Context) ([]Member, error)
	// sweep forgets what exchange was told long ago, and exchange is described at Cluster.Exchange.
	sweep(ctx context.Context) error
	exchange(ctx context.Context, incarnation string, mine []Usage) (others []Usage, err error)
	// anchor keeps the head of a process's audit, and heads returns those of all.
	anchor(ctx context.Context, h *Head) error
	heads(ctx context.Context) ([]Head, error)
	seatRows
	Close() error
}

// forgetAfter is how long the row of a replica stays that has ended.
const forgetAfter = "1 day"

// forgetHeads is how long the head of an audit stays after its last line.
const forgetHeads = "2 years"

// tables implements rows with PostgreSQL. A row counts only with the code of those who know the secret.
type tables struct {
	*sqldb.DB
	secret []byte
}

// code returns what shows that a replica has written its row.
func (t tables) code(m *Member) []byte {
	h := hmac.New(sha256.New, t.secret)
	for _, x := range []string{"replica", m.Incarnation, m.Name, m.Address, string(m.Fingerprint)} {
		_, _ = fmt.Fprintf(h, "%d %s\n", len(x), x)
	}
	return h.Sum(nil)
}

// open opens the tables in a PostgreSQL database, in a schema of their own.
func open(ctx context.Context, url, schema string, secret []byte) (rows, error) {
	files, _ := fs.Sub(migrations, "migrations") // the name is valid
	db, err := sqldb.Open(ctx, url, sqldb.Options{Name: "dragoman_cluster", ID: 0x44724363, Schema: schema, Migrations: files})
	if err != nil {
		return nil, err
	}
	return tables{db, secret}, nil
}

func (t tables) join(ctx context.Context, m *Member) error {
	return t.Brief(ctx, func(tx *sqldb.Tx) error {
		err := tx.Exec("DELETE FROM replicas WHERE state IN ('gone', 'dead') AND seen < clock_timestamp() - INTERVAL '" + forgetAfter + "'")
		if err == nil {
			err = tx.Exec("DELETE FROM heads WHERE written < clock_timestamp() - INTERVAL '" + forgetHeads + "'")
		}
		if err == nil {
			err = tx.Exec("INSERT INTO replicas (incarnation, name, address, fingerprint, code, protocol, version, state, started, seen) VALUES (?, ?, ?, ?, ?, ?, ?, ?, clock_timestamp(), clock_timestamp())",
				m.Incarnation, m.Name, m.Address, m.Fingerprint, t.code(m), m.Protocol, m.Version, string(m.State))
		}
		return err
	})
}

func (t tables) beat(ctx context.Context, incarnation string, s State, reaches bool) (bool, error) {
	return t.changes(ctx, "UPDATE replicas SET seen = clock_timestamp(), state = ?, reaches = ? WHERE incarnation = ? AND state IN ('ready', 'draining') RETURNING 1", string(s), reaches, incarnation)
}

func (t tables) bury(ctx context.Context, m *Member) (bool, error) {
	return t.changes(ctx, "UPDATE replicas SET state = 'dead' WHERE incarnation = ? AND state IN ('ready', 'draining') AND seen::text = ? RETURNING 1", m.Incarnation, m.seen)
}

// changes runs a statement that returns a row for each row that it changes, and reports whether there was one.
func (t tables) changes(ctx context.Context, statement string, args ...any) (done bool, err error) {
	err = t.Brief(ctx, func(tx *sqldb.Tx) error {
		done = false
		return tx.Each(func(func(...any) error) error { done = true; return nil }, statement, args...)
	})
	return done, err
}

func (t tables) members(ctx context.Context) (list []Member, err error) {
	err = t.Read(ctx, func(tx *sqldb.Tx) error {
		list = nil
		return tx.Each(func(scan func(...any) error) error {
			var m Member
			var code []byte
			var silence float64
			err := scan(&m.Incarnation, &m.Name, &m.Address, &m.Fingerprint, &code, &m.Protocol, &m.Version, &m.State, &m.Reaches, &m.Started, &m.seen, &silence, &m.clock)
			m.Silence = time.Duration(silence * float64(time.Second))
			if err == nil && hmac.Equal(code, t.code(&m)) {
				list = append(list, m)
			}
			return err
		}, "SELECT incarnation, name, address, fingerprint, code, protocol, version, state, reaches, started, seen::text, EXTRACT(EPOCH FROM clock_timestamp() - seen)::float8, clock_timestamp() FROM replicas ORDER BY started, incarnation")
	})
	return list, err
}
