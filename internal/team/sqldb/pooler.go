package sqldb

import (
	"context"
	"database/sql/driver"
	"errors"
	"sort"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// pooler connects to PostgreSQL, or to a pooler in front of it, such as PgBouncer. A pooler that gives each transaction
// another connection to PostgreSQL forgets what we set for ours and what we prepared there, or refuses to set anything. So
// behind a pooler, each transaction sets what it needs, and no statement is prepared.
type pooler struct {
	direct, pooled driver.Connector
	found          atomic.Bool // there is a pooler
	set            string      // the statements with which a transaction begins there
}

func newPooler(c *pgx.ConnConfig, settings map[string]string) *pooler {
	p := &pooler{}
	plain := c.Copy()
	plain.DefaultQueryExecMode = pgx.QueryExecModeExec
	p.pooled = stdlib.GetConnector(*plain)
	var set []string
	for name, value := range settings {
		c.RuntimeParams[name] = value
		if name != "search_path" { // which is a list of names in quotation marks
			value = "'" + value + "'"
		}
		set = append(set, "SET LOCAL "+name+" = "+value)
	}
	sort.Strings(set)
	p.set = strings.Join(set, ";")
	p.direct = stdlib.GetConnector(*c)
	return p
}

// Connect implements driver.Connector.
func (p *pooler) Connect(ctx context.Context) (driver.Conn, error) {
	if p.found.Load() {
		return p.pooled.Connect(ctx)
	}
	conn, err := p.direct.Connect(ctx)
	if err == nil {
		own, err := ours(ctx, conn)
		if own && err == nil {
			return conn, nil
		}
		_ = conn.Close()
		if err != nil {
			return nil, err
		}
	} else if refused := (*pgconn.PgError)(nil); !errors.As(err, &refused) || refused.Code != "08P01" {
		return nil, err // and not because the pooler doesn't know a setting
	}
	p.found.Store(true)
	return p.pooled.Connect(ctx)
}

// Driver implements driver.Connector.
func (p *pooler) Driver() driver.Driver { return p.direct.Driver() }

// ours reports whether a process of PostgreSQL serves this connection alone. A pooler has told us about none, or about
// one that it has made up.
func ours(ctx context.Context, conn driver.Conn) (bool, error) {
	c, ok := conn.(*stdlib.Conn)
	if !ok {
		return false, errors.New("sqldb: the driver has another type of connections")
	}
	var pid uint32
	err := c.Conn().QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	return pid == c.Conn().PgConn().PID(), err
}

// begin makes the settings for a transaction.
func (p *pooler) begin(t *Tx) error {
	if !p.found.Load() {
		return nil
	}
	return t.Exec(p.set)
}
