package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/identity"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// What the codes and tokens of our authorization server begin with. Otherwise they have the form of keys, and
// their id is that of the grant from which they are.
const (
	codeMark    = "drgc_"
	accessMark  = "drga_"
	refreshMark = "drgr_"
)

// How long they live.
const (
	codeLife    = time.Minute
	tokenLife   = time.Hour
	idleLife    = 30 * 24 * time.Hour // of a grant that nobody refreshes
	GrantLife   = 90 * 24 * time.Hour
	graceLife   = 24 * time.Hour   // of a refresh token whose successor nobody has used yet
	codeRevokes = 10 * time.Minute // so long a second use of a code revokes what came of the first
)

// Terms are what somebody has allowed a client.
type Terms struct {
	Redirect  string   `json:"redirect"`  // where the code went
	Challenge string   `json:"challenge"` // of PKCE, S256
	Resource  string   `json:"resource"`  // the path of the endpoint, without a slash at the end; "" for all endpoints
	Scopes    []string `json:"scopes"`
	Name      string   `json:"name"`  // what the client calls itself
	Proof     string   `json:"proof"` // how the client authenticates at the token endpoint, such as none
}

// grantText is the text of a grant's row. All codes and tokens of a grant are made from its seed with keys that
// lie sealed, so the row contains none of them, and a refresh token's successor can be returned again.
type grantText struct {
	Terms
	Seed  []byte    `json:"seed"`
	Made  time.Time `json:"made"`
	Turn  int       `json:"turn"`  // the number of the newest refresh token; those before it, but for the last one, are spent
	At    time.Time `json:"at"`    // when it was made
	Token int       `json:"token"` // the number of the newest access token
	Until time.Time `json:"until"` // its end
	Last  time.Time `json:"last"`  // the end of the one before it
}

// grantMACs are the keys for everything that has to do with grants. They differ from each other and from all others.
type grantMACs struct{ rows, codes, access, refresh, sums MACKey }

func newGrantMACs(k MACKey) (m grantMACs) {
	for use, into := range map[string]*MACKey{
		"rows of grants": &m.rows, "codes of grants": &m.codes, "access tokens": &m.access, "refresh tokens": &m.refresh, "sums of tokens": &m.sums,
	} {
		*into = k.derive(use)
	}
	return m
}

// derive returns the key for a use.
func (m *MACKey) derive(use string) (k MACKey) {
	h := hmac.New(sha256.New, m[:])
	_, _ = h.Write([]byte(use)) // never fails
	h.Sum(k[:0])
	return k
}

// of returns the secret of a token of a grant.
func (m *MACKey) of(id string, seed []byte, n int) (s Secret) {
	copy(s[:], m.over(id, string(seed), string(binary.AppendVarint(nil, int64(n)))))
	return s
}

// sign writes the text of a grant into its row.
func (m *grantMACs) sign(row *store.Grant, x *grantText) error {
	text, err := json.Marshal(x)
	row.Text = string(text)
	row.Sum = m.signature(row)
	return err
}

func (m *grantMACs) signature(row *store.Grant) []byte {
	open := ""
	if row.Open {
		open = "open"
	}
	return m.rows.over("grant", row.ID, row.Subject, row.Client, row.Text, open, moment(row.Until))
}

// read returns the text of a grant's row, if we have written it.
func (m *grantMACs) read(row *store.Grant) (x grantText, ok bool) {
	if !hmac.Equal(row.Sum, m.signature(row)) || json.Unmarshal([]byte(row.Text), &x) != nil {
		return grantText{}, false
	}
	return x, true
}

// Grants are the grants in force, with their access tokens. They are immutable. The zero value has none.
type Grants struct {
	mac    MACKey
	byID   map[ID]*allowed
	forged int
}

// allowed is a grant with its access tokens.
type allowed struct {
	row    store.Grant
	terms  Terms
	who    identity.Principal
	tokens [2]struct { // the newest, and the one before
		sum   sum
		until time.Time
	}
}

// nothingAllowed is compared with when there is no such grant; see nobody.
var nothingAllowed allowed

const grantSeat = "t:"

// IsGrant reports whether a seat is that of a grant.
func IsGrant(seat string) bool { return strings.HasPrefix(seat, grantSeat) }

