package authserver

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/team/store"
)

// How clients can authenticate at the token endpoint.
const (
	proofNone  = "none"
	proofPost  = "client_secret_post"
	proofBasic = "client_secret_basic"
)

// Client is what we know of a client.
type Client struct {
	ID        string
	Host      string // of the document that vouches for it; "" for one that has registered
	Name      string // what it calls itself; "" if it says nothing
	Redirects []string
	Proof     string // how it authenticates
	Secret    []byte // the sum of its secret; nil if it has none
	Keys      []byte // its public keys, if it signs; nil if they are at KeysURL
	KeysURL   string
	BuiltIn   bool // the document couldn't be fetched, so we use what we know of it
}

// registered is the text of a registered client's row.
type registered struct {
	Name      string   `json:"name"`
	Redirects []string `json:"redirects"`
	Proof     string   `json:"proof"`
	Secret    []byte   `json:"secret,omitempty"`
	Keys      []byte   `json:"keys,omitempty"`
}

// errUnknown says that there is no such client: there never was, or it was removed.
var errUnknown = errors.New("the client is unknown here; it may register again")

// errRefused says that a client is none of those that may sign in here.
var errRefused = errors.New("this Dragoman does not let this client sign in; an admin can add it to dragoman.access.clients")

// client returns the client with an id, which a request has. The error is errUnknown, errRefused or a *documentError,
// or another one if the database can't be read.
func (s *Server) client(r *http.Request, id string) (*Client, error) {
	ctx := r.Context()
	switch {
	case !s.o.Allow.allows(id):
		return nil, errRefused
	case isDocument(id):
		return s.documents.client(ctx, id, fromHere(r))
	}
	row, there, err := s.o.Store.OAuthClient(ctx, id)
	if err != nil {
		return nil, err
	}
	key, err := s.o.Ledger.Key(ctx, "clients")
	if err != nil {
		return nil, err
	}
	var x registered
	if !there || !hmac.Equal(row.Sum, signature(key, &row)) || json.Unmarshal([]byte(row.Text), &x) != nil {
		return nil, errUnknown
	}
	return &Client{ID: id, Name: x.Name, Redirects: x.Redirects, Proof: x.Proof, Secret: x.Secret, Keys: x.Keys}, nil
}

// signature returns that of a registered client's row: what others write into the database is no client.
func signature(key [32]byte, row *store.OAuthClient) []byte {
	return mac(key, "the row of a client", row.ID, row.Text)
}

// mac returns the HMAC-SHA-256 of some texts, which no other list of texts has.
func mac(key [32]byte, texts ...string) []byte {
	h := hmac.New(sha256.New, key[:])
	text, _ := json.Marshal(texts) // strings only; what isn't UTF-8 has been refused
	_, _ = h.Write(text)
	return h.Sum(nil)
}

// Allow says which clients may sign in. The zero value lets in all.
type Allow struct {
	Known bool     // only those in our table of known documents
	Only  []string // ids, which are the URLs of documents, or the hosts of documents; nil for all
}

func (a *Allow) allows(id string) bool {
	if a.Known {
		_, ok := knownDocuments[id]
		return ok
	}
	if a.Only == nil {
		return true
	}
	host := ""
	if isDocument(id) {
		host, _, _ = strings.Cut(strings.TrimPrefix(id, "https://"), "/")
	}
	for _, x := range a.Only {
		if x == id || x != "" && strings.EqualFold(x, host) {
			return true
		}
	}
	return false
}

// registers reports whether a client that registers could sign in at all.
func (a *Allow) registers() bool { return !a.Known && a.Only == nil }

// nameOf returns what a client calls itself, in one line, or an error if nobody could read it.
func nameOf(name string) (string, error) {
	name = strings.TrimSpace(name)
	if !utf8.ValidString(name) || len(name) > mostName || strings.ContainsFunc(name, unicode.IsControl) {
		return "", errors.New("the name of the client is longer than 100 bytes, or has control characters")
	}
	return name, nil
}

// title returns what we call a client where its name is shown.
func (c *Client) title() string { return cmp.Or(c.Name, "a client without a name") }
