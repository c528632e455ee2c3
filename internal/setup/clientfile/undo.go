package clientfile

import (
	"bytes"
	"path/filepath"
	"slices"
)

// Move returns the file b of a client without the entries at paths. All other bytes stay the same.
// AddMoved keeps the entries.
func Move(name string, b []byte, paths [][]string) (out []byte, err error) {
	out = b
	for _, p := range paths {
		if out, err = remove(name, out, p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// MovedFile returns the path of the file that keeps the entries which Move took out of a client's file.
// It has the format of the client's file.
func MovedFile(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return path + ".dragoman-moved"
}

// AddMoved returns the content of the MovedFile with the entries at paths of the client's file b. moved
// is the content so far, or nil.
func AddMoved(name string, moved, b []byte, paths [][]string) ([]byte, error) {
	return copyEntries(name, moved, b, paths)
}

// copyEntries returns the file into with the entries at paths of the file from, as they are written
// there.
func copyEntries(name string, into, from []byte, paths [][]string) (out []byte, err error) {
	root, err := Parse(name, from)
	if err != nil {
		return nil, err
	}
	out = into
	for _, p := range paths {
		found := root.Get(p...)
		if found == nil {
			continue
		}
		v := *found
		if IsTOML(name) {
			v.verbatim, _ = verbatimTOML(bytes.TrimPrefix(from, bom), p)
		} else {
			v.verbatim, _ = verbatimJSON(name, from, p)
		}
		if out, err = set(name, out, p, &v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func set(name string, b []byte, path []string, value *Value) ([]byte, error) {
	if IsTOML(name) {
		return setTOML(name, b, path, value)
	}
	return setJSON(name, b, path, value)
}

func remove(name string, b []byte, path []string) ([]byte, error) {
	if IsTOML(name) {
		return removeTOML(name, b, path)
	}
	return removeJSON(name, b, path)
}

// entries returns the paths of all entries in a file of the client.
func (c *Client) entries(root *Value) (paths [][]string) {
	add := func(path []string, servers *Value) {
		if isMap(servers) {
			for _, m := range servers.Members {
				paths = append(paths, append(slices.Clone(path), m.Key))
			}
		}
	}
	add(c.find(root))
	if all := root.Get("projects"); c.ID == "claude-code" && isMap(all) {
		for _, m := range all.Members {
			add([]string{"projects", m.Key, "mcpServers"}, m.Value.Get("mcpServers"))
		}
	}
	return paths
}

// Wraps returns the paths of the entries that Wrap has changed: now they start Dragoman, and an earlier
// version of the file has them without it. moved is the content of the MovedFile, which can have such
// entries too.
func Wraps(c *Client, f History, moved []byte) (paths [][]string) {
	for _, b := range [][]byte{f.Now, moved} {
		root, err := Parse(f.Name, b)
		if err != nil {
			continue
		}
		for _, p := range c.entries(root) {
			if IsWrapped(root, p) && c.original(f, p, root.Get(p...)) != nil {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

// original returns the entry that Wrap has changed to entry, from an earlier version of the file. It
// returns nil if no version has it.
func (c *Client) original(f History, path []string, entry *Value) *Value {
	words := wordsOf(entry)
	args, _ := ourArgs(words)
	if len(args) < 2 {
		return nil
	}
	for _, was := range f.Earlier {
		root, err := Parse(f.Name, was)
		if err != nil || root.Get(path...) == nil || IsWrapped(root, path) {
			continue
		}
		if again, err := c.wrapped(path[len(path)-1], root.Get(path...), words[0], args[1]); err == nil && same(again, entry) {
			return root.Get(path...)
		}
	}
	return nil
}

// Undo says which changes of a client's file Disconnect takes back.
type Undo struct {
	Entry   string     // the name of Dragoman's entry; "" for none
	Moved   []byte     // the content of the MovedFile; nil if no entry comes back
	Wrapped [][]string // the paths of entries that Wrap has changed
}

// Disconnect returns the file without the changes of connect that u names. All other bytes stay the
// same. If there is no such change, Disconnect returns f.Now itself. If the entry u.Entry is not for
// Dragoman, it returns a *Taken error. An entry that cannot be unwrapped gives ErrUnwrap. Any other
// error is a *SyntaxError.
//
// If these changes are the only difference between the file and an older version, Disconnect returns
// the older version. So it also restores the order of entries, and removes a mapping of servers that
// Connect created only for its entry.
func Disconnect(c *Client, f History, u Undo, addresses []string) ([]byte, error) {
	root, err := Parse(f.Name, f.Now)
	if err != nil {
		return nil, err
	}
	path, _ := c.find(root)
	entry := append(slices.Clone(path), u.Entry)
	if old := root.Get(entry...); u.Entry != "" && old != nil && !ours(c, old, addresses) {
		return nil, &Taken{u.Entry}
	}
	moved, err := u.moved(c, f.Name)
	if err != nil {
		return nil, err
	}
	// Each command of connect leaves a backup, so we go back from one to the next as long as only these
	// commands changed the file.
	b := f.Now
	for _, was := range f.Earlier {
		if again := u.redo(f.Name, was, b, entry, moved); again != nil && bytes.Equal(again, b) {
			b = was
		}
	}
	if root, err = Parse(f.Name, b); err != nil {
		return nil, err
	}
	// The entry may now be a server of the user that Dragoman's entry has replaced.
	if old := root.Get(entry...); u.Entry != "" && old != nil && ours(c, old, addresses) {
		if b, err = remove(f.Name, b, entry); err != nil {
			return nil, err
		}
	}
	return u.takeBack(c, History{f.Name, b, f.Earlier}, moved)
}

// Returning returns the names of the entries that u puts back into the client's file.
func (u Undo) Returning(c *Client, name string) (names []string) {
	paths, _ := u.moved(c, name)
	for _, p := range paths {
		names = append(names, p[len(p)-1])
	}
	return names
}

// moved returns the paths of the entries in the MovedFile.
func (u Undo) moved(c *Client, name string) ([][]string, error) {
	if u.Moved == nil {
		return nil, nil
	}
	root, err := Parse(name, u.Moved)
	if err != nil {
		return nil, err
	}
	return c.entries(root), nil
}

// redo makes the changes in the older version was of a file that distinguish it from now: it moves
// entries, wraps entries and adds Dragoman's entry. It returns nil if there is no such change.
func (u Undo) redo(name string, was, now []byte, entry []string, moved [][]string) []byte {
	old, err := Parse(name, was)
	if err != nil {
		return nil
	}
	root, err := Parse(name, now)
	if err != nil {
		return nil
	}
	out, changed := was, false
	step := func(b []byte, e error) {
		changed = true
		if out, err = b, e; e != nil {
			out = nil
		}
	}
	taken := false
	for _, p := range moved {
		isEntry := slices.Equal(p, entry)
		if old.Get(p...) != nil && (root.Get(p...) == nil || isEntry && !same(old.Get(p...), root.Get(p...))) && err == nil {
			taken = taken || isEntry
			step(remove(name, out, p))
		}
	}
	for _, p := range u.Wrapped {
		if old.Get(p...) != nil && IsWrapped(root, p) && !IsWrapped(old, p) && err == nil {
			step(rewrite(name, out, p, root.Get(p...)))
		}
	}
	if u.Entry != "" && root.Get(entry...) != nil && (taken || old.Get(entry...) == nil) && err == nil {
		step(set(name, out, entry, root.Get(entry...)))
	}
	if !changed || err != nil {
		return nil
	}
	return out
}

// takeBack puts moved entries back and unwraps wrapped ones in a file that another program has changed
// too.
func (u Undo) takeBack(c *Client, f History, moved [][]string) (out []byte, err error) {
	root, err := Parse(f.Name, f.Now)
	if err != nil {
		return nil, err
	}
	// A server that the user has added again under the name stays.
	moved = slices.DeleteFunc(moved, func(p []string) bool { return root.Get(p...) != nil })
	if out, err = copyEntries(f.Name, f.Now, u.Moved, moved); err != nil {
		return nil, err
	}
	if root, err = Parse(f.Name, out); err != nil {
		return nil, err
	}
	for _, p := range u.Wrapped {
		now := root.Get(p...)
		if !IsWrapped(root, p) {
			continue
		}
		was, ok := c.original(f, p, now), true
		if was == nil {
			if was, ok = c.unwrapped(now); !ok {
				return nil, ErrUnwrap
			}
		}
		if out, err = rewrite(f.Name, out, p, was); err != nil {
			return nil, err
		}
	}
	return out, nil
}
