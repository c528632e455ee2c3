package catalog

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/protocol/mcp"
)

// Audience identifies a group of clients that see the same list of a server. These clients speak
// revisions of one era, have the same canonical capabilities and use the same credentials, because
// all of these may change what a server lists. All clients that cannot answer server requests, have
// no extension that changes the lists and have no credentials of their own are in one audience, the
// zero Audience.
type Audience struct {
	caps  string // the era and the canonical capabilities; "" for clients without capabilities
	scope string // the credential scope at the server
}

// AudienceOf returns the audience of a client at a server where it has the given credential scope. f
// is nil for a request that has no client.
func AudienceOf(f *mcp.ClientInfo, scope string) Audience {
	if f == nil {
		return Audience{}
	}
	a := Audience{scope: scope}
	caps := mcp.CanonicalCapabilities(f.Capabilities)
	switch {
	case caps == nil:
	case f.Revision.Legacy():
		// A server that supports both eras has separate sessions for legacy clients.
		a.caps = "legacy " + string(caps)
	default:
		a.caps = "modern " + string(caps)
	}
	return a
}

// fallback returns the audience whose list clients see until their own list is read. Its clients have
// the same credentials, but no capabilities.
func (a Audience) fallback() Audience { return Audience{scope: a.scope} }

// sees reports whether clients of the audience may see the list of the audience to.
func (a Audience) sees(to Audience) bool { return to == a || to == a.fallback() }

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

// knownAudience is a group of clients for which the catalog keeps merged lists. Its clients have the
// same audience at each server. The scope of its own Audience names their scopes at all servers.
type knownAudience struct {
	Audience
	scopes map[string]string // by server; only those that are not ""
	// open is the audience at the servers where the clients have no credentials of their own. Others have
	// it too, so such a server is read once however many people there are.
	open   Audience
	facts  *mcp.ClientInfo // the client information with which the catalog reads lists; never nil
	signed *mcp.ClientInfo // the same for the servers in scopes: the information of one of the clients, with its principal
	// Catalog.mu guards the following fields.
	party string // the party of the first client of the audience; see mcp.ClientInfo.Party
	used  time.Time
}

// everybody is the audience of clients that cannot answer server requests and have no credentials of
// their own. It also serves other clients without credentials for whose audience the catalog has no
// room. The catalog never removes this audience.
var everybody = &knownAudience{facts: &mcp.ClientInfo{}}

// at returns the audience of the clients at one server.
func (a *knownAudience) at(server string) Audience {
	if scope := a.scopes[server]; scope != "" {
		return Audience{a.caps, scope}
	}
	return a.open
}

// factsAt returns the client information with which the catalog reads the lists of a server. It names a
// principal only where that one's credentials matter, since others see the lists of the scope "" too.
func (a *knownAudience) factsAt(server string) *mcp.ClientInfo {
	switch {
	case a.scopes[server] != "":
		return a.signed
	case a.open == Audience{}:
		return everybody.facts // there was no room for the capabilities
	}
	return a.facts
}

// Sees reports whether the client may see the list that was read from a server for an audience.
func (v View) Sees(server string, to Audience) bool {
	scopes, _ := v.c.scopes(v.client)
	return AudienceOf(v.client, scopes[server]).sees(to)
}

// These constants limit the number of audiences, not including everybody. The limits are low,
// because each audience may need its own session at every legacy server. At a limit, a new audience
// can only replace an audience that was unused for at least audienceRest.
const (
	maxAudiences        = 16 // of clients with the same credentials
	maxAudiencesOfParty = 4
	audienceRest        = time.Minute // how long an audience must be unused before a new audience may replace it
	// maxScopes is the maximum number of people with credentials of their own, or of groups that share
	// some, whose lists are kept. At this limit, those that were unused for the longest time make room at
	// once: nobody else's lists would do.
	maxScopes = 1000
)

// scopes returns the credential scopes of a client by server, without those that are "". key names
// all of them, and is "" if there are none.
func (c *Catalog) scopes(f *mcp.ClientInfo) (all map[string]string, key string) {
	if f == nil || f.Who == nil {
		return nil, ""
	}
	for _, u := range c.Sources {
		if scope := u.Scope(f); scope != "" {
			if all == nil {
				all = make(map[string]string)
			}
			all[u.Name()] = scope
			key += strconv.Quote(u.Name()) + strconv.Quote(scope)
		}
	}
	return all, key
}

// audience returns the audience whose lists a client sees. If the catalog has no room for the
// client's own audience, it is the one without capabilities.
func (c *Catalog) audience(f *mcp.ClientInfo) *knownAudience {
	scopes, scope := c.scopes(f)
	key := AudienceOf(f, scope)
	if key == (Audience{}) {
		return everybody
	}
	c.mu.Lock()
	a := c.audienceLocked(key, scopes, f)
	full := a == nil
	if full && scope != "" {
		a = c.audienceLocked(key.fallback(), scopes, f)
	}
	c.mu.Unlock()
	if full {
		c.lost("", mcp.MethodListTools, "too many different sets of client capabilities; new clients see the lists for clients without capabilities")
	}
	if a == nil {
		return everybody
	}
	return a
}

