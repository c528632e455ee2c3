package runtime

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman/internal/relay/downstream"
)

// TestRemovedProjectIsClosedLast removes a project without servers while a request runs that came in by
// no endpoint. What is closed after everything else waits until the request has left its generation.
func TestRemovedProjectIsClosedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Handle
		first := &host{hold: make(chan struct{})}
		h.Replace(first)
		var running sync.WaitGroup
		running.Go(func() { _, _ = h.Call(t.Context(), nil, nil) })
		synctest.Wait()

		p := &Project{runtime: &Runtime{endpoints: NewEndpoints()}}
		m := &mount{endpoint: NewEndpoint("", &downstream.Endpoint{Handler: &h}, EndpointOptions{})}
		p.runtime.endpoints.Add(m.endpoint)
		closed := false
		l := leaving{cause: errProjectRemoved, mounts: []*mount{m}, then: func() { closed = true }}
		l.add(h.Renew(), nil)
		p.retire(l)
		synctest.Wait()
		if closed {
			t.Error("the project was closed while a request used it")
		}
		close(first.hold)
		p.runtime.retired.Wait()
		running.Wait()
		if !closed {
			t.Error("the project was not closed")
		}
		p.runtime.endpoints.Close()
	})
}
