package catalog

import (
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/mcp"
)

// Audience identifies a group of clients that see the same lists. These clients speak revisions of
// one era, and have the same canonical capabilities and the same credentials. What a server lists
// may depend on the capabilities that its client declares. For the same reason, a legacy server has
// separate sessions for each set of capabilities. All clients that cannot answer server requests
// are one audience, the zero Audience.
type Audience struct {
	caps string // era and canonical capabilities of the clients
}

// AudienceOf returns the audience of a client. Nil stands for a request that has no client.
func AudienceOf(f *mcp.ClientInfo) Audience {
	if f == nil {
		return Audience{}
	}
	caps := mcp.CanonicalCapabilities(f.Capabilities)
	switch {
	case caps == nil:
		return Audience{}
	case f.Revision.Legacy():
		// On a server of both eras, a legacy client has sessions of its own era.
		return Audience{caps: "legacy " + string(caps)}
	}
	return Audience{caps: "modern " + string(caps)}
}

// capabilities returns the names of the capabilities of the clients of a, sorted.
func (a Audience) capabilities() (names []string) {
	_, caps, _ := strings.Cut(a.caps, " ")
	for name := range jsonrpc.ValueOf([]byte(caps)).Members() {
		if text, ok := name.Text(); ok {
			names = append(names, text)
		}
	}
	slices.Sort(names)
	return names
}

// knownAudience is an audience that the catalog keeps lists for.
type knownAudience struct {
	Audience
	facts *mcp.ClientInfo // the client information that lists are read with; never nil
	// The following fields are guarded by Catalog.mu.
	party string // party of the first client of the audience; see mcp.ClientInfo.Party
	used  time.Time
}

// everybody is the audience of clients that cannot answer server requests. It is also used for
// clients whose own audience would exceed the bounds. Its lists are kept as long as the catalog
// exists.
var everybody = &knownAudience{facts: &mcp.ClientInfo{}}

// These constants bound the audiences other than the audience everybody. The bounds are low, because
// each audience may need its own session at every legacy server. A new audience does not replace one
// that is in use.
const (
	maxAudiences        = 16 // in one catalog
	maxAudiencesOfParty = 4
	audienceRest        = time.Minute // an audience that was not used for this long may be removed
)

// audience returns the audience whose lists a client sees. If the bounds leave no room for the
// client's own audience, it returns the audience everybody.
func (c *Catalog) audience(f *mcp.ClientInfo) *knownAudience {
	key := AudienceOf(f)
	if key == (Audience{}) {
		return everybody
	}
	c.mu.Lock()
	a := c.audienceLocked(key, f)
	c.mu.Unlock()
	if a == nil {
		c.lost("", mcp.MethodListTools, "too many different sets of client capabilities; new clients see the lists for clients without capabilities")
		return everybody
	}
	return a
}

// audienceLocked returns the audience of a key, and creates it if necessary. It returns nil if
// the bounds leave no room for a new audience. At a bound, the audience that was unused for the
// longest time is removed. If the client's party has used its share, the removed audience is one of
// this party. Otherwise it is one of the party with the most audiences.
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

// knownLocked returns the audience of a key, or nil if it was removed.
func (c *Catalog) knownLocked(key Audience) *knownAudience {
	if key == (Audience{}) {
		return everybody
	}
	return c.audiences[key]
}