// newGrants returns the tokens of a snapshot. What hasn't changed since the tokens before is taken from there.
func newGrants(m *grantMACs, rows []store.Grant, name func(subject string) string, before *Grants) *Grants {
	t := &Grants{mac: m.sums, byID: make(map[ID]*allowed, len(rows))}
	for i := range rows {
		row := &rows[i]
		id, ok := ParseID(row.ID)
		if old := before.byID[id]; ok && old != nil && hmac.Equal(old.row.Sum, row.Sum) && old.row.Text == row.Text && old.row.Until.Equal(row.Until) && old.row.Subject == row.Subject && old.row.Client == row.Client {
			t.byID[id] = old
			continue
		}
		x, signed := m.read(row)
		if !ok || !signed {
			t.forged++
			continue
		}
		a := &allowed{row: *row, terms: x.Terms, who: identity.Principal{Subject: row.Subject, Seat: grantSeat + row.ID, Via: viaToken, Name: name(row.Subject), Until: x.Made.Add(GrantLife)}}
		for i, until := range []time.Time{x.Until, x.Last} {
			s := m.access.of(row.ID, x.Seed, x.Token-i)
			a.tokens[i].sum, a.tokens[i].until = m.sums.Sum(&s), until
		}
		t.byID[id] = a
	}
	return t
}

// find returns the grant of an access token, or nil if the token is not in force.
func (g *Grants) find(text string, now time.Time) *allowed {
	id, secret, ok := parse(accessMark, text)
	if !ok {
		return nil
	}
	x, exists := g.byID[id]
	if !exists {
		x = &nothingAllowed
	}
	s, is := g.mac.Sum(&secret), 0
	for i := range x.tokens {
		if subtle.ConstantTimeCompare(s[:], x.tokens[i].sum[:]) == 1 && now.Before(x.tokens[i].until) {
			is++
		}
	}
	if !exists || is == 0 || !x.inForce(now) {
		return nil
	}
	return x
}

func (x *allowed) inForce(now time.Time) bool { return now.Before(x.row.Until) }

// of returns the grant that a principal stands for, or nil.
func (g *Grants) of(who *identity.Principal) *allowed {
	if who == nil || who.Via != viaToken || len(who.Seat) != len(grantSeat)+idSize {
		return nil
	}
	x := g.byID[ID([]byte(who.Seat[len(grantSeat):]))]
	if x == nil || x.who.Seat != who.Seat || x.who.Subject != who.Subject || !x.inForce(time.Now()) {
		return nil
	}
	return x
}

// addSeats adds what Gate.Seats says of grants to it.
func (g *Grants) addSeats(seats map[string]bool, next, now time.Time, p *People, local bool) time.Time {
	if g == nil {
		return next
	}
	for _, x := range g.byID {
		if !x.inForce(now) || !p.admits(x, local) {
			continue
		}
		seats[x.who.Seat] = true
		if person := p.known[x.who.Subject]; person != nil {
			for project := range person.Roles {
				if p.callsIn(x.who.Subject, project) {
					seats[x.who.Seat+inProject+project] = true
				}
			}
		}
		if next.IsZero() || x.row.Until.Before(next) {
			next = x.row.Until
		}
	}
	return next
}

// admits reports whether whom a grant acts for may still use it. The local user's are good only where nobody else can
// reach the address.
func (p *People) admits(x *allowed, local bool) bool {
	if x.who.Subject == identity.Local.Subject {
		return local
	}
	return p.callsAny(x.who.Subject)
}

// Covers reports whether a token for a resource may be used at a path: one for an endpoint is for it alone, and
// for all below it, segment by segment.
func Covers(resource, path string) bool {
	path = strings.TrimRight(path, "/")
	return resource == "" || path == resource || strings.HasPrefix(path, resource) && path[len(resource)] == '/'
}

// callsIn reports whether a subject may use the endpoints of a project.
func (p *People) callsIn(subject, project string) bool {
	if subject == identity.Local.Subject {
		return true
	}
	for _, r := range p.roles(subject, project) {
		if r.Includes(identity.Caller) {
			return true
		}
	}
	return false
}

// callsAny reports whether a subject may use the endpoints of any project.
func (p *People) callsAny(subject string) bool {
	if subject == identity.Local.Subject {
		return true
	}
	if x := p.known[subject]; x != nil {
		for project := range x.Roles {
			if p.callsIn(subject, project) {
				return true
			}
		}
	}
	return false
}

// knows reports whether there is somebody with a subject.
func (p *People) knows(subject string) bool {
	return subject == identity.Local.Subject || p.known[subject] != nil
}

// covers reports whether the grant is for a target, and allocates nothing.
func (x *allowed) covers(at httpdoor.Target) bool {
	at.Prefix = ""
	return at.Covers(at.Scheme, at.Host, x.terms.Resource)
}
