package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
	"github.com/dragoman-mcp/dragoman/internal/relay/bridge"
)

// porter signs everybody in with one link after the other.
type porter struct {
	refuse error // what SignIn returns
	slow   bool  // SignIn finds no issuer in time
	wrong  error // why the person is not signed in at the end

	mu      sync.Mutex
	in      bool // the person has a credential
	began   int
	browsed int // how often a browser was opened for a link
	flow    *SigningIn
	done    chan struct{}
}

func (p *porter) CanSignIn(string) bool { return true }

func (p *porter) SignedIn(*identity.Principal, string) bool { return p.signedIn() }

func (p *porter) SignIn(ctx context.Context, _ *identity.Principal, _ string) (*SigningIn, error) {
	if p.slow {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return nil, p.refuse
	}
	if p.flow == nil || time.Now().After(p.flow.Expires) {
		p.began++
		p.done = make(chan struct{})
		p.flow = &SigningIn{Link: fmt.Sprintf("https://i.example/%d", p.began), Expires: time.Now().Add(10 * time.Minute), Done: p.done, Err: func() error { return p.wrong }, Browse: p.browse}
	}
	return p.flow, nil
}

func (p *porter) browse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.browsed++
}

// finish is what the person does with the link.
func (p *porter) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.in = p.wrong == nil
	p.flow = nil
	close(p.done)
}

func (p *porter) signedIn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.in
}

// refusal is the error of a server that wants a sign-in, unless the person has signed in.
func (p *porter) refusal() error {
	if p.signedIn() {
		return nil
	}
	return signInError("u", nil)
}

// guardedBy returns a gateway for a server that answers only those who are signed in.
func guardedBy(p *porter) (*fake, *Single) {
	u := &fake{name: "u", hello: mcp.ServerInfo{Revision: mcp.R20251125, Capabilities: []byte(`{"tools":{}}`)}, greet: p.refusal}
	var ran atomic.Int64
	u.call = func(context.Context, *mcp.Attempt, mcp.Caller) (*mcp.Reply, error) {
		if err := p.refusal(); err != nil {
			return nil, err
		}
		return resultReply(mcp.R20251125, fmt.Sprintf(`{"ran":%d}`, ran.Add(1))), nil
	}
	return u, &Single{Bridge: &bridge.Bridge{}, Upstream: u, SignIn: &SignIn{Signer: p, Info: []byte(`{"name":"d","version":"1"}`)}}
}

const (
	opensLinks = `{"elicitation":{"form":{},"url":{}}}`
	withToken  = `,"_meta":{"progressToken":"p"}`
)

// ask sends a request and returns what its client gets, and how long it took.
func ask(t *testing.T, g *Single, f *mcp.ClientInfo, k mcp.Caller, method, params string) (got string, took time.Duration) {
	t.Helper()
	began := time.Now()
	got = request(t.Context(), t, g, f, k, method, params)
	return got, time.Since(began)
}

// request sends a request and returns what its client gets.
func request(ctx context.Context, t *testing.T, g *Single, f *mcp.ClientInfo, k mcp.Caller, method, params string) string {
	m, err := jsonrpc.Scan([]byte(`{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":`+params+`}`), jsonrpc.Limits{})
	if err != nil {
		t.Error(err)
		return ""
	}
	reply, err := g.Call(ctx, mcp.NewCall(m, m.Param(mcp.KeyMeta), f), k)
	if err != nil {
		w := mcp.Wire(err)
		return fmt.Sprintf("%d %s %s", w.Code, w.Message, w.Data)
	}
	return string(reply.Msg.Raw)
}

