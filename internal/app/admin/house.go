package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/team/access"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/team/vault"
)

// house is what the parts of an API share that change what the store keeps of a project.
type house struct {
	project project
	access  *Access
	desk    *access.Desk   // see Options.Desk
	roster  *access.Roster // see Options.Roster
	safe    *store.Safe    // see Options.Safe
}

// houseProblems are the error statuses of the routes that need the store.
var houseProblems = []int{409, 503}

// closed returns a problem if there is no store.
func (h *house) closed() *Problem {
	if h.desk != nil && h.roster != nil && h.safe != nil {
		return nil
	}
	return conflict("no-store", "Nothing is stored here", "This Dragoman has no place to keep keys, people, secrets and prompts.")
}

// sender returns who sent a request. It returns a problem if there is no store.
func (h *house) sender(r *http.Request) (*identity.Principal, *Problem) {
	if bad := h.closed(); bad != nil {
		return nil, bad
	}
	return h.visitor(r)
}

// visitor returns who has sent a request that needs no store.
func (h *house) visitor(r *http.Request) (*identity.Principal, *Problem) {
	who, err := h.access.Check(r)
	if err != nil || who.Subject == "" {
		return nil, &Problem{Type: "no-access", Title: "Nobody knows who sent this request", Status: http.StatusUnauthorized}
	}
	return who, nil
}

// changer returns the subject of the sender of a request, which the acts of the store name. It returns a
// problem if there is no store.
func (h *house) changer(r *http.Request) (string, *Problem) {
	who, bad := h.sender(r)
	if bad != nil {
		return "", bad
	}
	return who.Subject, nil
}

// byWhom calls act with who has sent a request.
func byWhom[T any](h *house, r *http.Request, act func(who *identity.Principal) (T, *Problem)) (answer T, bad *Problem) {
	who, bad := h.sender(r)
	if bad != nil {
		return answer, bad
	}
	return act(who)
}

// is reports whether who has a role in a project, or is an admin of the default project, who may do with what the store
// has of a project what an admin of it may.
func (h *house) is(who *identity.Principal, project string, role identity.Role) bool {
	return h.access.May(who, project, role) == nil || h.access.May(who, event.DefaultProject, identity.Admin) == nil
}

// nameOf returns the name of the person with a subject, and the subject itself if it is nobody's.
func (h *house) nameOf(subject string) string { return h.roster.People().Name(subject) }

// doer returns the name of the person or key with a subject, and the subject itself if there is none.
func (h *house) doer(subject string) string {
	if id, is := strings.CutPrefix(subject, access.KeySubject); is && h.safe != nil {
		if k, ok := h.safe.Store().Snapshot().Key(id); ok {
			return k.Name
		}
	}
	return h.nameOf(subject)
}

// callerOf returns what people call the key or the person whose credentials a client uses. It returns "" for the local
// user, who needs none.
func (h *house) callerOf(who *identity.Principal) string {
	switch {
	case who.Key() == "":
		return ""
	case who.Name != "" || h.closed() != nil:
		return excerpt.Line(cmp.Or(who.Name, who.Subject), maxName)
	}
	return h.doer(who.Subject)
}

// knowsCallers reports whether whoever has sent a request may know the names of keys and people: operators may.
func (h *house) knowsCallers(r *http.Request) bool {
	if r == nil {
		return false
	}
	who, err := h.access.Check(r)
	return err == nil && h.access.May(who, h.project.name(), identity.Operator) == nil
}

// note returns a sentence if the store forgets everything when the process ends, and "" otherwise.
func (h *house) note() string {
	s := h.safe.Store().State()
	if s.Place != store.Memory {
		return ""
	}
	text, next := "This lasts only until dragoman ends", ""
	if s.Problem != nil {
		text += ", because " + s.Problem.Error()
	}
	var e *store.Error
	if errors.As(s.Problem, &e) {
		next = e.Next
	}
	return sentence(text, next)
}

// problem returns the problem for an error of the desk, the safe or the store. None of these errors
// contains a value or a part of a key.
func (h *house) problem(err error) *Problem {
	var mistake access.Mistake
	var ofStore *store.Error
	var ofVault *vault.Error
	switch {
	case errors.Is(err, access.ErrNoKey):
		return noKey()
	case errors.Is(err, access.ErrRotated):
		return conflict("key-changed", "Somebody else has rotated the key", "It has another secret since you looked at it. Nothing has changed now. Look at the key again.")
	case errors.As(err, &mistake):
		return &Problem{Type: "key", Title: "There can be no such key", Status: http.StatusUnprocessableEntity, Detail: sentence(err.Error(), "")}
	case errors.As(err, &ofStore):
		return &Problem{Type: "store", Title: "The database cannot be used", Status: http.StatusServiceUnavailable, Detail: sentence(ofStore.Text, ofStore.Next)}
	case errors.As(err, &ofVault):
		return &Problem{Type: "vault", Title: "The vault cannot be used", Status: http.StatusServiceUnavailable, Detail: sentence(ofVault.Text, ofVault.Next)}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &Problem{Type: "store", Title: "The database cannot be used", Status: http.StatusServiceUnavailable, Detail: "The request ended before the change was made."}
	}
	return &Problem{Type: "internal", Title: "The change was not made", Status: http.StatusInternalServerError, Detail: sentence(err.Error(), "")}
}
