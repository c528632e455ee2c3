package intake

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/base/excerpt"
	"github.com/dragoman-mcp/dragoman/internal/relay/event"
	"github.com/dragoman-mcp/dragoman/internal/setup/clientfile"
	"github.com/dragoman-mcp/dragoman/internal/setup/config"
)

// Status is the result of comparing a server with the servers of the configuration file.
type Status string

// The values of Status.
const (
	New       Status = "new"
	Same      Status = "same"      // the configuration already has the server
	Different Status = "different" // the configuration has a different server with the same name
	Skipped   Status = "skipped"   // the server cannot be added
)

// Candidate is one server that could be added.
type Candidate struct {
	Status Status
	Why    string // why the server is skipped; "" if it is not skipped
	Name   string // the server's name in Dragoman's configuration file
	Server clientfile.Server
	Source *Source // the file that the server comes from; nil for pasted text
}

// What describes the server on one line, with secrets masked. It returns "" if Server.Entry is nil.
func (c *Candidate) What() string {
	e := c.Server.Entry
	if e == nil {
		return ""
	}
	if u := e.Get("url"); u != nil {
		return excerpt.MaskSecrets(u.Text)
	}
	return excerpt.MaskSecrets(strings.Join(excerpt.Arguments(commandOf(e), excerpt.Mask), " "))
}

// commandOf returns the command of an entry, and its arguments.
func commandOf(e *clientfile.Value) []string {
	words := []string{e.Get("command").Text}
	if args := e.Get("args"); args != nil {
		for _, i := range args.Items {
			words = append(words, i.Text)
		}
	}
	return words
}

// Env looks up an environment variable.
type Env func(name string) (string, bool)

// standIns are values for environment variables that are not set, so that ParseOurs can parse a
// file that uses these variables. ParseOurs tries the values one after the other.
var standIns = []string{"http://unset.invalid", "1", "unset"}

// ParseOurs parses Dragoman's configuration file. The environment variables in the file may be unset,
// and secrets are not read. A nil content means that the file does not exist.
func ParseOurs(path string, b []byte, env Env) (*config.Snapshot, error) {
	if b == nil {
		return config.Default(), nil
	}
	var first error
	for _, in := range standIns {
		s, problems := config.ParseWith(path, b, func(name string) (string, bool) {
			if v, ok := env(name); ok && v != "" {
				return v, true
			}
			return in, true
		}, func(_, _ string) (config.Secret, bool, error) { return config.NewSecret(in), true, nil })
		if s != nil {
			return s, nil
		}
		if first == nil {
			first = problems.Err()
		}
	}
	return nil, first
}

// Comparison compares servers with the servers of a configuration. If several new servers have the
// same name, the first is New, and the others are compared with the first.
type Comparison struct {
	path  string
	env   Env
	taken map[string]config.Server
}

// NewComparison returns a Comparison with the servers of the configuration old. path is the path of
// the configuration file. Relative paths in a server are relative to the folder of that file.
func NewComparison(path string, old *config.Snapshot, env Env) *Comparison {
	x := &Comparison{path: path, env: env, taken: map[string]config.Server{}}
	for _, s := range old.Servers {
		x.taken[s.Name] = s
	}
	return x
}

// Compare compares a server with the configuration, and returns it as a Candidate with the given
// name.
func (x *Comparison) Compare(s clientfile.Server, name string, from *Source) Candidate {
	c := Candidate{Name: name, Server: s, Source: from}
	switch {
	case s.Dragoman:
		c.Status, c.Why = Skipped, "the entry is Dragoman itself"
		return c
	case s.Broken:
		c.Status, c.Why = Skipped, s.Notes[len(s.Notes)-1].String()
		return c
	}
	parsed, err := ParseServer(x.path, name, &s, x.env)
	if err != nil {
		c.Status, c.Why = Skipped, err.Error()
		return c
	}
	switch old, ok := x.taken[name]; {
	case !ok:
		c.Status = New
		x.taken[name] = parsed
	case SameServer(old, parsed):
		c.Status = Same
	default:
		c.Status = Different
	}
	return c
}