// answering returns a caller whose person answers a question after a while.
func answering(action string, after time.Duration) *recordingCaller {
	k := &recordingCaller{}
	k.ask = func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
		k.Notify(&mcp.Note{Msg: m})
		select {
		case <-time.After(after):
			return jsonrpc.NewResult(m.ID, []byte(`{"action":"`+action+`"}`)), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return k
}

func count(all []string, part string) (n int) {
	for _, s := range all {
		n += strings.Count(s, part)
	}
	return n
}

// TestCallWaitsForTheLegacyPerson holds the call of a client that can be asked: with a progress token as long
// as the link lives, and without one as long as clients bear. Then the client gets the link.
func TestCallWaitsForTheLegacyPerson(t *testing.T) {
	f := &mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(opensLinks), Conversation: 1}
	for _, tt := range []struct {
		name, meta   string
		action       string
		answer, done time.Duration // when the person answers the question, and when they have signed in; 0 for never
		want         string
		took         time.Duration
		progress     int
		complete     int
	}{
		{"with a token", withToken, "accept", time.Second, 5*time.Minute + 5*time.Second, `"ran":1`, 5*time.Minute + 5*time.Second, 30, 1},
		{"before the answer", withToken, "accept", time.Hour, 15 * time.Second, `"ran":1`, 15 * time.Second, 1, 1},
		{"never", withToken, "accept", time.Second, 0, `"isError":true`, 10 * time.Minute, 59, 0},
		{"without a token", "", "accept", time.Second, 30 * time.Second, `"ran":1`, 30 * time.Second, 0, 1},
		{"too late", "", "accept", time.Second, 0, "Open https://i.example/1 within 9 minutes", 50 * time.Second, 0, 0},
		{"declined", withToken, "decline", 12 * time.Second, 0, "was declined", 12 * time.Second, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &porter{}
				u, g := guardedBy(p)
				defer g.Bridge.Close()
				if tt.done > 0 {
					time.AfterFunc(tt.done, p.finish)
				}
				k := answering(tt.action, tt.answer)
				got, took := ask(t, g, f, k, mcp.MethodCallTool, `{"name":"t"`+tt.meta+`}`)
				heard := k.all()
				if !strings.Contains(got, tt.want) || took.Round(time.Second) != tt.took {
					t.Errorf("after %v: %s", took, got)
				}
				if n := count(heard, mcp.NoteProgress); n < tt.progress || n > tt.progress+1 {
					t.Errorf("%d notifications of progress", n)
				}
				if count(heard, `"mode":"url"`) != 1 || count(heard, "elicitationId") != 1+tt.complete || count(heard, mcp.NoteElicitComplete) != tt.complete {
					t.Errorf("the client heard %q", heard)
				}
				if n := len(u.seen.all()); tt.want == `"ran":1` && n != 2 || n > 2 {
					t.Errorf("the server got %d calls", n)
				}
			})
		})
	}
}

// TestCallWaitsForTheModernPerson follows a modern client from round to round. Its second retry asks nobody,
// each state is good for one use, and when the link has ended, so has the call.
func TestCallWaitsForTheModernPerson(t *testing.T) {
	f := &mcp.ClientInfo{Revision: mcp.R20260728, Capabilities: []byte(opensLinks)}
	state := func(got string) string {
		_, text, _ := strings.Cut(got, `"requestState":`)
		text, _, _ = strings.Cut(text, `}`)
		return text
	}
	for _, done := range []time.Duration{70 * time.Second, 0} {
		synctest.Test(t, func(t *testing.T) {
			p := &porter{}
			u, g := guardedBy(p)
			defer g.Bridge.Close()
			if done > 0 {
				time.AfterFunc(done, p.finish)
			}
			began, k := time.Now(), &recordingCaller{}
			got, _ := ask(t, g, f, k, mcp.MethodCallTool, `{"name":"t"`+withToken+`}`)
			if !strings.Contains(got, `"mode":"url"`) || !strings.Contains(got, `https://i.example/1`) || strings.Contains(got, "elicitationId") {
				t.Fatalf("first: %s", got)
			}
			used := state(got)
			answer := `,"inputResponses":{"user_sign_in":{"action":"accept"}}`
			for round := 0; ; round++ {
				retry := `{"name":"t","requestState":` + used + answer + withToken + `}`
				var took time.Duration
				got, took = ask(t, g, f, k, mcp.MethodCallTool, retry)
				if again, _ := ask(t, g, f, k, mcp.MethodCallTool, retry); !strings.Contains(again, "state_used") {
					t.Errorf("the same retry again: %s", again)
				}
				if !strings.Contains(got, "input_required") {
					break
				}
				if took != 50*time.Second || strings.Contains(got, "inputRequests") {
					t.Fatalf("round %d took %v: %s", round, took, got)
				}
				used, answer = state(got), ""
			}
			switch took := time.Since(began); {
			case done > 0 && (!strings.Contains(got, `"ran":1`) || took != done):
				t.Errorf("after %v: %s", took, got)
			case done == 0 && (!strings.Contains(got, "nobody signed in to u in time") || took < 10*time.Minute || took > 11*time.Minute):
				t.Errorf("after %v: %s", took, got)
			}
			if n := count(k.all(), mcp.NoteProgress); n < 5 {
				t.Errorf("%d notifications of progress", n)
			}
			if got := u.seen.all(); done > 0 && strings.Contains(got[len(got)-1], "requestState") {
				t.Errorf("the server got %s", got[len(got)-1])
			}
		})
	}
}

