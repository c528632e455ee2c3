package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
)

// tellTime is how long a command that has changed the configuration file waits for the answer of a
// running serve. A serve that is later still notices the change by itself.
const tellTime = 5 * time.Second

// told is what a running serve has done with the changed configuration file.
type told struct {
	Address string `json:"address"`
	PID     int    `json:"pid"`
	Applied bool   `json:"applied"`
	// What says what has changed, or why serve does not use the file.
	What string `json:"what"`

	err error // why serve has refused the file
}

// tellServe makes each of the user's serve processes that uses a configuration file read it now. It
// returns what they have done with it.
func (w *world) tellServe(ctx context.Context, path string) (all []told) {
	l := locator{w.env}
	served := l.env.servedPath(path)
	for _, p := range l.locateAll(ctx) {
		if sameConfig(p.Config, served) {
			all = append(all, l.tell(ctx, &p))
		}
	}
	slices.Reverse(all) // the eldest first
	return all
}

// tell makes one serve process read its configuration file now.
func (l locator) tell(ctx context.Context, p *located) told {
	out := told{Address: p.address, PID: p.PID}
	late := errors.New("it has not answered yet, and reads the file by itself")
	ctx, cancel := context.WithTimeoutCause(ctx, tellTime, late)
	defer cancel()
	s, err := l.runningOf(&p.Presence, p.address)
	var r *admin.Reloaded
	if err == nil {
		defer s.close()
		r, err = s.reload(ctx)
	}
	var bad *problemError
	switch {
	case err == nil:
		out.Applied, out.What = true, r.What
	case errors.As(err, &bad) && bad.kind == "refused":
		out.What, out.err = err.Error(), err
	case errors.As(err, &bad) && bad.kind == "not-found": // an older version, which has no such request
		out.What = late.Error()
	default:
		out.What = err.Error()
	}
	return out
}

// sayTold prints what the running serves have done with the changed file. It returns an error if one
// of them has refused it.
func (w *world) sayTold(all []told) error {
	for _, t := range all {
		if t.err == nil && !w.quiet {
			w.status.Printf("serve at %s: %s", t.Address, t.What)
		}
	}
	return refusedBy(all)
}

// refusedBy returns the errors of the serves that have refused the changed file.
func refusedBy(all []told) error {
	var refused []error
	for _, t := range all {
		if t.err != nil {
			refused = append(refused, t.err)
		}
	}
	return errors.Join(refused...)
}
