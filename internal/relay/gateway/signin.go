package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
	"github.com/dragoman-mcp/dragoman/internal/relay/catalog"
)

// This file is about calls for which somebody has to sign in to the server first. Such a call has failed
// before the server executed it: its credentials are missing, or the server has refused them. So the
// person is asked to open a link, in the way in which their client can show one, and when they have
// signed in, the call is sent (again).

// Signer signs people in to servers. It is safe for concurrent use.
type Signer interface {
	// CanSignIn reports whether people can sign in to a server. It must not block.
	CanSignIn(server string) bool
	// SignedIn reports whether a principal has a credential for a server, as far as this process knows. It must
	// not block.
	SignedIn(who *identity.Principal, server string) bool
	// SignIn begins to sign a principal in to a server, or joins the sign-in that is under way for the same
	// credentials. It doesn't wait for the person. If the principal has signed in meanwhile, Done is closed.
	// The error says why nobody can be asked, and the client gets what it says as a failure.Source.
	SignIn(ctx context.Context, who *identity.Principal, server string) (*SigningIn, error)
}

// SigningIn is a sign-in that a person has to complete.
type SigningIn struct {
	Link    string        // what the person has to open in a browser
	Expires time.Time     // when the link ends
	Hold    time.Duration // how long a call waits for the person; 0 means 50 s
	Done    <-chan struct{}
	// Err says why the person is not signed in. It is called after Done is closed.
	Err func() error
	// Browse opens the link in a browser on this machine, once, however often it is called. It is nil if
	// there is none, or if the person may sit elsewhere.
	Browse func()
}

// id is short, because clients carry it.
func (a *SigningIn) id() string {
	sum := sha256.Sum256([]byte(a.Link))
	return string(sum[:16])
}

func (a *SigningIn) browse() {
	if a.Browse != nil {
		a.Browse()
	}
}

// SignIn asks people to sign in. All gateways of a project share one.
type SignIn struct {
	Signer Signer
	// AtHandshake begins a sign-in when a client that has one server connects, and not only when it calls
	// something: Dragoman then runs for this client alone, and can open a browser.
	AtHandshake bool
	// Info is the Implementation object of Dragoman, for clients of a server that can't say who it is yet.
	Info []byte
	// Signed is called after a person has signed in. scope is the credential scope at the server. It may
	// be called more than once. If it is nil, only the server learns of it.
	Signed func(server, scope string)

	mu       sync.Mutex
	declined map[signInKey]time.Time           // who doesn't want to be asked until then
	asked    map[string]shown                  // the links that clients have got, by SigningIn.id
	handed   map[signInKey]bool                // who has got a list with nothing but the tool sign_in
	greeted  map[uint64]mcp.SubscriptionFilter // the lists of whose changes a conversation was told that it hears
}

// shown is a link that clients have got.
type shown struct {
	last time.Time // when the last client got it; zero if that one has given up
	*SigningIn
}

// signInKey identifies a person and a server.
type signInKey struct{ server, subject string }

// These constants are the times of the ask.
const (
	defaultHold  = 50 * time.Second // clients wait for a call for 60 s or longer
	waitProgress = 10 * time.Second // between two notifications about a call that waits
	declinedFor  = 5 * time.Minute  // how long nobody is asked again
	helloLimit   = 8 * time.Second  // how long a handshake waits for a person; some clients give up after 10 s
	maxSignIns   = 1000             // in each of the maps of a SignIn but greeted
	maxGreeted   = 1 << 14
)

// stepSignIn is the name of the question in a requestState; see policy.Ask.
const stepSignIn = "sign_in"

// needed returns the error of a call that was not executed because somebody has to sign in first, or
// nil.
func (s *SignIn) needed(err error) *mcp.Error {
	if s == nil || err == nil {
		return nil // before e, which is on the heap
	}
	var e *mcp.Error
	if !errors.As(err, &e) || e.Failure == nil || e.Failure.Class != failure.NeedsSignIn || e.Outcome != mcp.NotSent || !s.Signer.CanSignIn(e.Upstream) {
		return nil
	}
	return e
}

// CanSignIn reports whether people can sign in to a server. s may be nil.
func (s *SignIn) CanSignIn(server string) bool { return s != nil && s.Signer.CanSignIn(server) }