// Find returns the server of the configuration that a client's file has too. It is the server with the
// same name, even if it has other secrets, for example because the user has replaced them by references
// after the import. Otherwise it is any server that is the same under another name.
func (x *Comparison) Find(s *clientfile.Server) (own config.Server, ok bool) {
	if s.Entry == nil {
		return own, false
	}
	parsed, err := ParseServer(x.path, s.Name, s, x.env)
	if err != nil {
		return own, false
	}
	if own, ok = x.taken[s.Name]; ok && SameServer(withoutSecrets(own), withoutSecrets(parsed)) {
		return own, true
	}
	for _, name := range slices.Sorted(maps.Keys(x.taken)) {
		if own = x.taken[name]; SameServer(own, parsed) {
			return own, true
		}
	}
	return config.Server{}, false
}

// withoutSecrets returns a server whose variables and headers have only their names.
func withoutSecrets(s config.Server) config.Server {
	env := map[string]config.Secret{}
	for k := range s.Env {
		env[k] = config.Secret{}
	}
	s.Env, s.Header = env, slices.Clone(s.Header)
	for i := range s.Header {
		s.Header[i].Value = config.Secret{}
	}
	return s
}

// ParseServer parses s as an entry of the configuration file at path, with the given name. The
// environment variables in the entry may be unset. The error names the invalid setting.
func ParseServer(path, name string, s *clientfile.Server, env Env) (config.Server, error) {
	one, err := clientfile.AddServers("import.yaml", nil, []clientfile.Added{{Name: name, Entry: s.Entry, Settings: s.Settings}})
	var snapshot *config.Snapshot
	if err == nil {
		snapshot, err = ParseOurs(filepath.Join(filepath.Dir(path), "import.yaml"), one, env)
	}
	if err == nil && len(snapshot.Servers) == 1 {
		return snapshot.Servers[0], nil
	}
	var bad *config.Error
	if errors.As(err, &bad) {
		return config.Server{}, errors.New(bad.Problems[0].Path + " " + bad.Problems[0].Text)
	}
	return config.Server{}, errors.New("the entry is not a valid server")
}

// SameServer reports whether two entries reach the same server in the same way. Settings that
// only Dragoman has are ignored.
func SameServer(a, b config.Server) bool {
	kind := a.Kind == b.Kind || a.Kind == config.KindAuto || b.Kind == config.KindAuto
	env := maps.EqualFunc(a.Env, b.Env, func(x, y config.Secret) bool { return x.Reveal() == y.Reveal() })
	header := slices.EqualFunc(a.Header, b.Header, func(x, y config.Field) bool {
		return strings.EqualFold(x.Name, y.Name) && x.Value.Reveal() == y.Value.Reveal()
	})
	return kind && env && header && a.Command == b.Command && slices.Equal(a.Args, b.Args) && a.URL == b.URL && a.Dir == b.Dir
}

// File is Dragoman's configuration file before a change. Each of its methods returns the content after
// the change, or an error if anything else would change.
type File struct {
	Path   string
	Before []byte           // the content; nil if the file does not exist
	Old    *config.Snapshot // Before, as ParseOurs parses it
	Env    Env
	// Project is the project whose servers change, which Old must have in order; see [ServersOf]. "" is default.
	Project string
}

// ServersOf returns the configuration of a project in that of the whole file, of which the file has the servers. It
// returns nil if the file has no such project, or if the project can't be used.
func ServersOf(s *config.Snapshot, project string) *config.Snapshot {
	if project == "" || project == event.DefaultProject {
		return s
	}
	for _, p := range s.Projects {
		if p.Name == project && p.Config != nil {
			own := *p.Config
			own.Servers = slices.DeleteFunc(slices.Clone(own.Servers), func(c config.Server) bool { return c.Shared })
			return &own
		}
	}
	return nil
}

// own returns a server of the project.
func (f File) own(server string) clientfile.Own {
	return clientfile.Own{Project: f.Project, Server: server}
}

// Merge adds servers.
func (f File) Merge(add []clientfile.Added) ([]byte, error) {
	after, err := clientfile.AddServersTo(f.Path, f.Before, f.Project, add)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if err := f.changed(after, edit{more: len(add)}); err != nil {
		return nil, err
	}
	return after, nil
}

// Remove removes a server.
func (f File) Remove(server string) ([]byte, error) {
	after, err := clientfile.RemoveServer(f.Path, f.Before, f.own(server))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return after, f.changed(after, edit{server: server, more: -1})
}

// Disable disables a server, or enables it if off is false.
func (f File) Disable(server string, off bool) ([]byte, error) {
	after, err := clientfile.SetDisabled(f.Path, f.Before, f.own(server), off)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return after, f.changed(after, edit{server: server})
}

