package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/runtime"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/relay/policy"
)

// Pins are the definitions that have changed since they were approved.
type Pins struct {
	Mode    string      `json:"mode" enum:"off,warn,hold" doc:"what a change means: the setting pins, or its default"`
	Changes []PinChange `json:"changes" doc:"the changes that nobody has approved, sorted by server, kind and name"`
	Unread  []PinUnread `json:"unread,omitempty" doc:"with the parameter read: the servers whose lists nobody knows, so that nobody can tell what has changed there"`
}

// PinUnread is a server whose lists could not be read.
type PinUnread struct {
	Server string `json:"server" doc:"the server's name"`
	Cause  string `json:"cause,omitempty" doc:"why, if it's known"`
}

// PinChange is a tool, a prompt or a resource template that has changed.
type PinChange struct {
	Server   string    `json:"server" doc:"the server's name"`
	Item     string    `json:"item" doc:"TOOL, prompt:NAME or resource:TEMPLATE, as in rules"`
	SHA256   string    `json:"sha256" doc:"the hash of the definition as it is now, which a decision names"`
	Since    time.Time `json:"since" doc:"when this definition was first seen"`
	Held     bool      `json:"held" doc:"whether clients can't use the item until it's approved"`
	Rejected bool      `json:"rejected" doc:"whether somebody has rejected it; approving it takes that back"`
	Diff     string    `json:"diff" doc:"what has changed as a unified diff of one line for each value; what nobody could see is drawn, such as <U+200B>"`
}

// PinDecision says about which change somebody decides.
type PinDecision struct {
	Server string `json:"server" doc:"the server's name"`
	Item   string `json:"item" doc:"TOOL, prompt:NAME or resource:TEMPLATE"`
	SHA256 string `json:"sha256" doc:"the hash of the definition that was looked at"`
}

// PinDecided is the response to a decision.
type PinDecided struct {
	PinDecision
	State string `json:"state" enum:"approved,rejected" doc:"what was decided"`
	Note  string `json:"note,omitempty" doc:"a sentence if dragoman forgets the decision when it ends"`
}

var pinRoutes = []route{
	{
		method: http.MethodGet, path: "/pins", open: true, least: identity.Viewer, name: "pins", summary: "Tools, prompts and templates that have changed since they were approved",
		query:  []parameter{{"read", "boolean", "whether to read the lists first that nobody has read since the start, or that have changed; this opens servers, and waits up to 5 seconds for them"}},
		answer: Pins{}, problems: []int{503}, read: func(a *API, r *http.Request) (any, *Problem) { return result(a.readPins(r)) },
	},
	{
		method: http.MethodPost, path: "/pins/approve", least: identity.Operator, name: "approvePin", summary: "Approve a changed definition, also one that was rejected, so that clients can use it",
		body: PinDecision{}, answer: PinDecided{}, problems: pinProblems,
		read: withBody(maxPinBody, func(a *API, r *http.Request, q PinDecision) (PinDecided, *Problem) {
			return a.decidePin(r, q, pins.Approved)
		}),
	},
	{
		method: http.MethodPost, path: "/pins/reject", least: identity.Operator, name: "rejectPin", summary: "Reject a changed definition, so that nobody is asked about it again; clients can't use it if changes are held",
		body: PinDecision{}, answer: PinDecided{}, problems: pinProblems,
		read: withBody(maxPinBody, func(a *API, r *http.Request, q PinDecision) (PinDecided, *Problem) {
			return a.decidePin(r, q, pins.Rejected)
		}),
	},
}

var pinProblems = []int{400, 404, 409, 413, 415, 422, 503}

// maxPinBody is the maximum size in bytes of a request with a decision.
const maxPinBody = 64 << 10

// pinAPI shows the changed definitions of a project, and takes decisions about them.
type pinAPI struct{ house }

// readPins answers GET /pins.
func (a *pinAPI) readPins(r *http.Request) (Pins, *Problem) {
	var unread []PinUnread
	if r.URL.Query().Get("read") == "true" {
		unread = a.ReadPins(r.Context())
	}
	all, err := a.project.PinChanges(r.Context())
	if err != nil {
		return Pins{}, a.problem(err)
	}
	mode := a.project.PinMode()
	out := Pins{Mode: mode.String(), Changes: make([]PinChange, len(all)), Unread: unread}
	for i := range all {
		out.Changes[i] = pinChangeOf(&all[i].Change, mode)
		out.Changes[i].Diff = all[i].Diff
	}
	return out, nil
}

// itemOf returns what people write for something with a definition, without its server.
func itemOf(id pins.ID) string {
	switch id.Kind {
	case "tool":
		return policy.Tool(id.Name)
	case "prompt":
		return policy.Prompt(id.Name)
	}
	return policy.Resource(id.Name)
}