// TestDoneBeforeTheRetry signs a person in before the retry of their modern client comes. The call goes on at once, and
// who waits for it still hears of the sign-in, once.
func TestDoneBeforeTheRetry(t *testing.T) {
	f := &mcp.ClientInfo{Revision: mcp.R20260728, Capabilities: []byte(opensLinks)}
	for _, finish := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p, heard := &porter{}, 0
			_, g := guardedBy(p)
			defer g.Bridge.Close()
			g.SignIn.Signed = func(string, string) { heard++ }
			first, _ := ask(t, g, f, &recordingCaller{}, mcp.MethodCallTool, `{"name":"t"}`)
			_, state, _ := strings.Cut(first, `"requestState":`)
			state, _, _ = strings.Cut(state, `}`)
			if finish {
				p.finish()
			} else {
				time.AfterFunc(time.Second, p.finish)
			}
			got, _ := ask(t, g, f, &recordingCaller{}, mcp.MethodCallTool, `{"name":"t","requestState":`+state+`,"inputResponses":{"user_sign_in":{"action":"accept"}}}`)
			if !strings.Contains(got, `"ran":1`) || heard != 1 {
				t.Errorf("done before the retry: %t: they heard of the sign-in %d times; the client got %s", finish, heard, got)
			}
		})
	}
}

// TestFiveCallsAskOnce lets five calls of one client of each era need a sign-in at once.
func TestFiveCallsAskOnce(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.R20251125, mcp.R20260728} {
		synctest.Test(t, func(t *testing.T) {
			p := &porter{}
			u, g := guardedBy(p)
			defer g.Bridge.Close()
			k := answering("accept", time.Second)
			time.AfterFunc(40*time.Second, p.finish)
			var all sync.WaitGroup
			var mu sync.Mutex
			var asked, ran int
			for i := range 5 {
				f := &mcp.ClientInfo{Revision: r, Capabilities: []byte(opensLinks), Conversation: 1}
				all.Go(func() {
					got, _ := ask(t, g, f, k, mcp.MethodCallTool, fmt.Sprintf(`{"name":"t","arguments":{"i":%d}%s}`, i, withToken))
					mu.Lock()
					defer mu.Unlock()
					asked += strings.Count(got, "inputRequests")
					ran += strings.Count(got, `"ran":`)
				})
			}
			all.Wait()
			asked += count(k.all(), `"mode":"url"`)
			if want := map[bool]int{true: 5, false: 4}[r.Legacy()]; asked != 1 || ran != want || p.began != 1 {
				t.Errorf("%v: asked %d times, %d calls ran, %d sign-ins began; the server got %d calls", r, asked, ran, p.began, len(u.seen.all()))
			}
		})
	}
}

