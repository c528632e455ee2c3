package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/app/admin"
	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// pinKeeper keeps the pins of definitions: in the store if there is a database, and else in a file beside
// the place where it would be, since who keeps nothing else has no database, and a server changes mostly between two starts. When
// the database comes, what the file has goes there. It implements runtime.PinKeeper.
type pinKeeper struct {
	store *store.Store
	file  string // "" for none
}

// newPinKeeper returns a keeper with a file, or one without if that is "". If others can write to its folder, no file
// is used: they could approve what a server says.
func newPinKeeper(s *store.Store, file string, log *slog.Logger) *pinKeeper {
	k := &pinKeeper{store: s}
	if file == "" {
		return k
	}
	folder := filepath.Dir(file)
	if err := admin.CheckPrivate(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the pins could not be kept, so a change is not noticed after the next start", "cause", folder+": "+err.Error())
		return k
	}
	k.file = file
	return k
}

// stored reports whether the pins are in the store. What the file has goes there first.
func (k *pinKeeper) stored(ctx context.Context) (bool, error) {
	if k.store == nil || k.store.State().Place == store.Absent {
		return false, nil
	}
	return true, k.locked(ctx, func() error {
		all, err := k.read()
		if err != nil || all == nil {
			return err
		}
		for project, list := range all {
			if err := k.move(ctx, project, list); err != nil {
				return err
			}
		}
		return os.Remove(k.file)
	})
}

// move copies pins from the file to the store.
func (k *pinKeeper) move(ctx context.Context, project string, all []pins.Pin) error {
	for i := range all {
		p := &all[i]
		actor := p.Actor
		if p.State == pins.Trusted || actor == "" {
			actor = identity.Local.Subject
		}
		err := k.store.Write(ctx, actor, func(t *store.Tx) error {
			if p.State == pins.Trusted {
				return t.TrustPins(project, []pins.Pin{*p})
			}
			return t.DecidePin(project, *p)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Pins implements runtime.PinKeeper.
func (k *pinKeeper) Pins(project string) ([]pins.Pin, error) {
	stored, err := k.stored(context.Background())
	if err != nil {
		return nil, err
	}
	if stored {
		return k.store.Snapshot().Pins(project), nil
	}
	all, err := k.readLocked(context.Background())
	return all[project], err
}

// PinsOf implements runtime.PinKeeper.
func (k *pinKeeper) PinsOf(ctx context.Context, project string, id pins.ID) (out []pins.Pin, err error) {
	if stored, err := k.stored(ctx); stored || err != nil {
		if err != nil {
			return nil, err
		}
		return k.store.PinsOf(ctx, project, id)
	}
	all, err := k.readLocked(ctx)
	for _, p := range all[project] {
		if p.ID == id {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b pins.Pin) int { return a.Since.Compare(b.Since) })
	return out, err
}

// Trust implements runtime.PinKeeper.
func (k *pinKeeper) Trust(ctx context.Context, project string, all []pins.Pin) error {
	stored, err := k.stored(ctx)
	if err != nil {
		return err
	}
	if stored {
		return k.store.Write(ctx, "dragoman", func(t *store.Tx) error { return t.TrustPins(project, all) })
	}
	return k.add(ctx, project, all)
}

// Decide implements runtime.PinKeeper.
func (k *pinKeeper) Decide(ctx context.Context, actor, project string, p pins.Pin) error {
	stored, err := k.stored(ctx)
	if err != nil {
		return err
	}
	if stored {
		return k.store.Write(ctx, actor, func(t *store.Tx) error { return t.DecidePin(project, p) })
	}
	return k.add(ctx, project, []pins.Pin{p})
}

// changedPins returns how many changed definitions wait for a decision, by project and server.
func (d *daemon) changedPins() map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, p := range d.runtime.Projects() {
		all[p.Name()] = p.ChangedDefinitions()
	}
	return all
}

// questions returns how many questions wait for a person, by project and server.
func (d *daemon) questions() map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, p := range d.runtime.Projects() {
		all[p.Name()] = p.Questions().ByServer()
	}
	return all
}

// followPins tells the projects when another process has kept pins, until ctx ends.
func followPins(ctx context.Context, s *store.Store, changed func()) {
	before := s.Snapshot()
	for {
		if !wait(ctx, before.Replaced(), time.Time{}) {
			return
		}
		now := s.Snapshot()
		if !now.SamePins(before) {
			changed()
		}
		before = now
	}
}
