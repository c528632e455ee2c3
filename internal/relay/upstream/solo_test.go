package upstream

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// TestServerThatRunsOnce checks a server whose second process exits at its start. Its clients share the
// first process, and the status says so. After the first process has ended, the next one is shared as
// well. Another principal never gets the process.
func TestServerThatRunsOnce(t *testing.T) {
	h := &program{legacy: true}
	h.on = func(l *process, m *jsonrpc.Message) []byte {
		for _, x := range h.all() {
			x.mu.Lock()
			runs := !x.gone
			x.mu.Unlock()
			if x.n < l.n && runs {
				_ = l.pipe.Close()
				return silent
			}
		}
		return nil
	}
	bubble(t, h, Spec{}, func(t *testing.T, u *Upstream) {
		log := &journal{}
		u.opts.Log = log.logger()
		run := func(f *mcp.ClientInfo) error {
			_, err := call(t, u, f, mcp.MethodCallTool, `{"name":"t"}`)
			return err
		}
		a, b := info(mcp.R20251125, "", canElicit, 1), info(mcp.R20260728, "", `{"sampling":{}}`, 2)
		if err := run(a); err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				if err := run(b); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if err := run(a); err != nil {
			t.Error(err)
		}
		if s := u.Status(); s.State != Ready || s.Reason != reasonSolo || s.Sessions != 1 {
			t.Errorf("%+v", s)
		}
		tries := len(h.all())
		if err := run(info(mcp.R20251125, "ann", "{}", 3)); err == nil {
			t.Error("another principal got the process of anonymous clients")
		}
		synctest.Wait() // the log is written after the callers have gone on
		if n := strings.Count(log.String(), "server can only run once"); n != 1 {
			t.Errorf("the log has %d records\n%s", n, log)
		}
		if err := run(b); err != nil || len(h.all()) < tries {
			t.Error(err)
		}
		_ = h.all()[0].pipe.Close()
		synctest.Wait()
		if err := run(b); err != nil {
			t.Error(err)
		}
		if s := u.Status(); s.State != Ready || s.Reason != "" {
			t.Errorf("the status of the next process is %+v", s)
		}
		if err := run(a); err != nil {
			t.Error(err)
		}
	})
}