// TestEachClientIsShownTheLink restarts a person's client, or cancels its call, while that waits for the person to
// sign in. Another client, and the next call of the same one, show the same link at once, also if they have been
// waiting for some time.
func TestEachClientIsShownTheLink(t *testing.T) {
	legacy := func(n uint64) *mcp.ClientInfo {
		return &mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(opensLinks), Conversation: n}
	}
	modern := func(name string) *mcp.ClientInfo {
		return &mcp.ClientInfo{Revision: mcp.R20260728, Capabilities: []byte(opensLinks), Info: []byte(`{"name":"` + name + `"}`)}
	}
	for _, tt := range []struct {
		name          string
		first, second *mcp.ClientInfo
		gone, comes   time.Duration // when the first client's call ends, and when the second call comes
		asked         time.Duration // when the second call asks
	}{
		{"another session", legacy(1), legacy(2), time.Hour, 3 * time.Second, 3 * time.Second},
		{"another client without a session", modern("a"), modern("b"), time.Hour, 3 * time.Second, 3 * time.Second},
		{"the same session, cancelled before", legacy(1), legacy(1), 5 * time.Second, 6 * time.Second, 6 * time.Second},
		{"the same session, cancelled after", legacy(1), legacy(1), 6 * time.Second, 5 * time.Second, 6 * time.Second},
		{"restarted before", modern("a"), modern("a"), 5 * time.Second, 6 * time.Second, 6 * time.Second},
		{"restarted after", modern("a"), modern("a"), 6 * time.Second, 5 * time.Second, 6 * time.Second},
		{"the same client, which waits", modern("a"), modern("a"), time.Hour, 5 * time.Second, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &porter{}
				_, g := guardedBy(p)
				defer g.Bridge.Close()
				time.AfterFunc(45*time.Second, p.finish)
				began := time.Now()
				ctx, restart := context.WithTimeout(t.Context(), tt.gone)
				var all sync.WaitGroup
				all.Go(func() {
					got := request(ctx, t, g, tt.first, answering("accept", time.Second), mcp.MethodCallTool, `{"name":"t"}`)
					if _, state, modern := strings.Cut(got, `"requestState":`); modern {
						state, _, _ = strings.Cut(state, `}`)
						request(ctx, t, g, tt.first, &recordingCaller{}, mcp.MethodCallTool, `{"name":"t","requestState":`+state+`,"inputResponses":{"user_sign_in":{"action":"accept"}}}`)
					}
				})
				time.Sleep(tt.comes)
				var asked time.Duration
				k := &recordingCaller{}
				k.ask = func(ctx context.Context, m *jsonrpc.Message) (*jsonrpc.Message, error) {
					asked = time.Since(began)
					return jsonrpc.NewResult(m.ID, []byte(`{"action":"accept"}`)), nil
				}
				got := request(t.Context(), t, g, tt.second, k, mcp.MethodCallTool, `{"name":"t"}`)
				if strings.Contains(got, "https://i.example/1") {
					asked = time.Since(began)
				}
				if asked != tt.asked || asked == 0 != strings.Contains(got, `"ran"`) && !tt.second.Revision.Legacy() || p.began != 1 {
					t.Errorf("asked after %v, %d sign-ins began; the client got %s", asked, p.began, got)
				}
				restart()
				all.Wait()
			})
		})
	}
}

// TestNobodyIsAskedAgainSoon checks that a person who has declined is left alone for a while, in all their
// conversations, and others are not.
func TestNobodyIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &porter{}
		_, g := guardedBy(p)
		defer g.Bridge.Close()
		k := answering("decline", 0)
		asked := func(who string, conversation uint64) int {
			before := count(k.all(), `"mode":"url"`)
			ask(t, g, &mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(opensLinks), Conversation: conversation, Who: identity.Named(who)}, k, mcp.MethodCallTool, `{"name":"t"}`)
			return count(k.all(), `"mode":"url"`) - before
		}
		if a, b, c := asked("ann", 1), asked("ann", 2), asked("ben", 3); a != 1 || b != 0 || c != 1 {
			t.Errorf("ann was asked %d and %d times, ben %d times", a, b, c)
		}
		time.Sleep(declinedFor)
		if n := asked("ann", 1); n != 1 {
			t.Errorf("five minutes later, ann was asked %d times", n)
		}
	})
}

// operatorOnly is why nobody but an operator can sign in.
type operatorOnly struct{}

func (operatorOnly) Error() string { return "no" }

func (operatorOnly) DescribeFailure(f *failure.Facts) {
	f.Sentence, f.Action = "an operator must sign in", "ask one"
}