// signed tells the server, and those who want to know, that the client's person has signed in.
func (s *SignIn) signed(u Upstream, f *mcp.ClientInfo) {
	scope := u.Scope(f)
	u.Renewed(scope)
	if s.Signed != nil {
		s.Signed(u.Name(), scope)
	}
}

func keyOf(server string, f *mcp.ClientInfo) signInKey { return signInKey{server, f.Who.Key()} }

// decline remembers that a person doesn't want to sign in.
func (s *SignIn) decline(key signInKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.declined = put(s.declined, key, time.Now().Add(declinedFor))
}

func (s *SignIn) hasDeclined(key signInKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.declined[key])
}

// first reports whether the call is the first to show a link, or those before it have had time enough. The
// others wait, so that five calls at once don't ask five times.
func (s *SignIn) first(a *SigningIn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked[a.id()].last) < a.hold() {
		return false
	}
	s.asked = put(s.asked, a.id(), shown{time.Now(), a})
	return true
}

// unasked forgets that a link was shown, because the client has given up. The next call shows it again.
func (s *SignIn) unasked(a *SigningIn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[a.id()] = shown{SigningIn: a}
}

// failed returns why a sign-in has failed since its link was shown, or nil.
func (s *SignIn) failed(id string) error {
	s.mu.Lock()
	a := s.asked[id].SigningIn
	s.mu.Unlock()
	if a == nil || !a.over() {
		return nil
	}
	return a.Err()
}

// hand remembers whether a client's list of tools has nothing but the tool sign_in.
func (s *SignIn) hand(key signInKey, handed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !handed {
		delete(s.handed, key)
		return
	}
	s.handed = put(s.handed, key, true)
}

func (s *SignIn) hasHanded(key signInKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handed[key]
}

// put stores a value in a map of at most maxSignIns entries, and returns the map.
func put[K comparable, V any](m map[K]V, key K, v V) map[K]V { return putIn(m, maxSignIns, key, v) }

func putIn[K comparable, V any](m map[K]V, size int, key K, v V) map[K]V {
	if m == nil || len(m) >= size {
		m = make(map[K]V)
	}
	m[key] = v
	return m
}

