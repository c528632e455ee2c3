package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// seat is who sits where the id of a session has another name, and what the client has set in the session.
type seat struct {
	key    seatKey
	sitter string // an incarnation
	extras []byte
}

// seatRows are the rows of sessions that are somewhere else than their ids say, or in which a client has set something.
// Each method is one transaction, and returns when ctx ends.
type seatRows interface {
	// claim lets me sit down if the sitter doesn't live, and returns who sits there now. While there's no row, home
	// sits; sitter is "" then.
	claim(ctx context.Context, key seatKey, home, me string) (seat, error)
	// give writes new sitters of seats at which from sits, and returns those that it could write.
	give(ctx context.Context, from string, all []seat) ([]seatKey, error)
	// keep writes extras of seats at which their sitters sit.
	keep(ctx context.Context, all []seat) error
	// touch writes that seats are still needed at which me sits, and returns them.
	touch(ctx context.Context, me string, all []seatKey) ([]seatKey, error)
	// free deletes rows of seats at which me sits.
	free(ctx context.Context, me string, all []seatKey) error
	// learn writes facts, or that they were needed now.
	learn(ctx context.Context, facts [][]byte) error
	// facts returns facts, or nil.
	facts(ctx context.Context, d digest) ([]byte, error)
	// tidy deletes the rows that nobody needs any more.
	tidy(ctx context.Context) error
}

// rowsFor is how long rows stay that nobody has written for: longer than a session can live.
const rowsFor = "26 hours"

// mostFacts is the largest number of facts that are kept. Clients could make up many.
const mostFacts = 10_000

// seatCode returns what shows that a replica has written a seat.
func (t tables) seatCode(s *seat) []byte {
	h := hmac.New(sha256.New, t.secret)
	for _, x := range []string{"seat", string(s.key[:]), s.sitter, string(s.extras)} {
		_, _ = fmt.Fprintf(h, "%d %s\n", len(x), x)
	}
	return h.Sum(nil)
}

var errForged = errors.New("a row of the table seats was not written by a replica")

func (t tables) claim(ctx context.Context, key seatKey, home, me string) (s seat, err error) {
	err = t.Brief(ctx, func(tx *sqldb.Tx) error {
		s = seat{key: key}
		var code []byte
		var lives bool
		read := func() error {
			return tx.Row("SELECT s.incarnation, s.extras, s.code, EXISTS (SELECT 1 FROM replicas r WHERE r.incarnation = s.incarnation AND r.state IN ('ready', 'draining')) FROM seats s WHERE s.key = ? FOR UPDATE",
				[]any{key[:]}, &s.sitter, &s.extras, &code, &lives)
		}
		err := read()
		if errors.Is(err, sql.ErrNoRows) {
			mine := seat{key: key, sitter: me}
			err = tx.Each(func(func(...any) error) error { s = mine; return nil },
				"INSERT INTO seats (key, incarnation, epoch, code, seen) SELECT ?::bytea, ?::text, 1, ?::bytea, clock_timestamp() WHERE NOT EXISTS (SELECT 1 FROM replicas WHERE incarnation = ? AND state IN ('ready', 'draining')) ON CONFLICT (key) DO NOTHING RETURNING 1",
				key[:], me, t.seatCode(&mine), home)
			if err != nil || s.sitter != "" {
				return err
			}
			if err = read(); errors.Is(err, sql.ErrNoRows) {
				return nil // home lives
			}
		}
		if err != nil {
			return err
		}
		if !hmac.Equal(code, t.seatCode(&s)) {
			if lives {
				return errForged
			}
			s.extras = nil
		}
		if lives {
			return nil
		}
		s.sitter = me
		return tx.Exec("UPDATE seats SET incarnation = ?, epoch = epoch + 1, extras = ?, code = ?, seen = clock_timestamp() WHERE key = ?", me, s.extras, t.seatCode(&s), key[:])
	})
	return s, err
}

func (t tables) give(ctx context.Context, from string, all []seat) (done []seatKey, err error) {
	err = t.Brief(ctx, func(tx *sqldb.Tx) error {
		done = nil
		text, args := t.values(all)
		return tx.Each(intoKeys(&done), "INSERT INTO seats (key, incarnation, epoch, extras, code, seen) VALUES "+text+
			" ON CONFLICT (key) DO UPDATE SET incarnation = excluded.incarnation, epoch = seats.epoch + 1, extras = excluded.extras, code = excluded.code, seen = excluded.seen WHERE seats.incarnation = ? RETURNING key", append(args, from)...)
	})
	return done, err
}

