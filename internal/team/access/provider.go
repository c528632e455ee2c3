package access

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// LoginLife is how long a browser stays signed in after its user has signed in at an identity provider, which
// then says again what the user may do.
const LoginLife = 12 * time.Hour

// ErrNoRole says that a provider gives somebody no role.
const ErrNoRole = Mistake("none of the person's groups gives a role here")

// SignIn begins a session of a person whom an identity provider has named, with the roles that it gives them now,
// by project; they replace all others. The first time, the person is added, with the name or one like it. Without
// any role, the person loses all roles and sessions, and the error is ErrNoRole.
func (r *Roster) SignIn(ctx context.Context, id, name string, roles map[string][]identity.Role, at Arrival) (session string, err error) {
	actor := store.PersonSubject + id
	mac, err := r.desk.mac(ctx, actor)
	if err != nil {
		return "", err
	}
	macs := newPeopleMACs(mac)
	secret := NewSecret()
	sum := macs.sessions.Sum(&secret)
	s := store.Session{ID: NewID().String(), Sum: sum[:], Person: id, Until: after(LoginLife), Way: ByProvider}
	s.Sum = append(s.Sum, macs.ofSession(&s)...)
	before, known := r.desk.safe.Store().Snapshot().Person(id)
	if len(roles) == 0 && !known {
		return "", ErrNoRole
	}
	err = r.change(ctx, actor, func(t *store.Tx) (bool, error) {
		if !known {
			if err := addNamed(t, &macs, id, name); err != nil {
				return true, err
			}
		}
		projects := maps.Clone(roles)
		if projects == nil {
			projects = map[string][]identity.Role{}
		}
		for project := range before.Roles {
			projects[project] = roles[project] // none, if the provider gives none
		}
		for _, project := range slices.Sorted(maps.Keys(projects)) {
			now := slices.Sorted(slices.Values(projects[project]))
			if !slices.Equal(now, before.Roles[project]) {
				if _, err := t.SetRoles(id, project, now, macs.ofRoles(id, project, now)); err != nil {
					return true, err
				}
			}
		}
		if len(roles) == 0 {
			_, there, err := t.EndSessions(id)
			return there, err
		}
		if err := r.arrive(t, &s, &at); err != nil {
			return true, err
		}
		return t.BeginSession(s)
	})
	if err == nil && len(roles) == 0 {
		err = ErrNoRole
	}
	if err != nil {
		return "", err
	}
	return secret.text(), nil
}

// addNamed adds a person with a name that is free: the one that the provider says, as far as a name can be like it,
// or one with a number.
func addNamed(t *store.Tx, m *peopleMACs, id, name string) error {
	name = strings.TrimLeft(strings.Map(func(r rune) rune {
		if r == ':' || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name), "- ")
	if CheckName(name) != nil || len(name) > 56 {
		name = "person " + id[:min(len(id), 8)]
	}
	for n := 1; n < 1000; n++ {
		try := name
		if n > 1 {
			try = fmt.Sprintf("%s %d", name, n)
		}
		if free, err := t.AddPerson(id, try, m.ofPerson(id, try)); free || err != nil {
			return err
		}
	}
	return ErrNameTaken
}

// Seal returns a text that only the processes with this database can open: for what a browser keeps for us while
// its user signs in. use says what the text is for.
func (r *Roster) Seal(ctx context.Context, use string, plain []byte) (string, error) {
	box, err := r.box(ctx, use)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, box.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(box.Seal(nonce, nonce, plain, nil)), nil
}

// Open returns what Seal has sealed for a use, or false if the text is anything else.
func (r *Roster) Open(ctx context.Context, use, text string) ([]byte, bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, false
	}
	box, err := r.box(ctx, use)
	if err != nil || len(b) < box.NonceSize() {
		return nil, false
	}
	plain, err := box.Open(nil, b[:box.NonceSize()], b[box.NonceSize():], nil)
	return plain, err == nil
}

func (r *Roster) box(ctx context.Context, use string) (cipher.AEAD, error) {
	mac, err := r.desk.mac(ctx, identity.Local.Subject) // who makes it now, if nobody has one yet
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(mac.over("the key for what browsers keep, version 1", use))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
