package access

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// Desk makes, rotates and revokes keys. It is safe for concurrent use.
type Desk struct {
	safe  *store.Safe
	known atomic.Pointer[MACKey] // once it was needed; it never changes
	then  func(context.Context)  // see Then; nil if nobody waits for changes
	uses  *uses
}

// NewDesk returns a desk that keeps its keys in a safe.
func NewDesk(s *store.Safe) *Desk { return &Desk{safe: s, uses: newUses()} }

// Then makes the desk call f after each change, before whoever has made the change hears that it is done:
// who gets a new key shall be able to use it at once. Then must be called before the desk is used.
func (d *Desk) Then(f func(context.Context)) { d.then = f }

// DefaultLife is how long a key is good if nobody says otherwise.
const DefaultLife = 90 * 24 * time.Hour

// macName is the name of the sealed MACKey among the values of the house.
const macName = "keys"

// Wish is what a new key shall be.
type Wish struct {
	Name    string // what people call it
	Owner   string // see Key
	Project string
	Servers []string
	Tools   []string
	Role    identity.Role
	Life    time.Duration // 0 means that the key does not expire
}

// Mistake is an error of whoever asks the desk: a sentence.
type Mistake string

func (m Mistake) Error() string { return string(m) }

// ErrNoKey says that no key has an id.
const ErrNoKey = Mistake("no key has this id")

// Limits of a wish, so that a row of the database stays small.
const (
	maxName     = 100 // bytes
	maxPatterns = 100
	maxPattern  = 200 // bytes
)

// Check returns a Mistake if no such key can be made.
func (w *Wish) Check() error {
	switch {
	case strings.TrimSpace(w.Name) == "" || len(w.Name) > maxName || !printable(w.Name):
		return Mistake(fmt.Sprintf("a key needs a name of 1 to %d bytes, without control characters", maxName))
	case strings.Contains(w.Name, mark):
		return Mistake("a key can't be the name of a key, because names are shown")
	case w.Project == "":
		return Mistake("a key needs a project")
	case w.Role < identity.Caller || w.Role > identity.Admin:
		return Mistake("a key needs a role: caller, viewer, operator or admin")
	case w.Life < 0:
		return Mistake("a key can't expire before it is made")
	case w.Role != identity.Caller && len(w.Servers)+len(w.Tools) > 0:
		return Mistake("only a key with the role caller can be for some servers or tools")
	case len(w.Servers) > maxPatterns || len(w.Tools) > maxPatterns:
		return Mistake(fmt.Sprintf("a key can have %d patterns at most", maxPatterns))
	}
	for _, p := range w.Servers {
		if p == "" || len(p) > maxPattern || strings.Contains(p, "/") || !printable(p) {
			return Mistake(fmt.Sprintf("%q is no pattern for servers: write a name, in which * stands for any text", p))
		}
	}
	for _, p := range w.Tools {
		if len(p) > maxPattern || !printable(p) || !strings.Contains(p, "/") {
			return Mistake(fmt.Sprintf("%q is no pattern for tools: write SERVER/TOOL, in which * stands for any text", p))
		}
	}
	return nil
}

// printable reports whether a text is UTF-8 that people see as it is: without line breaks, other control characters,
// and what turns the direction of text or has no width.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// Make makes a key. text is the only copy of the key, to be shown once.
func (d *Desk) Make(ctx context.Context, actor string, w Wish) (text string, k store.Key, err error) {
	texts, keys, err := d.MakeAll(ctx, actor, []Wish{w})
	if err != nil {
		return "", store.Key{}, err
	}
	return texts[0], keys[0], nil
}

