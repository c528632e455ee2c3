package config

import (
	"maps"
	"slices"
	"strings"
)

// Complete checks a Server that did not come from a file. It also sets the kind and the
// fingerprint, and fills in missing values, such as the limits of Default. The returned Problem has
// no position. Its path is relative to the server, for example "url" or "env.K".
func Complete(s Server) (Server, *Problem) {
	switch {
	case s.Command == "" && s.URL == "":
		return s, &Problem{Text: "needs a command or a URL"}
	case s.Command != "" && s.URL != "":
		return s, &Problem{Text: "has both a command and a URL"}
	case s.Command != "":
		s.Kind = KindStdio
		if len(s.Header) > 0 {
			return s, &Problem{Path: "headers", Text: "headers can only be used with a url", Hint: "pass credentials in environment variables"}
		}
	default:
		if bad, hint := badURL(s.URL); bad != "" {
			return s, &Problem{Path: "url", Text: bad, Hint: hint}
		}
		if len(s.Env) > 0 || s.Dir != "" {
			return s, &Problem{Path: "url", Text: "env and cwd can only be used with a command"}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return s, &Problem{Path: join("env", nameOnly(k)), Text: "is not a valid variable name"}
		}
	}
	for _, f := range s.Header {
		path := join("headers", nameOnly(f.Name))
		if bad, hint := badHeader(f.Name); bad != "" {
			return s, &Problem{Path: path, Text: bad, Hint: hint}
		}
		if bad := badHeaderValue(f.Value.Reveal()); bad != "" {
			return s, &Problem{Path: path, Text: bad}
		}
	}
	if s.Profile == nil {
		var bad *Problem
		if s.Profile, bad = chooseDialect(nil, s.Dialect); bad != nil {
			return s, bad
		}
	}
	if s.Profile != nil && s.Profile.Bridge != "" && s.URL != "" {
		return s, &Problem{Path: "dialect", Text: "works only with a command, not with a url"}
	}
	if s.URL != "" && s.SignIn.How == HowAuto && s.authorized() {
		s.SignIn.How = HowHeaders
	}
	s.fillIn()
	s.Fingerprint = fingerprint(&s, nil)
	return s, nil
}

// fillIn sets the prefix and the limits that are not set.
func (s *Server) fillIn() {
	d := Default().Limits
	if s.Prefix == "" && !s.Unprefixed {
		s.Prefix = s.Name
	}
	if s.CallTimeout == 0 {
		s.CallTimeout = d.Call
	}
	if s.CallMax == 0 {
		s.CallMax = max(d.CallMax, s.CallTimeout)
	}
	if s.StartTimeout == 0 {
		s.StartTimeout = d.Start
		if s.Runner() != "" {
			s.StartTimeout = RunnerStart
		}
	}
	if s.Message == 0 {
		s.Message = d.Message
	}
}
