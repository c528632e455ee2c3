package issuers

import (
	"slices"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// places says at which endpoints a token counts.
type places struct {
	all bool // it was issued for an audience that the configuration names
	of  []place
}

// place is an audience that is a URL.
type place struct{ scheme, host, path string }

// placesOf returns where a token with these claims counts. If it has no audience at all, it counts where the
// claim that the configuration names instead has one of its values.
func (x *issuer) placesOf(c *claims) (p places) {
	if len(c.audience) == 0 {
		return places{all: x.Claim != "" && slices.ContainsFunc(c.texts(x.Claim), func(v string) bool { return slices.Contains(x.Audience, v) })}
	}
	for _, aud := range c.audience {
		if x.Claim == "" && slices.Contains(x.Audience, aud) {
			return places{all: true}
		}
		if at, ok := placeOf(aud); ok {
			p.of = append(p.of, at)
		}
	}
	return p
}

// placeOf returns the place of an http or https URL. The text isn't decoded: what has an escape in it is no URL of
// ours.
func placeOf(url string) (place, bool) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok || !strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "http") || strings.ContainsAny(rest, "?#@") {
		return place{}, false
	}
	host, path, slash := strings.Cut(rest, "/")
	if host == "" {
		return place{}, false
	}
	if slash {
		path = "/" + path
	}
	return place{scheme, host, path}, true
}

// cover reports whether a token counts at a target.
func (p *places) cover(at httpdoor.Target) bool {
	if p.all {
		return true
	}
	for i := range p.of {
		if at.Covers(p.of[i].scheme, p.of[i].host, p.of[i].path) {
			return true
		}
	}
	return false
}
