package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

// ActChain is what a look at the chain of the acts has found. Whoever can write to the database and computes all
// hashes again leaves no trace in it, so someone else must know a Sum: package audit writes them beside the calls.
type ActChain struct {
	First, Last int64 // the numbers of the oldest and the newest act; 0 if there is none
	// Broken says which act is the first that isn't as it was written, as a sentence. It's "" if all are.
	Broken string
	Since  time.Time // when the oldest act happened
	// Trails are the acts about the files with the calls; see Tx.Trailed.
	Trails []Act

	sums [][]byte // of the acts, beginning with First
}

// Sum returns the Sum of an act, and whether there is one with this number.
func (c *ActChain) Sum(seq int64) ([]byte, bool) {
	if i := seq - c.First; seq > 0 && i >= 0 && i < int64(len(c.sums)) {
		return c.sums[i], true
	}
	return nil, false
}

const trailKind = "trail"

// Trailed records what has happened to the files with the calls of a process: that they begin or end, and by what
// their newest line can be known. Nobody waits for a snapshot because of it.
func (t *Tx) Trailed(action, trail string, line any) error {
	return t.noted(action, trailKind, trail, about{became: facts{"line": line}})
}

// VerifyActs looks at the chain of the acts. The error is that of the database; what is wrong with the chain is in the
// result.
func (s *Store) VerifyActs(ctx context.Context) (c ActChain, err error) {
	err = s.read(ctx, func(t *sqldb.Tx) error {
		c = ActChain{}
		var made int64
		if err := t.Row("SELECT last FROM counters WHERE name = ?", []any{actCounter}, &made); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		err := t.Each(func(scan func(...any) error) error {
			a, happened, err := scanAct(scan)
			if err == nil {
				c.follow(&a, happened)
			}
			return err
		}, "SELECT "+actColumns+" FROM acts ORDER BY seq")
		if err == nil {
			c.bounds(made)
		}
		return err
	})
	return c, err
}

// follow looks at the next act.
func (c *ActChain) follow(a *Act, happened string) {
	switch {
	case c.Broken != "":
	case c.First != 0 && a.Seq != c.Last+1:
		c.Broken = fmt.Sprintf("act %d comes after act %d, so %s", a.Seq, c.Last, missing(c.Last+1, a.Seq-1))
	case c.First != 0 && !bytes.Equal(a.Prev, c.sums[len(c.sums)-1]), a.Seq == 1 && len(a.Prev) > 0:
		c.Broken = fmt.Sprintf("act %d does not follow the act before it, so one of the two was changed or replaced", a.Seq)
	case !bytes.Equal(a.hash(happened), a.Sum):
		c.Broken = fmt.Sprintf("act %d was changed", a.Seq)
	}
	if c.First == 0 {
		c.First, c.Since = a.Seq, a.At
	}
	if c.Last = a.Seq; c.Broken == "" {
		c.sums = append(c.sums, a.Sum)
		if strings.HasPrefix(a.Object, trailKind+":") {
			c.Trails = append(c.Trails, *a)
		}
	}
}

// bounds looks at both ends, for a database that has given so many acts a number. Only record deletes acts, and
// always the same ones.
func (c *ActChain) bounds(made int64) {
	first := max(1, made-made%actsAtOnce-keptActs+1)
	switch {
	case c.Broken != "" || c.First == 0 && made == 0:
	case c.First == 0:
		c.Broken = "all acts were deleted"
	case c.First > first:
		c.Broken = fmt.Sprintf("the oldest act is act %d, so %s", c.First, missing(first, c.First-1))
	case c.First < first:
		c.Broken = fmt.Sprintf("act %d was deleted before, and is there again", c.First)
	case c.Last < made:
		c.Broken = fmt.Sprintf("the newest act is act %d, so %s", c.Last, missing(c.Last+1, made))
	case c.Last > made:
		c.Broken = fmt.Sprintf("act %d was added by somebody else", made+1)
	}
}

func missing(from, to int64) string {
	if from == to {
		return fmt.Sprintf("act %d was deleted", from)
	}
	return fmt.Sprintf("acts %d to %d were deleted", from, to)
}
