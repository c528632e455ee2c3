package runtime

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/gateway"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/team/prompt"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// prompts is a server in this process that has a project's own prompts. It's a gateway.Upstream, so the
// gateway treats it as any other. All gateways of the project share it. It answers from what the store
// knows at this moment, and never waits.
type prompts struct {
	now atomic.Pointer[[]store.Prompt] // all of the project; nil for none

	mu          sync.Mutex
	subscribers map[*promptSubscriber]struct{}
}

// stored returns the prompts of the project, also those of which no version is published.
func (s *prompts) stored() []store.Prompt {
	if all := s.now.Load(); all != nil {
		return *all
	}
	return nil
}

// upstream returns s for a gateway, or nil if the project has no prompts.
func (s *prompts) upstream() gateway.Upstream {
	if len(s.stored()) == 0 {
		return nil
	}
	return s
}

// instructions returns what the active prompt says, or "" if none is active.
func (s *prompts) instructions() string {
	for _, x := range s.stored() {
		if x.Active {
			return x.Served.Instructions()
		}
	}
	return ""
}

// find returns the published version of a prompt.
func (s *prompts) find(name string) (*prompt.Prompt, bool) {
	for _, x := range s.stored() {
		if x.Name == name && x.Published != 0 {
			return &x.Served.Prompt, true
		}
	}
	return nil, false
}

// replace replaces the prompts, and reports whether clients get other versions now.
func (s *prompts) replace(all []store.Prompt) (changed bool) {
	before := s.versions()
	s.now.Store(&all)
	return !maps.Equal(s.versions(), before)
}

// versions returns which version of each prompt is published.
func (s *prompts) versions() map[string]int64 {
	all := make(map[string]int64)
	for _, x := range s.stored() {
		if x.Published != 0 {
			all[x.Name] = x.Published
		}
	}
	return all
}

// announce tells the subscribers that the list has changed.
func (s *prompts) announce() {
	s.mu.Lock()
	var all []func(*jsonrpc.Message)
	for x := range s.subscribers {
		if x.wants {
			all = append(all, x.deliver)
		}
	}
	s.mu.Unlock()
	for _, deliver := range all {
		deliver(jsonrpc.NewNotification(mcp.NotePromptsChanged, nil))
	}
}

// PromptsChanged says that Options.Prompts returns other prompts than before. It's called after each change.
func (r *Runtime) PromptsChanged() {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	for _, p := range r.Projects() {
		changed, g := p.prompts.replace(r.opts.Prompts(p.name)), p.merged()
		switch {
		case g == nil:
		case (g.Own != nil) != (p.prompts.upstream() != nil):
			p.mu.Lock()
			asked := p.asked
			p.mu.Unlock()
			p.apply(asked) // with the source, or without; all clients hear that their lists have changed
		case changed:
			g.Changed(policy.ProjectPrompts, "prompts")
			p.prompts.announce()
		}
	}
}

// Name implements gateway.Upstream.
func (s *prompts) Name() string { return policy.ProjectPrompts }

// Scope implements gateway.Upstream.
func (s *prompts) Scope(*mcp.ClientInfo) string { return "" }

// Tasks implements gateway.Upstream.
func (s *prompts) Tasks(context.Context, *mcp.ClientInfo) mcp.TaskForm { return mcp.NoTasks }

// SetLevel implements gateway.Upstream.
func (s *prompts) SetLevel(context.Context, *mcp.Call) (*mcp.Reply, error) {
	return mcp.Answer([]byte("{}")), nil
}

// Renewed implements gateway.Upstream.
func (s *prompts) Renewed(string) {}

// Forward implements gateway.Upstream.
func (s *prompts) Forward(*mcp.ClientInfo, []byte, string) {}

// Hello implements gateway.Upstream.
func (s *prompts) Hello(context.Context, *mcp.ClientInfo) (*mcp.ServerInfo, error) {
	return &mcp.ServerInfo{
		Revision: mcp.LatestLegacy, Info: []byte(`{"name":"dragoman","version":"1"}`),
		Capabilities: []byte(`{"completions":{},"prompts":{"listChanged":true}}`), Instructions: []byte(`""`),
	}, nil
}

// List implements gateway.Upstream.
func (s *prompts) List(_ context.Context, _ *mcp.ClientInfo, method string) (items [][]byte, complete bool, err error) {
	if method != mcp.MethodListPrompts {
		return nil, true, nil
	}
	for _, x := range s.stored() {
		if x.Published != 0 {
			items = append(items, listing(&x.Served.Prompt))
		}
	}
	return items, true, nil
}

// listing returns a prompt as prompts/list has it.
func listing(p *prompt.Prompt) []byte {
	out := jsonrpc.AppendQuote([]byte(`{"name":`), p.Name)
	if p.Description != "" {
		out = jsonrpc.AppendQuote(append(out, `,"description":`...), p.Description)
	}
	for i, a := range p.Arguments {
		if i == 0 {
			out = append(out, `,"arguments":[`...)
		} else {
			out = append(out, ',')
		}
		out = jsonrpc.AppendQuote(append(out, `{"name":`...), a.Name)
		if a.Description != "" {
			out = jsonrpc.AppendQuote(append(out, `,"description":`...), a.Description)
		}
		out = append(out, `,"required":true}`...)
	}
	if len(p.Arguments) > 0 {
		out = append(out, ']')
	}
	return append(out, '}')
}

// Acquire implements gateway.Upstream.
func (s *prompts) Acquire(context.Context, *mcp.ClientInfo, mcp.Need) (bridge.Lease, error) {
	return promptLease{s}, nil
}

