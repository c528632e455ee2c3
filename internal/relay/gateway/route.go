package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
	"github.com/dragoman-mcp/dragoman/internal/relay/questions"
)

// action is the way in which a request is handled.
type action uint8

const (
	doExchange  action = iota // send the request to one server, through the bridge
	doPage                    // answer with a page of a list: the list of route.server if it is set, else the merged list of route.view
	doTasks                   // send the request to the server of route.all that owns the task
	doListen                  // Dragoman answers the request, and subscribes at each server of route.all
	doSubscribe               // subscribe at route.server, for the attached client
	doSetLevel                // send the level to route.server if it is set, else to each server of route.all
)

// route says how to handle one request and which servers get the request. resolve creates the route
// before anything is sent. Only the goroutine that serves the request uses the route.
type route struct {
	// Attempt is the request, with the server's own name of the item. Attempt.Server is "" if no
	// single server answers the request. Attempt.Server is also "" for doTasks of Merged, because
	// the bridge finds the server of the task later.
	mcp.Attempt
	do       action
	server   Upstream
	all      []Upstream
	view     catalog.View     // what the client may see; set by Merged
	show     catalog.Filter   // what the client may see; set by Single, where nil shows everything
	vet      catalog.Vet      // set by Single
	renames  *catalog.Renames // the same
	owner    ownerOf
	names    rename                     // for doListen: what the client calls the things that notifications name
	find     *finding                   // for doListen: how the client finds tools; nil if it lists all of them
	own      func() (*mcp.Reply, error) // answers the request, which no server gets; may be nil
	resume   bridge.Resume              // the content of the client's requestState
	filtered filteredCaller             // the caller that the bridge gets; a field, so that it takes no allocation
	asked    *policy.Call               // the call as the policy and the auditor see it; nil if there is neither
	answers  []mcp.Answered             // to Dragoman's own questions about the call, oldest first
	signsIn  bool                       // the client calls the tool that signs its person in to the server
	counted  bool                       // the steps judge the call again, because its item was found by a sign-in
	away     *elsewhere                 // who answers what the client can't show; nil if nobody does
	unfound  error                      // why the name of the item is not known yet: somebody has to sign in to the server
	signer   *SignIn
}

// mayCome reports whether the changes of a server that fails with err can be listened to later: when somebody
// has signed in.
func (r *route) mayCome(err error) bool { return r.signer.needed(err) != nil }

func newRoute(c *mcp.Call) *route { return &route{Attempt: *mcp.NewAttempt(c)} }

// setServer makes u the server of the route.
func (r *route) setServer(u Upstream) { r.server, r.Server = u, u.Name() }

// rename makes t the target of the route, and replaces the name in the request by the server's own
// name of the item. The parameter at is the position of the name.
func (r *route) rename(at jsonrpc.Span, t catalog.Target) {
	r.Edits.Replace(mcp.WhyName, at, t.Quoted)
	r.setServer(upstreamOf(t))
	r.signsIn = t.SignsIn
}

// goTo makes t, which has a URI, the target of the route. It replaces the URI in the request if the
// server has another one. The parameter at is the position of the URI.
func (r *route) goTo(at jsonrpc.Span, t catalog.Target) {
	if t.Quoted != nil {
		r.Edits.Replace(mcp.WhyURI, at, t.Quoted)
	}
	r.setServer(upstreamOf(t))
}

// findTask makes the request one about a task of the servers that the client may see. An answer that we keep as a
// task goes with its tool, so that it can't be read any more when the tool is hidden.
func (r *route) findTask(b *bridge.Bridge, all []Upstream, shows func(kind catalog.Kind, server, name string) bool) error {
	r.do, r.all = doTasks, all
	server, tool, kept := b.Kept(r.Client, r.Call.Name)
	if !kept {
		return nil
	}
	if !slices.ContainsFunc(all, func(u Upstream) bool { return u.Name() == server }) || !shows(catalog.KindTool, server, tool) {
		return bridge.ErrNoTask
	}
	r.Server = server
	return nil
}

// usesBridge reports whether the request goes to the server through the bridge. Only requests
// through the bridge can have a requestState.
func (r *route) usesBridge() bool {
	return r.own == nil && (r.do == doExchange || r.do == doPage && r.server != nil)
}

