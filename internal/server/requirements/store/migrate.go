package store

import (
	"context"
	"embed"
	"fmt"
	"strconv"
)

// migrations contains one SQL file for each version of the tables. A file never changes after it
// has been released.
//
//go:embed migrations/*.sql
var migrations embed.FS

// schemaVersion is the version of the tables that this program uses.
const schemaVersion = 1

// migrate creates the tables, or updates them to schemaVersion, in one transaction.
func (s *Store) migrate(ctx context.Context) error {
	var version int
	look := func(t *txn) (err error) {
		version, err = s.version(t)
		return err
	}
	if err := s.read(ctx, look); err != nil || version == schemaVersion {
		return err
	}
	return s.write(ctx, func(t *txn) error {
		if err := look(t); err != nil { // look again, because another process may have migrated the tables
			return err
		}
		if version == 0 {
			if _, err := t.tx.ExecContext(t.ctx, "CREATE TABLE dragoman_requirements (name TEXT PRIMARY KEY, value TEXT NOT NULL); INSERT INTO dragoman_requirements (name, value) VALUES ('schema', '0')"); err != nil {
				return err
			}
		}
		for v := version + 1; v <= schemaVersion; v++ {
			statements, err := migrations.ReadFile(fmt.Sprintf("migrations/%03d.sql", v))
			if err != nil {
				return err
			}
			if _, err := t.tx.ExecContext(t.ctx, string(statements)); err != nil {
				return fmt.Errorf("migration %d: %w", v, err)
			}
		}
		err := t.exec("UPDATE dragoman_requirements SET value = ? WHERE name = 'schema'", strconv.Itoa(schemaVersion))
		return err
	})
}

// version returns the version of the tables, or 0 for an empty database. If there are tables, but
// no table dragoman_requirements, version returns an error, because another program uses the
// database.
func (s *Store) version(t *txn) (int, error) {
	all, err := t.count(s.engine.tables)
	if err != nil || all == 0 {
		return 0, err
	}
	switch ours, err := t.count(s.engine.marker); {
	case err != nil:
		return 0, err
	case ours == 0:
		return 0, fail(Unusable, "use another database", "the database %s has tables of another program", s.engine.name)
	}
	var text string
	if err := t.row("SELECT value FROM dragoman_requirements WHERE name = 'schema'", nil, &text); err != nil {
		return 0, err
	}
	version, err := strconv.Atoi(text)
	switch {
	case err != nil || version < 1:
		return 0, fail(Unusable, "restore it from a backup", "the database %s has the unknown schema version %s", s.engine.name, quote(text))
	case version > schemaVersion:
		return 0, fail(Unusable, "use a newer dragoman, or another database", "the database %s has schema version %d, and this dragoman knows versions up to %d", s.engine.name, version, schemaVersion)
	}
	return version, nil
}
