package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/intake"
)

// overlap says which servers of a client's file Dragoman's configuration has too.
type overlap struct {
	paths [][]string // the entries of the servers that both have
	twice []string   // the names of those that a connected client shows twice
	alone []string   // the names of the servers that only the client has
	off   []string   // the names of those that both have, but only the client shows
}

// comparison returns a comparison with the servers of the configuration file.
func (e environment) comparison(file string) (*intake.Comparison, error) {
	path, found := e.configPath(file)
	if !found {
		return nil, e.noConfig()
	}
	b, err := clientfile.Load(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return e.comparisonWith(path, b)
}

// comparisonWith returns a comparison with the servers of a configuration file with the content b.
func (e environment) comparisonWith(path string, b []byte) (*intake.Comparison, error) {
	old, err := intake.ParseOurs(path, b, intake.Env(e))
	if err != nil {
		return nil, err
	}
	return intake.NewComparison(path, old, intake.Env(e)), nil
}

// overlapOf compares the servers of a client's file with the configuration. If only is not "", it
// looks only for the server with this name in the configuration.
func overlapOf(s *intake.Source, with *intake.Comparison, only string) (o overlap) {
	for i := range s.File.Servers {
		server := &s.File.Servers[i]
		if server.Dragoman || server.Path == nil {
			continue
		}
		own, both := with.Find(server)
		hidden := server.Entry.Get("disabled") != nil
		switch {
		case only != "" && (!both || own.Name != only):
		case !both:
			o.alone = append(o.alone, server.Original)
		case own.Disabled && !hidden:
			o.off = append(o.off, server.Original)
		default:
			o.paths = append(o.paths, server.Path)
			if !hidden {
				o.twice = append(o.twice, server.Original)
			}
		}
	}
	return o
}

// importFirst plans to import those servers of the client's file that Dragoman doesn't have yet, so that all
// can be moved.
func (c *connectCommand) importFirst(x *connection) error {
	im := &importCommand{world: c.world}
	f, err := c.env.readOwn(c.config)
	if err != nil {
		return err
	}
	s, err := readPlace(intake.Machine(c.env), x.place, false, x.addresses)
	if err != nil || s == nil {
		return err
	}
	s.word = x.client.ID
	r, err := im.plan(f, []*source{s}, nil)
	if err != nil {
		return withHint(err, "move the servers to Dragoman's file yourself, then run this command again")
	}
	if len(r.new()) > 0 {
		x.importer, x.imported = im, r
		x.importDiff = maskedDiff(r.into, r.change.Before, r.change.After)
	}
	return nil
}

// writeImport imports the servers. If a running serve refuses the changed file, the servers stay in the
// client's file.
func (c *connectCommand) writeImport(ctx context.Context, x *connection) error {
	if !c.asJSON {
		c.announce(x.importDiff)
	}
	if err := x.importer.make(ctx, x.imported); err != nil {
		return err
	}
	return refusedBy(x.imported.told)
}

// reportImport prints what was imported, or would be.
func (c *connectCommand) reportImport(x *connection) {
	if x.imported == nil {
		return
	}
	x.importer.tellImport(x.imported)
	if c.quiet {
		return
	}
	for _, l := range x.imported.notes() {
		c.status.label(yellow, "note", clean(excerpt.MaskSecrets(l)))
	}
	_ = c.sayTold(x.imported.told)
}

// overlapWith compares the client's file with the configuration.
func (c *connectCommand) overlapWith(x *connection) (overlap, error) {
	with, err := (*intake.Comparison)(nil), error(nil)
	if r := x.imported; r != nil {
		with, err = c.env.comparisonWith(r.into, r.change.After)
	} else {
		with, err = c.env.comparison(c.config)
	}
	if err != nil {
		return overlap{}, err
	}
	s, err := readPlace(intake.Machine(c.env), x.place, true, x.addresses)
	if err != nil || s == nil {
		return overlap{}, err
	}
	return overlapOf(s.Source, with, c.server), nil
}

// moveOut takes the entries of the servers that Dragoman has too out of the client's file.
func (x *connection) moveOut() (err error) {
	if len(x.overlap.paths) == 0 {
		return nil
	}
	x.action = "move"
	for _, p := range x.overlap.paths {
		x.moved = append(x.moved, p[len(p)-1])
	}
	x.overlap.twice = nil
	x.kept = clientfile.Change{Path: clientfile.MovedFile(x.path), Private: true}
	if x.kept.Before, err = clientfile.Load(x.kept.Path); err != nil {
		return fmt.Errorf("cannot read %s: %w", x.kept.Path, err)
	}
	if x.kept.After, err = clientfile.AddMoved(x.path, x.kept.Before, x.before, x.overlap.paths); err != nil {
		return err
	}
	x.after, err = clientfile.Move(x.path, x.before, x.overlap.paths)
	return err
}

// planRemove plans to take back what earlier commands have changed in the client's file.
func (c *connectCommand) planRemove(x *connection) (err error) {
	if x.entry.Name, err = c.nameToRemove(x); err != nil || x.before == nil {
		return err
	}
	root, err := clientfile.Parse(x.path, x.before)
	if err != nil {
		return err
	}
	f := clientfile.History{Name: x.path, Now: x.before, Earlier: clientfile.Backups(x.path)}
	u := clientfile.Undo{Entry: x.entry.Name}
	// The moved entries come back when the last entry of Dragoman goes.
	names := clientfile.Connected(x.client, root, x.addresses)
	if len(names) == 0 || len(names) == 1 && names[0] == u.Entry {
		path := clientfile.MovedFile(x.path)
		if u.Moved, err = clientfile.Load(path); err != nil {
			return fmt.Errorf("cannot read %s: %w", path, err)
		}
		if u.Moved != nil {
			x.kept = clientfile.Change{Path: path, Before: u.Moved}
			x.moved = u.Returning(x.client, x.path)
		}
	}
	if c.name == "" && c.server == "" {
		u.Wrapped = clientfile.Wraps(x.client, f, u.Moved)
	}
	if x.after, err = clientfile.Disconnect(x.client, f, u, x.addresses); err != nil {
		return err
	}
	if u.Moved == nil && !bytes.Equal(x.before, x.after) && x.madeByUs() {
		x.after = nil
	}
	return nil
}

// planWrap plans to put `dragoman run` in front of an entry, or to take it away.
func (c *connectCommand) planWrap(x *connection) error {
	x.entry.Name, x.action = c.wrap, "wrap"
	if x.after = x.before; c.remove {
		x.action = "unwrap"
	}
	s, err := readPlace(intake.Machine(c.env), x.place, false, x.addresses)
	if err != nil {
		return err
	}
	if s == nil {
		return withHint(fmt.Errorf("%s does not exist", x.path), "name another file with --file")
	}
	var server *clientfile.Server
	var names []string
	for i := range s.File.Servers {
		if s.File.Servers[i].Original == c.wrap {
			server = &s.File.Servers[i] // Claude Code prefers the server of a project, which comes later
		}
		names = append(names, s.File.Servers[i].Original)
	}
	if server == nil {
		return unknownServer(c.wrap, x.path, names)
	}
	root, err := clientfile.Parse(x.path, x.before)
	if err != nil {
		return err
	}
	wrapped := clientfile.IsWrapped(root, server.Path)
	switch {
	case server.Dragoman:
		return usagef("name an entry of another server", "%s: the entry %q leads to Dragoman already", x.path, c.wrap)
	case c.remove && wrapped:
		f := clientfile.History{Name: x.path, Now: x.before, Earlier: clientfile.Backups(x.path)}
		x.after, err = clientfile.Disconnect(x.client, f, clientfile.Undo{Wrapped: [][]string{server.Path}}, x.addresses)
	case !c.remove && !wrapped:
		self, e := c.self()
		if e != nil {
			return e
		}
		if url := server.Entry.Get("url"); url != nil {
			x.openURL = url.Text != excerpt.MaskSecrets(url.Text)
		}
		if x.after, err = clientfile.Wrap(x.client, x.path, x.before, server, self); err == nil && !clientfile.IsWrapped(x.parsed(), server.Path) {
			return withHint(fmt.Errorf("the name of this program, %s, is not dragoman, so later commands would not know the entry", clean(self)), "rename the program to dragoman")
		}
	}
	var syntax *clientfile.SyntaxError
	if err != nil && !errors.As(err, &syntax) {
		err = fmt.Errorf("%s: %s: %w", x.path, c.wrap, err)
	}
	return err
}

// parsed returns the values of the file after the change.
func (x *connection) parsed() *clientfile.Value {
	root, _ := clientfile.Parse(x.path, x.after)
	return root
}

// nothing says why there is nothing to change.
func (c *connectCommand) nothing(x *connection) string {
	switch {
	case c.wrap != "" && c.remove:
		return fmt.Sprintf("%q in %s does not start through Dragoman", c.wrap, x.path)
	case c.wrap != "":
		return fmt.Sprintf("%q in %s starts through Dragoman already", c.wrap, x.path)
	case c.remove:
		return fmt.Sprintf("%s has no entry %q in %s", x.client.Title, x.entry.Name, x.path)
	}
	return fmt.Sprintf("%s is connected already, as %q in %s", x.client.Title, x.entry.Name, x.path)
}

// reportMoved says which entries have left the client's file, or are back in it.
func (c *connectCommand) reportMoved(x *connection) {
	switch {
	case len(x.moved) == 0:
	case c.remove:
		c.status.Printf("back in the file: %s", joinNames(x.moved))
	default:
		c.status.Printf("moved to %s: %s; --remove puts them back", x.kept.Path, joinNames(x.moved))
	}
}

// reportOverlap says which servers a client shows twice, and which stay in its file.
func (c *connectCommand) reportOverlap(x *connection) {
	if n := len(x.overlap.twice); n > 0 && !c.remove {
		c.status.label(yellow, "hint", clean(fmt.Sprintf("once connected, %s shows %s twice, because Dragoman has %s too: %s; add --move to take %[3]s out of the client's file", x.client.Title, quantity(n, "server"), them(n), strings.Join(x.overlap.twice, ", "))))
	}
	if len(x.overlap.alone) > 0 && c.move && !c.remove { // they could not be imported
		how := "dragoman import --from " + shellWord(cmp.Or(c.file, x.client.ID))
		if c.config != "" {
			how += " --into " + shellWord(c.config)
		}
		c.status.label(yellow, "hint", clean("not in Dragoman, so not moved: "+strings.Join(x.overlap.alone, ", ")+"; `"+how+" --dry-run` says why"))
	}
	if len(x.overlap.off) > 0 && c.move && !c.remove {
		c.status.label(yellow, "hint", clean("disabled in Dragoman, so not moved: "+strings.Join(x.overlap.off, ", ")+"; `dragoman enable NAME` enables a server"))
	}
	if x.openURL {
		c.status.label(yellow, "warning", clean("the URL of "+c.wrap+" holds what looks like a credential, and every user of this machine can read a command line"))
	}
}

// them returns the pronoun for n things.
func them(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}