// MakeAll makes several keys in one change, or none; see Make.
func (d *Desk) MakeAll(ctx context.Context, actor string, wishes []Wish) (texts []string, keys []store.Key, err error) {
	for i := range wishes {
		if err := wishes[i].Check(); err != nil {
			return nil, nil, err
		}
	}
	mac, err := d.mac(ctx, actor)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range wishes {
		id, secret := NewID(), NewSecret()
		sum := mac.Sum(&secret)
		text := Text(id, secret)
		k := store.Key{
			ID: id.String(), Name: w.Name, Sum: sum[:], Hint: hint(text), Owner: w.Owner, Project: w.Project,
			Servers: w.Servers, Tools: w.Tools, Role: w.Role, Until: after(w.Life),
		}
		mac.sign(&k)
		texts, keys = append(texts, text), append(keys, k)
	}
	err = d.change(ctx, actor, func(t *store.Tx) (bool, error) {
		for _, k := range keys {
			if err := t.AddKey(k); err != nil {
				return true, err
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, nil, err
	}
	for i := range keys {
		if x, ok := d.safe.Store().Snapshot().Key(keys[i].ID); ok { // it has it, unless it couldn't be read again
			keys[i] = x
		}
	}
	return texts, keys, nil
}

// ErrRotated is the error for a key that has another secret than the one that was to be replaced.
var ErrRotated = errors.New("the key has another secret by now")

// Rotate gives a key another secret, and a life that begins now. Its secret before, which ends in hintNow if that isn't "",
// works for the overlap. If no key has the id, the error is ErrNoKey, and if it has another secret, ErrRotated.
func (d *Desk) Rotate(ctx context.Context, actor, id, hintNow string, overlap, life time.Duration) (text string, k store.Key, err error) {
	if overlap < 0 || life < 0 {
		return "", store.Key{}, Mistake("the overlap and the life of a key can't be negative")
	}
	at, ok := ParseID(id)
	if !ok {
		return "", store.Key{}, ErrNoKey
	}
	mac, err := d.mac(ctx, actor)
	if err != nil {
		return "", store.Key{}, err
	}
	secret := NewSecret()
	sum := mac.Sum(&secret)
	text = Text(at, secret)
	err = d.change(ctx, actor, func(t *store.Tx) (bool, error) {
		return t.RotateKey(id, func(k *store.Key) error {
			if !mac.signed(k) { // or we'd sign what somebody else has written
				return ErrNoKey
			}
			if hintNow != "" && k.Hint != hintNow {
				return ErrRotated
			}
			k.OldSum, k.OldUntil = secretSum(k.Sum), time.Now().Add(overlap)
			k.Sum, k.Hint, k.Until = sum[:], hint(text), after(life)
			mac.sign(k)
			return nil
		})
	})
	if err != nil {
		return "", store.Key{}, err
	}
	k, _ = d.safe.Store().Snapshot().Key(id)
	return text, k, nil
}

// Revoke removes a key. If no key has the id, the error is ErrNoKey.
func (d *Desk) Revoke(ctx context.Context, actor, id string) error {
	return d.change(ctx, actor, func(t *store.Tx) (bool, error) { return t.RevokeKey(id) })
}

func (d *Desk) change(ctx context.Context, actor string, f func(*store.Tx) (bool, error)) error {
	err := d.safe.Store().Write(ctx, actor, func(t *store.Tx) error {
		there, err := f(t)
		if err == nil && !there {
			err = ErrNoKey
		}
		return err
	})
	if err == nil && d.then != nil {
		d.then(context.WithoutCancel(ctx)) // the change is made, whoever still waits for it
	}
	return err
}

// errNoMAC says that the store has keys, people or projects, but not what their sums were made with.
var errNoMAC = errors.New("the key for the hashes of API keys, sessions and projects is missing in the database, so nobody can use them")

// mac returns the key for the sums. It lies sealed in the store, so that it outlives a rotation of the
// vault's key. The first who makes a key or a project or invites somebody makes it; after that, it is never made anew.
func (d *Desk) mac(ctx context.Context, actor string) (k MACKey, err error) {
	if have := d.known.Load(); have != nil {
		return *have, nil
	}
	value, ok, err := d.safe.OfHouse(ctx, macName)
	if err == nil && !ok {
		if now := d.safe.Store().Snapshot(); len(now.Keys())+len(now.People())+len(now.Projects())+len(now.Grants()) > 0 {
			return MACKey{}, errNoMAC
		}
		x := NewSecret()
		if err = d.safe.Begin(ctx, actor, macName, x[:]); err == nil {
			value, _, err = d.safe.OfHouse(ctx, macName)
		}
	}
	if err != nil {
		return MACKey{}, err
	}
	if s := value.Reveal(); copy(k[:], s) != len(k) || len(s) != len(k) {
		return MACKey{}, errors.New("the key for the hashes of the API keys has another length")
	}
	d.known.Store(&k)
	return k, nil
}

// SignProject returns the signature of the text of a project, for [store.Project].
func (d *Desk) SignProject(ctx context.Context, actor, name, text string) ([]byte, error) {
	mac, err := d.mac(ctx, actor)
	if err != nil {
		return nil, err
	}
	return mac.ofProject(name, text), nil
}

// HasSigned reports whether the text of a project is one that we have written: its commands are started, so
// nobody who can only write to the database may choose it.
func (d *Desk) HasSigned(ctx context.Context, p *store.Project) (bool, error) {
	mac, err := d.mac(ctx, "")
	return err == nil && hmac.Equal(p.Sum, mac.ofProject(p.Name, p.Text)), err
}

// Has reports whether k are the keys of the snapshot in force, with the names that people have in it.
func (d *Desk) Has(k *Keys) bool {
	now := d.safe.Store().Snapshot()
	return now.SameKeys(k.from) && now.SamePeople(k.from)
}

// Keys returns the keys of the snapshot in force, for [Gate.Use]. If there are none, it needs no vault.
func (d *Desk) Keys(ctx context.Context) (*Keys, error) {
	now := d.safe.Store().Snapshot()
	all := now.Keys()
	if len(all) == 0 {
		return &Keys{from: now}, nil
	}
	mac, err := d.mac(ctx, "")
	if err != nil {
		return nil, err
	}
	list, forged := make([]Key, 0, len(all)), 0
	for i := range all {
		x := &all[i]
		id, ok := ParseID(x.ID)
		if !ok || !mac.signed(x) {
			forged++
			continue
		}
		k := Key{ID: id, Name: x.Name, Owner: x.Owner, Project: x.Project, Servers: x.Servers, Tools: x.Tools, Role: x.Role, Until: x.Until, OldUntil: x.OldUntil}
		copy(k.Sum[:], x.Sum)
		copy(k.OldSum[:], x.OldSum)
		list = append(list, k)
	}
	keys := NewKeys(mac, list)
	keys.forged, keys.from = forged, now
	d.uses.watch(keys)
	return keys, nil
}

// hint returns the end of a key's secret, by which people recognise the key.
func hint(text string) string { return text[sumAt-5 : sumAt-1] }

// after returns the first full second after a time from now, so that a key is never good for less than
// was asked for. It is zero if the time is.
func after(d time.Duration) time.Time {
	if d == 0 {
		return time.Time{}
	}
	return time.Now().Add(d + time.Second - 1).UTC().Truncate(time.Second)
}
