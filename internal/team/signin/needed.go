package signin

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/dragoman-mcp/dragoman/internal/base/failure"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Needed is the error for a request that a server refuses until somebody has signed in. It's a failure.Source.
type Needed struct {
	Server string       // its configured name
	Of     store.SignIn // who has to sign in; the subject is "" if nobody in particular
	Shared bool         // an operator signs in for all
	Why    string       // why what there was is no longer good: a sentence without a full stop; "" if there was nothing
	Scopes []string     // what the server wants beyond what was granted
}

func (e *Needed) Error() string {
	if e.Why != "" {
		return fmt.Sprintf("server %q needs a new sign-in: %s", e.Server, e.Why)
	}
	return fmt.Sprintf("server %q needs a sign-in", e.Server)
}

// DescribeFailure implements failure.Source.
func (e *Needed) DescribeFailure(f *failure.Facts) {
	if f.Class == "" {
		f.Class = failure.NeedsSignIn
	}
	if f.Class != failure.NeedsSignIn {
		return
	}
	if f.Sentence == "" && e.Why != "" {
		f.Sentence = e.Error()
	}
	switch {
	case e.Shared:
		f.Action = cmp.Or(f.Action, "an operator must sign in with `dragoman login "+e.Server+"`")
	case e.Of.Subject == "":
		f.Sentence = cmp.Or(f.Sentence, fmt.Sprintf("server %q needs a sign-in by each person", e.Server))
		f.Action = cmp.Or(f.Action, "people get a link when they call it; to sign somebody in here, run `dragoman login "+e.Server+" --as NAME`")
	}
}

// Problem is why a sign-in can't go on: a sentence and the next step. It's a failure.Source.
type Problem struct {
	Says, Next string // both without a full stop
	Err        error  // the cause, if there is one

	class failure.Class // "" means that a sign-in is needed
}

func (e *Problem) Error() string { return e.Says }

// Unwrap returns the cause.
func (e *Problem) Unwrap() error { return e.Err }

// NextStep returns what to do about it.
func (e *Problem) NextStep() string { return e.Next }

// notNow returns the error while there is no good token, although nobody has said that a sign-in would help.
func notNow(says, next string, err error) *Problem {
	p := &Problem{Says: says, Next: next, Err: err, class: failure.Unauthorized}
	if oauth.Weather(err) {
		p.class = failure.Unreachable
	}
	return p
}

// DescribeFailure implements failure.Source.
func (e *Problem) DescribeFailure(f *failure.Facts) {
	if f.Class == "" {
		f.Class = cmp.Or(e.class, failure.NeedsSignIn)
	}
	if f.Sentence == "" {
		f.Sentence, f.Action = e.Says, e.Next
	}
}

// ErrClosed is the error of what a closed Desk can no longer do.
var ErrClosed = errors.New("the sign-in desk is closed")

// Explain returns what an error means to people: a sentence and the next step, which may be "".
func Explain(err error) (says, next string) {
	var f failure.Facts
	for e := err; e != nil; e = errors.Unwrap(e) {
		if s, ok := e.(failure.Source); ok {
			s.DescribeFailure(&f)
		}
	}
	if f.Sentence != "" {
		return f.Sentence, f.Action
	}
	var own *store.Error
	if errors.As(err, &own) {
		return own.Text, own.Next
	}
	var step interface{ NextStep() string }
	if errors.As(err, &step) {
		next = step.NextStep()
	}
	return err.Error(), next
}
