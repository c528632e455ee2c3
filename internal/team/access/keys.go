package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Key is what we know of a key. The secret isn't part of it.
type Key struct {
	ID      ID
	Sum     [sha256.Size]byte // see MACKey.Sum
	Name    string            // what people call the key
	Owner   string            // the subject of the person whom the key acts for; "" if the key is a subject of its own
	Project string            // the only project where the key works
	Servers []string          // patterns of the servers that the key may use; none means all
	Tools   []string          // patterns of the tools, SERVER/TOOL, that the key may use; none means all
	Role    identity.Role
	Until   time.Time // when the key expires; zero means never

	// OldSum is that of the secret before a rotation, which works until OldUntil.
	OldSum   [sha256.Size]byte
	OldUntil time.Time
}

// InForce reports whether the key has not expired.
func (k *Key) InForce(now time.Time) bool { return k.Until.IsZero() || now.Before(k.Until) }

// Keys are the keys in force. They are immutable. The zero value has no keys.
type Keys struct {
	mac    MACKey
	byID   map[ID]*known
	forged int             // see Forged
	from   *store.Snapshot // see Desk.Keys; nil for keys of NewKeys
	fresh  chan<- struct{} // see uses; nil for keys of NewKeys
}

// Any reports whether there are keys, also expired ones.
func (k *Keys) Any() bool { return len(k.byID) > 0 }

// Forged returns how many rows of the database are no keys, because somebody else has written them.
func (k *Keys) Forged() int { return k.forged }

type known struct {
	Key
	who identity.Principal
	use *use // nil for keys of NewKeys
}

// KeySubject begins the seats of keys, and the subjects of those that act for no person.
const KeySubject = store.KeySubject

// NewKeys returns the keys of a list whose sums were made with mac.
func NewKeys(mac MACKey, list []Key) *Keys {
	k := &Keys{mac: mac, byID: make(map[ID]*known, len(list))}
	for _, x := range list {
		seat := KeySubject + x.ID.String()
		who := identity.Principal{Subject: x.Owner, Seat: seat, Via: "key", Until: x.Until}
		if x.Owner == "" {
			who.Subject, who.Name = seat, x.Name
		}
		k.byID[x.ID] = &known{Key: x, who: who}
	}
	return k
}

// NameOwners gives the principals of those keys that act for somebody a name. It must be called before the
// keys are used.
func (k *Keys) NameOwners(name func(subject string) string) {
	for _, x := range k.byID {
		if x.Owner != "" {
			x.who.Name = name(x.Owner)
		}
	}
}

// nobody is compared with when nobody has an id, so that an unknown id takes the same steps as a wrong
// secret.
var nobody known

// find returns the key of a text, or nil if the text is not that of a key in force.
func (k *Keys) find(text string, now time.Time) *known {
	id, secret, ok := parse(mark, text)
	if !ok {
		return nil
	}
	x, exists := k.byID[id]
	if !exists {
		x = &nobody
	}
	sum := k.mac.Sum(&secret)
	is := subtle.ConstantTimeCompare(sum[:], x.Sum[:]) == 1
	was := subtle.ConstantTimeCompare(sum[:], x.OldSum[:]) == 1
	switch {
	case !exists, !is && !was, !x.InForce(now), !is && !now.Before(x.OldUntil):
		return nil
	}
	return x
}

// Of returns the key with the seat of a principal, or nil if it isn't in force, or if who has no key.
func (k *Keys) Of(who *identity.Principal) *Key {
	if who == nil || who.Via != "key" || len(who.Seat) != len(KeySubject)+idSize {
		return nil
	}
	x := k.byID[ID([]byte(who.Seat[len(KeySubject):]))]
	if x == nil || who.Seat != x.who.Seat {
		return nil
	}
	return &x.Key
}

// Principal returns who comes with the key that has an id, or nil if there is no such key.
func (k *Keys) Principal(id string) *identity.Principal {
	if x, ok := ParseID(id); ok && k.byID[x] != nil {
		return &k.byID[x].who
	}
	return nil
}

// InForce returns the seats of the keys that have not expired, and when the first of them will, which is
// zero if none will.
func (k *Keys) InForce(now time.Time) (seats map[string]bool, next time.Time) {
	seats = make(map[string]bool, len(k.byID))
	for _, x := range k.byID {
		if !x.InForce(now) {
			continue
		}
		seats[x.who.Seat] = true
		if !x.Until.IsZero() && (next.IsZero() || x.Until.Before(next)) {
			next = x.Until
		}
	}
	return seats, next
}