// TestAnswersWithoutAQuestion checks what clients get that can't be asked, or when nobody can be.
func TestAnswersWithoutAQuestion(t *testing.T) {
	forms := &mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(`{"elicitation":{}}`), Conversation: 1}
	modern := &mcp.ClientInfo{Revision: mcp.R20260728, Capabilities: []byte(`{"elicitation":{"form":{}}}`)}
	for _, tt := range []struct {
		f              *mcp.ClientInfo
		method, params string
		refuse, wrong  error
		want           []string
	}{
		{forms, mcp.MethodCallTool, `{"name":"t"}`, nil, nil, []string{`"isError":true`, `"` + mcp.KeySignIn + `":{"server":"u","link":"https://i.example/1","expires":"`}},
		{modern, mcp.MethodCallTool, `{"name":"t"}`, nil, nil, []string{`"isError":true`, "https://i.example/1 within 10 minutes, then call again."}},
		{forms, mcp.MethodCallTool, `{"name":"t","task":{}}`, nil, nil, []string{"-32603", `"link":"https://i.example/1"`}},
		{forms, mcp.MethodGetPrompt, `{"name":"t"}`, nil, nil, []string{"-32603", `"link":"https://i.example/1"`}},
		{modern, mcp.MethodReadResource, `{"uri":"a:b"}`, nil, nil, []string{"-32603", `"link":"https://i.example/1"`}},
		{modern, mcp.MethodComplete, `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`, nil, nil, []string{"-32603", `"link":"https://i.example/1"`}},
		{forms, mcp.MethodListPrompts, `{}`, nil, nil, []string{`"result":{"prompts":[]}`}},
		{modern, mcp.MethodListTools, `{}`, nil, nil, []string{`{"tools":[{"name":"sign_in"`}},
		{modern, mcp.MethodCallTool, `{"name":"t"}`, operatorOnly{}, nil, []string{`"isError":true`, "an operator must sign in; ask one"}},
		{modern, mcp.MethodReadResource, `{"uri":"a:b"}`, operatorOnly{}, nil, []string{"-32603", "an operator must sign in; ask one"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &porter{refuse: tt.refuse, wrong: tt.wrong}
			u, g := guardedBy(p)
			defer g.Bridge.Close()
			k := &recordingCaller{}
			if tt.wrong != nil {
				_, _ = p.SignIn(t.Context(), nil, "u")
				close(p.done)
			}
			got, took := ask(t, g, tt.f, k, tt.method, tt.params)
			for _, want := range tt.want {
				if !strings.Contains(got, want) {
					t.Errorf("%s: %s lacks %s", tt.method, got, want)
				}
			}
			if took != 0 || len(k.all()) > 0 || len(u.seen.all()) != 1 {
				t.Errorf("%s took %v, the client heard %q, and the server got %d calls", tt.method, took, k.all(), len(u.seen.all()))
			}
		})
	}
}

// TestFailureBeforeTheRetry lets a sign-in fail while a modern client asks its person. The retry says why, and waits
// for no other sign-in, which nobody has begun.
func TestFailureBeforeTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &porter{wrong: errors.New("the issuer is not the right one")}
		_, g := guardedBy(p)
		defer g.Bridge.Close()
		f := &mcp.ClientInfo{Revision: mcp.R20260728, Capabilities: []byte(opensLinks)}
		got, _ := ask(t, g, f, &recordingCaller{}, mcp.MethodCallTool, `{"name":"t"}`)
		_, state, _ := strings.Cut(got, `"requestState":`)
		state, _, _ = strings.Cut(state, `}`)
		p.finish()
		got, took := ask(t, g, f, &recordingCaller{}, mcp.MethodCallTool, `{"name":"t","requestState":`+state+`,"inputResponses":{"user_sign_in":{"action":"accept"}}}`)
		if !strings.Contains(got, `"isError":true`) || took != 0 || p.began != 1 {
			t.Errorf("after %v and %d sign-ins: %s", took, p.began, got)
		}
		if got, _ = ask(t, g, f, &recordingCaller{}, mcp.MethodCallTool, `{"name":"t"}`); !strings.Contains(got, "https://i.example/2") {
			t.Errorf("the next call: %s", got)
		}
	})
}

