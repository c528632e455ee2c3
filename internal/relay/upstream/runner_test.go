package upstream

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestRunnerDownloads checks what we say while a package runner takes a minute and a half to start the server:
// the status says why, the user of the only client hears of it once, and a reading that gives up meanwhile
// does not claim that anything is wrong.
func TestRunnerDownloads(t *testing.T) {
	const slow = 90 * time.Second
	for _, runner := range []string{"", "npx"} {
		there := make(chan struct{})
		h := &program{legacy: true, on: func(*process, *jsonrpc.Message) []byte {
			<-there
			return nil
		}}
		bubble(t, h, Spec{Runner: runner, Start: 5 * time.Minute, OneClient: true}, func(t *testing.T, u *Upstream) {
			there = make(chan struct{}) // of the bubble
			time.AfterFunc(slow, func() { close(there) })
			log := &journal{}
			u.opts.Log = log.logger()
			reading, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			_, err := u.Hello(reading, nil)
			synctest.Wait()
			var e *mcp.Error
			if !errors.As(err, &e) || e.Failure == nil || !strings.Contains(e.Failure.Sentence, "is still starting") || time.Since(began) != time.Minute {
				t.Errorf("%q: the reading ended after %s with %v", runner, time.Since(began), err)
			}
			if s := u.Status(); s.State != Starting || (s.Reason != "") != (runner != "") || !strings.Contains(s.Reason, runner) {
				t.Errorf("%q: while it downloads: %s, %q", runner, s.State, s.Reason)
			}
			if _, err := u.Hello(t.Context(), nil); err != nil || time.Since(began) < slow {
				t.Errorf("%q: after %s: %v", runner, time.Since(began), err)
			}
			if s := u.Status(); s.State != Ready || s.Reason != "" {
				t.Errorf("%q: after the download: %s, %q", runner, s.State, s.Reason)
			}
			said := 0
			if runner != "" {
				said = 1
			}
			if n := strings.Count(log.String(), "server is still starting"); n != said {
				t.Errorf("%q: the log says %d times that the server is starting:\n%s", runner, n, log)
			}
		})
	}
}