// values returns rows for INSERT, in the order of their keys: two transactions must not wait for each other.
func (t tables) values(all []seat) (text string, args []any) {
	all = slices.SortedFunc(slices.Values(all), func(a, b seat) int { return slices.Compare(a.key[:], b.key[:]) })
	for i := range all {
		s := &all[i]
		args = append(args, s.key[:], s.sitter, s.extras, t.seatCode(s))
	}
	return strings.TrimSuffix(strings.Repeat("(?, ?, 1, ?, ?, clock_timestamp()), ", len(all)), ", "), args
}

func (t tables) keep(ctx context.Context, all []seat) error {
	return t.Brief(ctx, func(tx *sqldb.Tx) error {
		text, args := t.values(all)
		return tx.Exec("INSERT INTO seats (key, incarnation, epoch, extras, code, seen) VALUES "+text+
			" ON CONFLICT (key) DO UPDATE SET extras = excluded.extras, code = excluded.code, seen = excluded.seen WHERE seats.incarnation = excluded.incarnation", args...)
	})
}

func (t tables) touch(ctx context.Context, me string, all []seatKey) (done []seatKey, err error) {
	err = t.Brief(ctx, func(tx *sqldb.Tx) error {
		done = nil
		text, args := keysOf(me, all)
		return tx.Each(intoKeys(&done), "UPDATE seats SET seen = clock_timestamp() WHERE incarnation = ? AND key IN ("+text+") RETURNING key", args...)
	})
	return done, err
}

func (t tables) free(ctx context.Context, me string, all []seatKey) error {
	return t.Brief(ctx, func(tx *sqldb.Tx) error {
		text, args := keysOf(me, all)
		return tx.Exec("DELETE FROM seats WHERE incarnation = ? AND key IN ("+text+")", args...)
	})
}

// keysOf returns the arguments me and keys, and the text that stands for the keys.
func keysOf(me string, all []seatKey) (text string, args []any) {
	args = []any{me}
	for i := range all {
		args = append(args, all[i][:])
	}
	return strings.TrimSuffix(strings.Repeat("?, ", len(all)), ", "), args
}

// intoKeys returns what adds the key of each row to a list.
func intoKeys(list *[]seatKey) func(scan func(...any) error) error {
	return func(scan func(...any) error) error {
		var key []byte
		err := scan(&key)
		if err == nil && len(key) == len(seatKey{}) {
			*list = append(*list, seatKey(key))
		}
		return err
	}
}

func (t tables) learn(ctx context.Context, facts [][]byte) error {
	return t.Brief(ctx, func(tx *sqldb.Tx) error {
		for _, body := range facts {
			d := digestOf(body)
			if err := tx.Exec("INSERT INTO facts (digest, body, seen) SELECT ?::bytea, ?::bytea, clock_timestamp() WHERE (SELECT COUNT(*) FROM facts) < ?::bigint OR EXISTS (SELECT 1 FROM facts WHERE digest = ?::bytea) ON CONFLICT (digest) DO UPDATE SET seen = excluded.seen", d[:], body, mostFacts, d[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t tables) facts(ctx context.Context, d digest) (body []byte, err error) {
	err = t.Read(ctx, func(tx *sqldb.Tx) error { return tx.Row("SELECT body FROM facts WHERE digest = ?", []any{d[:]}, &body) })
	if errors.Is(err, sql.ErrNoRows) || err == nil && digestOf(body) != d {
		return nil, nil
	}
	return body, err
}

func (t tables) tidy(ctx context.Context) error {
	return t.Brief(ctx, func(tx *sqldb.Tx) error {
		err := tx.Exec("DELETE FROM seats WHERE seen < clock_timestamp() - INTERVAL '" + rowsFor + "'")
		if err == nil {
			err = tx.Exec("DELETE FROM facts WHERE seen < clock_timestamp() - INTERVAL '" + rowsFor + "'")
		}
		return err
	})
}