// resolver finds the route of a request. Single and Merged implement it. resolve never returns a
// nil route. If resolve returns an error, the request is refused with that error.
type resolver interface {
	resolve(ctx context.Context, c *mcp.Call) (*route, error)
}

// runner contains the dependencies for running requests.
type runner struct {
	bridge  *bridge.Bridge
	policy  policy.Chain
	audit   policy.Auditor // nil for none
	project string
	listens *ListenQuota
	notices *notices
	signer  *SignIn // nil if nobody can sign in
	// questions has what waits for people, and is nil if nobody answers what clients can't show.
	questions *questions.Box
	shortener *Shortener                                // nil leaves results as they are
	instead   func(context.Context) (*mcp.Reply, error) // answers the request in place of run; may be nil
}

// answer resolves a request, asks the policy, and runs the request. It reports the outcome to
// the policy, the auditor and the event subscribers.
func (x runner) answer(ctx context.Context, by resolver, c *mcp.Call, k mcp.Caller) (*mcp.Reply, error) {
	began := x.begin(c)
	var away *elsewhere
	if x.questions != nil {
		away = x.elsewhere(c, k)
		k = away
	}
	known := ctx
	if c.Failed != nil { // it's enough to say what's known without asking a server
		over, cancel := context.WithCancel(ctx)
		cancel()
		known = over
	}
	r, err := x.resolve(known, by, c)
	if c.Failed != nil {
		err = c.Failed
	}
	r.away = away
	reply, passed, err := x.attempt(ctx, r, err, k)
	if errors.Is(err, errSignedIn) {
		before := r
		if r.asked != nil {
			x.policy.Done(ctx, passed, r.asked, &policy.Answer{Err: r.unfound, Outcome: mcp.NotSent})
		}
		r, err = by.resolve(ctx, c)
		r.asked, r.answers, r.resume, r.counted = before.asked, before.answers, before.resume, true
		r.away = away
		if reply, passed, err = x.attempt(ctx, r, err, k); errors.Is(err, errSignedIn) {
			err = r.unfound // the server refuses us still
		}
	}
	x.end(ctx, r, passed, began, reply, err)
	return x.shorten(r, reply), err
}

// attempt answers a request that was resolved. err is why it could not be.
func (x runner) attempt(ctx context.Context, r *route, err error, k mcp.Caller) (reply *mcp.Reply, passed int, _ error) {
	if x.signer.needed(err) != nil && r.server != nil {
		r.unfound, err = err, nil // the policy decides whether the person is asked to sign in
	}
	from := len(x.policy)
	switch {
	case err != nil:
	case r.resume.Resumed():
		from = 0 // opened by an attempt before this one, in which the steps knew no name of the item
	case r.usesBridge():
		// The policy must also allow a retry. For this decision, the policy needs the content of
		// the retry's requestState, so Open decrypts the requestState first.
		if r.resume, err = x.bridge.Open(r.server, r.Call); err != nil {
			break
		}
		// The policy of the process that has the session decides, and asks.
		var leave func()
		if leave, err = sit(ctx, r); err != nil {
			break
		}
		defer leave()
		if r.resume.Agreed() {
			from, err = x.readAnswers(r)
		}
	case r.do == doTasks:
		err = x.bridge.CheckTaskPlace(r.Name) // the policy of the task's process decides
	}
	if r.Record != nil {
		r.Record.Routed(&r.Attempt)
	}
	if err == nil && len(x.policy) > 0 {
		passed, reply, err = x.admit(ctx, r, from, k)
	}
	if err == nil && reply == nil {
		if reply, err = x.signedRun(ctx, r, k); err != nil && outcomeOf(err) == mcp.NotSent {
			x.bridge.Unused(r.resume)
		}
	}
	return reply, passed, err
}

// sit makes sure that a request belongs to this process, and keeps it so until leave is called. A client with a
// conversation is at its process already.
func sit(ctx context.Context, r *route) (leave func(), err error) {
	u, ok := r.server.(Seated)
	if !ok || r.do != doExchange || !r.HTTP || r.Client.Conversation != 0 || r.signsIn || r.resume.Parked() {
		return func() {}, nil
	}
	leave, err = u.Sit(ctx, r.Client)
	if err != nil && r.resume.Agreed() {
		err = errAskedBefore // only we remember whether the answer was used, and the session isn't here any more
	}
	return leave, err
}

