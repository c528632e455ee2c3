package signin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/base/secret"
	"github.com/dragoman-mcp/dragoman/internal/team/egress"
	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport"
)

// The following are what the store seals. Their secrets are plain, so they're made when something is sealed or
// opened, and nothing keeps them.

type keptClient struct {
	ID, Secret, Method, Redirect string
	Until                        time.Time
	How                          oauth.Means
	Issuer                       string
	Key                          string // the private key: the configured one, or that of our documents
}

type keptCredential struct {
	Access, Refresh, ID, Type string
	At                        time.Time // when the token came
	Granted, Requested        []string  // scopes
	Proof                     string    // the key of proofs of possession
	Client                    keptClient
	Issuer                    oauth.Issuer
	Near                      egress.Nearness
	Why                       string // why the tokens are gone
}

type keptFlow struct {
	State, Verifier, Redirect, Resource string
	Scopes                              []string
	Params                              map[string]string
	Proof                               string
	Link                                string
	Client                              keptClient
	Issuer                              oauth.Issuer
	Near                                egress.Nearness
}

func keepClient(c oauth.Client) keptClient {
	k := keptClient{ID: c.ID, Secret: c.Secret.Reveal(), Method: c.Method, Redirect: c.Redirect, Until: c.Until, How: c.How, Issuer: c.Issuer}
	if c.Key != nil {
		k.Key = c.Key.Secret().Reveal()
	}
	return k
}

func (k *keptClient) client() (c oauth.Client, err error) {
	c = oauth.Client{ID: k.ID, Secret: secret.New(k.Secret), Method: k.Method, Redirect: k.Redirect, Until: k.Until, How: k.How, Issuer: k.Issuer}
	if k.Key != "" {
		c.Key, err = oauth.ParseKey(secret.New(k.Key))
	}
	return c, err
}

func pack(x any) []byte {
	text, err := json.Marshal(x)
	if err != nil {
		panic(err) // there is nothing in it that has no JSON
	}
	return text
}

// reveal opens a row of the store and reads what is in it.
func reveal(ctx context.Context, safe *store.Safe, row store.Sealable, sealed []byte, into any) error {
	text, err := safe.Reveal(ctx, row, sealed)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(text.Reveal()), into)
}

// token is a credential of the store, ready for use. It never changes.
type token struct {
	row        store.Credential
	generation uint64

	access, refresh, id secret.Text
	headers             []transport.HeaderField // of every request; nil if each one needs a proof
	kind                string
	prover              *oauth.Prover
	granted, requested  []string
	at                  time.Time // when it came
	renewAt, deadAt     time.Time // zero if the issuer hasn't said how long the token lives
	client              oauth.Client
	issuer              oauth.Issuer
	near                egress.Nearness
	why                 string
	kept                keptClient
}

const (
	// A token is renewed in the last part of its life, which is a fifth, but not more than maxMargin.
	marginPart, maxMargin = 5, 5 * time.Minute
	// A token is no longer sent when so little of its life is left that it may end on the way: a tenth, but
	// not more than maxSlack.
	slackPart, maxSlack = 10, 10 * time.Second
)

func newToken(row store.Credential, k *keptCredential) (t *token, err error) {
	t = &token{
		row: row, generation: uint64(row.Generation), //nolint:gosec // generations begin with 1
		access: secret.New(k.Access), refresh: secret.New(k.Refresh), id: secret.New(k.ID), kind: k.Type,
		at: k.At, granted: k.Granted, requested: k.Requested, issuer: k.Issuer, near: k.Near, why: k.Why, kept: k.Client,
	}
	if !row.Until.IsZero() {
		life := row.Until.Sub(k.At)
		t.renewAt = row.Until.Add(-min(life/marginPart, maxMargin))
		t.deadAt = row.Until.Add(-min(life/slackPart, maxSlack))
	}
	if k.Proof != "" {
		if t.prover, err = oauth.ProverOf(secret.New(k.Proof)); err != nil {
			return nil, err
		}
	}
	if k.Access != "" && k.Type != "DPoP" {
		t.headers = []transport.HeaderField{{Name: "Authorization", Value: "Bearer " + k.Access}}
	}
	t.client, err = k.Client.client()
	return t, err
}

// sign returns the headers of one request.
func (t *token) sign(method, url string) ([]transport.HeaderField, error) {
	if t.headers != nil || t.prover == nil || t.access.Reveal() == "" {
		return t.headers, nil
	}
	proof, err := t.prover.Proof(method, url, t.access)
	return []transport.HeaderField{{Name: "Authorization", Value: "DPoP " + t.access.Reveal()}, {Name: "DPoP", Value: proof}}, err
}

// usable reports whether the token may be sent.
func (t *token) usable(now time.Time) bool {
	return t.access.Reveal() != "" && (t.deadAt.IsZero() || now.Before(t.deadAt))
}

// renewable reports whether the issuer may give a new token for this one.
func (t *token) renewable() bool { return !t.row.Spent && t.refresh.Reveal() != "" }

// keep returns what is sealed of a token, with an answer of the issuer in the place of the old one.
func (t *token) keep(answer oauth.Token, at time.Time) *keptCredential {
	k := &keptCredential{
		Access: answer.Access.Reveal(), Refresh: answer.Refresh.Reveal(), ID: answer.ID.Reveal(), Type: answer.Type, At: at,
		Granted: t.granted, Requested: t.requested, Client: t.kept, Issuer: t.issuer, Near: t.near,
	}
	if k.Refresh == "" {
		k.Refresh = t.refresh.Reveal() // RFC 6749 §6: the old one stays good
	}
	if k.ID == "" {
		k.ID = t.id.Reveal()
	}
	if answer.ScopesSaid {
		k.Granted = answer.Scopes
	}
	if t.prover != nil {
		k.Proof = t.prover.Secret().Reveal()
	}
	return k
}

// flowID returns the id of the flow with a state. The state itself is sealed.
func flowID(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:])
}

// endpoint returns what asks the token's issuer. s is the token's server, or nil if this process doesn't know it.
func (t *token) endpoint(d *Desk, s *Server) *oauth.Endpoint {
	return &oauth.Endpoint{Doer: d.reach(t.near, s), Issuer: &t.issuer, Client: t.client, Prover: t.prover}
}
