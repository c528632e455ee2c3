package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// Head is the last line of what a process has written into its audit, as it was known some seconds ago. Who cuts off lines
// of a file doesn't reach it.
type Head struct {
	Trail   string // of which process
	Replica string // its name
	File    int
	Seq     int64
	Sum     []byte
	Genuine bool // a replica has written it
}

// Anchor keeps the head of this process's audit.
func (c *Cluster) Anchor(ctx context.Context, h Head) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	h.Replica = c.o.Name
	return c.rows.anchor(ctx, &h)
}

// Heads returns the heads of all processes that were replicas of a store. Who calls it need not be one; of the options,
// it needs the database, its schema, and the secret.
func Heads(ctx context.Context, o Options) (all []Head, err error) {
	r, err := open(ctx, o.Database, o.Schema, o.Secret)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return r.heads(ctx)
}

// headCode returns what shows that a replica has written a head.
func (t tables) headCode(h *Head) []byte {
	mac := hmac.New(sha256.New, t.secret)
	_, _ = fmt.Fprintf(mac, "head %d %s %d %s %d %d %x\n", len(h.Trail), h.Trail, len(h.Replica), h.Replica, h.File, h.Seq, h.Sum)
	return mac.Sum(nil)
}

func (t tables) anchor(ctx context.Context, h *Head) error {
	return t.Brief(ctx, func(tx *sqldb.Tx) error {
		return tx.Exec(`INSERT INTO heads (trail, replica, file, seq, sum, code, written) VALUES (?, ?, ?, ?, ?, ?, clock_timestamp())
ON CONFLICT (trail) DO UPDATE SET file = excluded.file, seq = excluded.seq, sum = excluded.sum, code = excluded.code, written = excluded.written
WHERE heads.seq <= excluded.seq`, h.Trail, h.Replica, h.File, h.Seq, h.Sum, t.headCode(h))
	})
}

func (t tables) heads(ctx context.Context) (all []Head, err error) {
	err = t.Read(ctx, func(tx *sqldb.Tx) error {
		all = nil
		return tx.Each(func(scan func(...any) error) error {
			var h Head
			var code []byte
			err := scan(&h.Trail, &h.Replica, &h.File, &h.Seq, &h.Sum, &code)
			h.Genuine = hmac.Equal(code, t.headCode(&h))
			all = append(all, h)
			return err
		}, "SELECT trail, replica, file, seq, sum, code FROM heads ORDER BY trail")
	})
	return all, err
}
