package daemon

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
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

	turn chan struct{} // contains one value while the file is read or written
}

// maxPinFile is the size in bytes above which nothing is added to the file.
const maxPinFile = 64 << 20

// newPinKeeper returns a keeper with a file, or one without if that is "". If others can write to its folder, no file
// is used: they could approve what a server says.
func newPinKeeper(s *store.Store, file string, log *slog.Logger) *pinKeeper {
	k := &pinKeeper{store: s, turn: make(chan struct{}, 1)}
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

// pinLine is a line of the file. A later line about the same definition takes precedence, but the first that was
// trusted stays the only one.
type pinLine struct {
	Project    string    `json:"project"`
	Server     string    `json:"server"`
	Kind       string    `json:"kind"`
	Name       string    `json:"name"`
	Sum        string    `json:"sha256"`
	State      string    `json:"state"`
	Since      time.Time `json:"since"`
	Actor      string    `json:"actor,omitempty"`
	Definition string    `json:"definition,omitempty"`
}

// stored reports whether the pins are in the store. What the file has goes there first.
func (k *pinKeeper) stored(ctx context.Context) (bool, error) {
	if k.store == nil || k.store.State().Place == store.Absent {
		return false, nil
	}
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	all, err := k.read()
	if err != nil || len(all) == 0 {
		return true, err
	}
	for project, list := range all {
		if err := k.move(ctx, project, list); err != nil {
			return true, err
		}
	}
	if err := os.Remove(k.file); err != nil && !errors.Is(err, fs.ErrNotExist) { // another process may have moved them, too
		return true, err
	}
	return true, nil
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
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	all, err := k.read()
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
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	all, err := k.read()
	for _, p := range all[project] {
		if p.ID == id {
			out = append(out, p)
		}
	}
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
	return k.add(project, all)
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
	return k.add(project, []pins.Pin{p})
}

// add appends pins to the file.
func (k *pinKeeper) add(project string, all []pins.Pin) error {
	if k.file == "" {
		return nil // the log has said so
	}
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	for i := range all {
		p := &all[i]
		line := pinLine{project, p.Server, p.Kind, p.Name, p.Sum.String(), string(p.State), p.Since.UTC(), p.Actor, string(p.Definition)}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	k.turn <- struct{}{}
	defer func() { <-k.turn }()
	if err := os.MkdirAll(filepath.Dir(k.file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(k.file, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 { // a crash or a full disk may have left half a line, which ours mustn't continue
		end := make([]byte, 1)
		if _, err = f.ReadAt(end, info.Size()-1); err == nil && end[0] != '\n' {
			_, err = f.WriteString("\n")
		}
	}
	if err == nil && info.Size()+int64(b.Len()) > maxPinFile {
		err = fmt.Errorf("%s is larger than %d bytes", k.file, maxPinFile)
	}
	if err == nil {
		_, err = f.Write(b.Bytes()) // in one piece, as other processes may append too
	}
	return errors.Join(err, f.Close())
}

// read returns the pins in the file by project. The caller has the turn. A line that can't be read, such as one of which a crash has
// left half, is as one that isn't there.
func (k *pinKeeper) read() (map[string][]pins.Pin, error) {
	if k.file == "" {
		return nil, nil
	}
	f, err := os.Open(k.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	type pinned struct {
		project string
		pins.ID
		sum pins.Sum
	}
	at, trusted, all := map[pinned]int{}, map[pinned]bool{}, map[string][]pins.Pin{}
	for lines := bufio.NewReader(f); ; { // a line is as long as a server's name for a tool
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var x pinLine
		if json.Unmarshal(line, &x) != nil {
			continue
		}
		sum, ok := pins.ParseSum(x.Sum)
		p := pins.Pin{ID: pins.ID{Server: x.Server, Kind: x.Kind, Name: x.Name}, Sum: sum, State: pins.State(x.State), Since: x.Since, Actor: x.Actor, Definition: []byte(x.Definition)}
		first := pinned{project: x.Project, ID: p.ID}
		if !ok || p.State == pins.Trusted && trusted[first] {
			continue
		}
		trusted[first] = trusted[first] || p.State == pins.Trusted
		if i, again := at[pinned{x.Project, p.ID, sum}]; again {
			all[x.Project][i] = p
			continue
		}
		at[pinned{x.Project, p.ID, sum}] = len(all[x.Project])
		all[x.Project] = append(all[x.Project], p)
	}
}

// changedPins returns how many changed definitions wait for a decision, by project and server.
func (d *daemon) changedPins() map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, p := range d.runtime.Projects() {
		all[p.Name()] = p.ChangedDefinitions()
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