// audienceLocked returns the audience with the given key, and creates it if necessary. It returns nil
// if there is no room, but never for a client without capabilities.
func (c *Catalog) audienceLocked(key Audience, scopes map[string]string, f *mcp.ClientInfo) *knownAudience {
	now := time.Now()
	if a := c.audiences[key]; a != nil {
		a.used = now
		if open := c.audiences[a.open]; open != nil {
			open.used = now
		}
		return a
	}
	open := key
	if key.scope != "" {
		open = c.openLocked(key.caps, f)
	}
	if key.caps != "" && !c.makeRoomLocked(key.scope, f.Party(), now) {
		return nil
	}
	if key.scope != "" {
		c.dropScopeLocked(key.scope)
	}
	a := &knownAudience{Audience: key, scopes: scopes, open: open, party: f.Party(), used: now, facts: &mcp.ClientInfo{}}
	if key.caps != "" {
		a.facts = &mcp.ClientInfo{Revision: f.Revision, Info: f.Own().Info, Capabilities: mcp.CanonicalCapabilities(f.Capabilities)}
	}
	signed := *a.facts
	signed.Who = f.Who
	a.signed = &signed
	if c.audiences == nil {
		c.audiences = make(map[Audience]*knownAudience)
	}
	c.audiences[key] = a
	return a
}

// makeRoomLocked reports whether there is room for another audience with capabilities. If the client's
// party already has maxAudiencesOfParty audiences, the new audience replaces one of them. Otherwise, if
// there are maxAudiences, it replaces one of the party that has the most. In both cases, it replaces
// the one that was unused for the longest time, if this is at least audienceRest.
func (c *Catalog) makeRoomLocked(scope, who string, now time.Time) bool {
	count, all := map[string]int{}, 0
	for key, a := range c.audiences {
		if key.scope == scope && key.caps != "" {
			count[a.party]++
			all++
		}
	}
	if count[who] < maxAudiencesOfParty && all < maxAudiences {
		return true
	}
	var oldest *knownAudience
	for key, a := range c.audiences {
		switch {
		case key.scope != scope || key.caps == "", count[who] >= maxAudiencesOfParty && a.party != who:
		case oldest == nil, count[a.party] > count[oldest.party],
			count[a.party] == count[oldest.party] && a.used.Before(oldest.used):
			oldest = a
		}
	}
	if now.Sub(oldest.used) < audienceRest {
		return false
	}
	c.forgetLocked(oldest)
	return true
}

// openLocked returns the audience of clients with some capabilities and without credentials of their own,
// or the zero Audience if there is no room for it.
func (c *Catalog) openLocked(caps string, f *mcp.ClientInfo) Audience {
	if caps == "" {
		return Audience{}
	}
	if a := c.audienceLocked(Audience{caps: caps}, nil, f); a != nil {
		return a.Audience
	}
	return Audience{}
}

// dropScopeLocked makes room for the lists of a scope. If there are maxScopes others, it forgets the one
// that was unused for the longest time.
func (c *Catalog) dropScopeLocked(scope string) {
	used := make(map[string]time.Time)
	for key, a := range c.audiences {
		if key.scope != "" && !a.used.Before(used[key.scope]) {
			used[key.scope] = a.used
		}
	}
	if _, known := used[scope]; known || len(used) < maxScopes {
		return
	}
	oldest := ""
	for scope, at := range used {
		if oldest == "" || at.Before(used[oldest]) {
			oldest = scope
		}
	}
	for key, a := range c.audiences {
		if key.scope == oldest {
			c.forgetLocked(a)
		}
	}
}

// forgetLocked removes an audience, and the lists that no other audience needs. With an audience without
// credentials go those that share its lists, so that its lists don't stay without it.
func (c *Catalog) forgetLocked(a *knownAudience) {
	delete(c.audiences, a.Audience)
	if a.scope == "" {
		for _, b := range c.audiences {
			if b.open == a.Audience {
				c.forgetLocked(b)
			}
		}
	}
	for key := range c.merged {
		if key.audience == a.Audience {
			c.dropMergedLocked(key)
		}
	}
	for key := range c.lists {
		if key.audience == a.at(key.server) && c.readerLocked(key, false) == nil {
			delete(c.lists, key)
		}
	}
}

// readerLocked returns an audience whose own list is the one with the given key, or nil if there is
// none. If listening is true, it must have listeners, unless it is everybody.
func (c *Catalog) readerLocked(key serverListKey, listening bool) *knownAudience {
	if key.audience == (Audience{}) {
		return everybody
	}
	for _, a := range c.audiences {
		if a.at(key.server) == key.audience && (!listening || c.listeners[a.Audience] > 0) {
			return a
		}
	}
	return nil
}

// knownLocked returns the audience with the given key, or nil if the catalog does not have it.
func (c *Catalog) knownLocked(key Audience) *knownAudience {
	if key == (Audience{}) {
		return everybody
	}
	return c.audiences[key]
}