var errAskedBefore = &jsonrpc.Error{
	Code:    jsonrpc.CodeInvalidParams,
	Message: "the call was not sent: since the user was asked about it, the session with the server has moved to another process of Dragoman; send the original request again to ask the user again",
	Data:    []byte(`{"origin":"gateway","cause":"asked_elsewhere","outcome":"not_sent","retryable":false}`),
}

// readAnswers uses up the state of a retry, before anybody sees the answers, so that of two equal retries
// only one gets through. passed is how many steps of the policy have let the call pass before.
func (x runner) readAnswers(r *route) (passed int, err error) {
	q, err := x.bridge.Answers(r.server, &r.Attempt, r.resume)
	if err != nil || q == nil {
		return len(x.policy), err
	}
	r.answers = q.Answers
	if q.Unfound {
		return 0, nil // the steps have decided about a name that may be that of another item now
	}
	return q.Passed, nil
}

// resolve tells the auditor that a request begins, and finds the route of the request. Like a
// resolver, it never returns a nil route.
func (x runner) resolve(ctx context.Context, by resolver, c *mcp.Call) (*route, error) {
	audited := x.audit != nil
	if s, ok := x.audit.(policy.Switched); ok {
		audited = s.On()
	}
	if len(x.policy) == 0 && !audited {
		return by.resolve(ctx, c)
	}
	asked := &policy.Call{Who: c.Client.Who, Project: cmp.Or(x.project, event.DefaultProject), Request: c}
	if audited {
		if err := x.audit.Begin(ctx, asked); err != nil {
			return newRoute(c), err // without asked, so end doesn't call Auditor.End
		}
	}
	r, err := by.resolve(ctx, c)
	r.asked = asked
	return r, err
}

// describe tells the policy and the auditor what is known about the call by now.
func (r *route) describe() {
	r.asked.Server, r.asked.Name, r.asked.Args, r.asked.Via, r.asked.Resumed = r.Server, r.Name, r.Args, r.Via, r.resume.Resumed()
	r.asked.Counted = r.counted || r.resume.Begun()
	r.asked.Elsewhere = r.away.answers()
}

// admit asks the policy whether the request may be sent, and the person if a step wants to know
// something first. If the person is asked by the answer to the request, admit returns this answer.
// from is how many steps have let the call pass before it was retried.
func (x runner) admit(ctx context.Context, r *route, from int, k mcp.Caller) (passed int, reply *mcp.Reply, err error) {
	if r.do == doTasks && r.Server == "" {
		// The policy needs the server of the task. FindTask does not send a request. The bridge
		// repeats the look-up when the request runs.
		if t, err := x.bridge.FindTask(ctx, servers(r.all), r.Client, false, r.Name); err == nil {
			r.Server = t.Server.Name()
		}
	}
	r.describe()
	r.asked.Passed, r.asked.Answers = from, r.answers
	for {
		var v policy.Verdict
		if passed, v = x.policy.Admit(ctx, r.asked, passed); v.Refuse != nil && !r.asked.Heard() {
			x.bridge.Unused(r.resume)
		}
		if v.Refuse != nil || v.Ask == nil {
			r.Passes = x.policy.Watch(ctx, r.asked)
			return passed, nil, v.Refuse
		}
		open := mcp.Answered{Step: v.Ask.Step, State: v.Ask.State}
		q := bridge.Asking{Question: v.Ask.Question, Answers: append(r.asked.Answers, open), Passed: passed}
		if err = mcp.ErrCannotAsk; !v.Ask.Others {
			open.Result, reply, err = x.bridge.Ask(ctx, r.server, &r.Attempt, q, k)
		}
		switch {
		case !errors.Is(err, mcp.ErrCannotAsk):
		case r.away != nil:
			open.Result, err = r.away.confirm(ctx, r, v.Ask.Question)
		case v.Ask.Else != nil:
			err = v.Ask.Else
		}
		if err != nil || reply != nil {
			return passed, reply, err
		}
		r.answers = append(r.asked.Answers, open)
		r.asked.Answers = r.answers
	}
}

// run executes the action of a route, unless a step has the last word against it.
func (x runner) run(ctx context.Context, r *route, k mcp.Caller) (*mcp.Reply, error) {
	if len(x.policy) == 0 {
		return x.send(ctx, r, k)
	}
	done, err := x.policy.Send(ctx, r.asked)
	if err != nil {
		return nil, err
	}
	defer done()
	return x.send(ctx, r, k)
}