// greets remembers which lists a legacy client was told to hear of. It must not hear of others.
func (s *SignIn) greets(f *mcp.ClientInfo, h *mcp.ServerInfo) {
	if s == nil || h == nil || f == nil || f.Conversation == 0 || !f.Revision.Legacy() {
		return
	}
	changes := func(list string) bool {
		return jsonrpc.ValueOf(h.Capabilities).Get(list, "listChanged").Kind() == 't'
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeted = putIn(s.greeted, maxGreeted, f.Conversation, mcp.SubscriptionFilter{Tools: changes("tools"), Prompts: changes("prompts"), Resources: changes("resources")})
}

// hears returns what greets has remembered. s may be nil.
func (s *SignIn) hears(f *mcp.ClientInfo) mcp.SubscriptionFilter {
	if s == nil {
		return mcp.SubscriptionFilter{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.greeted[f.Conversation]
}

func (a *SigningIn) hold() time.Duration {
	if a.Hold <= 0 {
		return defaultHold
	}
	return a.Hold
}

// over reports whether the sign-in has ended.
func (a *SigningIn) over() bool {
	select {
	case <-a.Done:
		return true
	default:
		return false
	}
}

// signIn is the sign-in for one call.
type signIn struct {
	runner
	*SigningIn
	route  *route
	caller mcp.Caller
	ticks  int // number of notifications of progress
}

// signedRun runs a route. If somebody has to sign in first, it asks them, and runs the route again.
func (x runner) signedRun(ctx context.Context, r *route, k mcp.Caller) (reply *mcp.Reply, err error) {
	for i := range 2 {
		if reply, err = x.runOrSignIn(ctx, r, k); x.signer.needed(err) == nil || r.server == nil {
			if i == 0 && r.server != nil && r.answered(stepSignIn) != nil {
				x.signer.signed(r.server, r.Client) // the person was done before the client's retry came
			}
			return reply, err
		}
		if reply, err = x.askSignIn(ctx, r, k); reply != nil || err != nil {
			return reply, err
		}
		if r.unfound != nil {
			return nil, errSignedIn
		}
		if r.signsIn {
			return signedInReply(r), nil
		}
	}
	return x.run(ctx, r, k)
}

// errSignedIn means that the name of the item may be found now, since somebody has signed in.
var errSignedIn = errors.New("somebody has signed in")

// runOrSignIn runs a route, unless it's known that somebody has to sign in first.
func (x runner) runOrSignIn(ctx context.Context, r *route, k mcp.Caller) (*mcp.Reply, error) {
	switch {
	case r.unfound != nil:
		return nil, r.unfound
	case r.signsIn:
		return nil, signInError(r.Server, nil)
	}
	return x.run(ctx, r, k)
}

// signInError returns the error that somebody has to sign in, and the reason why nobody can, if there is
// one.
func signInError(server string, why error) *mcp.Error {
	f := failure.Of(why, failure.Facts{Class: failure.NeedsSignIn, Server: server, Cause: "auth_required"})
	return &mcp.Error{Origin: mcp.FromGateway, Upstream: server, Cause: "auth_required", Outcome: mcp.NotSent, Failure: f, Message: f.Text(), Err: why}
}

// askSignIn asks the person behind a call to sign in. With neither a reply nor an error, they have done so.
func (x runner) askSignIn(ctx context.Context, r *route, k mcp.Caller) (*mcp.Reply, error) {
	key := keyOf(r.Server, r.Client)
	last := r.answered(stepSignIn)
	switch {
	case last.Action() == "decline", last.Action() == "cancel":
		x.signer.decline(key)
		return r.refuse(declinedText(r.Server))
	case x.signer.hasDeclined(key):
		return r.refuse(declinedText(r.Server))
	}
	if last != nil {
		_, id := promised(last.State)
		if why := x.signer.failed(id); why != nil {
			return r.refuse(signInError(r.Server, why).Message)
		}
	}
	a, err := x.signer.Signer.SignIn(ctx, r.Client.Who, r.Server)
	if err != nil {
		e := signInError(r.Server, err)
		if r.Msg.Method == mcp.MethodCallTool {
			return r.refuse(e.Message)
		}
		return nil, e
	}
	s := &signIn{runner: x, SigningIn: a, route: r, caller: k}
	url := (&mcp.Question{URL: a.Link}).CanReach(r.Client) && r.Method != nil && r.Method.MayAsk
	switch {
	case a.over():
		return s.ended()
	case last == nil && !url:
		a.browse() // a client that can show the link opens it; two tabs would be one too many
		return s.tell()
	case bridge.MayDefer(r.Call):
		return s.deferred(ctx, last)
	}
	return s.live(ctx)
}

// deferred asks a modern client. Its retry comes as soon as the person agrees to open the link, mostly long
// before they have signed in. So the retry waits, and if that takes too long, the client gets a state without
// a question, and comes back.
func (s *signIn) deferred(ctx context.Context, last *mcp.Answered) (*mcp.Reply, error) {
	asked := last != nil && len(last.Result) > 0
	if asked {
		if expiry, _ := promised(last.State); time.Now().Unix() > expiry {
			return s.route.refuse(fmt.Sprintf("nobody signed in to %s in time; call again to get another link", s.route.Server))
		}
	}
	open := mcp.Answered{Step: stepSignIn, State: append(binary.BigEndian.AppendUint64(nil, uint64(s.Expires.Unix())), s.id()...)}
	q := bridge.Asking{Question: s.question(""), Passed: len(s.policy), Unfound: s.route.unfound != nil}
	q.Answers = append(s.route.answersBut(stepSignIn), open)
	if !asked && s.signer.first(s.SigningIn) {
		_, reply, err := s.bridge.Ask(ctx, s.route.server, &s.route.Attempt, q, s.caller)
		return reply, err
	}
	switch done, err := s.wait(ctx, s.hold(), nil); {
	case err != nil:
		return nil, err
	case done:
		return s.ended()
	}
	if last != nil {
		q.Answers[len(q.Answers)-1] = *last
	}
	return s.bridge.Defer(s.route.server, &s.route.Attempt, q)
}

// promised returns when the link ends that a client has got, and its SigningIn.id, from the state of its retry.
func promised(state []byte) (expiry int64, id string) {
	if len(state) < 8 {
		return 0, ""
	}
	return int64(binary.BigEndian.Uint64(state)), string(state[8:])
}

// errNotAccepted is the error of a question that the person didn't agree to.
var errNotAccepted = errors.New("the person doesn't want to sign in")

// live asks a legacy client while its call waits. If the client has a progress token, the call waits as long
// as the link lives. Otherwise, the client would give up sooner, so it gets the link as the result in time.
func (s *signIn) live(ctx context.Context) (*mcp.Reply, error) {
	limit, first := s.hold(), s.signer.first(s.SigningIn)
	if first && !s.route.Token.IsZero() {
		limit = time.Until(s.Expires)
	}
	id, answer := rand.Text(), make(chan error, 1)
	asking, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	if first {
		running.Go(func() { s.askLive(asking, id, answer) })
	}
	done, err := s.wait(ctx, limit, answer)
	if first && !done {
		s.signer.unasked(s.SigningIn)
	}
	switch {
	case done && first:
		s.caller.Notify(mcp.NewNote(mcp.NoteElicitComplete, append(jsonrpc.AppendQuote([]byte(`{"elicitationId":`), id), '}')))
		return s.ended()
	case done:
		return s.ended()
	case errors.Is(err, errNotAccepted):
		s.signer.decline(keyOf(s.route.Server, s.route.Client))
		return s.route.refuse(declinedText(s.route.Server))
	case err != nil:
		return nil, err
	}
	return s.tell()
}

// askLive shows the link. It sends to answer if the person or the client does not accept it: an error, or
// nil if the client could not show it.
func (s *signIn) askLive(ctx context.Context, id string, answer chan<- error) {
	q := bridge.Asking{Question: s.question(id), Answers: []mcp.Answered{{Step: stepSignIn}}}
	result, _, err := s.bridge.Ask(ctx, s.route.server, &s.route.Attempt, q, s.caller)
	switch {
	case err != nil:
		answer <- nil
	case (&mcp.Answered{Result: result}).Action() != "accept":
		answer <- errNotAccepted
	}
}

// wait waits until the sign-in has ended. It gives up after limit, or with what answer contains.
func (s *signIn) wait(ctx context.Context, limit time.Duration, answer <-chan error) (done bool, err error) {
	late, tick := time.NewTimer(limit), time.NewTicker(waitProgress)
	defer late.Stop()
	defer tick.Stop()
	for {
		select {
		case <-s.Done:
			return true, nil
		case err := <-answer:
			return false, err
		case <-tick.C:
			s.tellProgress()
		case <-late.C:
			return false, nil
		case <-ctx.Done():
			return false, &mcp.Error{
				Origin: mcp.FromClient, Upstream: s.route.Server, Cause: "cancelled", Outcome: mcp.NotSent, Err: context.Cause(ctx),
				Message: "the request ended before anybody had signed in",
			}
		}
	}
}

// tellProgress sends a notification, so that the client doesn't give up. Its value is small, because those of
// the server have to be larger.
func (s *signIn) tellProgress() {
	if s.route.Token.IsZero() {
		return
	}
	s.ticks++
	value := float64(s.ticks) / 1000
	s.route.Progress = &value
	params := append([]byte(`{"progressToken":`), s.route.Token.Of(s.route.Msg.Raw)...)
	params = strconv.AppendFloat(append(params, `,"progress":`...), value, 'f', -1, 64)
	if s.route.Client.Revision.Can(mcp.ProgressMessages) {
		params = jsonrpc.AppendQuote(append(params, `,"message":`...), "waiting for you to sign in to "+s.route.Server)
	}
	s.caller.Notify(mcp.NewNote(mcp.NoteProgress, append(params, '}')))
}

// ended returns nothing if the person is signed in, and else the client's answer.
func (s *signIn) ended() (*mcp.Reply, error) {
	if err := s.Err(); err != nil {
		return s.route.refuse(signInError(s.route.Server, err).Message)
	}
	s.signer.signed(s.route.server, s.route.Client)
	return nil, nil
}

func (s *signIn) question(id string) *mcp.Question {
	return &mcp.Question{Message: fmt.Sprintf("Sign in to %s, so that your call can go on.", s.route.Server), URL: s.Link, ID: id}
}

// tell returns the link as the answer to the call.
func (s *signIn) tell() (*mcp.Reply, error) {
	minutes := max(1, int(time.Until(s.Expires).Round(time.Minute)/time.Minute))
	text := fmt.Sprintf("%s needs you to sign in. Open %s within %d minutes, then call again.", s.route.Server, s.Link, minutes)
	data := jsonrpc.AppendQuote([]byte(`{"server":`), s.route.Server)
	data = jsonrpc.AppendQuote(append(data, `,"link":`...), s.Link)
	data = append(jsonrpc.AppendQuote(append(data, `,"expires":`...), s.Expires.UTC().Format(time.RFC3339)), '}')
	if s.route.toolResult() {
		return toolError(text, append(append([]byte(`,"_meta":{"`+mcp.KeySignIn+`":`), data...), '}')), nil
	}
	e := signInError(s.route.Server, nil)
	e.Message, e.Data = text, data
	return nil, e
}

func declinedText(server string) string {
	return fmt.Sprintf("sign-in to %s was declined; nobody is asked again for %d minutes", server, declinedFor/time.Minute)
}

// toolResult reports whether the answer to the call is the result of a tool.
func (r *route) toolResult() bool {
	return r.Msg.Method == mcp.MethodCallTool && r.Msg.Param("task").IsZero()
}

// refuse returns the answer to a call that is not sent.
func (r *route) refuse(why string) (*mcp.Reply, error) {
	if r.toolResult() {
		return toolError(why, nil), nil
	}
	e := signInError(r.Server, nil)
	e.Message = why
	return nil, e
}

// toolError returns the result of a tool that has failed. more are further members of the result.
func toolError(text string, more []byte) *mcp.Reply {
	return mcp.Answer(append(append(textResult(text), `,"isError":true`...), append(more, '}')...))
}

// textResult returns the beginning of the result of a tool.
func textResult(text string) []byte {
	return append(jsonrpc.AppendQuote([]byte(`{"content":[{"type":"text","text":`), text), "}]"...)
}

// signedInReply is the result of the tool sign_in.
func signedInReply(r *route) *mcp.Reply {
	return mcp.Answer(append(textResult(fmt.Sprintf("You are signed in to %s. List its tools again to use them.", r.Server)), '}'))
}

// answered returns the answer to the question of a step that a retry brings, or nil.
func (r *route) answered(step string) *mcp.Answered {
	for i := len(r.answers) - 1; i >= 0; i-- {
		if r.answers[i].Step == step {
			return &r.answers[i]
		}
	}
	return nil
}

// answersBut returns the answers to the questions of all other steps.
func (r *route) answersBut(step string) (all []mcp.Answered) {
	for _, a := range r.answers {
		if a.Step != step {
			all = append(all, a)
		}
	}
	return all
}

// signInPage returns a client's list of a server that can't be listed before somebody has signed in: that of
// the tools contains the tool with which they do, and the others are empty. It returns nil for a list that the
// server has answered, except one of a capability that the server turns out not to have: the client was
// told that there are all of them before anybody knew; see helloBefore.
func (x runner) signInPage(r *route, reply *mcp.Reply, err error) *mcp.Reply {
	key, tools := keyOf(r.Server, r.Client), r.Msg.Method == mcp.MethodListTools
	list := append(jsonrpc.AppendQuote([]byte{'{'}, r.Method.ListKey), ":["...)
	switch {
	case x.signer.needed(err) != nil && tools:
		x.signer.hand(key, true)
		list = append(list, catalog.SignInTool(catalog.SignIn, r.Server)...)
	case x.signer.needed(err) != nil:
	case err != nil:
		return nil
	case reply.Code() == jsonrpc.CodeMethodNotFound:
		x.bridge.ReportLoss(r.Server, r.Msg.Method, "the server does not have this list, which clients were told before somebody had signed in; it is empty")
	default:
		if tools {
			x.signer.hand(key, false)
		}
		return nil
	}
	return mcp.Answer(append(list, "]}"...))
}

// greet returns the server information for a client of a server for which somebody has to sign in first. began
// is when the client's request came. If the person isn't done in time, the client gets what is known from an
// earlier handshake, or else that there may be everything.
func (g *Single) greet(ctx context.Context, f *mcp.ClientInfo, began time.Time, why error) (*mcp.ServerInfo, error) {
	if g.SignIn.AtHandshake {
		wait, stop := context.WithDeadline(ctx, began.Add(helloLimit)) // an issuer may be slow, too
		defer stop()
		if a, err := g.SignIn.Signer.SignIn(wait, f.Who, g.Upstream.Name()); err == nil {
			a.browse()
			select {
			case <-a.Done:
				g.SignIn.signed(g.Upstream, f)
				if h, err := g.Upstream.Hello(ctx, f); g.SignIn.needed(err) == nil {
					return h, err
				}
			case <-wait.Done():
			}
		}
		if ctx.Err() != nil {
			return nil, why
		}
	}
	h := g.known.get(g.Upstream.Scope(f), g.Kept)
	if h == nil {
		h = &mcp.ServerInfo{Info: g.SignIn.Info, Instructions: []byte(`""`)}
	}
	return helloBefore(h), nil
}

// knownHellos is the server information from earlier handshakes, by credential scope. The zero value is ready
// to use.
type knownHellos struct {
	mu  sync.Mutex
	all map[string]*mcp.ServerInfo
}

// get returns what is known, from this process or, for the scope "", from an earlier one. kept may be nil.
func (k *knownHellos) get(scope string, kept catalog.Keeper) *mcp.ServerInfo {
	k.mu.Lock()
	h := k.all[scope]
	k.mu.Unlock()
	if h != nil || scope != "" || kept == nil {
		return h
	}
	items, read := kept.Recall(keptHello)
	if read.IsZero() || len(items) != 1 {
		return nil
	}
	v := jsonrpc.ValueOf(items[0])
	return &mcp.ServerInfo{Info: v.Get("info").Raw(), Capabilities: v.Get("capabilities").Raw(), Instructions: v.Get("instructions").Raw()}
}

func (k *knownHellos) set(scope string, h *mcp.ServerInfo, kept catalog.Keeper) {
	k.mu.Lock()
	k.all = put(k.all, scope, h)
	k.mu.Unlock()
	if scope != "" || kept == nil || h.Info == nil || h.Capabilities == nil {
		return
	}
	out := append(append([]byte(`{"info":`), h.Info...), `,"capabilities":`...)
	out = append(append(out, h.Capabilities...), `,"instructions":`...)
	if h.Instructions == nil {
		out = append(out, `""`...)
	}
	kept.Keep(keptHello, [][]byte{append(append(out, h.Instructions...), '}')}, time.Now())
}

// keptHello is the name under which server information is kept.
const keptHello = "hello"

// helloBefore returns server information, of an earlier handshake or made by us, for a client of a server that
// can't say yet what it has. The client can't be told later, so it's told that there may be everything, and
// that it hears of it.
func helloBefore(h *mcp.ServerInfo) *mcp.ServerInfo {
	out, caps := *h, h.Capabilities
	if jsonrpc.ValueOf(caps).Kind() != '{' {
		caps = []byte("{}")
	}
	var set []jsonrpc.Field
	for _, list := range []string{"prompts", "resources", "tools"} {
		have := jsonrpc.Find(caps, jsonrpc.Whole(caps), list).Of(caps)
		if jsonrpc.ValueOf(have).Kind() != '{' {
			have = []byte("{}")
		}
		var e jsonrpc.Edits
		e.Object(mcp.WhyCapabilities, have, jsonrpc.Whole(have), nil, jsonrpc.Field{Key: "listChanged", Value: []byte("true")})
		set = append(set, jsonrpc.Field{Key: list, Value: jsonrpc.Splice(nil, have, &e)})
	}
	var e jsonrpc.Edits
	e.Object(mcp.WhyCapabilities, caps, jsonrpc.Whole(caps), nil, set...)
	out.Capabilities, out.Raw = jsonrpc.Splice(nil, caps, &e), nil
	return &out
}
