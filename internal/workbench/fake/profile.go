package fake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind classifies a profile.
type Kind string

// The kinds, in the order in which Profiles returns them.
const (
	Strict  Kind = "strict"  // a peer that implements all of one revision and nothing else
	Dialect Kind = "dialect" // a simulation of real peers that deviate from MCP
	Fault   Kind = "fault"   // a strict peer with one fault
)

// Side says whether a profile acts as a server or as a client.
type Side string

// The values of Side.
const (
	ServerSide Side = "server"
	ClientSide Side = "client"
)

// Profile describes one fake peer.
type Profile struct {
	// Name selects the profile. A name that ends in "=" is followed by a parameter.
	Name  string
	About string // the description, in one sentence
	Kind  Kind
	Side  Side
	// Settings lists the settings of the profile. Options.Set and ClientOptions.Set override their
	// values.
	Settings []Setting

	server func(s *settings) (*part, error) // returns the server to simulate; nil for a client
	client func(s *settings) (*role, error) // returns the role that OpenClient simulates; nil for other profiles
	script *script                          // describes a client that OpenClient cannot simulate; nil for other profiles
}

// Setting is a parameter of a profile. Values are text. Numbers are decimal, and durations are
// decimal numbers of milliseconds.
type Setting struct{ Name, Default, About string }

// Profiles returns all profiles in a stable order: strict, dialects, faults. Within each kind,
// servers come before clients.
func Profiles() []Profile {
	// Add the profiles of further files here.
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

// Lookup returns the profile with the given name. The name may have a parameter, as in
// "crash-at=list". The parameter is not part of the profile's name.
func Lookup(side Side, name string) (Profile, bool) {
	p, _, ok := find(side, name)
	return p, ok
}

// find does the same as Lookup, and also returns the parameter.
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
	return fmt.Errorf("unknown %s profile %q; use one of %s", side, name, strings.Join(names, ", "))
}

// settings are the values of the settings of one simulated peer.
type settings struct {
	parameter string // the part of the name after "="
	values    map[string]string
}

// mergeSettings merges a profile's defaults with the given settings.
func mergeSettings(p *Profile, parameter string, set map[string]string) (*settings, error) {
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
	slices.Sort(asked) // sorted, so that error messages are deterministic
	for _, name := range asked {
		if _, ok := s.values[name]; !ok {
			return nil, fmt.Errorf("the profile %s has no setting %q; it has %s", p.Name, name, listed(names))
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

// number returns an integer setting. It fails if the value is out of bounds.
func (s *settings) number(name string, least, most int) (int, error) {
	n, err := strconv.Atoi(s.values[name])
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("the setting %s must be a number from %d to %d, but is %q", name, least, most, s.values[name])
	}
	return n, nil
}

// edition returns the edition that the setting "revision" selects.
// oneOf returns the value of a setting that must be one of all.
func (s *settings) oneOf(name string, all ...string) (string, error) {
	v := s.values[name]
	if !slices.Contains(all, v) {
		return "", fmt.Errorf("the setting %s must be one of %s, but is %q", name, strings.Join(all, ", "), v)
	}
	return v, nil
}

func (s *settings) edition() (*edition, error) {
	var dates []string
	for _, e := range editions() {
		dates = append(dates, e.date)
	}
	date, err := s.oneOf("revision", dates...)
	return editionOf(date), err
}