// decidePin answers POST /pins/approve and /pins/reject.
func (a *pinAPI) decidePin(r *http.Request, q PinDecision, state pins.State) (PinDecided, *Problem) {
	who, err := a.access.Check(r)
	if err != nil || who.Subject == "" {
		return PinDecided{}, &Problem{Type: "no-access", Title: "Nobody knows who sent this request", Status: http.StatusUnauthorized}
	}
	return a.DecidePin(r.Context(), who.Subject, q, state)
}

// DecidePin approves or rejects a change for the user with the subject by.
func (a *pinAPI) DecidePin(ctx context.Context, by string, q PinDecision, state pins.State) (PinDecided, *Problem) {
	if bad := a.project.noServer(q.Server); bad != nil {
		return PinDecided{}, bad
	}
	sum, ok := pins.ParseSum(q.SHA256)
	if !ok {
		return PinDecided{}, &Problem{Type: "hash", Title: "This is no hash", Status: http.StatusUnprocessableEntity, Detail: "The member sha256 has 64 hexadecimal digits. GET " + apiRoot + "/pins has the hashes of the changed definitions."}
	}
	c, ok := a.changedPin(q.Server, q.Item, sum)
	if !ok {
		return PinDecided{}, changedAgain()
	}
	switch err := a.project.DecidePin(ctx, by, c.ID, sum, state); {
	case errors.Is(err, runtime.ErrNoChange):
		return PinDecided{}, changedAgain()
	case err != nil:
		return PinDecided{}, a.problem(err)
	}
	return PinDecided{PinDecision: q, State: string(state), Note: a.noteOfPins()}, nil
}

// changedPin returns the change with a hash, if it waits for a decision or was rejected.
func (a *pinAPI) changedPin(server, item string, sum pins.Sum) (pins.Change, bool) {
	for _, c := range a.project.ChangedPins() {
		if c.Server == server && itemOf(c.ID) == item && c.Sum == sum {
			return c, true
		}
	}
	return pins.Change{}, false
}

// ChangedPins returns the changes that nobody has approved, without their diffs, for which it would have to read the
// database.
func (a *pinAPI) ChangedPins() Pins {
	all, mode := a.project.ChangedPins(), a.project.PinMode()
	out := Pins{Mode: mode.String(), Changes: make([]PinChange, len(all))}
	for i := range all {
		out.Changes[i] = pinChangeOf(&all[i], mode)
	}
	return out
}

// ReadPins reads the lists that nobody has read since the start, and returns the servers that don't answer within 5
// seconds.
func (a *pinAPI) ReadPins(ctx context.Context) (unread []PinUnread) {
	for _, x := range a.project.ReadPinned(ctx) {
		unread = append(unread, PinUnread{x.Server, x.Why})
	}
	return unread
}

// PinReview is one of ChangedPins, value by value.
type PinReview struct {
	PinChange
	Rows    []pins.Row // nil if the definition is too long to show
	Known   bool       // the definition before is known, so that there is something to compare with
	Decided bool       // somebody has approved the one before, which wasn't only the first to be seen
	By      string     // who
	At      time.Time  // when, or when the one before was first seen
}

// ReviewPin returns one of ChangedPins for people who decide about it.
func (a *pinAPI) ReviewPin(ctx context.Context, q PinDecision) (PinReview, *Problem) {
	sum, _ := pins.ParseSum(q.SHA256)
	c, ok := a.changedPin(q.Server, q.Item, sum)
	if !ok {
		return PinReview{}, changedAgain()
	}
	x, err := a.project.PinChange(ctx, c)
	if err != nil {
		return PinReview{}, a.problem(err)
	}
	out := PinReview{PinChange: pinChangeOf(&x.Change, a.project.PinMode()), Known: x.Was.Definition != nil, Decided: x.Was.State == pins.Approved, At: x.Was.Since}
	if out.Decided && a.roster != nil {
		out.By = a.nameOf(x.Was.Actor)
	}
	if x.Definition != nil {
		out.Rows = pins.Compare(x.Was.Definition, x.Definition)
	}
	return out, nil
}

func pinChangeOf(c *pins.Change, mode pins.Mode) PinChange {
	return PinChange{Server: c.Server, Item: itemOf(c.ID), SHA256: c.Sum.String(), Since: c.Since.UTC(), Held: mode == pins.Hold, Rejected: c.Rejected}
}

// noteOfPins returns a sentence if the decision is forgotten when the process ends.
func (a *pinAPI) noteOfPins() string {
	if a.safe == nil {
		return ""
	}
	return a.note()
}

func changedAgain() *Problem {
	return conflict("changed-again", "This definition does not wait for a decision", "The definition has changed again since you looked at it, or somebody has decided about it. Look again with `dragoman tools review`.")
}
