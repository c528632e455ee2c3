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
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/folderlock"
	"github.com/dragoman-mcp/dragoman/internal/relay/pins"
)

// This file is about the file of a pinKeeper. Lines are appended, until there are more decisions about one definition
// than are kept.

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

// locked calls do while no other process, and nobody else here, uses the file. If there can't be a file, it does
// nothing.
func (k *pinKeeper) locked(ctx context.Context, do func() error) error {
	if k.file == "" {
		return nil
	}
	dir, err := os.Open(filepath.Dir(k.file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pinFileWait, fmt.Errorf("another process has kept %s for %s", k.file, pinFileWait))
	defer cancel()
	unlock, err := folderlock.Lock(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	return do()
}

// pinFileWait is how long other processes may keep the file.
const pinFileWait = 10 * time.Second

func (k *pinKeeper) readLocked(ctx context.Context) (all map[string][]pins.Pin, err error) {
	err = k.locked(ctx, func() error {
		all, err = k.read()
		return err
	})
	return all, err
}

// add adds pins to the file. Of a server that has filled its part of the file, the definitions are left out.
func (k *pinKeeper) add(ctx context.Context, project string, all []pins.Pin) error {
	if k.file == "" {
		return nil // the log has said so
	}
	if err := os.MkdirAll(filepath.Dir(k.file), 0o700); err != nil {
		return err
	}
	return k.locked(ctx, func() error {
		if k.hasRoom(all) {
			return k.append(project, all)
		}
		known, err := k.read()
		if err != nil {
			return err
		}
		room, all := pins.RoomAfter(known[project]), slices.Clone(all)
		for i := range all {
			all[i] = room.Fit(all[i])
		}
		for i := range all {
			if rest, dropped := pins.Bound(append(known[project], all...), all[i].ID); dropped {
				known[project] = rest
				return k.rewrite(known)
			}
		}
		return k.append(project, all)
	})
}

// hasRoom reports whether pins are within all bounds, whatever is in the file.
func (k *pinKeeper) hasRoom(all []pins.Pin) bool {
	size := int64(0)
	if info, err := os.Stat(k.file); err == nil {
		size = info.Size()
	}
	for i := range all {
		if size += int64(len(all[i].Definition)); all[i].State != pins.Trusted {
			return false
		}
	}
	return size < pins.MaxDefinitions
}

// append appends pins to the file. The caller has the lock.
func (k *pinKeeper) append(project string, all []pins.Pin) error {
	text, err := pinLines(project, all)
	if err != nil {
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
	if err == nil {
		_, err = f.Write(text)
	}
	return errors.Join(err, f.Close())
}

// rewrite replaces the file. The caller has the lock.
func (k *pinKeeper) rewrite(all map[string][]pins.Pin) error {
	f, err := os.CreateTemp(filepath.Dir(k.file), ".pins-*") // os.CreateTemp sets the mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	for project, list := range all {
		text, textErr := pinLines(project, list)
		if err = errors.Join(err, textErr); err == nil {
			_, err = f.Write(text)
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), k.file)
}

// pinLines returns the lines of pins.
func pinLines(project string, all []pins.Pin) ([]byte, error) {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	lines.SetEscapeHTML(false)
	for i := range all {
		p := &all[i]
		line := pinLine{project, p.Server, p.Kind, p.Name, p.Sum.String(), string(p.State), p.Since.UTC(), p.Actor, string(p.Definition)}
		if err := lines.Encode(line); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// read returns the pins in the file by project, or nil if there is no file. The caller has the lock. A line that can't be
// read, such as one of which a crash has left half, is as one that isn't there.
func (k *pinKeeper) read() (map[string][]pins.Pin, error) {
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
