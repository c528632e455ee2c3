package sqldb

import (
	"context"
	"database/sql"
	"time"
)

// Tx is a transaction. It's good only during the function that got it, and only for one goroutine. In
// queries, ? stands for an argument, and may stand for nothing else.
type Tx struct {
	// Now is the time of all changes in the transaction, in UTC and with milliseconds.
	Now string

	ctx      context.Context
	tx       *sql.Tx
	e        *engine
	numbered bool // a change got a number
}

// stamp returns t in the format of times in the database.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Exec runs a statement.
func (t *Tx) Exec(query string, args ...any) error {
	_, err := t.tx.ExecContext(t.ctx, t.e.bind(query), args...)
	return err
}

// Row reads one row. The error is sql.ErrNoRows if the query finds no row.
func (t *Tx) Row(query string, args []any, into ...any) error {
	return t.tx.QueryRowContext(t.ctx, t.e.bind(query), args...).Scan(into...)
}

// Each runs a query and calls scan for each row of the result, until scan returns an error.
func (t *Tx) Each(scan func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := t.tx.QueryContext(t.ctx, t.e.bind(query), args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// All runs a query and returns a value for each row of the result.
func All[T any](t *Tx, value func(scan func(...any) error) (T, error), query string, args ...any) (list []T, err error) {
	err = t.Each(func(scan func(...any) error) error {
		one, err := value(scan)
		list = append(list, one)
		return err
	}, query, args...)
	return list, err
}

// Clock returns the time by the one clock that all processes with this database have, whatever the clocks of their machines
// say.
func (t *Tx) Clock() (now time.Time, err error) {
	if t.e.clock == "" {
		return time.Now(), nil
	}
	err = t.Row(t.e.clock, nil, &now)
	return now, err
}

// Count returns the number of rows that a query finds. from is the part of the query that begins with
// FROM.
func (t *Tx) Count(from string, args ...any) (n int, err error) {
	err = t.Row("SELECT COUNT(*) "+from, args, &n)
	return n, err
}

// Take increments a counter and returns its new value, which begins with 1. So each number is used
// only once, even if its object has been deleted.
func (t *Tx) Take(counter string) (n int64, err error) {
	if err := t.Exec("INSERT INTO counters (name, last) VALUES (?, 0) ON CONFLICT (name) DO NOTHING", counter); err != nil {
		return 0, err
	}
	err = t.Row("UPDATE counters SET last = last + 1 WHERE name = ? RETURNING last", []any{counter}, &n)
	return n, err
}

// Counters returns the values of all counters. That of the numbers of changes is called "changes".
func (t *Tx) Counters() (map[string]int64, error) {
	all := map[string]int64{}
	err := t.Each(func(scan func(...any) error) error {
		var name string
		var last int64
		err := scan(&name, &last)
		all[name] = last
		return err
	}, "SELECT name, last FROM counters")
	return all, err
}
