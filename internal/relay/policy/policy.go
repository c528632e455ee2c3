package policy

import (
	"context"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Call is a call as a [Step] and an [Auditor] see it. They must not change it, and must not keep it
// after the call has ended. Both see the same *Call from beginning to end.
type Call struct {
	Who     *identity.Principal // the principal of the client; nil without authentication
	Project string
	// Server is the name of the server that gets the call. It is "" if the answer comes from
	// several servers, or from none.
	Server string
	// Name is the server's own name of the tool or prompt, or the URI of the resource, or the id of
	// the task. It is "" if the method does not name an item. If no server has the item, or the
	// client may not see it, Name is what the client wrote.
	Name string
	// Args are the arguments of a tool or prompt, as the server gets them. They are absent for
	// other methods.
	Args jsonrpc.Value
	// Via is the tool of our own through which the client calls the tool, or "". The request then has Name and
	// Args in its arguments.
	Via string
	// Request is the client's request. Its size is len(Request.Msg.Raw) bytes.
	Request *mcp.Call
	// Resumed means that the call continues an earlier call, in which the client was asked for
	// input, and which this step has let pass. A step should authorise the call again, but not
	// count it again, nor ask again. For an auditor, it means any continued call.
	Resumed bool
	// Passed is the number of steps that have let the earlier call pass, if Resumed.
	Passed int
	// Counted means that an earlier request has begun the call, and this one brings only what it waits for: the
	// answer to a question of a step, a sign-in, or the answer to a server that waits for it. Who counts calls must
	// not count it again. A retry with a state of the server's own is another request to the server, and isn't Counted.
	Counted bool
	// Answers are the answers to the questions that steps have asked about this call, oldest first.
	// A step reads its own with Answered.
	Answers []mcp.Answered
	// Elsewhere says what people who aren't behind the client have answered, oldest first. It's for auditors.
	Elsewhere []Heard

	heard bool // a step has read its answer
}

// Heard is the answer of a person to a question that the client couldn't show.
type Heard struct {
	Kind   string // confirmation, form or link
	Action string // accept, decline or cancel
	By     *identity.Principal
}

// Answered returns the person's answer to the question of a step, or nil if there is none. If the
// step has asked several times, it's the last answer.
func (c *Call) Answered(step string) *mcp.Answered {
	for i := len(c.Answers) - 1; i >= 0; i-- {
		if c.Answers[i].Step == step {
			c.heard = true
			return &c.Answers[i]
		}
	}
	return nil
}

// Heard reports whether a step has read an answer, so that the answer is used up.
func (c *Call) Heard() bool { return c.heard }

// Answer is the result of a call. Exactly one of Reply and Err is set.
type Answer struct {
	Reply   *mcp.Reply
	Err     error
	Outcome mcp.Outcome  // the same outcome as in the event of the call
	Code    int64        // the JSON-RPC error code that the client gets; 0 for a result
	To      mcp.Revision // the server's revision; Unknown if no server got the call
	Size    int          // size of the server's message in bytes; 0 if there is none
	Took    time.Duration
}

// Verdict is what a step decides about a call. The zero Verdict lets the call pass.
type Verdict struct {
	// Refuse is the client's answer: mcp.Wire converts it to a JSON-RPC error, and the call is not
	// sent to the server.
	Refuse error
	// Ask is what the person has to answer first. Refuse takes precedence.
	Ask *Ask
}

// Passes reports whether the call may pass.
func (v Verdict) Passes() bool { return v.Refuse == nil && v.Ask == nil }

// Ask is a step's question to the person behind the client. A legacy client is asked while its call
// waits, a modern client by input_required, and a call of a client that can't be asked is refused. Then
// Before is called again, and Call.Answered returns the answer, whatever it is: an answer alone lets no
// call pass.
type Ask struct {
	// Step names the step; Call.Answered needs the same name. It's also part of the key of the
	// input request, which people may see, so a plain word is best.
	Step     string
	Question *mcp.Question
	// State is what the step wants back with the answer. No client can read or change it.
	State []byte
	// Else is the client's answer if it can't ask anybody, and nobody answers elsewhere. Nil means an error with the
	// question.
	Else error
	// Others says that the client isn't asked, because whoever answers there may be the program that has made the
	// call: only somebody else is, who answers elsewhere.
	Others bool
}

// Step decides whether a call may be sent. Many goroutines call its methods at the same time. The
// methods may block until ctx ends, but the client waits during that time.
type Step interface {
	// Before decides about the call before it is sent to the server. If it has asked, it is called
	// again with the answer.
	Before(ctx context.Context, c *Call) Verdict
	// After receives the result of each call that Before let pass, even if a later step refused the
	// call. If a later step asked a modern client, the outcome is Parked, and the client's retry is
	// another call, with Resumed. ctx may have ended.
	After(ctx context.Context, c *Call, a *Answer)
}

// Passing is a [Step] that also sees what a server sends to the client while a call runs:
// notifications, and requests such as elicitations, whether they reach the client live or in the
// answer. It doesn't see the messages of a task that goes on after its call, nor those outside calls.
type Passing interface {
	Step
	// Passes returns an error for a message that must not reach the client. A notification is then
	// dropped. A request is refused, and a call that can't do without the answer fails with the
	// error. c is a copy of what Before saw. ctx may have ended, for a message of a parked call.
	// Messages of one call wait for Passes, so it should be quick.
	Passes(ctx context.Context, c *Call, m *jsonrpc.Message) error
}

// Sending is a [Step] that has the last word about a call, after all steps have let it pass and nobody has to be
// asked any more.
type Sending interface {
	Step
	// Send is called just before a call is sent. Its error is the client's answer, as Verdict.Refuse is. done is called
	// when the call is answered, if there is no error.
	Send(ctx context.Context, c *Call) (done func(), err error)
}

// Auditor hears of every request, in contrast to a [Step]: also of requests that a step refuses, and
// of those that name something that doesn't exist or that the client may not see. Only the
// handshake, and messages that never become a call because their session refuses them, pass it by.
// Many goroutines call its methods at the same time.
type Auditor interface {
	// Begin is called first of all. Server, Name, Args and Resumed of c aren't known yet, but
	// Request is. If Begin returns an error, the client gets it, nothing else is done for the
	// request, and End isn't called.
	Begin(ctx context.Context, c *Call) error
	// End gets the outcome, after the steps and before the client. ctx may have ended. It isn't called either if another
	// process serves the request.
	End(ctx context.Context, c *Call, a *Answer)
}

// Switched is an [Auditor] that can be off, so that it costs nothing. Who is off gets no Begin. It may get an End
// nevertheless.
type Switched interface {
	Auditor
	On() bool
}

// Chain is a list of steps. The steps see a call in the order of the list. A chain must not be
// changed after its first use. The zero value lets every call pass.
type Chain []Step

// Admit calls Before of each step, beginning with the step at the index from. It stops at the first
// step that does not let the call pass, and returns the verdict of this step. passed is the number
// of steps that let the call pass; after an answer, it is where to continue.
func (c Chain) Admit(ctx context.Context, call *Call, from int) (passed int, v Verdict) {
	resumed := call.Resumed
	defer func() { call.Resumed = resumed }()
	for i := from; i < len(c); i++ {
		call.Resumed = resumed && i < call.Passed
		if v := c[i].Before(ctx, call); !v.Passes() {
			return i, v
		}
	}
	return len(c), Verdict{}
}

// Watch returns a function that asks each [Passing] of the chain about a message to the client, and
// returns the first error. Watch returns nil if there is no Passing. call is copied, because
// messages may come after the call's request has been answered, if the call is parked.
func (c Chain) Watch(ctx context.Context, call *Call) func(m *jsonrpc.Message) error {
	if !slices.ContainsFunc(c, func(s Step) bool { _, ok := s.(Passing); return ok }) {
		return nil
	}
	seen := *call
	return func(m *jsonrpc.Message) error {
		for _, s := range c {
			if p, ok := s.(Passing); ok {
				if err := p.Passes(ctx, &seen, m); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// Send asks each [Sending] of the chain about a call that is about to be sent, and returns the first error. Otherwise
// the caller must call done when the call is answered.
func (c Chain) Send(ctx context.Context, call *Call) (done func(), err error) {
	done = func() {}
	for _, s := range c {
		x, ok := s.(Sending)
		if !ok {
			continue
		}
		end, err := x.Send(ctx, call)
		if err != nil {
			done()
			return nil, err
		}
		before := done
		done = func() { end(); before() }
	}
	return done, nil
}

// Done calls After of the steps that let the call pass, in reverse order. passed is the value
// that Admit returned.
func (c Chain) Done(ctx context.Context, passed int, call *Call, a *Answer) {
	resumed := call.Resumed
	defer func() { call.Resumed = resumed }()
	for i := passed - 1; i >= 0; i-- {
		call.Resumed = resumed && i < call.Passed
		c[i].After(ctx, call, a)
	}
}