// promptLease is the session for one call, of which prompts needs none.
type promptLease struct{ of *prompts }

// Revision implements bridge.Lease. In the newest legacy revision, no answer of ours needs a member that an older
// one doesn't know, and the codec adds what the modern era needs.
func (l promptLease) Revision() mcp.Revision { return mcp.LatestLegacy }

// Tasks implements bridge.Lease.
func (l promptLease) Tasks() mcp.TaskForm { return mcp.NoTasks }

// Tool implements bridge.Lease.
func (l promptLease) Tool(context.Context, string) mcp.ToolFacts { return mcp.ToolFacts{} }

// Release implements bridge.Lease.
func (l promptLease) Release() {}

// Call implements bridge.Lease.
func (l promptLease) Call(_ context.Context, a *mcp.Attempt, _ mcp.Caller) (*mcp.Reply, error) {
	var result []byte
	var err error
	switch a.Msg.Method {
	case mcp.MethodGetPrompt:
		result, err = l.of.get(a.Name, a.Args)
	case mcp.MethodComplete:
		result, err = l.of.complete(jsonrpc.ValueOf(a.Edits.Splice(nil, a.Msg.Raw)).Get("params"))
	default:
		err = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found: " + excerpt.Cut(a.Msg.Method, 128)}
	}
	reply := mcp.Answer(result)
	if err != nil {
		reply = mcp.Fail(err)
	}
	reply.From = l.Revision()
	return reply, nil
}

func wrongParams(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// get returns the result of prompts/get. A missing argument is a wrong parameter (all revisions, §Prompts, "Error
// Handling").
func (s *prompts) get(name string, arguments jsonrpc.Value) ([]byte, error) {
	p, ok := s.find(name)
	if !ok {
		return nil, catalog.Unknown(catalog.KindPrompt, name)
	}
	values := make(map[string]string)
	for key, value := range arguments.Members() {
		k, _ := key.Text()
		text, ok := value.Text()
		if !ok {
			return nil, wrongParams("the argument %s must be a string", excerpt.Cut(k, prompt.MaxName))
		}
		values[k] = text
	}
	text, err := p.Fill(values)
	if m, ok := prompt.MistakeOf(err); ok {
		return nil, wrongParams("%s: %s", m.Text, m.Next)
	} else if err != nil {
		return nil, err
	}
	out := []byte{'{'}
	if p.Description != "" {
		out = append(jsonrpc.AppendQuote(append(out, `"description":`...), p.Description), ',')
	}
	out = jsonrpc.AppendQuote(append(out, `"messages":[{"role":"user","content":{"type":"text","text":`...), text)
	return append(out, `}}]}`...), nil
}

// complete returns the result of completion/complete: the values of an argument that begin with what was typed.
func (s *prompts) complete(params jsonrpc.Value) ([]byte, error) {
	name, _ := params.Get("ref", "name").Text()
	argument, _ := params.Get("argument", "name").Text()
	typed, _ := params.Get("argument", "value").Text()
	p, ok := s.find(name)
	if !ok {
		return nil, catalog.Unknown(catalog.KindPrompt, name)
	}
	for _, a := range p.Arguments {
		if a.Name != argument {
			continue
		}
		out, n := []byte(`{"completion":{"values":[`), 0
		for _, v := range a.Values {
			if len(v) < len(typed) || !strings.EqualFold(v[:len(typed)], typed) {
				continue
			}
			if n++; n > 1 {
				out = append(out, ',')
			}
			out = jsonrpc.AppendQuote(out, v)
		}
		out = strconv.AppendInt(append(out, `],"total":`...), int64(n), 10)
		return append(out, `,"hasMore":false}}`...), nil
	}
	return nil, wrongParams("the prompt %s has no argument %s", p.Name, excerpt.Cut(argument, prompt.MaxName))
}

// Subscribe implements gateway.Upstream.
func (s *prompts) Subscribe(_ *mcp.ClientInfo, deliver func(*jsonrpc.Message), _ mcp.Subscriber) gateway.Subscriber {
	x := &promptSubscriber{of: s, deliver: deliver}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribers == nil {
		s.subscribers = make(map[*promptSubscriber]struct{})
	}
	s.subscribers[x] = struct{}{}
	return x
}

// promptSubscriber hears when the list of prompts changes.
type promptSubscriber struct {
	of      *prompts
	deliver func(*jsonrpc.Message)
	wants   bool // guarded by of.mu
}

// Lists implements gateway.Subscriber.
func (x *promptSubscriber) Lists(_, prompts, _ bool) {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.wants = prompts
}

// Watch implements gateway.Subscriber.
func (x *promptSubscriber) Watch(_ context.Context, want mcp.SubscriptionFilter) (mcp.SubscriptionFilter, error) {
	x.Lists(false, want.Prompts, false)
	return mcp.SubscriptionFilter{Prompts: want.Prompts}, nil
}

// Subscribe implements gateway.Subscriber. There are no resources.
func (x *promptSubscriber) Subscribe(context.Context, string) (*mcp.Reply, error) {
	return nil, wrongParams("there are no resources")
}

// Unsubscribe implements gateway.Subscriber.
func (x *promptSubscriber) Unsubscribe(context.Context, string) (*mcp.Reply, error) {
	return nil, wrongParams("there are no resources")
}

// Resume implements gateway.Subscriber.
func (x *promptSubscriber) Resume([]string) {}

// Close implements gateway.Subscriber.
func (x *promptSubscriber) Close() {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	delete(x.of.subscribers, x)
}
