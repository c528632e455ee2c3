package fake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind says what sort of peer a profile is.
type Kind string

// The kinds, in the order in which Profiles lists them.
const (
	Strict  Kind = "strict"  // one revision, all of it and nothing else
	Dialect Kind = "dialect" // a family of real peers that are nearly right
	Fault   Kind = "fault"   // a strict peer with one thing wrong
)

// Side says which end of a conversation a profile plays.
type Side string

// The sides.
const (
	ServerSide Side = "server"
	ClientSide Side = "client"
)

// Profile describes one peer that can be played.
type Profile struct {
	// Name is what it is asked for by. A name that ends in "=" wants a parameter
	// after it.
	Name  string
	About string // one sentence
	Kind  Kind
	Side  Side
	// Settings are what Options.Set may change.
	Settings []Setting

	server func(s *settings) (*part, error) // of a server: how it is played
	client func(s *settings) (*role, error) // of a client that OpenClient plays
	script *script                          // of any other client
}

// Setting is a parameter of a profile. Its values are text; those of numbers and
// durations in milliseconds are decimal.
type Setting struct{ Name, Default, About string }

// Profiles returns all profiles in a stable order: strict ones first, then the
// dialects, then the faults, and of each kind the servers before the clients.
func Profiles() []Profile {
	// A file adds its profiles by being named here.
	all := slices.Concat(
		strictServers(),
		strictClients(),
		codexServers(),
		faultServers(),
		manifestServers(),
		nearlyServers(),
		nearlyClients(),
		habitualClients(),
	)
	kinds, sides := []Kind{Strict, Dialect, Fault}, []Side{ServerSide, ClientSide}
	slices.SortStableFunc(all, func(a, b Profile) int {
		if d := slices.Index(kinds, a.Kind) - slices.Index(kinds, b.Kind); d != 0 {
			return d
		}
		return slices.Index(sides, a.Side) - slices.Index(sides, b.Side)
	})
	return all
}

// Lookup returns the profile of a name. A parameter, as in "crash-at=list", is
// part of the name that is asked for and not of the profile's.
func Lookup(side Side, name string) (Profile, bool) {
	p, _, ok := find(side, name)
	return p, ok
}

// find is Lookup that returns the parameter too.
func find(side Side, name string) (p Profile, parameter string, ok bool) {
	base, parameter, given := strings.Cut(name, "=")
	if given {
		base += "="
	}
	for _, p := range Profiles() {
		if p.Side == side && p.Name == base {
			return p, parameter, true
		}
	}
	return Profile{}, "", false
}

func unknownProfile(side Side, name string) error {
	var names []string
	for _, p := range Profiles() {
		if p.Side == side {
			names = append(names, p.Name)
		}
	}
	return fmt.Errorf("there is no %s profile %q; there are %s", side, name, strings.Join(names, ", "))
}

// settings are the values that one peer is played with.
type settings struct {
	parameter string // behind the = of the profile's name
	values    map[string]string
}

// settle joins what a profile offers with what is asked for.
func settle(p *Profile, parameter string, set map[string]string) (*settings, error) {
	s := &settings{parameter: parameter, values: map[string]string{}}
	var names []string
	for _, d := range p.Settings {
		s.values[d.Name] = d.Default
		names = append(names, d.Name)
	}
	asked := make([]string, 0, len(set))
	for name := range set {
		asked = append(asked, name)
	}
	slices.Sort(asked) // so that the same mistake gets the same words
	for _, name := range asked {
		if _, ok := s.values[name]; !ok {
			return nil, fmt.Errorf("profile %s has no setting %q; it has %s", p.Name, name, listed(names))
		}
		s.values[name] = set[name]
	}
	return s, nil
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// number returns a setting between two bounds.
func (s *settings) number(name string, least, most int) (int, error) {
	n, err := strconv.Atoi(s.values[name])
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("setting %s is %q; it is a number from %d to %d", name, s.values[name], least, most)
	}
	return n, nil
}

// edition returns the revision that the setting "revision" names.
func (s *settings) edition() (*edition, error) {
	e := editionOf(s.values["revision"])
	if e == nil {
		var dates []string
		for _, e := range editions() {
			dates = append(dates, e.date)
		}
		return nil, fmt.Errorf("setting revision is %q; there are %s", s.values["revision"], strings.Join(dates, ", "))
	}
	return e, nil
}
