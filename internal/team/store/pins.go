package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
	"github.com/dragoman-mcp/dragoman/internal/team/sqldb"
)

const pinKind = "pin"

// Pins returns the pins of a project, without their definitions.
func (s *Snapshot) Pins(project string) []pins.Pin { return s.pins[project] }

// SamePins reports whether another snapshot has the same pins; see SameKeys.
func (s *Snapshot) SamePins(as *Snapshot) bool { return s.same(as, pinKind) }

// TrustPins adds pins for what has none yet. What another process has seen first stays. It's no act, since
// nobody decided anything.
func (t *Tx) TrustPins(project string, all []pins.Pin) error {
	added, room := false, pins.Room{}
	for i := range all {
		p := &all[i]
		n, err := t.t.Count("FROM pins WHERE project = ? AND server = ? AND kind = ? AND name = ?", project, p.Server, p.Kind, p.Name)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		if err := t.setPin(project, p, room); err != nil {
			return err
		}
		added = true
	}
	if !added {
		return nil
	}
	return t.changed("trusted", pinKind, project)
}

// DecidePin adds a pin that somebody has approved or rejected. Of the decisions about one definition, the newest are
// kept; see pins.MaxDecided.
func (t *Tx) DecidePin(project string, p pins.Pin) error {
	var before string
	err := t.t.Row("SELECT state FROM pins WHERE project = ? AND server = ? AND kind = ? AND name = ? AND sum = ?", []any{project, p.Server, p.Kind, p.Name, p.Sum.String()}, &before)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		err = t.setPin(project, &p, pins.Room{})
	}
	if err != nil {
		return err
	}
	const decided = "project = ? AND server = ? AND kind = ? AND name = ? AND state <> 'trusted'"
	of := []any{project, p.Server, p.Kind, p.Name}
	err = t.t.Exec("DELETE FROM pins WHERE "+decided+" AND since < (SELECT since FROM pins WHERE "+decided+" ORDER BY since DESC LIMIT 1 OFFSET ?)",
		slices.Concat(of, of, []any{pins.MaxDecided - 1})...)
	if err != nil {
		return err
	}
	return t.did(string(p.State), pinKind, project+"/"+p.Server+"/"+p.Kind+":"+p.Name+"@"+p.Sum.String(), about{project, facts{"state": before}, facts{"state": string(p.State)}})
}

// setPin adds a pin, without its definition if its server has no room left for that.
func (t *Tx) setPin(project string, p *pins.Pin, room pins.Room) error {
	if _, known := room[p.Server]; !known {
		var kept int
		err := t.t.Row("SELECT COALESCE(SUM(LENGTH(definition)), 0) FROM pins WHERE project = ? AND server = ?", []any{project, p.Server}, &kept)
		if err != nil {
			return err
		}
		room[p.Server] = pins.MaxDefinitions - kept
	}
	fits := room.Fit(*p)
	p = &fits
	return t.t.Exec("INSERT INTO pins ("+pinColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "+
		"ON CONFLICT (project, server, kind, name, sum) DO UPDATE SET state = excluded.state, since = excluded.since, actor = excluded.actor",
		project, p.Server, p.Kind, p.Name, p.Sum.String(), string(p.State), nonNil(p.Definition), t.t.Now, t.actor)
}

// removePins removes the pins of a project.
func (t *Tx) removePins(project string) error {
	n, err := t.t.Count("FROM pins WHERE project = ?", project)
	if err != nil || n == 0 {
		return err
	}
	if err := t.t.Exec("DELETE FROM pins WHERE project = ?", project); err != nil {
		return err
	}
	return t.changed("removed", pinKind, project)
}

const pinColumns = "project, server, kind, name, sum, state, definition, since, actor"

// PinsOf returns all pins of one definition, with what was pinned, the oldest first.
func (s *Store) PinsOf(ctx context.Context, project string, id pins.ID) (all []pins.Pin, err error) {
	err = s.read(ctx, func(t *sqldb.Tx) error {
		all = nil
		return t.Each(func(scan func(...any) error) error {
			_, p, err := scanPin(scan)
			all = append(all, p)
			return err
		}, "SELECT "+pinColumns+" FROM pins WHERE project = ? AND server = ? AND kind = ? AND name = ? ORDER BY since", project, id.Server, id.Kind, id.Name)
	})
	return all, err
}

func readPins(t *sqldb.Tx, into *Snapshot) error {
	into.pins = map[string][]pins.Pin{}
	return t.Each(func(scan func(...any) error) error {
		project, p, err := scanPin(scan)
		into.pins[project] = append(into.pins[project], p)
		return err
	}, "SELECT project, server, kind, name, sum, state, '', since, actor FROM pins")
}

func scanPin(scan func(...any) error) (project string, p pins.Pin, err error) {
	var sum, state, since string
	if err := scan(&project, &p.Server, &p.Kind, &p.Name, &sum, &state, &p.Definition, &since, &p.Actor); err != nil {
		return "", p, err
	}
	var ok bool
	if p.Sum, ok = pins.ParseSum(sum); !ok {
		return "", p, errors.New("the hash of a pin cannot be read")
	}
	p.State = pins.State(state)
	p.Since, err = moment(since)
	return project, p, err
}
