package catalog

import (
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Audience identifies a group of clients that see the same lists. These clients speak revisions of
// one era and have the same canonical capabilities, because a server's lists may depend on the
// capabilities that its client declares. All clients that cannot answer server requests, and have
// no extension that changes the lists, are in one audience, the zero Audience.
type Audience struct {
	caps string // the era and the canonical capabilities of the clients; "" in the zero Audience
}

// AudienceOf returns the audience of a client. f is nil for a request that has no client.
func AudienceOf(f *mcp.ClientInfo) Audience {
	if f == nil {
		return Audience{}
	}
	caps := mcp.CanonicalCapabilities(f.Capabilities)
	switch {
	case caps == nil:
		return Audience{}
	case f.Revision.Legacy():
		// A server that supports both eras has separate sessions for legacy clients.
		return Audience{caps: "legacy " + string(caps)}
	}
	return Audience{caps: "modern " + string(caps)}
}

// capabilities returns the sorted names of the capabilities that the clients of the audience
// declare.
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

// knownAudience is an audience for which the catalog keeps lists.
type knownAudience struct {
	Audience
	facts *mcp.ClientInfo // the client information that the catalog uses to read lists; never nil
	// Catalog.mu guards the following fields.
	party string // the party of the first client of the audience; see mcp.ClientInfo.Party
	used  time.Time
}

// everybody is the audience of clients that cannot answer server requests. It also serves clients
// for whose own audience the catalog has no room. The catalog never removes this audience.
var everybody = &knownAudience{facts: &mcp.ClientInfo{}}

// These constants limit the number of audiences, not including everybody. The limits are low,
// because each audience may need its own session at every legacy server. At a limit, a new audience
// can only replace an audience that was unused for at least audienceRest.
const (
	maxAudiences        = 16 // in one catalog
	maxAudiencesOfParty = 4
	audienceRest        = time.Minute // how long an audience must be unused before a new audience may replace it
)

// audience returns the audience whose lists a client sees. If the catalog has no room for the
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

// audienceLocked returns the audience with the given key, and creates it if necessary. If the
// client's party already has maxAudiencesOfParty audiences, the new audience replaces one of them.
// Otherwise, if the catalog has maxAudiences audiences, the new audience replaces one of the party
// that has the most audiences. In both cases, it replaces the audience that was unused for the
// longest time. audienceLocked returns nil if this time is shorter than audienceRest.
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

// knownLocked returns the audience with the given key, or nil if the catalog does not have it.
func (c *Catalog) knownLocked(key Audience) *knownAudience {
	if key == (Audience{}) {
		return everybody
	}
	return c.audiences[key]
}
