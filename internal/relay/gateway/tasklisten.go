package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
)

// maxTaskIDs bounds the tasks that one listen may watch.
const maxTaskIDs = 1000

// taskListen handles the tasks in a modern client's listen. For each server that owns some of the
// tasks, it opens an extra listen at the server. The tasks cannot be in the listen that all clients
// share, because a server that refuses one task refuses the whole listen.
type taskListen struct {
	shown []string // the ids of the tasks that servers have accepted, as the client knows them
	leave func()   // ends the extra listens and waits until they have ended
}

// listenToTasks subscribes to the tasks that a listen names (SEP-2663, "Task Status
// Notifications"). It leaves out tasks of legacy servers. Notifications of the tasks extension must
// contain the result and the input requests of a task, but notifications of legacy servers do not
// contain them.
func listenToTasks(ctx context.Context, r *bridge.Bridge, c *mcp.Call, q *queue, from []Upstream, sole bool) (*taskListen, error) {
	raw := c.Msg.Raw
	list := jsonrpc.Find(raw, c.Msg.Param("notifications"), "taskIds")
	if list.IsZero() {
		return &taskListen{leave: func() {}}, nil
	}
	if !mcp.HasTasksExtension(c.Client.Capabilities) {
		return nil, bridge.ErrNeedsTasks
	}
	if jsonrpc.KindOf(raw, list) != '[' {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "taskIds must be an array of strings"}
	}
	ids := map[string]map[string]string{} // the key is the server's name; each value maps the server's task ids to the client's task ids
	n := 0
	for e := range jsonrpc.Elements(raw, list) {
		id, ok := jsonrpc.Text(raw, e)
		if n++; !ok || n > maxTaskIDs {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("taskIds must be an array of at most %d strings", maxTaskIDs)}
		}
		p, err := r.FindTask(ctx, servers(from), c.Client, sole, id)
		switch {
		case err != nil:
		case p.Form() != mcp.DirectedTasks:
			r.ReportLoss(p.Server.Name(), mcp.NoteTask, "the notifications of this server do not contain the result of the task")
		default:
			name := p.Server.Name()
			if ids[name] == nil {
				ids[name] = map[string]string{}
			}
			ids[name][p.Ref.ID] = id
		}
	}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	l := &taskListen{leave: func() {
		stop()
		running.Wait()
	}}
	var all []*taskListener
	for _, u := range from {
		if mine := ids[u.Name()]; mine != nil {
			ear := &taskListener{bridge: r, client: c.Client, server: u, q: q, ids: mine, acked: make(chan struct{})}
			all = append(all, ear)
			running.Go(func() { ear.listen(ctx, c) })
		}
	}
	late := time.NewTimer(listenGrace)
	defer late.Stop()
	for _, ear := range all {
		select {
		case <-ear.acked:
			l.shown = append(l.shown, ear.agreed...)
		case <-late.C:
			late.Reset(0)
		case <-ctx.Done():
		}
	}
	slices.Sort(l.shown)
	return l, nil
}

// filter adds the accepted tasks to the notifications object of the acknowledgement.
func (l *taskListen) filter(honoured []byte) []byte {
	if len(l.shown) == 0 {
		return honoured
	}
	out := honoured[:len(honoured)-1]
	if len(out) > 1 {
		out = append(out, ',')
	}
	out = append(out, `"taskIds":[`...)
	for i, id := range l.shown {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonrpc.AppendQuote(out, id)
	}
	return append(out, ']', '}')
}

// taskListener opens one of the extra listens, and receives the messages of that listen.
type taskListener struct {
	mcp.NoCaller
	bridge *bridge.Bridge
	client *mcp.ClientInfo
	server Upstream
	q      *queue
	ids    map[string]string // maps the server's task ids to the client's task ids; immutable
	acked  chan struct{}     // closed when agreed is set, or when the listen has ended
	agreed []string
	once   sync.Once
}

func (e *taskListener) listen(ctx context.Context, c *mcp.Call) {
	defer e.once.Do(func() { close(e.acked) })
	params := []byte(`{"notifications":{"taskIds":[`)
	sep := ""
	for _, id := range slices.Sorted(maps.Keys(e.ids)) {
		params = jsonrpc.AppendQuote(append(params, sep...), id)
		sep = ","
	}
	m := jsonrpc.NewRequest("1", mcp.MethodListen, append(params, `]}}`...))
	f := *c.Client
	f.Revision, f.LogLevel = mcp.LatestLegacy, 0 // Dragoman makes the request in the legacy form; the codec adds what a modern server needs
	call := mcp.NewCall(m, m.Param(mcp.KeyMeta), &f)
	call.Ours = true
	_, _ = bridge.Send(ctx, e.server, mcp.NewAttempt(call), e)
}

// Notify handles the acknowledgement, and the notifications about the requested tasks. It drops all
// other notifications.
func (e *taskListener) Notify(n *mcp.Note) {
	m := n.Msg
	switch m.Method {
	case mcp.NoteAcknowledged:
		e.once.Do(func() {
			for id := range jsonrpc.Elements(m.Raw, jsonrpc.Find(m.Raw, m.Param("notifications"), "taskIds")) {
				text, _ := jsonrpc.Text(m.Raw, id)
				if shown, ok := e.ids[text]; ok {
					e.agreed = append(e.agreed, shown)
				}
			}
			close(e.acked)
		})
	case mcp.NoteTask:
		id, _ := jsonrpc.Text(m.Raw, m.Param("taskId"))
		if _, mine := e.ids[id]; !mine {
			return
		}
		if err := e.bridge.CheckQuestions(e.server, e.client, m.Raw, m.Param("inputRequests")); err != nil {
			// The notification is dropped. The client can get the same information when it polls
			// the task.
			e.bridge.ReportLoss(e.server.Name(), m.Method, "the task asks for input in a way that this client does not support")
			return
		}
		e.q.put(e.server, m)
	}
}
