package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestRetry checks how long a new connection waits for other processes that open the database.
func TestRetry(t *testing.T) {
	busy, broken := errors.New("busy"), errors.New("broken")
	for name, c := range map[string]struct {
		fails []error // the errors of the first attempts; all later attempts return the last error
		limit time.Duration
		want  error
		took  time.Duration // the shortest time that retry may take
	}{
		"at once":       {nil, time.Hour, nil, 0},
		"after two":     {[]error{busy, busy, nil}, time.Hour, nil, 3 * time.Millisecond},
		"another error": {[]error{busy, broken}, time.Hour, broken, time.Millisecond},
		"always busy":   {[]error{busy}, time.Hour, busy, busyTimeout - time.Second},
		"context":       {[]error{busy}, time.Second, context.DeadlineExceeded, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.limit)
				defer cancel()
				start, n := time.Now(), 0
				_, err := retry(ctx, func(err error) bool { return err == busy }, func() (driver.Conn, error) {
					n++
					if len(c.fails) == 0 {
						return nil, nil
					}
					return nil, c.fails[min(n, len(c.fails))-1]
				})
				if took := time.Since(start); !errors.Is(err, c.want) || took < c.took || took > busyTimeout {
					t.Errorf("%v after %v and %d attempts", err, took, n)
				}
			})
		})
	}
}
