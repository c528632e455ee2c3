package signin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Step is a part of a sign-in, by which people see how far it has come.
type Step string

// The steps, in the order in which a sign-in takes them; see Steps.
const (
	StepChallenge    Step = "challenge"         // the server refuses a request, and says where its metadata is
	StepResource     Step = "resource metadata" // the server's metadata, which names the issuer
	StepIssuer       Step = "server metadata"   // that of the authorization server
	StepRegistration Step = "registration"      // who we are to the issuer
	StepBrowser      Step = "browser"           // the person is at the issuer's page
	StepToken        Step = "token"             // the issuer gives a token for the answer of the browser
)

// Steps are all steps of a sign-in, in their order.
var Steps = []Step{StepChallenge, StepResource, StepIssuer, StepRegistration, StepBrowser, StepToken}

// stepError is an error with the step at which it happened.
type stepError struct {
	step Step
	error
}

func (e *stepError) Unwrap() error { return e.error }

// at returns an error with its step, or nil. An error that has one already keeps it.
func at(step Step, err error) error {
	if err == nil || stepOf(err) != "" {
		return err
	}
	return &stepError{step, err}
}

// stepOf returns the step at which an error happened, or "" if it doesn't say.
func stepOf(err error) Step {
	var e *stepError
	if errors.As(err, &e) {
		return e.step
	}
	return ""
}

// outcomeOf returns what the store keeps of an error that has ended a flow, and failed reads it.
func outcomeOf(err error) string {
	says, next := Explain(err)
	return strings.Join([]string{says, next, string(stepOf(err))}, "\n")
}

// failed returns the error of a flow that another process may have ended.
func failed(outcome string) error {
	says, rest, _ := strings.Cut(outcome, "\n")
	next, step, _ := strings.Cut(rest, "\n")
	err := &Problem{Says: says, Next: next}
	if !slices.Contains(Steps, Step(step)) {
		return err
	}
	return at(Step(step), err)
}

// Passed is a step that a sign-in has taken, and what came of it. The text may have words of the server or the issuer.
type Passed struct {
	Step Step
	Text string
}

// Failure is why a sign-in has failed.
type Failure struct {
	Began      time.Time
	Step       Step   // the one that has failed
	Says, Next string // both without a full stop; Next may be ""
}

// State is how far somebody has come with the sign-in at a server.
type State struct {
	Entry            // the zero value if nobody is signed in
	Signed  bool     // there is a credential, which may be spent
	Scopes  []string // what the issuer has granted
	Waits   time.Time
	Failure *Failure // of the last sign-in; nil if it hasn't failed
	Passed  []Passed // the steps of the last sign-in, if it was prepared by this process
}

// State returns how far the sign-in has come that of is about. Waits is until when the last one waits for the person, or
// zero if it doesn't.
func (s *Server) State(ctx context.Context, of store.SignIn) (out State, err error) {
	safe := s.d.safe.Load()
	if safe == nil {
		return out, nil
	}
	a, snap, now := s.account(of.Subject), safe.Store().Snapshot(), time.Now()
	t, err := a.current(ctx, safe)
	if err != nil {
		return out, err
	}
	if t != nil {
		x := &t.row
		out.Signed, out.Scopes = true, t.granted
		out.Entry = Entry{x.SignIn, x.Issuer, x.Until, x.Renews, x.Spent || !t.renewable() && !t.usable(now), x.Since}
	}
	a.mu.Lock()
	out.Passed = slices.Clone(a.passed)
	a.mu.Unlock()
	row, ok := snap.Flow(of)
	switch failure := (*Problem)(nil); {
	case !ok:
	case row.Open(now) && row.Ready():
		out.Waits = row.Until
	case row.Outcome == "" && row.Ready() && row.Taken.IsZero():
		e := tooLate(s.name)
		out.Failure = &Failure{row.Began, StepBrowser, e.Says, e.Next}
	case row.Outcome != "":
		if err := failed(row.Outcome); stepOf(err) != "" && errors.As(err, &failure) {
			out.Failure = &Failure{row.Began, stepOf(err), failure.Says, failure.Next}
		}
	}
	if out.Failure != nil && out.Signed && !out.Spent && !out.Since.Before(out.Failure.Began) {
		out.Failure = nil // another sign-in has worked since
	}
	return out, nil
}

// tooLate is the error of a flow in which nobody has signed in.
func tooLate(server string) *Problem {
	return &Problem{Says: "nobody has signed in to server " + quote(server) + " within " + flowTime.String(), Next: "sign in again"}
}

// Wanted reports whether the server has asked this process for a sign-in.
func (s *Server) Wanted() bool { return s.asked.Load() }

// Tally is how many have signed in at a server.
type Tally struct{ All, People int }

// Tallies returns how many have signed in at each server. The keys have no subject.
func (d *Desk) Tallies() map[store.SignIn]Tally {
	all := make(map[store.SignIn]Tally)
	safe := d.safe.Load()
	if safe == nil {
		return all
	}
	var last store.SignIn
	for _, x := range safe.Store().Snapshot().AllCredentials() {
		if x.SignIn == last { // an older one
			continue
		}
		last = x.SignIn
		at := store.SignIn{Project: x.Project, Server: x.Server}
		n := all[at]
		if n.All++; !x.Spent && strings.HasPrefix(x.Subject, store.PersonSubject) {
			n.People++
		}
		all[at] = n
	}
	return all
}

// note remembers a step that a sign-in has taken.
func (a *account) note(step Step, words ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if step == StepChallenge {
		a.passed = nil // another sign-in begins
	}
	a.passed = append(a.passed, Passed{step, strings.Join(words, "")})
}

// noteChallenge remembers what the server has asked for.
func (a *account) noteChallenge(c oauth.Challenge) {
	switch {
	case c.ResourceMetadata != "":
		a.note(StepChallenge, "401 with a challenge that names ", c.ResourceMetadata)
	case c.Scheme != "":
		a.note(StepChallenge, "401 with a challenge for ", c.Scheme)
	default:
		a.note(StepChallenge, "the server names no metadata")
	}
}

// noteFound remembers what the server and its issuer have published.
func (a *account) noteFound(f *found) {
	if f.resource != nil {
		a.note(StepResource, f.resource.At, " says resource ", f.resource.Resource)
	} else {
		a.note(StepResource, "none")
	}
	if f.issuer.At != "" {
		a.note(StepIssuer, f.issuer.At, " says issuer ", f.issuer.Issuer)
	} else {
		a.note(StepIssuer, "none was read; the issuer is ", f.issuer.Issuer)
	}
}

// registrations say in words how an issuer knows a client.
var registrations = map[oauth.Means]string{
	oauth.Preregistered: "the configured client ", oauth.Document: "the document ", oauth.Registered: "registered as ",
}
