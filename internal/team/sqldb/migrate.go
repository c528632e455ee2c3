package sqldb

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
)

// ownTables are the tables of this package. The first one has the name in Options, and shows whose
// database it is.
const ownTables = `CREATE TABLE %[1]s (name TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO %[1]s (name, value) VALUES ('schema', '0');
CREATE TABLE counters (name TEXT PRIMARY KEY, last BIGINT NOT NULL);
CREATE TABLE changes (seq BIGINT PRIMARY KEY, object TEXT NOT NULL, action TEXT NOT NULL, happened TEXT NOT NULL);`

// migrate creates the tables, or updates them to the newest version, in one transaction.
func (d *DB) migrate(ctx context.Context, o Options) error {
	names, err := fs.Glob(o.Migrations, "*.sql") // sorted
	if err != nil {
		return err
	}
	d.check = func(t *Tx) error {
		_, err := t.known(o.Name, len(names))
		return err
	}
	var version int
	look := func(t *Tx) (err error) {
		version, err = t.version(o, len(names))
		return err
	}
	// We look in a transaction that may write, so that a database that can't be changed is refused now.
	// It ends with ctx, because it changes nothing.
	looking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := d.transact(looking, nil, look); err != nil || version >= len(names) {
		return err
	}
	return d.write(ctx, migrationPatience, func(t *Tx) error {
		err := look(t) // again, because another process may have migrated the tables
		switch {
		case err != nil || version >= len(names):
			return err
		case version == 0:
			if err = d.e.create(t); err == nil {
				err = t.Exec(fmt.Sprintf(ownTables, o.Name))
			}
		case d.e.file != nil:
			err = d.e.file.keep(t.ctx, d.db, len(names))
		}
		if err != nil {
			return err
		}
		oldest := 0
		for i, name := range names {
			statements, err := fs.ReadFile(o.Migrations, name)
			if err == nil && i >= version {
				_, err = t.tx.ExecContext(t.ctx, string(statements))
			}
			if err != nil {
				return fmt.Errorf("migration %s: %w", name, err)
			}
			oldest = max(oldest, worksWith(string(statements), i+1))
		}
		for name, value := range map[string]int{"schema": len(names), "oldest": oldest} {
			if err := t.Exec("INSERT INTO "+o.Name+" (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, strconv.Itoa(value)); err != nil {
				return err
			}
		}
		return nil
	})
}

// worksWith returns the oldest version whose program can use the tables after a migration. See Options.Migrations.
func worksWith(statements string, migration int) int {
	var n int
	if _, err := fmt.Sscanf(statements, "-- works with %d\n", &n); err != nil || n < 1 {
		return migration
	}
	return n
}

// version returns the version of the tables, or 0 for an empty database. newest is the version that
// this program knows; the tables may have a newer one that still works with it.
func (t *Tx) version(o Options, newest int) (int, error) {
	tables, err := All(t, func(scan func(...any) error) (name string, err error) {
		err = scan(&name)
		return name, err
	}, t.e.tables)
	if err != nil {
		return 0, err
	}
	ours, id := slices.Contains(tables, o.Name), int32(0)
	if t.e.file != nil {
		if err := t.Row("PRAGMA application_id", nil, &id); err != nil {
			return 0, err
		}
	}
	switch {
	case len(tables) > 0 && !ours, id != 0 && id != o.ID:
		return 0, fail("use another database", nil, "the database %s has tables of another program", t.e.called)
	case !ours:
		return 0, nil
	}
	return t.known(o.Name, newest)
}

// known returns the version of the tables of a database that has some, and an *Error if a program that knows those from
// 1 to newest can't use them. name is that of Options.
func (t *Tx) known(name string, newest int) (int, error) {
	var text, oldest string
	err := t.Row("SELECT value, COALESCE((SELECT value FROM "+name+" WHERE name = 'oldest'), value) FROM "+name+" WHERE name = 'schema'", nil, &text, &oldest)
	if err != nil {
		return 0, err
	}
	version, err := strconv.Atoi(text)
	least, bad := strconv.Atoi(oldest)
	switch {
	case err != nil || version < 1:
		return 0, fail("restore it from a backup", nil, "the database %s has the unknown schema version %.40q", t.e.called, text)
	case version > newest && (bad != nil || least > newest):
		return 0, fail("use a newer dragoman, or another database", nil, "the database %s has schema version %d, and this dragoman knows versions up to %d", t.e.called, version, newest)
	}
	return version, nil
}