// Expose shows or hides tools of a server. The keys of tools are the server's own names.
func (f File) Expose(server string, tools map[string]bool) ([]byte, error) {
	c, _ := ServersOf(f.Old, f.Project).Server(server)
	filter, ok := c.Expose.Tools, true
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		if filter, ok = filter.With(name, tools[name]); !ok {
			return nil, fmt.Errorf("a pattern of expose in %s decides about the tool %s", f.Path, excerpt.Quote(name, 64))
		}
	}
	after, err := clientfile.SetFilter(f.Path, f.Before, f.own(server), filter.Allow, filter.Deny)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	if err := f.changed(after, edit{server: server}); err != nil {
		return nil, err
	}
	now, err := ParseOurs(f.Path, after, f.Env)
	if err == nil {
		c, _ = ServersOf(now, f.Project).Server(server)
		for name, shown := range tools {
			if _, hidden := c.Expose.Tools.Hides(name); hidden == shown {
				return nil, fmt.Errorf("the tool %s has a name that cannot be written to %s", excerpt.Quote(name, 64), f.Path)
			}
		}
	}
	return after, err
}

// Rewrite writes other texts for the entry of a server and for its settings below dragoman.servers, as
// clientfile.EntryText returns them.
func (f File) Rewrite(server, entry, settings string) ([]byte, error) {
	if strings.TrimSpace(entry) == "" {
		return nil, errors.New("the entry is empty; it needs a command or a url")
	}
	after, err := clientfile.SetEntryText(f.Path, f.Before, f.own(server).Entry(), entry)
	if err == nil {
		after, err = clientfile.SetEntryText(f.Path, after, f.own(server).Settings(), settings)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	return after, f.changed(after, edit{server: server})
}

// edit is the difference that a change of the configuration file may make.
type edit struct {
	server string // the server that may change or go; "" for none
	more   int    // how many servers the file has more than before
}

// changed checks that a change makes only the difference e. The parameter after is the content of the
// file after the change.
func (f File) changed(after []byte, e edit) error {
	now, err := ParseOurs(f.Path, after, f.Env)
	if err != nil {
		return fmt.Errorf("after the change, %s would have problems: %w", f.Path, err)
	}
	if f.Project != "" {
		if err := f.untouched(now); err != nil {
			return err
		}
	}
	was, is := ServersOf(f.Old, f.Project), ServersOf(now, f.Project)
	if was == nil || is == nil {
		return fmt.Errorf("the project %s of %s cannot be used, before the change or after it", f.Project, f.Path)
	}
	for _, s := range was.Servers {
		if s.Name == e.server {
			continue
		}
		if again, ok := is.Server(s.Name); !ok || again.Fingerprint != s.Fingerprint || !SameServer(again, s) {
			return fmt.Errorf("the change would also modify the server %s of %s", s.Name, f.Path)
		}
	}
	if len(is.Servers) != len(was.Servers)+e.more || now.Listen != f.Old.Listen {
		return fmt.Errorf("the change would modify more of %s than it should", f.Path)
	}
	return nil
}

// untouched checks that a change of the project leaves default and the other projects as they are.
func (f File) untouched(now *config.Snapshot) error {
	same := len(now.Servers) == len(f.Old.Servers) && len(now.Projects) == len(f.Old.Projects)
	for i := 0; same && i < len(now.Servers); i++ {
		a, b := now.Servers[i], f.Old.Servers[i]
		same = a.Name == b.Name && a.Fingerprint == b.Fingerprint && SameServer(a, b)
	}
	for i := 0; same && i < len(now.Projects); i++ {
		a, b := now.Projects[i], f.Old.Projects[i]
		same = a.Name == b.Name && (a.Name == f.Project || (a.Config == nil) == (b.Config == nil) && (a.Config == nil || a.Equal(b)))
	}
	if !same {
		return fmt.Errorf("the change would modify more of %s than the project %s", f.Path, f.Project)
	}
	return nil
}

// SetEnvFile returns the content of Dragoman's configuration file with dragoman.envFile set to
// value. It returns an error if anything else would change. b is the content before the change.
func SetEnvFile(path string, b []byte, value string, env Env) ([]byte, error) {
	old, err := ParseOurs(path, b, env)
	if err != nil {
		return nil, err
	}
	after, err := clientfile.AddSetting(path, b, []string{"dragoman"}, "envFile", value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return after, File{Path: path, Before: b, Old: old, Env: env}.changed(after, edit{})
}
