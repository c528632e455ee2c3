package sqldb

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres prepares the URL of a PostgreSQL database. The password may come from the environment
// variable PGPASSWORD or from a password file.
func postgres(where string, o Options) (driver.Connector, *engine, error) {
	c, err := pgx.ParseConfig(where)
	if err != nil {
		return nil, nil, fail("use a URL such as postgres://user@host:5432/database", nil, "the URL of the database is not valid")
	}
	called := fmt.Sprintf("%q on %q", c.Database, c.Host)
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = 10 * time.Second
	}
	schema := pgx.Identifier{o.Schema}.Sanitize()
	c.RuntimeParams["application_name"] = o.Name
	settings := map[string]string{
		"search_path":        schema,
		"synchronous_commit": "on",
		"lock_timeout":       fmt.Sprintf("%dms", o.wait.Milliseconds()),
	}
	pool := newPooler(c, settings)
	return pool, &engine{
		called:   called,
		tables:   "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()",
		changes:  schema + ".changes",
		begin:    pool.begin,
		clock:    "SELECT clock_timestamp()",
		snapshot: sql.LevelRepeatableRead,
		bind:     numbered,
		explain:  func(err error) error { return explainPostgres(err, called, o.Schema) },
		again:    lostRace,
		// All changes take one lock, so that they're committed in the order of their numbers.
		lock: func(t *Tx) error { return t.Exec("SELECT pg_advisory_xact_lock(hashtext(?))", o.Schema) },
		create: func(t *Tx) error {
			// CREATE SCHEMA needs a permission, even if the schema exists.
			var exists bool
			err := t.Row("SELECT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = ?)", []any{o.Schema}, &exists)
			if err == nil && !exists {
				err = t.Exec("CREATE SCHEMA " + schema)
			}
			return err
		},
		wait: o.wait,
	}, nil
}

// numbered replaces the question marks in a query by $1, $2 and so on, which PostgreSQL needs.
func numbered(query string) string {
	parts := strings.Split(query, "?")
	var b strings.Builder
	for i, part := range parts {
		b.WriteString(part)
		if i < len(parts)-1 {
			fmt.Fprintf(&b, "$%d", i+1)
		}
	}
	return b.String()
}