func (x runner) send(ctx context.Context, r *route, k mcp.Caller) (*mcp.Reply, error) {
	if x.instead != nil {
		return x.instead(ctx)
	}
	if r.own != nil {
		return r.own()
	}
	switch r.do {
	case doPage:
		if r.server == nil {
			return r.view.Page(ctx, r.Method, r.Msg.At(r.Msg.Param("cursor")), r.Once)
		}
		return x.ownPage(ctx, r, k)
	case doTasks:
		reply, err := x.bridge.Tasks(ctx, servers(r.all), &r.Attempt, x.filteredFor(r, k))
		return r.present(ctx, reply, err), err
	case doListen:
		return x.listen(ctx, r, k)
	case doSubscribe:
		return x.notices.subscribe(ctx, &r.Attempt, r.server, r.show)
	case doSetLevel:
		if r.server == nil {
			return setLevel(ctx, r.Call, r.all)
		}
		return r.server.SetLevel(ctx, r.Call)
	}
	reply, err := x.bridge.Exchange(ctx, r.server, &r.Attempt, r.resume, x.filteredFor(r, k))
	if err == nil {
		x.bridge.ShowsURLs(r.Client, r.Server, r.Sole, reply)
	}
	return r.present(ctx, reply, err), err
}

// filteredFor returns the caller of a request that goes to a server.
func (x runner) filteredFor(r *route, k mcp.Caller) mcp.Caller {
	r.filtered = filteredCaller{k, noteFilter{x.bridge, r.Client, r.Sole}, &r.Attempt}
	return &r.filtered
}

// present prepares an answer for a client of Merged; see catalog.View.Present.
func (r *route) present(ctx context.Context, reply *mcp.Reply, err error) *mcp.Reply {
	if err != nil || r.Sole {
		return reply
	}
	for _, u := range r.all {
		if r.server == nil && u.Name() == r.Server {
			r.server = u // the bridge found the server of the task
		}
	}
	if r.server == nil {
		return reply
	}
	return r.view.Present(ctx, r.server, r.Call, reply)
}

// listen answers subscriptions/listen. It returns when the subscription has ended.
func (x runner) listen(ctx context.Context, r *route, k mcp.Caller) (*mcp.Reply, error) {
	leave, err := x.notices.admit(x.listens, r.Call)
	if err != nil {
		return nil, err
	}
	defer leave()
	r.signer = x.signer
	if !r.Sole {
		defer r.view.Listen()()
	}
	return x.notices.listen(ctx, x.bridge, r, k)
}

// ownPage answers a list request with a page from the server. It leaves out the items that the
// client may not see.
func (x runner) ownPage(ctx context.Context, r *route, k mcp.Caller) (*mcp.Reply, error) {
	reply, err := x.bridge.Exchange(ctx, r.server, &r.Attempt, r.resume, x.filteredFor(r, k))
	if x.signer.CanSignIn(r.Server) {
		if own := x.signInPage(r, reply, err); own != nil {
			return own, nil
		}
	}
	if err != nil {
		return nil, err
	}
	e := catalog.PageEdit{Server: r.server.Name(), Show: r.show, Vet: r.vet, Renames: r.renames}
	if r.show == nil {
		e.Lost = func(name, why string) { x.bridge.ReportLoss(e.Server, r.Msg.Method, catalog.LeftOut(name, why)) }
	}
	if r.Msg.Method == mcp.MethodListTools && r.Client.Revision.Can(mcp.ExperimentalTasks) && reply.From.Can(mcp.TasksExtension) {
		e.OfferTasks = r.server.Tasks(ctx, r.Client) == mcp.DirectedTasks
	}
	catalog.EditPage(r.Call, reply, e)
	return reply, nil
}

// setLevel sends the log level to every server that supports logging. A server that does
// not answer delays the client for at most two seconds.
func setLevel(ctx context.Context, c *mcp.Call, all []Upstream) (*mcp.Reply, error) {
	if s, ok := jsonrpc.Text(c.Msg.Raw, c.Msg.Param("level")); !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.level must be a string"}
	} else if _, ok := mcp.ParseLogLevel(s); !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params.level must be a log level, such as info"}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var wait sync.WaitGroup
	for _, u := range all {
		wait.Go(func() { _, _ = u.SetLevel(ctx, c) })
	}
	wait.Wait()
	return mcp.Answer([]byte("{}")), nil
}
