package signin

import (
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// ID names the flow in a link to a page of ours. It's a hash of the flow's state, so nobody can guess it, and
// whoever has it can find the flow, and not finish it.
func (f *Flow) ID() string { return f.row.ID }

// FlowOf returns the ID of the flow to which a callback with a state belongs.
func FlowOf(state string) string { return flowID(state) }

// Waiting is a flow that waits for its person, in whichever process it was begun.
type Waiting struct {
	store.SignIn
	URL    string // the address of the server
	Host   string // its host
	Issuer string // the host that signs people in
	Scopes []string
	Link   string // where the person goes on
}

// Waiting returns the flow with an ID, if it still waits for its person.
func (d *Desk) Waiting(ctx context.Context, id string) (w Waiting, ok bool, err error) {
	safe, err := d.open(ctx)
	if err != nil {
		return w, false, err
	}
	if err := safe.Store().Refresh(ctx); err != nil {
		return w, false, err
	}
	row, ok := safe.Store().Snapshot().FlowWith(id)
	if !ok || !row.Open(time.Now()) || !row.Ready() || !row.Taken.IsZero() {
		return w, false, nil
	}
	var k keptFlow
	if err := reveal(ctx, safe, &row, row.Sealed, &k); err != nil {
		return w, false, err
	}
	return Waiting{SignIn: row.SignIn, URL: row.Server, Host: hostOf(row.Server), Issuer: hostOf(k.Issuer.Issuer), Scopes: k.Scopes, Link: k.Link}, true, nil
}
