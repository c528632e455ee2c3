package catalog

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Audience is the clients that see the same lists: clients of one era with the same
// canonical capabilities and the same credentials. What a server lists may depend on what
// its client declares, and a legacy server's sessions are kept per set of capabilities for
// the same reason. All clients that no server can ask for anything are one audience, the
// zero Audience.
type Audience struct {
	caps string // era and canonical capabilities
}

// AudienceOf returns the audience of a client. Nil stands for a request without a client.
func AudienceOf(f *mcp.ClientInfo) Audience {
	if f == nil {
		return Audience{}
	}
	caps := mcp.CanonicalCapabilities(f.Capabilities)
	switch {
	case caps == nil:
		return Audience{}
	case f.Revision.Legacy():
		// On a server of both eras it has sessions of its own era.
		return Audience{caps: "legacy " + string(caps)}
	}
	return Audience{caps: "modern " + string(caps)}
}

// knownAudience is an audience for which lists are kept.
type knownAudience struct {
	Audience
	facts *mcp.ClientInfo // with which lists are read; never nil
	// The others are under Catalog.mu.
	party string // of the client that came first; see mcp.ClientInfo.Party
	used  time.Time
}

// everybody is the audience of clients that cannot be asked, and of those for whose
// capabilities there is no room. Its lists are kept for as long as the catalog.
var everybody = &knownAudience{facts: &mcp.ClientInfo{}}

// The bounds of audiences besides everybody. Each may cost a session of every legacy
// server, so they are few, and an audience in use does not give way to a new one.
const (
	maxAudiences        = 16 // of one catalog
	maxAudiencesOfParty = 4
	audienceRest        = time.Minute // since its last use, before it may be forgotten
)

// audience returns the audience whose lists a client sees: its own, or everybody where
// there is no room for its own.
func (c *Catalog) audience(f *mcp.ClientInfo) *knownAudience {
	key := AudienceOf(f)
	if key == (Audience{}) {
		return everybody
	}
	c.mu.Lock()
	a := c.audienceLocked(key, f)
	c.mu.Unlock()
	if a == nil {
		c.lost("", mcp.MethodListTools, "too many sets of client capabilities are in use: further clients see the lists for clients without capabilities")
		return everybody
	}
	return a
}

// audienceLocked returns the audience of a key, a new one where there is none, and nil
// where there is no room for it. The audience that was not used for longest makes room:
// one of the same party if that has its share, else one of the party that has most.
func (c *Catalog) audienceLocked(key Audience, f *mcp.ClientInfo) *knownAudience {
	now := time.Now()
	if a := c.audiences[key]; a != nil {
		a.used = now
		return a
	}
	who := f.Party()
	count := map[string]int{}
	for _, a := range c.audiences {
		count[a.party]++
	}
	if count[who] >= maxAudiencesOfParty || len(c.audiences) >= maxAudiences {
		var oldest *knownAudience
		for _, a := range c.audiences {
			switch {
			case count[who] >= maxAudiencesOfParty && a.party != who:
			case oldest == nil, count[a.party] > count[oldest.party],
				count[a.party] == count[oldest.party] && a.used.Before(oldest.used):
				oldest = a
			}
		}
		if now.Sub(oldest.used) < audienceRest {
			return nil
		}
		c.forgetLocked(oldest.Audience)
	}
	a := &knownAudience{Audience: key, party: who, used: now, facts: &mcp.ClientInfo{
		Revision: f.Revision, Info: f.Own().Info, Capabilities: mcp.CanonicalCapabilities(f.Capabilities),
	}}
	if c.audiences == nil {
		c.audiences = make(map[Audience]*knownAudience)
	}
	c.audiences[key] = a
	return a
}

func (c *Catalog) forgetLocked(a Audience) {
	delete(c.audiences, a)
	for key := range c.lists {
		if key.audience == a {
			delete(c.lists, key)
		}
	}
	for key := range c.merged {
		if key.audience == a {
			delete(c.merged, key)
		}
	}
}

// knownLocked returns the audience of a key, nil for one that was forgotten.
func (c *Catalog) knownLocked(key Audience) *knownAudience {
	if key == (Audience{}) {
		return everybody
	}
	return c.audiences[key]
}
