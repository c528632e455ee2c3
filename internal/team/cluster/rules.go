package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// State is what a replica does.
type State string

// The states. A replica begins with Ready. Nobody comes back from Gone and Dead: a process that is called dead, but
// lives, goes on under another incarnation.
const (
	Ready    State = "ready"
	Draining State = "draining" // ends its calls, and stops then
	Gone     State = "gone"     // has stopped by itself
	Dead     State = "dead"     // another replica has buried it
)

// Member is a replica, as its row says.
type Member struct {
	Incarnation string
	Name        string // for people and balancers; several may have the same
	Address     string // where other replicas reach it
	Fingerprint []byte // of the key with which it shows who it is
	Protocol    int
	Version     string
	State       State
	Started     time.Time
	Reaches     bool          // it reaches most of those that it calls; see neighbours
	Silence     time.Duration // since it last wrote that it lives, by the clock of the database
	seen        string        // the time of that, as the database writes it
	clock       time.Time     // the time when the row was read, by the same clock
}

// Lives reports whether the member may still have what clients ask for.
func (m *Member) Lives() bool { return m.State == Ready || m.State == Draining }

const (
	// Protocol is the version of what replicas send to each other, seal for each other and write into rows. Two neighbouring
	// versions can be side by side, since the newer one also understands the older one's, and has to write that while such a
	// replica lives.
	Protocol = 1

	beatEvery = time.Second     // between two heartbeats
	lookEvery = 2 * time.Second // between two looks at the members
	within    = 3 * time.Second // for one statement of those

	// staleAfter is how long a replica must have been silent to be buried. If its address refuses connections,
	// refusedAfter suffices: the listener for replicas opens first and closes last.
	staleAfter, refusedAfter = 10 * time.Second, 5 * time.Second

	// aloneAfter is how long a replica must have reached too few of its neighbours before it leaves clients to others,
	// and mostNeighbours how many it has.
	aloneAfter     = 10 * time.Second
	mostNeighbours = 5

	// clockLimit is how far the clock of a machine may be from that of the database before we say so. Replicas live by the
	// clock of the database, but what clients and people get is good until a time, by the clock of whoever has given it.
	clockLimit = 30 * time.Second
)

// tooFar returns a replica that runs and can't be beside one with this version of the protocol, or nil.
func tooFar(all []Member, protocol int) *Member {
	for i := range all {
		if m := &all[i]; m.Lives() && m.Silence < staleAfter && (m.Protocol-protocol > 1 || protocol-m.Protocol > 1) {
			return m
		}
	}
	return nil
}

// finding is what a replica finds out when it calls another one.
type finding int

const (
	answered finding = iota
	refused          // nobody listens at the address
	silent           // the address doesn't answer, or somebody else does
)

// buries reports whether a replica may write into the row of m that it's dead. It needs three witnesses: the row is
// stale; our own view of the database has been steady for longer than that, so that it's not we who were away; and the
// replica doesn't answer us either. A process that was stopped for a moment still accepts connections, so it has the
// time that it takes to be stale.
func buries(m *Member, steady time.Duration, f finding) bool {
	limit := staleAfter
	if f == refused {
		limit = refusedAfter
	}
	return m.Lives() && f != answered && m.Silence >= limit && steady > limit
}

// suspect reports whether it's worth calling m, because buries could say yes.
func suspect(m *Member, steady time.Duration) bool { return buries(m, steady, refused) }

// writes reports whether a replica is there for new requests, and has written a moment ago that it is.
func writes(m *Member) bool { return m.State == Ready && m.Silence < refusedAfter }

// neighbours returns those that a replica calls from time to time, to know whether it could pass on requests: the next
// ones in the order of the rows, which everybody sees alike. Who is silent isn't among them, since a replica that was
// killed says nothing about our ways to the others.
func neighbours(all []Member, me string) (out []*Member) {
	at := slices.IndexFunc(all, func(m Member) bool { return m.Incarnation == me })
	for i := 1; i <= len(all) && len(out) < mostNeighbours; i++ {
		if m := &all[(at+i)%len(all)]; m.Incarnation != me && writes(m) {
			out = append(out, m)
		}
	}
	return out
}

// reachesMost reports whether a replica reaches enough of the neighbours that it has tried.
func reachesMost(tried, reached int) bool { return tried > 0 && 2*reached >= tried }

// cutOff reports whether a replica leaves new requests to others, because it has reached too few of its neighbours for
// as long as alone. Somebody has to be there who says that they reach theirs: they stay, so at least one does, whatever
// breaks. If nobody says so, the network between all of them is down. Then all stay, because what clients ask for can
// often be served without another replica. Of two that don't reach each other in one direction, the one stays that can
// pass requests on.
func cutOff(all []Member, me string, alone time.Duration) bool {
	return alone >= aloneAfter && slices.ContainsFunc(all, func(m Member) bool { return m.Incarnation != me && writes(&m) && m.Reaches })
}

// incarnationLength is the length of each incarnation.
const incarnationLength = 13

// mark is what stands before an id: the name of a replica and its incarnation.
func mark(name, incarnation string) string { return name + "-" + incarnation }

// NameOf makes the name of a replica from the name of its machine: up to 32 small letters, digits and hyphens.
func NameOf(host string) string {
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, host)
	return cmp.Or(strings.Trim(name[:min(len(name), 32)], "-"), "replica")
}

// homeOf returns the incarnation in a marked id, or "" if there is none. The id may be any text.
func homeOf(id string) string {
	at, _, ok := strings.Cut(id, ".")
	i := len(at) - incarnationLength
	if !ok || i < 2 || i > 33 || at[i-1] != '-' || strings.Trim(at[:i], "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return ""
	}
	for _, c := range at[i:] {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') { // the alphabet of rand.Text
			return ""
		}
	}
	return at[i:]
}
