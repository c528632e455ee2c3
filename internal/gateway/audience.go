package gateway

import (
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// audience is who sees the same lists: clients of one era with the same canonical
// capabilities. What a server lists may depend on what its client declares, and a
// legacy server's sessions are kept per set of capabilities for the same reason. All
// clients that no server can ask for anything are one audience, whose key is "".
type audience struct {
	key   string
	facts *mcp.ClientInfo // with which lists are read; never nil
	// The others are under catalog.mu.
	party string // which came first; see party
	used  time.Time
}

// everybody is the audience of clients that cannot be asked, and of those for whose
// capabilities there is no room. Its lists are kept for as long as the gateway.
var everybody = &audience{facts: &mcp.ClientInfo{}}

// The bounds of audiences beside everybody. Each may cost a session of every legacy
// server, so they are few, and those in use are not exchanged for newcomers.
const (
	maxAudiences        = 16 // of one gateway
	maxAudiencesOfParty = 4
	audienceRest        = time.Minute // since its last use, before it may be forgotten
)

// audienceKey tells the audiences apart.
func audienceKey(f *mcp.ClientInfo) string {
	caps := mcp.CanonicalCapabilities(f.Capabilities)
	switch {
	case caps == nil:
		return ""
	case f.Revision.Legacy():
		// On a server of both eras it has sessions of its own era.
		return "legacy " + string(caps)
	}
	return "modern " + string(caps)
}

// audience returns the audience that a client belongs to. nil stands for a request
// without a client.
func (c *catalog) audience(f *mcp.ClientInfo) *audience {
	if f == nil {
		return everybody
	}
	key := audienceKey(f)
	if key == "" {
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
// where there is no room for it. Room is made by the audience that nobody has used for
// longest: one of the newcomer's own where it has its share, else one of the party that
// has most.
func (c *catalog) audienceLocked(key string, f *mcp.ClientInfo) *audience {
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
		var oldest *audience
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
		c.forgetLocked(oldest)
	}
	a := &audience{key: key, party: who, used: now, facts: &mcp.ClientInfo{
		Revision: f.Revision, Info: f.Own().Info, Capabilities: mcp.CanonicalCapabilities(f.Capabilities),
	}}
	if c.audiences == nil {
		c.audiences = make(map[string]*audience)
	}
	c.audiences[key] = a
	return a
}

func (c *catalog) forgetLocked(a *audience) {
	delete(c.audiences, a.key)
	for key := range c.parts {
		if key.audience == a.key {
			delete(c.parts, key)
		}
	}
	for key := range c.editions {
		if key.audience == a.key {
			delete(c.editions, key)
		}
	}
}

// knownLocked returns the audience of a key, nil for one that was forgotten.
func (c *catalog) knownLocked(key string) *audience {
	if key == "" {
		return everybody
	}
	return c.audiences[key]
}
