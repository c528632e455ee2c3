package authserver

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/team/signin/oauth"
	"github.com/dragoman-mcp/dragoman/internal/team/store"
	"github.com/dragoman-mcp/dragoman/internal/transport/httpdoor"
)

// Bounds of registrations.
const (
	mostBody       = 16 << 10
	mostPerHour    = 20   // of one address
	mostWaiting    = 1000 // registrations that nobody has allowed anything yet
	secretLifeless = 0    // a secret doesn't expire (RFC 7591 §3.2.1)
)

// register registers a client (RFC 7591). What it shows people is unverified, and nothing is shown before somebody
// follows its link.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	if wait := s.tries.Take(fromHere(r), time.Now()); wait > 0 {
		httpdoor.SetRetryAfter(w, wait)
		s.sorry(w, r, &problem{"temporarily_unavailable", "too many registrations came from this address", http.StatusTooManyRequests})
		return
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	switch {
	case err != nil:
		s.sorry(w, r, &problem{"invalid_client_metadata", fmt.Sprintf("the body is longer than %d bytes, or broke off", mostBody), http.StatusRequestEntityTooLarge})
		return
	case kind != "application/json":
		s.sorry(w, r, bad("invalid_client_metadata", "send JSON, with Content-Type: application/json"))
		return
	}
	x, err := readRegistration(body)
	if err != nil {
		s.sorry(w, r, err)
		return
	}
	secret := ""
	if x.Proof == proofPost || x.Proof == proofBasic {
		secret = oauth.Random()
	}
	id, err := s.keep(r, x, secret)
	if err != nil {
		s.sorry(w, r, err)
		return
	}
	out := map[string]any{
		"client_id": id, "client_id_issued_at": time.Now().Unix(), "redirect_uris": x.Redirects, "token_endpoint_auth_method": x.Proof,
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "scope": Scope,
	}
	if x.Name != "" {
		out["client_name"] = x.Name
	}
	if secret != "" {
		out["client_secret"], out["client_secret_expires_at"] = secret, secretLifeless
	}
	answer(w, http.StatusCreated, out)
}

// readRegistration reads what a client says about itself. Members, grants and scopes that we don't know are
// left out of the answer (RFC 7591 §3.2.1).
func readRegistration(body []byte) (x registered, err error) {
	m, err := parseMetadata(body)
	switch {
	case err != nil:
		return x, bad("invalid_client_metadata", err.Error())
	case len(m.Redirects) == 0 || len(m.Redirects) > mostRedirects:
		return x, bad("invalid_redirect_uri", fmt.Sprintf("send 1 to %d redirect_uris", mostRedirects))
	}
	for _, uri := range m.Redirects {
		if err := checkRedirect(uri, ""); err != nil {
			return x, bad("invalid_redirect_uri", "a redirect URI "+err.Error())
		}
	}
	// A client that says nothing gets no secret, although RFC 7591 §2 would give it one: those that say nothing
	// have never sent one.
	x = registered{Name: m.Name, Redirects: m.Redirects, Proof: proofNone}
	switch m.Proof {
	case proofPost, proofBasic:
		x.Proof = m.Proof
	case proofKey:
		if _, err := parseKeys(m.Keys); err != nil { // nothing is fetched for somebody whom nobody knows
			return x, bad("invalid_client_metadata", "send the public keys in jwks")
		}
		x.Proof, x.Keys = proofKey, m.Keys
	}
	return x, nil
}

// keep writes a registration into the database, and returns the id of the client.
func (s *Server) keep(r *http.Request, x registered, secret string) (id string, err error) {
	key, err := s.o.Ledger.Key(r.Context(), "clients")
	if err != nil {
		return "", err
	}
	id = "client-" + rand.Text()
	if secret != "" {
		x.Secret = mac(key, "the secret of a client", id, secret)
	}
	text, err := json.Marshal(x)
	if err != nil {
		return "", err
	}
	row := store.OAuthClient{ID: id, Text: string(text)}
	row.Sum = signature(key, &row)
	err = s.o.Store.Write(r.Context(), id, func(t *store.Tx) error {
		added, err := t.AddOAuthClient(row, mostWaiting)
		if err == nil && !added {
			err = &problem{"temporarily_unavailable", "too many clients have registered and wait for somebody who allows them something; try again later", http.StatusServiceUnavailable}
		}
		return err
	})
	return id, err
}