// TestOneTab checks that a link is opened by the client, if it can show links, or else by us: not by both.
func TestOneTab(t *testing.T) {
	for _, tt := range []struct {
		f       *mcp.ClientInfo
		browsed int
	}{
		{&mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(opensLinks), Conversation: 1}, 0},
		{&mcp.ClientInfo{Revision: mcp.R20260728, Capabilities: []byte(opensLinks)}, 0},
		{&mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(`{"elicitation":{}}`), Conversation: 1}, 1},
		{&mcp.ClientInfo{Revision: mcp.R20250618, Conversation: 1}, 1},
		{&mcp.ClientInfo{Revision: mcp.R20260728}, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &porter{}
			_, g := guardedBy(p)
			defer g.Bridge.Close()
			ask(t, g, tt.f, answering("accept", time.Second), mcp.MethodCallTool, `{"name":"t"}`)
			if p.browsed != tt.browsed {
				t.Errorf("%v %s: a browser was opened %d times, want %d", tt.f.Revision, tt.f.Capabilities, p.browsed, tt.browsed)
			}
		})
	}
}

// TestHandshakeWaitsBriefly checks how long a handshake waits for a person, and what the client is told
// then.
func TestHandshakeWaitsBriefly(t *testing.T) {
	for _, tt := range []struct {
		name        string
		atHandshake bool
		known       bool          // somebody has shaken hands before, as the same person
		opening     time.Duration // how long the server takes to refuse
		done        time.Duration // when the person has signed in; 0 for never
		took        time.Duration
		want        string
	}{
		{"nobody sits there", false, false, time.Second, 0, time.Second, `{"name":"d","version":"1"} {"prompts":{"listChanged":true},"resources":{"listChanged":true},"tools":{"listChanged":true}}`},
		{"never", true, false, 5 * time.Second, 0, 8 * time.Second, `{"name":"d","version":"1"} {"prompts":{"listChanged":true},"resources":{"listChanged":true},"tools":{"listChanged":true}}`},
		{"slow issuer", true, false, time.Second, 0, 8 * time.Second, `{"name":"d","version":"1"} {"prompts":{"listChanged":true},"resources":{"listChanged":true},"tools":{"listChanged":true}}`},
		{"in time", true, false, time.Second, 7 * time.Second, 7*time.Second + time.Second, `{"name":"s"} {"logging":{},"tools":{}}`},
		{"known", true, true, 0, 0, 8 * time.Second, `{"name":"s"} {"prompts":{"listChanged":true},"resources":{"listChanged":true},"logging":{},"tools":{"listChanged":true}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &porter{slow: tt.name == "slow issuer"}
				u, g := guardedBy(p)
				g.SignIn.AtHandshake = tt.atHandshake
				u.hello = mcp.ServerInfo{Revision: mcp.R20251125, Info: []byte(`{"name":"s"}`), Capabilities: []byte(`{"logging":{},"tools":{}}`)}
				f := &mcp.ClientInfo{Revision: mcp.R20251125, Conversation: 1}
				if tt.known {
					p.in = true
					if _, err := g.Hello(t.Context(), f); err != nil {
						t.Fatal(err)
					}
					p.in = false
				}
				u.greet = func() error {
					time.Sleep(tt.opening)
					return p.refusal()
				}
				if tt.done > 0 {
					time.AfterFunc(tt.done, p.finish)
				}
				began := time.Now()
				h, err := g.Hello(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				if got := string(h.Info) + " " + string(h.Capabilities); got != tt.want || time.Since(began) != tt.took {
					t.Errorf("after %v: %s", time.Since(began), got)
				}
				if p.browsed > 0 != (tt.atHandshake && !p.slow) { // a slow issuer has no link yet
					t.Errorf("a browser was opened %d times", p.browsed)
				}
			})
		})
	}
}

// shelf is a catalog.Keeper in memory.
type shelf map[string][][]byte

func (s shelf) Recall(method string) ([][]byte, time.Time) {
	if s[method] == nil {
		return nil, time.Time{}
	}
	return s[method], time.Now()
}

func (s shelf) Keep(method string, items [][]byte, _ time.Time) { s[method] = items }

// TestHelloOutlivesTheProcess checks that the next process knows what a server has said to the only person there,
// and never what it has said to one of several.
func TestHelloOutlivesTheProcess(t *testing.T) {
	for _, scope := range []string{"", "ann"} {
		kept := shelf{}
		for _, in := range []bool{true, false} {
			p := &porter{in: in}
			u, g := guardedBy(p)
			u.scope = func(*mcp.ClientInfo) string { return scope }
			u.hello = mcp.ServerInfo{Revision: mcp.R20251125, Info: []byte(`{"name":"s"}`), Capabilities: []byte(`{"logging":{}}`), Instructions: []byte(`"Be kind."`)}
			g.Kept = kept
			h, err := g.Hello(t.Context(), &mcp.ClientInfo{Revision: mcp.R20251125, Conversation: 1})
			if err != nil {
				t.Fatal(err)
			}
			if known := string(h.Info) == `{"name":"s"}` && strings.Contains(string(h.Capabilities), "logging") && string(h.Instructions) == `"Be kind."`; known != (in || scope == "") {
				t.Errorf("scope %q, signed in %t: %s %s %s", scope, in, h.Info, h.Capabilities, h.Instructions)
			}
		}
	}
}

// TestSignInToolSignsIn calls the tool that a client gets in place of those of the server. When the person is
// done, its clients hear that the lists have changed, and nobody else's do.
func TestSignInToolSignsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &porter{}
		u, g := guardedBy(p)
		defer g.Bridge.Close()
		u.scope = func(f *mcp.ClientInfo) string {
			if who := f.Who.Key(); who == "ann" && p.signedIn() {
				return who
			}
			return "" // of those who have no credential
		}
		g.SignIn.Signed = func(_, scope string) { g.SignedIn(scope) }
		clients := map[string]*recordingCaller{}
		for i, who := range []string{"ann", "ben"} {
			f := &mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(opensLinks), Who: identity.Named(who), Conversation: uint64(i + 1)}
			if _, err := g.Hello(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			clients[who] = answering("accept", 0)
			defer g.Subscribe(f, clients[who])()
			if got, _ := ask(t, g, f, clients[who], mcp.MethodListTools, `{}`); !strings.Contains(got, `{"tools":[{"name":"sign_in"`) {
				t.Errorf("%s sees %s", who, got)
			}
		}
		time.AfterFunc(time.Minute, p.finish)
		f := &mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(opensLinks), Who: identity.Named("ann"), Conversation: 1}
		got, took := ask(t, g, f, clients["ann"], mcp.MethodCallTool, `{"name":"sign_in","arguments":{}`+withToken+`}`)
		if !strings.Contains(got, "You are signed in to u") || took != time.Minute || len(u.seen.all()) != 2 {
			t.Errorf("after %v: %s; the server got %q", took, got, u.seen.all())
		}
		for i, what := range []string{"signed in", "signed out"} {
			time.Sleep(time.Minute)
			for _, note := range []string{mcp.NoteToolsChanged, mcp.NotePromptsChanged, mcp.NoteResourcesChanged} {
				if count(clients["ann"].all(), note) != i+1 || count(clients["ben"].all(), note) != 0 {
					t.Errorf("ann has %s: ann heard %q, ben heard %q", what, clients["ann"].all(), clients["ben"].all())
				}
			}
			p.mu.Lock()
			p.in = false
			p.mu.Unlock()
			g.SignedIn("ann")
		}
	})
}

// TestCancelledCallLeavesTheSignIn checks that a client that gives up ends neither the sign-in nor what others
// wait for, and that its next call asks again.
func TestCancelledCallLeavesTheSignIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &porter{}
		_, g := guardedBy(p)
		defer g.Bridge.Close()
		f := &mcp.ClientInfo{Revision: mcp.R20251125, Capabilities: []byte(opensLinks), Conversation: 1}
		k := answering("accept", 0)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		m := jsonrpc.NewRequest("1", mcp.MethodCallTool, []byte(`{"name":"t"}`))
		_, err := g.Call(ctx, mcp.NewCall(m, jsonrpc.Span{}, f), k)
		var e *mcp.Error
		if !errors.As(err, &e) || e.Outcome != mcp.NotSent {
			t.Errorf("the call ended with %v", err)
		}
		time.AfterFunc(10*time.Second, p.finish)
		got, took := ask(t, g, f, k, mcp.MethodCallTool, `{"name":"t"}`)
		if !strings.Contains(got, `"ran":1`) || took != 10*time.Second || p.began != 1 || count(k.all(), `"mode":"url"`) != 2 {
			t.Errorf("after %v: %s; the client heard %q", took, got, k.all())
		}
	})
}
