package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
)

// kept is what pages share that show and change what the database keeps. While that can't be read, they show what was
// read last, and say so, and what would write is absent; see the template "stale".
type kept struct {
	Stale string // why the page may be out of date, as sentences; "" if it isn't
	Acts  bool   // the viewer may make changes, and they can be made now
}

// keptFor returns kept for a page whose forms need the role least. away is [admin.API.StoreAway].
func keptFor(r *http.Request, away string, least identity.Role) kept {
	return kept{Stale: away, Acts: away == "" && may(r, least)}
}

// acting returns the context and the subject for a change that the viewer makes on a page.
func acting(r *http.Request) (ctx context.Context, by string) {
	who := stateOf(r).viewer.who
	return r.Context(), who.Subject
}

// problemError returns the error for a page that can't be shown because of a problem of the API.
func problemError(bad *admin.Problem, next Crumb) error {
	return &pageError{Status: bad.Status, Title: bad.Title, Text: bad.Detail, Next: next}
}

// unreadable returns the error for a form that no page of ours has sent. path is that of the page with the form.
func unreadable(path string) error {
	return &pageError{Status: http.StatusBadRequest, Title: "The form can't be read", Text: "Load its page again.", Next: Crumb{"Show the page", path}}
}

// sentBefore is the problem of a form whose answer isn't known any more.
var sentBefore = &admin.Problem{Status: http.StatusConflict, Title: "This form was sent before", Detail: "This form was sent before, and what became of it is on this page. Send it again if that's not what you want."}

// acted returns what an act of a form has returned, which [forms.once] returns as answer.
func acted[T any](answer any) (out T, bad *admin.Problem) {
	x, ok := answer.(done[T])
	if !ok {
		return out, sentBefore
	}
	return x.out, x.bad
}

// done is what an act has returned.
type done[T any] struct {
	out T
	bad *admin.Problem
}

// doing returns an act for [forms.once].
func doing[T any](act func() (T, *admin.Problem)) func() any {
	return func() any {
		out, bad := act()
		return done[T]{out, bad}
	}
}

// noted returns a message with the note of the API, if it has one.
func noted(note, format string, args ...any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...) + note)
}
