package fake

import "slices"

// strictSettings are the settings of every server that is based on a strict server.
var strictSettings = []Setting{
	{"page", "4", "entries in one page of a list"},
	{"drop", "0", "events after which the HTTP stream of a wait is closed, so that the client has to resume; 0 for never"},
}

func strictServers() []Profile {
	var all []Profile
	for _, ed := range editions() {
		all = append(all, Profile{
			Name: "strict-" + ed.date, Kind: Strict, Side: ServerSide, Settings: strictSettings,
			About:  "A server of " + ed.date + " that supports every feature of it and refuses everything else.",
			server: func(s *settings) (*part, error) { return strictPart(ed, s) },
		})
	}
	return all
}

func strictPart(ed *edition, s *settings) (*part, error) {
	page, err := s.number("page", 1, 1000)
	if err != nil {
		return nil, err
	}
	drop, err := s.number("drop", 0, 1000)
	if err != nil {
		return nil, err
	}
	return &part{ed: ed, page: page, drop: drop}, nil
}

// revised returns the settings of a profile that works in several revisions. The parameter missing
// is the default revision.
func revised(missing string, more ...Setting) []Setting {
	return slices.Concat([]Setting{{"revision", missing, "the revision that the peer speaks"}}, strictSettings, more)
}

// twistedPart returns the part of a strict server with the twist t.
func twistedPart(s *settings, t twist) (*part, error) {
	ed, err := s.edition()
	if err != nil {
		return nil, err
	}
	p, err := strictPart(ed, s)
	if err != nil {
		return nil, err
	}
	p.twist = t
	return p, nil
}
