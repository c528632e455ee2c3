package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/transport"
	"github.com/dragoman-mcp/dragoman/internal/transport/inmem"
)

// program is a server program. Each pipe leads to a separate process.
type program struct {
	modern, legacy bool // the eras that the program supports
	lists          bool // server/discover lists a legacy revision, even if the program does not support the legacy era
	dies           bool // the program exits when it is probed
	fails          func(n int) bool
	// link makes a pipe to a process. If link is nil, the pipe is in memory.
	link func() (ours, theirs transport.Pipe)
	// on returns the answer to m. If it returns nil, the process sends the default answer.
	on func(c *process, m *jsonrpc.Message) []byte
	// heard is called for each notification, unless it is nil.
	heard func(m *jsonrpc.Message)
	// noted is the same for a program that wants to know which process got it.
	noted func(l *process, m *jsonrpc.Message)

	mu        sync.Mutex
	processes []*process
	tries     []time.Time
}

// process is one process of the program. Its goroutine runs until the pipe is closed.
type process struct {
	n    int
	pipe transport.Pipe
	mu   sync.Mutex
	got  []string
	raw  []string
	gone bool
}

var silent = []byte("silent")

func (h *program) dial(context.Context) (transport.Pipe, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tries = append(h.tries, time.Now())
	if h.fails != nil && h.fails(len(h.tries)) {
		return nil, errors.New("no such server")
	}
	link := h.link
	if link == nil {
		link = inmem.Pipe
	}
	ours, theirs := link()
	l := &process{n: len(h.processes), pipe: theirs}
	h.processes = append(h.processes, l)
	go h.serve(l)
	return ours, nil
}

func (h *program) serve(l *process) {
	for {
		m, err := l.pipe.Read()
		if err != nil {
			_ = l.pipe.Close()
			l.mu.Lock()
			l.gone = true
			l.mu.Unlock()
			return
		}
		l.mu.Lock()
		l.got = append(l.got, m.Method)
		l.raw = append(l.raw, string(m.Raw))
		l.mu.Unlock()
		if m.Kind != jsonrpc.Request {
			if m.Kind == jsonrpc.Notification && h.heard != nil {
				h.heard(m)
			}
			if m.Kind == jsonrpc.Notification && h.noted != nil {
				h.noted(l, m)
			}
			continue
		}
		var b []byte
		if h.on != nil {
			b = h.on(l, m)
		}
		if b == nil {
			b = h.usual(l, m)
		}
		if string(b) != string(silent) {
			_ = l.pipe.Write(b)
		}
	}
}

func (h *program) usual(l *process, m *jsonrpc.Message) []byte {
	const caps = `"capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}}`
	switch {
	case m.Method == mcp.MethodDiscover && h.dies:
		_ = l.pipe.Close()
		return silent
	case m.Method == mcp.MethodDiscover && h.modern:
		versions := `"2026-07-28"`
		if h.legacy || h.lists {
			versions += `,"2025-11-25"`
		}
		return ok(m, `{"resultType":"complete","supportedVersions":[`+versions+`],`+caps+`,"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"h","version":"1"}}}`)
	case m.Method == mcp.MethodInitialize && h.legacy:
		return ok(m, `{"protocolVersion":"2025-11-25",`+caps+`,"serverInfo":{"name":"h","version":"1"}}`)
	case m.Method == mcp.MethodDiscover || m.Method == mcp.MethodInitialize:
		return jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"})
	}
	return ok(m, `{}`)
}

func ok(m *jsonrpc.Message, result string) []byte {
	return jsonrpc.AppendResult(nil, m.ID, []byte(result))
}

func (h *program) all() []*process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.processes)
}

// alive returns how many processes run.
func (h *program) alive() (n int) {
	for _, l := range h.all() {
		l.mu.Lock()
		if !l.gone {
			n++
		}
		l.mu.Unlock()
	}
	return n
}

// count returns how many messages with this method all processes have got in total.
func (h *program) count(method string) (n int) {
	for _, l := range h.all() {
		for _, m := range l.methods() {
			if m == method {
				n++
			}
		}
	}
	return n
}

func (l *process) methods() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

func (l *process) last(method string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.got) - 1; i >= 0; i-- {
		if l.got[i] == method {
			return l.raw[i]
		}
	}
	return ""
}

func (h *program) open(spec Spec) *Upstream {
	spec.Name, spec.Pipe = "h", h.dial
	return New(spec, Options{Info: []byte(`{"name":"dragoman","version":"1"}`)})
}

const canElicit = `{"elicitation":{"form":{}}}`

func info(r mcp.Revision, principal, caps string, conversation uint64) *mcp.ClientInfo {
	return &mcp.ClientInfo{
		Revision: r, Who: identity.Named(principal), Capabilities: []byte(caps), Conversation: conversation,
		Info: []byte(`{"name":"c","version":"1"}`),
	}
}

func call(t *testing.T, u *Upstream, f *mcp.ClientInfo, method, params string) (*mcp.Reply, error) {
	raw := `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`
	m, err := jsonrpc.Scan([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		return nil, err
	}
	return u.Call(t.Context(), mcp.NewCall(m, m.Param(mcp.KeyMeta), f), mcp.NoCaller{})
}
